"""Who hears what happens while runs go: nobody, a terminal, a notebook's cell, or a listener of one's own."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from rich.console import Console
from rich.text import Text

from ragrounds.api.workspace import Progress, unheard
from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.evals.engine.progress import Projection, ReplayProgress
from ragrounds.ui.console import counting
from ragrounds.ui.progress.displays import Display, open_progress
from ragrounds.ui.progress.facts import ProgressGatherer
from ragrounds.ui.progress.lines import progress_line
from ragrounds.ui.progress.screen import can_redraw
from ragrounds.ui.projection import projection_text
from ragrounds.ui.tables.notebook import html_of, in_notebook
from ragrounds.ui.text import number_of

_SAID = 40
"""Lines said before a screen covers them that it shows again."""
_EVERY = 0.5
"""Seconds between two pictures in a notebook: each is a message to the browser."""


class RunListener:
    """Hears what happens while runs go or a benchmark is built. Nothing is shown, and nothing confirmed, unless a
    method is overridden.

    A listener of one's own overrides what it wants to hear:

        class Counting(rr.RunListener):
            def planned(self, run, models):
                print(run.id, run.count, models)

        rr.run(listener=Counting())
    """

    def message(self, text: str) -> None:
        """Something that a person at the screen should know."""

    def reading(self, what: str, count: int) -> None:
        """`count` passages of the corpus are read, embedded or indexed."""

    def planned(self, run: Run, models: Sequence[str]) -> None:
        """A run is in the store, to be answered by these models."""

    def progress(
        self, progress: ReplayProgress, *, pilot: bool = False
    ) -> AbstractContextManager[Callable[[FinishedAttempt], None]]:
        """Opened while questions are asked: what it gives is called with every attempt that ends, and counts it in
        `progress`."""
        return nullcontext(progress.observe)

    def projected(self, projection: Projection) -> None:
        """What is left is projected to take this."""

    def confirm(self, expected: str) -> bool:
        """Whether to go on although what is expected is above a threshold of the settings."""
        return False


class TerminalListener(RunListener):
    """Shows on standard error what the command shows: a live table on a terminal, lines elsewhere."""

    def __init__(self, display: Display | None = None, corpus: str = "") -> None:
        self._display, self._corpus = display, corpus
        self._said: deque[str] = deque(maxlen=_SAID)

    def message(self, text: str) -> None:
        """Say it. A screen that covers it shows it too."""
        self._said.extend(text.splitlines())
        self._say(text)

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201

    def reading(self, what: str, count: int) -> None:
        """Say every hundred thousandth passage."""
        if count and count % 100_000 == 0:
            self.message(f"{self._corpus}: {what}, {count:,} passages")

    def planned(self, run: Run, models: Sequence[str]) -> None:
        """Say the run's id, how many questions it has, and its models; on a screen that redraws, there alone."""
        redraws = self._display in (None, "full") and can_redraw(sys.stderr)
        say = self._said.append if redraws else self._say
        say(f"{run.id}: {number_of(run.count, 'question')} of {', '.join((run.benchmark, *models))}")

    @contextmanager
    def progress(self, progress: ReplayProgress, *, pilot: bool = False) -> Iterator[Callable[[FinishedAttempt], None]]:
        """The display that was asked for; by default by the terminal."""
        with open_progress(self._display, progress, said=list(self._said)) as shown:
            yield shown.observe

    def projected(self, projection: Projection) -> None:
        """Say it."""
        self.message(projection_text(projection))


class NotebookListener(RunListener):
    """Shows a run in a notebook's cell: one table that is drawn anew in its place, with what was said below it."""

    def __init__(self) -> None:
        self._cell = NotebookCell()
        self._said: list[str] = []
        self._facts: ProgressGatherer | None = None

    def message(self, text: str) -> None:
        """Show it below the table."""
        self._said.append(text)
        self._show(at_once=True)

    def reading(self, what: str, count: int) -> None:
        """Show every ten thousandth passage, in one line."""
        if count and count % 10_000 == 0:
            self._said = [*(line for line in self._said if not line.startswith(what)), f"{what}: {count:,} passages"]
            self._show()

    @contextmanager
    def progress(self, progress: ReplayProgress, *, pilot: bool = False) -> Iterator[Callable[[FinishedAttempt], None]]:
        """Count and show."""
        progress.begin()
        self._facts = ProgressGatherer(progress)

        def hear(finished: FinishedAttempt) -> None:
            """Count an attempt that ended; draw anew where the last picture is old enough."""
            progress.observe(finished)
            self._show()

        self._show(at_once=True)
        try:
            yield hear
        finally:
            self._show(at_once=True)

    def projected(self, projection: Projection) -> None:
        """Show it below the table."""
        self.message(projection_text(projection))

    def _show(self, at_once: bool = False) -> None:
        from ragrounds.ui.progress.frame import table_parts

        facts = self._facts.gather(last=at_once) if self._facts is not None else None
        said = [Text(line) for line in self._said[-10:]]
        line = progress_line(facts) if facts is not None else ""
        parts = [*table_parts(facts), Text(line)] if facts is not None else []
        self._cell.show([*parts, *said], "\n".join([*([line] if line else []), *self._said[-10:]]), at_once)


class NotebookCell:
    """An output of the cell that is running, which is drawn anew in its place."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._last = 0.0

    def show(self, parts: Sequence[Any], plain: str, at_once: bool = False) -> None:
        """Draw, unless the last picture is too young: as HTML, and as plain text for whoever shows no HTML."""
        from IPython.display import display

        if not at_once and time.monotonic() - self._last < _EVERY:
            return
        self._last = time.monotonic()

        def draw(console: Console) -> None:
            """Print the parts, one after the other."""
            for part in parts:
                console.print(part)

        shown = {"text/html": html_of(draw), "text/plain": plain}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown, raw=True)


def run_listener(listener: RunListener | None, progress: bool | None) -> RunListener:
    """The listener that was given, or the one that fits where this runs: a notebook, a terminal; elsewhere nobody
    hears. With `progress` False nobody does, with True lines are written also where there is no terminal.

    Raises:
        UserError: the listener is none.
    """
    if listener is not None:
        if not isinstance(listener, RunListener):
            raise UserError(f"{listener!r} is not a listener: expected an object of a subclass of rr.RunListener.")
        return listener
    if progress is False:
        return RunListener()
    if in_notebook():
        return NotebookListener()
    return TerminalListener() if progress or on_terminal() else RunListener()


@contextmanager
def counted(progress: Progress | bool | None) -> Iterator[Progress]:
    """What gets what is being done and how many are done: the function that was given, or by default a counter in a
    notebook's cell or on the terminal, while the block lasts."""
    if callable(progress):
        yield progress
    elif progress is False:
        yield unheard
    elif in_notebook():
        cell, counts = NotebookCell(), dict[str, int]()

        def tell(what: str, done: int) -> None:
            """Count in the cell."""
            first = what not in counts
            counts[what] = done
            lines = [f"{name}: {count:,}" for name, count in counts.items()]
            cell.show(lines, "\n".join(lines), at_once=first)

        yield tell
    elif progress or on_terminal():
        with counting() as shown:
            yield shown
    else:
        yield unheard


def on_terminal() -> bool:
    """Whether somebody sits at standard error."""
    return sys.stderr is not None and sys.stderr.isatty()
