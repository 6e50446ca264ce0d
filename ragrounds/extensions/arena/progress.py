"""Progress of an arena on stderr: a screen that redraws on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from ragrounds.base.spent import Spent, total_spent
from ragrounds.evals.store.arenas import Arena
from ragrounds.extensions.arena.play import FinishedMatch
from ragrounds.ui.progress.lines import at_least
from ragrounds.ui.progress.screen import TaskDisplay
from ragrounds.ui.text import number_of

_EVERY = 10.0
"""Seconds between two lines."""


class LiveArena(TaskDisplay):
    """Progress of an arena, as a context manager. Pass its `observe` to the player as listener."""

    name = "ragrounds arena"

    def __init__(self, arena: Arena, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._axes = range(len(arena.axes))
        self.matches = self.missing = 0
        self.spent = Spent()
        self._next_line = _EVERY

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        print(self.line(), file=self.stream)

    @classmethod
    @contextmanager
    def opened(cls, arena: Arena) -> Iterator[Callable[[FinishedMatch], None]]:
        """Print who plays, and yield the listener."""
        judges = ", ".join(arena.judges)
        sys.stderr.write(
            f"{arena.id}: {', '.join(arena.names)}; {number_of(arena.count, 'question')}; judged by {judges}\n"
        )
        with cls(arena) as live:
            yield live.observe

    def observe(self, finished: FinishedMatch) -> None:
        """Count a finished match, and print a line if the last one is old enough."""
        self.count(finished)
        if not self.is_open and self.seconds >= self._next_line:
            self._next_line = self.seconds + _EVERY
            print(self.line(), file=self.stream)

    def count(self, finished: FinishedMatch) -> None:
        """Count a match without printing."""
        self.matches += 1
        self.missing += any(finished.match.panel(axis) is None for axis in self._axes)
        self.spent += total_spent(judgement.spent for judgement in finished.judgements)

    def line(self) -> str:
        """Return all counts in one line."""
        return (
            f"{number_of(self.matches, 'match')}, {number_of(self.spent.calls, 'judge call')}, "
            f"{at_least(self.spent, self.spent.cost_paid)}, "
            f"{self.matches / self.seconds:.1f} matches/s"
            f"{f', {self.missing:,} without a verdict' if self.missing else ''}"
        )
