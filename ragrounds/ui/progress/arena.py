"""An arena while it is played, on stderr: one screen that redraws on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ragrounds.evals.arena.play import FinishedMatch
from ragrounds.evals.store.arenas import Arena
from ragrounds.ui.progress.screen import TaskDisplay
from ragrounds.ui.text import dollars, number_of, one_line

_EVERY = 10.0
"""Seconds between two lines."""


class LiveArena(TaskDisplay):
    """A context manager whose `observe` is the player's listener: what has been played in this command."""

    name = "ragrounds arena"

    def __init__(self, arena: Arena, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._arena = arena
        self._counts = [[[0, 0, 0] for _ in arena.systems] for _ in arena.axes]
        self.matches = self.missing = self.calls = 0
        self.cost_paid: float | None = 0.0
        self._next_line = _EVERY

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        print(self.line(), file=self.stream)

    @classmethod
    @contextmanager
    def opened(cls, arena: Arena) -> Iterator[Callable[[FinishedMatch], None]]:
        """Say what is played, and give the listener."""
        judges = ", ".join(arena.judges)
        sys.stderr.write(
            f"{arena.id}: {', '.join(arena.names)}; {number_of(arena.count, 'question')}; judged by {judges}\n"
        )
        with cls(arena) as live:
            yield live.observe

    def observe(self, finished: FinishedMatch) -> None:
        """A match ended."""
        self.count(finished)
        if not self.is_open and self.seconds >= self._next_line:
            self._next_line = self.seconds + _EVERY
            print(self.line(), file=self.stream)

    def count(self, finished: FinishedMatch) -> None:
        """Count a match, and say nothing."""
        self.matches += 1
        match = finished.match
        for axis, counts in enumerate(self._counts):
            outcome = match.panel(axis)
            if outcome is None:
                self.missing += 1
                continue
            place = ("first", "tie", "second").index(outcome)
            counts[match.first][place] += 1
            counts[match.second][2 - place] += 1
        for judged in finished.judged:
            self.calls += judged.calls
            self.cost_paid = (
                None if self.cost_paid is None or judged.cost_paid is None else self.cost_paid + judged.cost_paid
            )

    def line(self) -> str:
        """All of it in a line."""
        return (
            f"{number_of(self.matches, 'match')}, {number_of(self.calls, 'judge call')}, {dollars(self.cost_paid)}, "
            f"{self.matches / self.seconds:.1f} matches/s"
            f"{f', {self.missing:,} without a verdict' if self.missing else ''}"
        )

    def table(self) -> Table:
        """Won, tied, lost on each axis."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("won-tied-lost", no_wrap=True, overflow="ellipsis")
        for axis in self._arena.axes:
            table.add_column(Text(axis.name), justify="right", no_wrap=True, overflow="ellipsis")
        for number, name in enumerate(self._arena.names):
            cells = ("-".join(map(str, counts[number])) for counts in self._counts)
            table.add_row(Text(one_line(name, 40)), *cells)
        return table

    def body(self, width: int, height: int) -> Sequence[tuple[RenderableType, int]]:
        """The table."""
        return [(self.table(), len(self._arena.names) + 1)]
