"""A progress line on standard error: what is being done, how many are done, how fast.

A bar on standard error for each file that is fetched, or a line for each where nobody watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counting() -> Iterator[Callable[[str, int], None]]:
    """Gives a function to tell what is being done and how many are done. Shown only where standard error is a
    terminal."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.completed:,.0f}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=None)
            bar.update(tasks[what], completed=done)

        yield tell


@contextmanager
def downloading() -> Iterator[Callable[[str, int, int], None]]:
    """Gives a function to tell a file's name, the bytes that are here and the bytes it has."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from ragrounds.cli.common import say

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        tasks = {}

        def tell(name: str, here: int, size: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=size)
            bar.update(tasks[name], completed=here)
            if here == size and not console.is_terminal:
                say(f"{name}: {size:,} bytes")

        yield tell
