"""Progress of runs on standard error: a screen that redraws, plain lines, JSON lines, or nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Literal, Protocol, TextIO

from rich.console import RenderableType

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.evals.engine.progress import ReplayProgress
from ragrounds.ui.progress.facts import ProgressGatherer, facts_json
from ragrounds.ui.progress.lines import counts_line, progress_line
from ragrounds.ui.progress.screen import Screen, can_redraw

Display = Literal["full", "plain", "json", "none"]
_PLAIN_EVERY = 10.0
"""Seconds between two plain or JSON lines."""


class Progress(Protocol):
    """Display of a run's counts, as a context manager."""

    def observe(self, finished: FinishedAttempt) -> None:
        """Count an attempt that ended, and show it."""

    def __enter__(self) -> Progress: ...

    def __exit__(self, *_: object) -> None: ...


def open_progress(display: Display | None, tally: ReplayProgress, earlier_lines: Sequence[str] = ()) -> Progress:
    """Open the requested display on stderr; by default `full` on a terminal and `plain` elsewhere.

    A terminal whose cursor cannot be moved gets plain lines.

    Args:
        display: the display to open.
        tally: the counts.
        earlier_lines: lines printed before, for a screen that covers them.
    """
    stream = sys.stderr
    tally.begin()
    kind = display or "full"
    if kind == "full":
        return (
            FullProgress(tally, stream, earlier_lines)
            if can_redraw(stream)
            else LineProgress(tally, stream, as_json=False)
        )
    if kind == "none":
        return SilentProgress(tally)
    return LineProgress(tally, stream, as_json=kind == "json")


class SilentProgress:
    """Progress that counts and shows nothing."""

    def __init__(self, tally: ReplayProgress) -> None:
        self.observe = tally.observe

    def __enter__(self) -> SilentProgress:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: nothing is open."""


class LineProgress:
    """Progress as a line every few seconds, and one at the end."""

    def __init__(self, tally: ReplayProgress, stream: TextIO, as_json: bool) -> None:
        self._tally = tally
        self._stream = stream
        self._as_json = as_json
        self._facts = ProgressGatherer(tally)
        self._last = time.monotonic()

    def observe(self, finished: FinishedAttempt) -> None:
        """Count an attempt that ended; write a line if the last one is old enough."""
        self._tally.observe(finished)
        if time.monotonic() - self._last >= _PLAIN_EVERY:
            self._write()

    def __enter__(self) -> LineProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._write(last=True)

    def _write(self, last: bool = False) -> None:
        self._last = time.monotonic()
        facts = self._facts.gather(last)
        print(json.dumps(facts_json(facts)) if self._as_json else progress_line(facts), file=self._stream, flush=True)


class FullProgress:
    """Screen that redraws until the run ends.

    Afterwards the terminal is restored, with one line of counts if attempts are open or have failed. Tables and the
    reasons of failures follow it.
    """

    def __init__(self, tally: ReplayProgress, stream: TextIO, earlier_lines: Sequence[str] = ()) -> None:
        self.observe, self._stream = tally.observe, stream
        self._facts = ProgressGatherer(tally)
        viewer = [sys.executable, "-m", "ragrounds", "trace", *tally.runs]
        self._screen = Screen(stream, self._picture, earlier_lines, viewer)

    def _picture(self, width: int, height: int, other_lines: Sequence[str]) -> RenderableType:
        from ragrounds.ui.progress.frame import frame  # rich's tables: imported only if a screen is shown

        return frame(self._facts.gather(), width, height, other_lines, self._screen.opens_viewer)

    def __enter__(self) -> FullProgress:
        self._screen.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._screen.__exit__(*error)
        facts = self._facts.gather(last=True)
        if facts.done < facts.total or facts.outcomes["failed"]:
            print(counts_line(facts), file=self._stream, flush=True)
