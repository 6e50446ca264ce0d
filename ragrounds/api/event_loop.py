"""Running coroutines from plain functions, even if an event loop runs already, as in a notebook or a server.

Every function of the API that is no coroutine itself uses :func:`finish`, and nothing else starts a loop. Loops stay
open between calls: an object that a library or a user's graph keeps (a client with its connections) belongs to the loop
of its first use, and would fail on another.
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

from ragrounds.base.process_end import ProcessEnd
from ragrounds.evals.engine.interrupts import StopRequests, stop_requests
from ragrounds.recorder.httpx_clients import OUR_LOOPS
from ragrounds.recorder.wire import running_loop

T = TypeVar("T")
_POLL_SECONDS = 0.2
"""Seconds after which a waiting thread checks for a signal again: on Windows, waiting itself receives none."""
_main_runner: list[asyncio.Runner] = []
"""Runner of the main thread; empty until the first call."""


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result.

    If no loop runs in this thread, one runs here. If one does, the coroutine gets a separate thread and loop, and the
    caller waits. Ctrl-C, an interrupted cell or SIGTERM then asks the work to stop as in a terminal: the first time,
    calls in flight are finished; the second time, they are cancelled.

    Raises:
        KeyboardInterrupt: the work was interrupted, and does not finish its calls in flight.
    """
    # Not inside `except`: errors of the work would name the missing loop as their cause.
    if running_loop() is None:
        if threading.current_thread() is not threading.main_thread():
            return asyncio.run(work)
        if not _main_runner:
            _main_runner.append(asyncio.Runner(loop_factory=_new_loop))
            atexit.register(_close_runner, _main_runner[0])
        # Without this, a runner would keep the context of its first call.
        return _main_runner[0].run(_run_and_clean_up(work), context=contextvars.copy_context())
    try:
        thread = _idle_threads.pop()
    except IndexError:
        thread = _LoopThread()
    job = _Job(work)
    thread.jobs.put(job)
    try:
        return job.result()
    finally:
        _idle_threads.append(thread)


def _close_runner(runner: asyncio.Runner) -> None:
    """Close a loop at the end of the process.

    Python 3.12 starts no thread then, and asyncio would need one to wait for its executor's threads. The loop is closed
    all the same.
    """
    with contextlib.suppress(RuntimeError):
        runner.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    OUR_LOOPS.add(loop)
    return loop


async def _run_and_clean_up(work: Coroutine[Any, Any, T]) -> T:
    """Run the work, and leave no task on the loop."""
    try:
        return await work
    finally:
        remaining = asyncio.all_tasks() - {asyncio.current_task()}
        for task in remaining:
            task.cancel()
        await asyncio.gather(*remaining, return_exceptions=True)


class _LoopThread:
    """Thread with a loop, which runs one job after the other."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="ragrounds-loop", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """End the thread. A thread that is still working is left to end with the process."""
        self.jobs.put(None)
        self._thread.join(1)

    def _work(self) -> None:
        runner = asyncio.Runner(loop_factory=_new_loop)
        while (job := self.jobs.get()) is not None:
            job.carry_out(runner)
        _close_runner(runner)


_idle_threads: list[_LoopThread] = []
"""Threads that wait for a job. There are several only if calls were made at the same time."""


class _Job(Generic[T]):
    """Coroutine for a loop in another thread."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work, self._requests = work, StopRequests()
        self._done = threading.Event()
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._context = contextvars.copy_context()
        self._context.run(stop_requests.set, self._requests)

    def carry_out(self, runner: asyncio.Runner) -> None:
        """Run the coroutine, and keep its result or error."""
        try:
            self._result.append(runner.run(self._run_cancellable(), context=self._context))
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    def result(self) -> T:
        """Wait, and return the result or raise the error. Every signal meanwhile asks the work to stop."""
        with self._stop_on_signal() as signals:
            while not self._done.wait(_POLL_SECONDS):
                pass
        if isinstance(self._error, asyncio.CancelledError) and signals:
            raise KeyboardInterrupt
        if self._error is not None:
            raise self._error
        return self._result[0]

    async def _run_cancellable(self) -> T:
        task = asyncio.ensure_future(self._work)

        def cancel() -> None:
            """Cancel the work: it does not react to stop requests itself."""
            task.cancel()

        async def carry_out() -> T:
            """Wait for the work."""
            with self._requests.heard_by(cancel):
                return await task

        return await _run_and_clean_up(carry_out())

    @contextlib.contextmanager
    def _stop_on_signal(self) -> Iterator[list[int]]:
        """Let Ctrl-C and SIGTERM ask the work to stop, and yield the signals that were received.

        Without this, the kernel of a notebook or asyncio would handle Ctrl-C; asyncio would cancel the waiting task
        without asking the work to stop. SIGTERM is handled only if it has no handler: it would end the process with
        calls in flight. Only the main thread can receive signals.
        """
        signals, end = list[int](), ProcessEnd()

        def ask(number: int, frame: object) -> None:
            """Record a signal and ask the work to stop."""
            signals.append(number)
            if number == signal.SIGTERM:
                end.signalled()
            self._requests.ask()

        previous_handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        if threading.current_thread() is not threading.main_thread() or previous_handlers[signal.SIGINT] is None:
            yield signals
            return
        if previous_handlers[signal.SIGTERM] != signal.SIG_DFL:
            del previous_handlers[signal.SIGTERM]
        for number in previous_handlers:
            signal.signal(number, ask)
        try:
            yield signals
        finally:
            end.cancel()
            for number, handler in previous_handlers.items():
                signal.signal(number, handler)
