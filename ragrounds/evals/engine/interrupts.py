"""Requests to stop work on an event loop: Ctrl-C in a terminal, an interrupted cell of a notebook, SIGTERM.

The first request lets calls in flight finish, the second stops at once. On the main thread the loop receives the signal
itself. A loop in another thread receives none: there the waiting thread asks through a :class:`StopRequests`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from weakref import WeakKeyDictionary

from ragrounds.base.errors import Interrupted
from ragrounds.base.process_end import ProcessEnd


class StopRequests:
    """Requests to stop from another thread than that of the running loop."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal may come while another is handled
        self._listening: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []
        self._pending = 0

    @contextlib.contextmanager
    def heard_by(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop`, on the running loop, at every request while the block lasts, and for requests that are still
        pending.

        Only the innermost of several listeners is called.
        """
        listener = (asyncio.get_running_loop(), stop)
        with self._lock:
            self._listening.append(listener)
            pending, self._pending = self._pending, 0
        for _ in range(pending):
            stop()
        try:
            yield
        finally:
            with self._lock:
                self._listening.remove(listener)

    def ask(self) -> None:
        """Ask to stop."""
        with self._lock:
            listening = self._listening[-1:]
            self._pending += not listening
        for loop, stop in listening:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(stop)


stop_requests: ContextVar[StopRequests | None] = ContextVar("stop_requests", default=None)
"""Source of requests to stop for this context; ``None``: the signal."""


FINISHES = "Finishing the calls in flight; Ctrl-C again stops at once."
"""Message after the first Ctrl-C."""
_request_counts: list[list[int]] = []
"""Number of requests to stop, for each running piece of work."""


def times_asked() -> int:
    """Return the number of requests to stop the work in this process: 0, 1 (calls in flight are finished), 2 or more
    (it stops at once).
    """
    return max((count for (count,) in list(_request_counts)), default=0)


@contextlib.contextmanager
def interruptible(errors: list[BaseException], on_interrupt: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM while the block lasts.

    The first request lets calls in flight finish, and prints a message to stderr; the second stops at once. Both add an
    error to `errors`, and call `on_interrupt`.

    Raises:
        BaseException: the first of `errors`, after the second request.
        CancelledError: the caller has cancelled the task.
    """
    task = asyncio.current_task()
    cancelled_before = task.cancelling() if task is not None else 0
    cancelled = 0
    count = [0]

    def stop() -> None:
        """Handle a Ctrl-C."""
        nonlocal cancelled
        count[0] += 1
        if not any(isinstance(error, Interrupted) for error in errors):
            # The message is printed now, not when the run ends: a user who sees no reaction presses again, and calls in
            # flight are lost.
            print(FINISHES, file=sys.stderr, flush=True)  # noqa: T201
        elif task is not None:
            cancelled += 1
            task.cancel()
        errors.append(Interrupted("Interrupted. Finished work is saved; the same command resumes."))
        on_interrupt()

    requests = stop_requests.get()
    _request_counts.append(count)
    try:
        with requests.heard_by(stop) if requests is not None else _stop_on_signal(stop):
            yield
    except asyncio.CancelledError:
        if task is None or not cancelled or task.cancelling() > cancelled_before + cancelled:
            raise
        raise errors[0] from None
    finally:
        _request_counts[:] = [other for other in _request_counts if other is not count]
        if task is not None:
            for _ in range(cancelled):  # a caller in another task was not cancelled
                task.uncancel()


class _SignalStops:
    """Callbacks for a Ctrl-C on one loop. Several pieces of work may run on it."""

    def __init__(self) -> None:
        self.stops: list[Callable[[], None]] = []
        self.process_end = ProcessEnd()
        self.before = signal.getsignal(signal.SIGINT)
        # SIGTERM is handled only if it has no handler, because it would then end the process at once. The command line
        # handles it like Ctrl-C.
        self.numbers = [signal.SIGINT]
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self.numbers.append(signal.SIGTERM)

    def call_all(self) -> None:
        """Handle a Ctrl-C."""
        for stop in list(self.stops):
            stop()

    def terminate(self) -> None:
        """Handle a SIGTERM."""
        self.process_end.signalled()
        self.call_all()


_signal_stops: WeakKeyDictionary[asyncio.AbstractEventLoop, _SignalStops] = WeakKeyDictionary()


@contextlib.contextmanager
def _stop_on_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C call `stop` while the block lasts, if this loop is on the main thread."""
    loop = asyncio.get_running_loop()
    stops = _signal_stops.get(loop)
    if stops is None:
        stops = _signal_stops[loop] = _SignalStops()
        for number in stops.numbers:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Windows; not the main thread
                loop.add_signal_handler(number, stops.terminate if number == signal.SIGTERM else stops.call_all)
    stops.stops.append(stop)
    try:
        yield
    finally:
        stops.stops.remove(stop)
        if not stops.stops:
            stops.process_end.cancel()
            del _signal_stops[loop]
            for number in stops.numbers:
                with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                    # A notebook's kernel and asyncio.run set handlers, which must remain for the rest of the call.
                    removed = loop.remove_signal_handler(number)
                    if removed and number == signal.SIGINT and stops.before is not None:
                        signal.signal(number, stops.before)
