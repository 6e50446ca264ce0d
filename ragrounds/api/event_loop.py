"""Coroutines carried out from plain functions, also where an event loop runs already: in a notebook, in a server.

Every function of the API that is no coroutine itself goes through :func:`finish`, and nothing else begins a loop. Loops
stay open between calls: what a library or a user's graph keeps (a client with its connections) belongs to the loop it
was first used on, and would fail on another.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import queue
import signal
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, Generic, TypeVar

from ragrounds.evals.engine.interrupts import StopRequests, stop_requests
from ragrounds.recorder.httpx_clients import OUR_LOOPS
from ragrounds.recorder.wire import running_loop

T = TypeVar("T")
_LOOK = 0.2
"""Seconds after which a waiting thread looks for a signal again: on Windows, waiting itself hears none."""
_main: list[asyncio.Runner] = []
"""The runner of the main thread, once there is one."""


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Carry a coroutine out and give its result.

    Where no loop runs in this thread, one runs here. Where one does, the coroutine gets a thread and a loop of its own,
    and the caller waits. Ctrl-C, an interrupted cell or SIGTERM then asks the work to stop as it does in a terminal:
    the first time what is in flight is finished, the second time it is cut off.

    Raises:
        KeyboardInterrupt: the work was interrupted, and is of a kind that does not finish what is in flight.
    """
    # Not inside `except`: what the work raises would name the missing loop as its cause.
    if running_loop() is None:
        if threading.current_thread() is not threading.main_thread():
            return asyncio.run(work)
        if not _main:
            _main.append(asyncio.Runner(loop_factory=_new_loop))
            atexit.register(_close, _main[0])
        # A runner's own context is that of its first call.
        return _main[0].run(_alone(work), context=contextvars.copy_context())
    try:
        thread = _idle.pop()
    except IndexError:
        thread = _LoopThread()
    job = _Job(work)
    thread.jobs.put(job)
    try:
        return job.result()
    finally:
        _idle.append(thread)


def _close(runner: asyncio.Runner) -> None:
    """Close a loop at the end of the process, when Python 3.12 begins no thread any more: asyncio would wait in one for
    those of its executor. The loop is closed all the same."""
    with contextlib.suppress(RuntimeError):
        runner.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    OUR_LOOPS.add(loop)
    return loop


async def _alone(work: Coroutine[Any, Any, T]) -> T:
    """Carry out the work, and leave nothing on the loop."""
    try:
        return await work
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class _LoopThread:
    """A thread with a loop, which carries out one job after the other."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="ragrounds-loop", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """End the thread; one that is at work is left to end with the process."""
        self.jobs.put(None)
        self._thread.join(1)

    def _work(self) -> None:
        runner = asyncio.Runner(loop_factory=_new_loop)
        while (job := self.jobs.get()) is not None:
            job.carry_out(runner)
        _close(runner)


_idle: list[_LoopThread] = []
"""Threads that wait for a job. There is more than one only where calls were made side by side."""


class _Job(Generic[T]):
    """A coroutine for a loop in another thread."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work, self._requests = work, StopRequests()
        self._done = threading.Event()
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._context = contextvars.copy_context()
        self._context.run(stop_requests.set, self._requests)

    def carry_out(self, runner: asyncio.Runner) -> None:
        """Carry the coroutine out, and keep what came of it."""
        try:
            self._result.append(runner.run(self._cancellable(), context=self._context))
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    def result(self) -> T:
        """Wait, and give the result or raise what was raised. Every signal meanwhile asks the work to stop."""
        with self._asked_by_signal() as asked:
            while not self._done.wait(_LOOK):
                pass
        if isinstance(self._error, asyncio.CancelledError) and asked:
            raise KeyboardInterrupt
        if self._error is not None:
            raise self._error
        return self._result[0]

    async def _cancellable(self) -> T:
        task = asyncio.ensure_future(self._work)

        def cancel() -> None:
            """Cut the work off: it is of a kind that hears no request itself."""
            task.cancel()

        async def carry_out() -> T:
            """Wait for the work."""
            with self._requests.heard_by(cancel):
                return await task

        return await _alone(carry_out())

    @contextlib.contextmanager
    def _asked_by_signal(self) -> Iterator[list[int]]:
        """Have Ctrl-C ask the work to stop, in place of whoever hears it here: the kernel of a notebook, or asyncio,
        which would cancel the task that waits and tell it nothing. SIGTERM asks too where nobody hears it: it would end
        the process with calls in flight. Only the main thread can hear them. Gives the signals that were heard."""
        asked: list[int] = []

        def ask(number: int, frame: object) -> None:
            """Act on a signal."""
            asked.append(number)
            self._requests.ask()

        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        if threading.current_thread() is not threading.main_thread() or before[signal.SIGINT] is None:
            yield asked
            return
        if before[signal.SIGTERM] != signal.SIG_DFL:
            del before[signal.SIGTERM]
        for number in before:
            signal.signal(number, ask)
        try:
            yield asked
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
