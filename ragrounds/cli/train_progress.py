"""The display of a training: a bar with the loss on a terminal, a line now and then elsewhere; on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import TaskID

    from ragrounds.train.loop import Step
    from ragrounds.train.pipeline import Listeners

_EVERY = 15.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def following() -> Iterator[Listeners]:
    """Gives what a run tells."""
    from ragrounds.train.pipeline import Listeners

    if not sys.stderr.isatty():
        lines = _Lines()
        yield Listeners(doing=lines.doing, step=lines.step)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def task(name: str) -> TaskID:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=None, loss="")
            return tasks[name]

        def step(told: Step) -> None:
            loss = f"loss {told.loss:.4f}" if told.loss is not None else ""
            bar.update(task(told.stage), total=told.steps, completed=told.step, loss=loss)

        yield Listeners(doing=lambda what, done: bar.update(task(what), completed=done), step=step)


class _Lines:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def doing(self, what: str, done: int) -> None:
        self._say(f"{what}: {done:,}", False)

    def step(self, told: Step) -> None:
        loss = f", loss {told.loss:.4f}" if told.loss is not None else ""
        self._say(f"{told.stage}: step {told.step:,} of {told.steps:,}{loss}", told.step == told.steps)

    def _say(self, line: str, last: bool) -> None:
        from ragrounds.cli.common import say
        from ragrounds.ui.text import safe

        if last or time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            say(safe(line))
