"""A benchmark for notebooks: its questions with the right answers, its card, its frame."""

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
    """Benchmark with its questions."""

    benchmark: Benchmark

    @property
    def name(self) -> str:
        """Return the canonical name."""
        return self.benchmark.name

    @property
    def questions(self) -> tuple[Question, ...]:
        """Return the questions in their order."""
        return self.benchmark.questions

    @property
    def golds(self) -> Mapping[str, Gold]:
        """Return the right answers by question id."""
        return self.benchmark.golds

    def __len__(self) -> int:
        return len(self.benchmark)

    def draw(self, console: Console) -> None:
        """Print how many questions each dataset of the benchmark has."""
        counts = self.benchmark.counts
        table = TextTable(
            key="benchmark",
            title=f"{safe(self.name)}: {len(self):,} questions, version {self.benchmark.version[:12]}",
            columns=(Column("dataset", right=False), Column("questions")),
            rows=tuple((safe(name), f"{count:,}") for name, count in counts.items()),
        )
        print_table(table, console)

    def own_frames(self) -> tuple[Frame, ...]:
        """Return the frame of questions."""
        return (QUESTIONS,)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """Yield a row for each question."""
        yield iter(
            [
                [
                    (
                        question.id,
                        question.benchmark,
                        question.kind,
                        question.text,
                        msgspec.json.encode(question.options).decode() if question.options else None,
                        self.golds[question.id].answer,
                        question.group or None,
                        question.cluster or None,
                        question.split,
                        question.language,
                        question_metadata(question),
                    )
                    for question in self.questions
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
    """Load the questions of a benchmark, with the right answers.

        rr.benchmark("sample").to_pandas()

    Args:
        name: a benchmark by name, or FAMILY:PATH.
        limit, per_dataset, seed: sample so many questions in all or of each dataset, by the seed, as :func:`run` does.
        home, settings: the folder of registered benchmarks, and all settings; by default the user's.

    Raises:
        UserError: the benchmark is unknown, or its files cannot be read.
    """
    used_settings = chosen_settings(settings, home)
    loaded = load(name, used_settings.home)
    return LoadedBenchmark(benchmark=select(loaded, limit=limit, seed=seed, per_dataset=per_dataset))
