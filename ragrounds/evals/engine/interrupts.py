"""Asking work on an event loop to stop: Ctrl-C in a terminal, an interrupted cell of a notebook, SIGTERM.

The first time lets what is in flight finish, the second stops at once. On the main thread the loop hears the signal
itself. A loop in a thread of its own hears none: there whoever waits for it asks through a :class:`StopRequests`.
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


class StopRequests:
    """Requests to stop from another thread than that of the loop at work."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal may come while one is acted on
        self._listening: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []
        self._unheard = 0

    @contextlib.contextmanager
    def heard_by(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop`, on the loop that runs now, at every request while the block lasts, and for those that nobody
        has heard yet. The innermost of several is called."""
        mine = (asyncio.get_running_loop(), stop)
        with self._lock:
            self._listening.append(mine)
            unheard, self._unheard = self._unheard, 0
        for _ in range(unheard):
            stop()
        try:
            yield
        finally:
            with self._lock:
                self._listening.remove(mine)

    def ask(self) -> None:
        """Ask to stop."""
        with self._lock:
            listening = self._listening[-1:]
            self._unheard += not listening
        for loop, stop in listening:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(stop)


stop_requests: ContextVar[StopRequests | None] = ContextVar("stop_requests", default=None)
"""Where the work of this context hears requests to stop; ``None``: by the signal."""


FINISHES = "Finishing the calls in flight; Ctrl-C again stops at once."
"""What the first Ctrl-C says."""
_asked: list[list[int]] = []
"""How often each work at hand was asked to stop."""


def times_asked() -> int:
    """How often the work that goes on in this process was asked to stop: 0, 1 (what is in flight is finished), 2 or
    more (it stops at once)."""
    return max((count for (count,) in list(_asked)), default=0)


@contextlib.contextmanager
def interruptible(ends: list[BaseException], then: Callable[[], None] = lambda: None) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM lets what is in flight finish, and says so on stderr; the second stops at once. Both
    put an end into `ends`, and call `then`."""
    task = asyncio.current_task()
    cancelled = 0
    asked = [0]

    def stop() -> None:
        """Act on a Ctrl-C."""
        nonlocal cancelled
        asked[0] += 1
        if not any(isinstance(end, Interrupted) for end in ends):
            # Here, not where the run ends: who sees nothing happen presses again, and what is in flight is lost.
            print(FINISHES, file=sys.stderr, flush=True)  # noqa: T201
        elif task is not None:
            cancelled += 1
            task.cancel()
        ends.append(Interrupted("Interrupted. Finished work is saved; the same command resumes."))
        then()

    requests = stop_requests.get()
    _asked.append(asked)
    try:
        with requests.heard_by(stop) if requests is not None else _heard_as_signal(stop):
            yield
    finally:
        _asked[:] = [one for one in _asked if one is not asked]
        if task is not None:
            for _ in range(cancelled):  # who called this in a task of its own was not cancelled
                task.uncancel()


class _SignalStops:
    """What a Ctrl-C calls on one loop: several calls may be at work on it."""

    def __init__(self) -> None:
        self.stops: list[Callable[[], None]] = []
        self.before = signal.getsignal(signal.SIGINT)
        # SIGTERM only where nobody hears it: then it would end the process at once. The command line has it as Ctrl-C.
        self.numbers = [signal.SIGINT]
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self.numbers.append(signal.SIGTERM)

    def call_all(self) -> None:
        """Act on a Ctrl-C."""
        for stop in list(self.stops):
            stop()


_heard: WeakKeyDictionary[asyncio.AbstractEventLoop, _SignalStops] = WeakKeyDictionary()


@contextlib.contextmanager
def _heard_as_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Have Ctrl-C call `stop` while the block lasts, where this loop is on the main thread."""
    loop = asyncio.get_running_loop()
    heard = _heard.get(loop)
    if heard is None:
        heard = _heard[loop] = _SignalStops()
        for number in heard.numbers:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Windows; not the main thread
                loop.add_signal_handler(number, heard.call_all)
    heard.stops.append(stop)
    try:
        yield
    finally:
        heard.stops.remove(stop)
        if not heard.stops:
            del _heard[loop]
            for number in heard.numbers:
                with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                    # A notebook's kernel and asyncio.run have handlers of their own, which hold for the rest of the
                    # call.
                    removed = loop.remove_signal_handler(number)
                    if removed and number == signal.SIGINT and heard.before is not None:
                        signal.signal(number, heard.before)
