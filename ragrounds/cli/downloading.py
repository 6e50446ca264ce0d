"""A bar on standard error for each file that is fetched, or a line for each where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
