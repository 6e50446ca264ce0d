"""An arena while it is played, on stderr: one screen that redraws on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from ragrounds.evals.arena.play import FinishedMatch
from ragrounds.evals.store.arenas import Arena
from ragrounds.ui.progress.screen import TaskDisplay
from ragrounds.ui.text import dollars, number_of

_EVERY = 10.0
"""Seconds between two lines."""


class LiveArena(TaskDisplay):
    """A context manager whose `observe` is the player's listener: what has been played in this command."""

    name = "ragrounds arena"

    def __init__(self, arena: Arena, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._axes = range(len(arena.axes))
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
        self.missing += sum(finished.match.panel(axis) is None for axis in self._axes)
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
