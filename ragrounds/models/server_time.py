"""Time of a user's server, shared among its calls, so that GPU hours can be charged to calls.

The server works while at least one call is in flight. While n are, each bears one n-th of the time, so a call is
charged with the integral of 1/n(t) over its duration and all charges add up to the server's time exactly, whatever
overlaps. One running sum is enough: V(t), the integral of 1/n from the beginning; a call's charge is V at its end minus
V at its beginning.

Calls are counted in one process. Each of several workers charges its share of what it counts, so that together they do
not charge a server's hour more than once.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator

from ragrounds.base.request_pace import share


class ServerTime:
    """Seconds that a call is charged with, summed over all its tries, once it has ended."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


class ServerClock:
    """Clock of one server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._total = self._last = 0.0
        self._in_flight = 0

    @contextlib.contextmanager
    def call(self, charge: ServerTime) -> Iterator[None]:
        """Count a call as in flight while the block lasts; its seconds are added to `charge` at the end."""
        start = self._change(+1)
        try:
            yield
        finally:
            charge.seconds += (self._change(-1) - start) * share()

    def _change(self, change: int) -> float:
        with self._lock:
            now = self._clock()
            if self._in_flight:
                self._total += (now - self._last) / self._in_flight
            self._last = now
            self._in_flight += change
            return self._total


@functools.lru_cache(maxsize=64)
def clock_of(url: str) -> ServerClock:
    """Return the clock of the server at this address, shared by all models that use it."""
    return ServerClock()
