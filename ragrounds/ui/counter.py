"""A counter on the terminal: what is being done, and how many are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from ragrounds.tools.vector_events import BUILT
from ragrounds.ui.console import SafeConsole


@contextmanager
def counting() -> Iterator[Callable[[str, int], None]]:
    """Gives a function to tell what is being done and how many are done. Shown only where standard error is a
    terminal. What was built over vectors, with its recall, is told at the end, everywhere."""
    console = SafeConsole(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.completed:,.0f}", markup=False),
        TimeElapsedColumn(),
    )
    with (
        BUILT.collecting() as built,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=None)
            bar.update(tasks[what], completed=done)

        yield tell
    for line in built:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
