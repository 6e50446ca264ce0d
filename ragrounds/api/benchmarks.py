"""A benchmark as a notebook reads it: its questions with what is right, its card, its frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console

from ragrounds.api.frames import QUESTIONS, Frame, Part, question_metadata
from ragrounds.api.results import Result
from ragrounds.api.workspace import chosen_settings
from ragrounds.base.records import Gold, Question
from ragrounds.base.settings import Settings
from ragrounds.evals.benchmarks import Benchmark, load, select
from ragrounds.ui.tables.text_tables import Column, TextTable, print_table
from ragrounds.ui.text import safe


class LoadedBenchmark(Result, frozen=True, kw_only=True):
    """A benchmark's questions."""

    benchmark: Benchmark

    @property
    def name(self) -> str:
        """Its canonical name."""
        return self.benchmark.name

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions in their order."""
        return self.benchmark.questions

    @property
    def golds(self) -> Mapping[str, Gold]:
        """Question id → what is right."""
        return self.benchmark.golds

    def __len__(self) -> int:
        return len(self.benchmark)

    def draw(self, console: Console) -> None:
        """Print how many questions each of its datasets has."""
        counts = self.benchmark.counts
        table = TextTable(
            key="benchmark",
            title=f"{safe(self.name)}: {len(self):,} questions, version {self.benchmark.version[:12]}",
            columns=(Column("dataset", right=False), Column("questions")),
            rows=tuple((safe(name), f"{count:,}") for name, count in counts.items()),
        )
        print_table(table, console)

    def own_frames(self) -> tuple[Frame, ...]:
        """The questions."""
        return (QUESTIONS,)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """A row for each question."""
        yield iter(
            [
                [
                    (
                        one.id,
                        one.benchmark,
                        one.kind,
                        one.text,
                        msgspec.json.encode(one.options).decode() if one.options else None,
                        self.golds[one.id].answer,
                        one.group or None,
                        one.cluster or None,
                        one.split,
                        one.language,
                        question_metadata(one),
                    )
                    for one in self.questions
                ]
            ]
        )


def benchmark(
    name: str = "sample",
    *,
    limit: int | None = None,
    per_dataset: int | None = None,
    seed: int = 0,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> LoadedBenchmark:
    """The questions of a benchmark, with what is right.

        rr.benchmark("sample").to_pandas()

    Args:
        name: a benchmark by name, or FAMILY:PATH.
        limit, per_dataset, seed: only so many in all or of each dataset, drawn by the seed as :func:`run` draws them.
        home, settings: the folder of registered benchmarks, and all settings; ``None``: the user's.

    Raises:
        UserError: an unknown benchmark, or files that cannot be read.
    """
    chosen = chosen_settings(settings, home)
    loaded = load(name, chosen.home)
    return LoadedBenchmark(benchmark=select(loaded, limit=limit, seed=seed, per_dataset=per_dataset))
