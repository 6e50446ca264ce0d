"""Coroutines carried out from plain functions, also where an event loop runs already: in a notebook, in a server.

Every function of the API that is no coroutine itself goes through :func:`finish`, and nothing else begins a loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import signal
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_LOOK = 0.2
"""Seconds after which a waiting thread looks for a signal again: on Windows, waiting itself hears none."""


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Carry a coroutine out and give its result.

    Where no loop runs in this thread, one is opened here. Where one runs, the coroutine gets a thread and a loop of its
    own, and the caller waits. Ctrl-C, or an interrupted cell, then asks the work to stop as it does in a terminal: the
    first time what is in flight is finished, the second time it is cut off.

    Raises:
        KeyboardInterrupt: the work was interrupted, and is of a kind that does not finish what is in flight.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _LoopThread(work).result()


class _LoopThread(Generic[T]):
    """A coroutine on a loop in a thread of its own."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        from ragrounds.evals.engine.interrupts import StopRequests, stop_requests

        self._work, self._requests = work, StopRequests()
        self._done = threading.Event()
        self._result: list[T] = []
        self._error: BaseException | None = None
        context = contextvars.copy_context()
        context.run(stop_requests.set, self._requests)
        self._thread = threading.Thread(target=context.run, args=(self._carry_out,), name="ragrounds-loop", daemon=True)

    def result(self) -> T:
        """Start, wait, and give the result or raise what was raised. Every Ctrl-C meanwhile asks the work to stop."""
        with self._asked_by_signal() as asked:
            self._thread.start()
            while not self._done.wait(_LOOK):
                pass
            self._thread.join()
        if isinstance(self._error, asyncio.CancelledError) and asked:
            raise KeyboardInterrupt
        if self._error is not None:
            raise self._error
        return self._result[0]

    @contextlib.contextmanager
    def _asked_by_signal(self) -> Iterator[list[int]]:
        """Have Ctrl-C ask the work to stop, in place of whoever hears it here: the kernel of a notebook, or asyncio,
        which would cancel the task that waits and tell it nothing. Only the main thread can hear it. Gives the
        signals that were heard."""
        asked: list[int] = []

        def ask(number: int, frame: object) -> None:
            """Act on a Ctrl-C."""
            asked.append(number)
            self._requests.ask()

        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or before is None:
            yield asked
            return
        signal.signal(signal.SIGINT, ask)
        try:
            yield asked
        finally:
            signal.signal(signal.SIGINT, before)

    def _carry_out(self) -> None:
        try:
            self._result.append(asyncio.run(self._cancellable()))
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    async def _cancellable(self) -> T:
        task = asyncio.ensure_future(self._work)

        def cancel() -> None:
            """Cut the work off: it is of a kind that hears no request itself."""
            task.cancel()

        with self._requests.heard_by(cancel):
            return await task
