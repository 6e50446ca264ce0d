"""Judging while it goes on: one screen that redraws, with what each judge has said so far."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TextIO

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ragrounds.evals.judges.attempts import JudgedAnswer
from ragrounds.ui.progress.task import TaskScreen
from ragrounds.ui.text import dollars, number_of, one_line

_GRADES = 6
"""Different verdicts of a judge that are counted apart; of more, as where they are numbers, their mean is told."""


class JudgeProgress:
    """A context manager whose `observe` is told of every answer that was judged.

    Args:
        runs: ids of the runs whose answers are judged.
        stream: of the terminal; ``None``: stderr.
    """

    def __init__(self, runs: Sequence[str], stream: TextIO | None = None) -> None:
        self._runs = ", ".join(runs)
        self._said: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        """Judge and what is judged → verdict → how often; an unreadable one is empty."""
        self._judged = self._failed = self._calls = 0
        self._paid: float | None = 0.0
        self._began = time.monotonic()
        self._screen = TaskScreen("ragrounds judge", self.line, self.body, stream or sys.stderr)

    def __enter__(self) -> JudgeProgress:
        self._screen.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._screen.__exit__(*error)

    def observe(self, answer: JudgedAnswer) -> None:
        """Count an answer that was judged."""
        self._judged += 1
        self._failed += answer.failed
        self._calls += len(answer.calls)
        for verdict in answer.verdicts:
            self._said[verdict.judge, verdict.axis][verdict.outcome] += 1
        for call in answer.calls:
            cost = 0.0 if call.cached else call.cost_uncached
            self._paid = None if self._paid is None or cost is None else self._paid + cost

    def line(self) -> str:
        """Where it stands, in a line."""
        rate = self._judged / max(time.monotonic() - self._began, 1e-6)
        failed = f", {self._failed:,} with a call that gave no reply" if self._failed else ""
        return (
            f"{number_of(self._judged, 'judgement')} of answers of {self._runs}, {rate:.1f}/s, "
            f"{number_of(self._calls, 'call')}, {dollars(self._paid)} paid{failed}"
        )

    def body(self, width: int, height: int) -> list[RenderableType]:
        """What each judge has said, as far as there is room."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for name, right in (("judge", False), ("of", False), ("judged", True), ("unreadable", True), ("said", False)):
            table.add_column(name, justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
        for (judge, axis), counted in list(self._said.items())[: max(0, height - 1)]:
            said = Counter(dict(counted))
            unreadable = said.pop("", 0)
            cells = (one_line(judge.partition("[")[0], 40), one_line(axis, 30), f"{said.total():,}", f"{unreadable:,}")
            table.add_row(*map(Text, cells), Text(_verdicts(said)))
        return [table] if self._said else [Text("No verdict yet.", style="dim")]


def _verdicts(said: Counter[str]) -> str:
    """The verdicts with their numbers, most frequent first; of many different ones the mean, where they are numbers."""
    if len(said) <= _GRADES:
        return ", ".join(f"{one_line(verdict, 24)} {count:,}" for verdict, count in said.most_common())
    try:
        mean = sum(float(verdict) * count for verdict, count in said.items()) / said.total()
    except ValueError:
        return f"{len(said):,} different verdicts"
    return f"mean {mean:.4g} so far"
