"""The console that everything is printed on: no text of a model, a file or a server moves its cursor; and a counter of
what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.segment import Segment

from ragrounds.base.text import safe
from ragrounds.tools.index.vector_events import BUILT


class SafeConsole(Console):
    """Writes control, formatting and zero-width characters out as ``<U+XXXX>``, whatever is drawn. What draws makes its
    texts safe itself, so that columns have their widths; here is where one that was forgotten is caught."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is drawn, each safe to show."""
        for segment in super().render(renderable, options):
            plain = segment.control or segment.text.isprintable()
            yield segment if plain else Segment(safe(segment.text), segment.style)


@contextmanager
def counting() -> Iterator[Callable[[str, int], None]]:
    """Gives a function to report what is being done and how many are done (0: that is not counted). Shown only where
    standard error is a terminal. What was built over vectors, with its recall, is shown at the end, everywhere."""
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

        def tell(what: str, done: int) -> None:
            if not lines:
                lines.append(bar.add_task(what, total=None, done=""))
            bar.update(lines[0], description=what, done=f"{done:,}" if done else "")

        yield tell
    for line in built:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def at_work(what: str) -> Iterator[None]:
    """Shows on a terminal what is being done while the block lasts, in which nothing is printed."""
    with counting() as tell:
        tell(what, 0)
        yield
