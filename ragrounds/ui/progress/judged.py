"""Judging while it goes on: one screen that redraws, with what each judge has said so far."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TextIO

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ragrounds.evals.judges.attempts import JudgedAnswer
from ragrounds.ui.progress.screen import TaskDisplay
from ragrounds.ui.text import dollars, number_of, one_line

_GRADES = 6
"""Different verdicts of a judge that are named."""


class JudgeProgress(TaskDisplay):
    """A context manager whose `observe` is told of every answer that was judged.

    Args:
        runs: ids of the runs whose answers are judged.
        stream: of the terminal; ``None``: stderr.
    """

    name = "ragrounds judge"

    def __init__(self, runs: Sequence[str], stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._runs = ", ".join(runs)
        self._said: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        """Judge and what is judged → verdict → how often; an unreadable one is empty."""
        self._judged = self._failed = self._calls = 0
        self._paid: float | None = 0.0

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
        failed = f", {self._failed:,} with a call that gave no reply" if self._failed else ""
        return (
            f"{number_of(self._judged, 'judgement')} of answers of {self._runs}, {self._judged / self.seconds:.1f}/s, "
            f"{number_of(self._calls, 'call')}, {dollars(self._paid)} paid{failed}"
        )

    def body(self, width: int, height: int) -> Sequence[tuple[RenderableType, int]]:
        """What each judge has said, as far as there is room."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for name, right in (("judge", False), ("of", False), ("judged", True), ("unreadable", True), ("said", False)):
            table.add_column(name, justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
        shown = list(self._said.items())[: max(0, height - 1)]
        for (judge, axis), counted in shown:
            said = Counter(dict(counted))
            unreadable = said.pop("", 0)
            verdicts = ", ".join(f"{one_line(verdict, 24)} {count:,}" for verdict, count in said.most_common(_GRADES))
            cells = (one_line(judge.partition("[")[0], 40), one_line(axis, 30), f"{said.total():,}", f"{unreadable:,}")
            table.add_row(*map(Text, cells), Text(verdicts + (", …" if len(said) > _GRADES else "")))
        return [(table, len(shown) + 1)] if shown else [(Text("No verdict yet.", style="dim"), 1)]
