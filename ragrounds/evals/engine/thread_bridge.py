"""Calls of an attempt that are made from plain functions, which LangGraph runs in threads outside the event loop.

Such a thread is one of the loop's few until it has its reply, and the reply may need one itself: a search by BM25 runs
in a thread, and so does the look-up of a server's address. So the loop gets a :class:`GrowingPool`, in which each
waiting thread makes room for another. No library offers this: ``asgiref.sync.async_to_sync`` and
``anyio.from_thread.run`` reach a loop from threads that they began themselves, and these are LangGraph's.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakKeyDictionary

from ragrounds.base.errors import UserError
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.recorder.wire import running_loop

R = TypeVar("R")
BLOCKED = 30.0
"""Seconds in which the event loop must begin a thread's call; otherwise the loop is considered blocked."""
_ADVICE = "write the node `async def` and await it (`await model.ainvoke(…)`, `abatch`), or keep the node a plain `def`"


class GrowingPool(ThreadPoolExecutor):
    """Threads for an event loop, with one more for each thread that waits for the loop itself."""

    def widen(self, workers: int) -> None:
        """Raise the number of threads to at least this number."""
        with _growing:
            self._max_workers = max(self._max_workers, workers)

    @contextlib.contextmanager
    def room(self) -> Iterator[None]:
        """Let another thread begin while this one waits."""
        with _growing:
            self._max_workers += 1
        try:
            # The pool checks whether it may begin a thread only when something is submitted.
            self.submit(lambda: None)
            yield
        finally:
            with _growing:
                self._max_workers -= 1


_growing = threading.Lock()
_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, GrowingPool] = WeakKeyDictionary()


def grow_threads(workers: int | None = None) -> None:
    """Give the running event loop a :class:`GrowingPool` in place of its own threads, once; later calls widen it.

    Args:
        workers: number of threads while none of them waits; ``None``: Python's default.
    """
    loop = asyncio.get_running_loop()
    if loop not in _pools:
        _pools[loop] = GrowingPool(workers, "ragrounds")
        loop.set_default_executor(_pools[loop])
    elif workers is not None:
        _pools[loop].widen(workers)


class ThreadBridge:
    """Bridge from an attempt's threads to its event loop, open as long as the attempt runs."""

    def __init__(self) -> None:
        self._loop = running_loop()
        self._waited_for: set[asyncio.Task[object]] = set()
        self._closed = False

    def wait(self, coroutine: Coroutine[object, object, R]) -> R:
        """Run a coroutine on the event loop, and wait for its result in this thread.

        It runs in this thread's context: a call belongs to the node that makes it.

        Raises:
            UserError: this is a thread with an event loop, or the event loop is blocked.
            AttemptEnded: the attempt has ended.
        """
        loop, current_loop = self._loop, running_loop()
        if loop is None or current_loop is not None:
            coroutine.close()
            if loop is None:
                raise UserError("No event loop runs: an attempt's models and searches are asked by `ragrounds run`.")
            location = "on the event loop's own thread" if current_loop is loop else "inside of another event loop"
            raise UserError(f"A node waited for a call {location}, where every attempt would stop: {_ADVICE}.")
        with _room(loop):
            return self._result(loop, coroutine)

    @property
    def elsewhere(self) -> bool:
        """True if the running event loop is not the attempt's: a node's own code has begun it."""
        return self._loop is not None and asyncio.get_running_loop() is not self._loop

    async def across(self, coroutine: Coroutine[object, object, R]) -> R:
        """Run a coroutine on the attempt's event loop, and wait for its result in another event loop."""
        assert self._loop is not None
        with _room(self._loop):
            return await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(self._run_with_attempt(coroutine), self._loop)
            )

    def _result(self, loop: asyncio.AbstractEventLoop, call: Coroutine[object, object, R]) -> R:
        has_begun = threading.Event()
        answer = asyncio.run_coroutine_threadsafe(self._run_with_attempt(call, has_begun), loop)
        if not has_begun.wait(BLOCKED) and answer.cancel():
            call.close()  # the loop will find it cancelled
            raise UserError(f"The event loop did not begin a call within {BLOCKED:g} s: a node holds it up. {_HELD}.")
        try:
            return answer.result()
        except concurrent.futures.CancelledError as error:
            raise AttemptEnded("failed", "the attempt ended while a node was waiting for a call") from error

    async def _run_with_attempt(
        self, call: Coroutine[object, object, R], has_begun: threading.Event | None = None
    ) -> R:
        """Run a coroutine so that it ends with the attempt."""
        if has_begun is not None:
            has_begun.set()
        if self._closed:
            call.close()
            raise AttemptEnded("failed", "the attempt has ended")
        task = asyncio.current_task()
        assert task is not None
        self._waited_for.add(task)
        try:
            return await call
        finally:
            self._waited_for.discard(task)

    def close(self) -> None:
        """Cancel the calls that threads of the attempt still wait for, and accept no more. It must be called on the
        event loop.
        """
        self._closed = True
        for task in self._waited_for:
            task.cancel()


_HELD = f"If an async node calls `batch`, or a chain's `invoke`, {_ADVICE}"


def _room(loop: asyncio.AbstractEventLoop) -> contextlib.AbstractContextManager[None]:
    pool = _pools.get(loop)
    return pool.room() if pool is not None else contextlib.nullcontext()
