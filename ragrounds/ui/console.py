"""The console that everything is printed on, and a progress counter.

No text of a model, a file or a server can move the cursor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.segment import Segment

from ragrounds.base.text import safe
from ragrounds.tools.index.vector_events import BUILT
from ragrounds.ui.text import wrapped


class SafeConsole(Console):
    """Console that writes control, formatting and zero-width characters as ``<U+XXXX>``, whatever is rendered.

    Renderers make their texts safe themselves, so that columns have their widths; this console catches forgotten ones.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable, each safe to show."""
        for segment in super().render(renderable, options):
            plain = segment.control or segment.text.isprintable()
            yield segment if plain else Segment(safe(segment.text), segment.style)


def for_stream(text: str, stream: TextIO) -> str:
    """Return a text made safe, with its lines broken between words if the stream is a terminal."""
    shown = safe(text)
    return wrapped(shown, os.get_terminal_size(stream.fileno()).columns or 80) if stream.isatty() else shown


@contextmanager
def counting() -> Iterator[Callable[[str, int], None]]:
    """Yield a function to report the current step and how many are done (0 if they are not counted).

    The progress is shown only if standard error is a terminal. Indexes that were built over vectors are reported at the
    end with their recall, on any output.
    """
    console = SafeConsole(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.fields[done]}", markup=False),
        TimeElapsedColumn(),
    )
    with (
        BUILT.collecting() as built,
        # One line, four times a second: a line for each step of forty runs took six times what the work itself did.
        Progress(
            *columns, console=console, transient=True, refresh_per_second=4, disable=not console.is_terminal
        ) as bar,
    ):
        lines: list[TaskID] = []

        def tell(step: str, done: int) -> None:
            if not lines:
                lines.append(bar.add_task(step, total=None, done=""))
            bar.update(lines[0], description=step, done=f"{done:,}" if done else "")

        yield tell
    for line in built:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def at_work(step: str) -> Iterator[None]:
    """Show the current step on a terminal while the block runs. The block must print nothing."""
    with counting() as report:
        report(step, 0)
        yield
