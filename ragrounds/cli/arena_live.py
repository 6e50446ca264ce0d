"""An arena while it is played, on stderr: a live table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ragrounds.evals.arena.arena import Arena
from ragrounds.evals.arena.playing import Finished
from ragrounds.ui.text import dollars, one_line

_EVERY = 10.0
"""Seconds between lines."""


class Counting:
    """What has been played in this command."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._counts = [[[0, 0, 0] for _ in arena.systems] for _ in arena.axes]
        self.matches = self.missing = self.calls = 0
        self.cost_paid: float | None = 0.0

    def hear(self, finished: Finished) -> None:
        """A match ended."""
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
            f"{self.matches:,} matches, {self.calls:,} judge calls, {dollars(self.cost_paid)}"
            f"{f', {self.missing:,} verdicts missing' if self.missing else ''}"
        )

    def table(self) -> Table:
        """Won, tied, lost on each axis."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=self.line(), title_justify="left")
        table.add_column("won-tied-lost")
        for axis in self._arena.axes:
            table.add_column(Text(axis.name), justify="right")
        for number, name in enumerate(self._arena.names):
            cells = ("-".join(map(str, counts[number])) for counts in self._counts)
            table.add_row(Text(one_line(name, 40)), *cells)
        return table


class LiveArena:
    """A context manager whose `hear` is the player's listener."""

    def __init__(self, arena: Arena, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self.counting = Counting(arena)
        self._stream = stream = stream or sys.stderr
        self._quiet = quiet
        self._last = time.monotonic()
        full = stream.isatty() and not quiet
        self._live = Live(console=Console(file=stream), refresh_per_second=4, transient=True) if full else None

    def __enter__(self) -> LiveArena:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)
        if not self._quiet:
            print(self.counting.line(), file=self._stream)

    def hear(self, finished: Finished) -> None:
        """A match ended."""
        self.counting.hear(finished)
        if self._live is not None:
            self._live.update(self.counting.table())
        elif not self._quiet and time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            print(self.counting.line(), file=self._stream)
