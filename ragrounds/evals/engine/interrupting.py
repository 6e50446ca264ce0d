"""Ctrl-C while calls are in flight: what was paid for is waited for."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator

from ragrounds.errors import StopRun


class Interrupted(StopRun):
    """The user asked to stop."""


@contextlib.contextmanager
def interruptible(ends: list[BaseException], then: Callable[[], None] = lambda: None) -> Iterator[None]:
    """The first Ctrl-C lets what is in flight finish, and says so on stderr; the second stops at once. Both put an end
    into `ends`, and call `then`."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def stop() -> None:
        if not any(isinstance(end, Interrupted) for end in ends):
            # Here, not where the run ends: who sees nothing happen presses again, and what is in flight is lost.
            print("Finishing what is in flight; Ctrl-C once more stops at once.", file=sys.stderr, flush=True)  # noqa: T201
        elif task is not None:
            task.cancel()
        ends.append(Interrupted("Interrupted. What is done is kept; the same command goes on from there."))
        then()

    try:
        loop.add_signal_handler(signal.SIGINT, stop)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
