"""Listeners to the events of runs: silent, in a terminal, in a notebook's cell, or a user's own."""

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
from ragrounds.ui.console import counting, for_stream
from ragrounds.ui.progress.displays import Display, open_progress
from ragrounds.ui.progress.facts import ProgressGatherer
from ragrounds.ui.progress.lines import progress_line
from ragrounds.ui.progress.screen import can_redraw
from ragrounds.ui.projection import projection_text
from ragrounds.ui.tables.notebook import html_of, in_notebook
from ragrounds.ui.text import number_of

_SAID = 40
"""Number of recent lines that a screen shows again after it has covered them."""
_REFRESH_SECONDS = 0.5
"""Seconds between two renderings in a notebook: each is a message to the browser."""


class RunListener:
    """Listener to the events of runs and of builds of a benchmark.

    Nothing is shown, and nothing confirmed, unless a method is overridden. A user's listener overrides the methods of
    the events that it needs:

        class Counting(rr.RunListener):
            def planned(self, run, models):
                print(run.id, run.count, models)

        rr.run(listener=Counting())
    """

    def message(self, text: str) -> None:
        """Receive a message for the person at the screen."""

    def reading(self, task: str, count: int) -> None:
        """Receive the number of passages of the corpus that are read, embedded or indexed."""

    def planned(self, run: Run, models: Sequence[str]) -> None:
        """Receive a run that is in the store, and the models that will answer it."""

    def progress(
        self, progress: ReplayProgress, *, pilot: bool = False
    ) -> AbstractContextManager[Callable[[FinishedAttempt], None]]:
        """Return a context manager that is open while questions are asked.

        It yields a function that is called with every finished attempt, and counts it in `progress`.
        """
        return nullcontext(progress.observe)

    def projected(self, projection: Projection) -> None:
        """Receive the projected cost and time of the rest."""

    def confirm(self, expected: str) -> bool:
        """Return True to continue although the expected cost or time is above a threshold of the settings."""
        return False


class TerminalListener(RunListener):
    """Listener that shows on standard error what the command shows: a live table on a terminal, lines elsewhere."""

    def __init__(self, display: Display | None = None, corpus: str = "") -> None:
        self._display, self._corpus = display, corpus
        self._shown_lines: deque[str] = deque(maxlen=_SAID)

    def message(self, text: str) -> None:
        """Print a message. A screen that covers it shows it, too."""
        self._shown_lines.extend(text.splitlines())
        self._say(text)

    def _say(self, text: str) -> None:
        print(for_stream(text, sys.stderr), file=sys.stderr, flush=True)  # noqa: T201

    def reading(self, task: str, count: int) -> None:
        """Print every hundred thousandth passage."""
        if count and count % 100_000 == 0:
            self.message(f"{self._corpus}: {task}, {count:,} passages")

    def planned(self, run: Run, models: Sequence[str]) -> None:
        """Print the run's id, its number of questions, and its models; on a screen that redraws, only there."""
        redraws = self._display in (None, "full") and can_redraw(sys.stderr)
        say = self._shown_lines.append if redraws else self._say
        say(f"{run.id}: {number_of(run.count, 'question')} of {', '.join((run.benchmark, *models))}")

    @contextmanager
    def progress(self, progress: ReplayProgress, *, pilot: bool = False) -> Iterator[Callable[[FinishedAttempt], None]]:
        """Open the requested display; by default the one that fits the terminal."""
        with open_progress(self._display, progress, earlier_lines=list(self._shown_lines)) as progress_display:
            yield progress_display.observe

    def projected(self, projection: Projection) -> None:
        """Print the projection."""
        self.message(projection_text(projection))


class NotebookListener(RunListener):
    """Listener that shows a run in a notebook's cell: one table that is rendered again in place, with messages
    below.
    """

    def __init__(self) -> None:
        self._cell = NotebookCell()
        self._shown_lines: list[str] = []
        self._facts: ProgressGatherer | None = None

    def message(self, text: str) -> None:
        """Show a message below the table."""
        self._shown_lines.append(text)
        self._show(at_once=True)

    def reading(self, task: str, count: int) -> None:
        """Show every ten thousandth passage, in one line."""
        if count and count % 10_000 == 0:
            self._shown_lines = [
                *(line for line in self._shown_lines if not line.startswith(task)),
                f"{task}: {count:,} passages",
            ]
            self._show()

    @contextmanager
    def progress(self, progress: ReplayProgress, *, pilot: bool = False) -> Iterator[Callable[[FinishedAttempt], None]]:
        """Count finished attempts and show them."""
        progress.begin()
        self._facts = ProgressGatherer(progress)

        def observe(finished: FinishedAttempt) -> None:
            """Count a finished attempt; render again if the last rendering is old enough."""
            progress.observe(finished)
            self._show()

        self._show(at_once=True)
        try:
            yield observe
        finally:
            self._show(at_once=True)

    def projected(self, projection: Projection) -> None:
        """Show the projection below the table."""
        self.message(projection_text(projection))

    def _show(self, at_once: bool = False) -> None:
        from ragrounds.ui.progress.frame import table_parts

        facts = self._facts.gather(last=at_once) if self._facts is not None else None
        messages = [Text(line) for line in self._shown_lines[-10:]]
        line = progress_line(facts) if facts is not None else ""
        parts = [*table_parts(facts), Text(line)] if facts is not None else []
        self._cell.show([*parts, *messages], "\n".join([*([line] if line else []), *self._shown_lines[-10:]]), at_once)


class NotebookCell:
    """Output of the running cell that is rendered again in place."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._last = 0.0

    def show(self, parts: Sequence[Any], plain: str, at_once: bool = False) -> None:
        """Render the parts unless the last rendering is too recent: as HTML, and as plain text for frontends without
        HTML.
        """
        from IPython.display import display

        if not at_once and time.monotonic() - self._last < _REFRESH_SECONDS:
            return
        self._last = time.monotonic()

        def draw(console: Console) -> None:
            """Print the parts, one after the other."""
            for part in parts:
                console.print(part)

        mime_bundle = {"text/html": html_of(draw), "text/plain": plain}
        if self._handle is None:
            self._handle = display(mime_bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(mime_bundle, raw=True)


def run_listener(listener: RunListener | None, progress: bool | None) -> RunListener:
    """Return the given listener, or the one that fits the environment: a notebook, a terminal, else a silent one.

    With `progress` False the listener is silent; with True, lines are written even if there is no terminal.

    Raises:
        UserError: the listener is no :class:`RunListener`.
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
    """Yield a function to report the current step and how many are done.

    It is the given function, or by default a counter in a notebook's cell or on the terminal.
    """
    if callable(progress):
        yield progress
    elif progress is False:
        yield unheard
    elif in_notebook():
        cell, counts = NotebookCell(), dict[str, int]()

        def tell(step: str, done: int) -> None:
            """Show the count in the cell."""
            first = step not in counts
            counts[step] = done
            lines = [f"{name}: {count:,}" for name, count in counts.items()]
            cell.show(lines, "\n".join(lines), at_once=first)

        yield tell
    elif progress or on_terminal():
        with counting() as report:
            yield report
    else:
        yield unheard


def on_terminal() -> bool:
    """Return True if standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()
