"""How many calls one server gets at once, and how many a minute.

The number in flight adapts as TCP's window does (Jacobson 1988, "Congestion avoidance and control"): it starts small
and grows by one with every answer (slow start) until the server first says 429, which takes a fifth of it; from then on
it grows by one a round. Only answers to calls that left after the last cut count, so that a burst of 429s to one window
cuts it once. A 5xx, a cut connection or a time-out says nothing of the rate and changes nothing.

Limits a minute are the user's (``rpm`` and ``tpm`` of a model), kept by a leaky bucket (aiolimiter).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.request_pace import set_share as set_share
from ragrounds.base.request_pace import share as share
from ragrounds.models.faults import Transient

if TYPE_CHECKING:
    import aiolimiter


class ResizableSemaphore:
    """A semaphore, first come first served, whose size may change at any time; who holds a place keeps it."""

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def wanted(self) -> int:
        """How many are waiting for a place."""
        return sum(not place.done() for place in self._waiting)

    async def acquire(self) -> None:
        """Wait for a place and take it; first come, first served."""
        if self.taken < self.count and not self._waiting:
            self.taken += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Give a place back."""
        self.taken -= 1
        self._hand_out()

    def resize(self, count: int) -> None:
        """Change the number of places."""
        self.count = max(1, count)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self.taken < self.count:
            place = self._waiting.popleft()
            if not place.done():
                self.taken += 1
                place.set_result(None)


START = 32
"""Calls in flight before the first answer."""
CUT = 0.8
_BURST = 5.0
"""Seconds of a minute's limit that may go out at once."""


class ServerTraffic(Struct, frozen=True):
    """The calls to one server now, in figures."""

    place: str
    flying: int
    allowed: int
    """In flight at once, at most, as adapted so far."""
    waiting: int
    limited: int
    """429s so far."""

    def __add__(self, other: ServerTraffic) -> ServerTraffic:
        return ServerTraffic(
            self.place,
            self.flying + other.flying,
            self.allowed + other.allowed,
            self.waiting + other.waiting,
            self.limited + other.limited,
        )


class Rates(Struct, frozen=True):
    """The user's limits at one server. ``None``: none."""

    requests: float | None = None
    """A minute."""
    tokens: float | None = None
    """A minute, in and out: what a call's prompt has, and the longest answer it may get."""

    def __post_init__(self) -> None:
        for name, limit in (("rpm", self.requests), ("tpm", self.tokens)):
            if limit is not None and limit <= 0:
                raise UserError(f"{name}={limit:g}: expected more than 0 a minute. Leave it out for no limit.")


class Traffic:
    """Calls to one server, from all models of this process that are asked there."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._allowed = float(START)
        self._starting = True
        self._places = ResizableSemaphore(START)
        self._limited = 0
        self._left = itertools.count(1)
        self._cut_at = 0
        self._buckets: dict[tuple[str, float], aiolimiter.AsyncLimiter] = {}

    @contextlib.asynccontextmanager
    async def call(self, rates: Rates = Rates(), tokens: int = 0) -> AsyncIterator[None]:  # noqa: B008 - frozen
        """One try of a call of so many tokens, from when it may leave until it is answered. A 429 is raised through
        here."""
        await self._paced(rates, tokens)
        await self._places.acquire()
        number = next(self._left)
        try:
            yield
        except Transient as fault:
            if fault.status == 429:
                self._cut(number)
            raise
        else:
            self._grow(number)
        finally:
            self._places.release()

    @property
    def flow(self) -> ServerTraffic:
        """The traffic now, in figures."""
        places = self._places
        return ServerTraffic(self._place, places.taken, places.count, places.wanted, self._limited)

    def _grow(self, number: int) -> None:
        # A window that is not filled says nothing of what the server could bear.
        if number < self._cut_at or self._places.taken < self._places.count:
            return
        self._allowed += 1 if self._starting else 1 / self._allowed
        self._places.resize(int(self._allowed))

    def _cut(self, number: int) -> None:
        self._limited += 1
        self._starting = False
        if number < self._cut_at:
            return
        # What was allowed and never used is no measure: the cut is from what was really in flight.
        self._allowed = max(1.0, min(self._allowed, self._places.taken) * CUT)
        self._places.resize(int(self._allowed))
        self._cut_at = next(self._left)

    async def _paced(self, rates: Rates, tokens: int) -> None:
        for what, limit, amount in (("requests", rates.requests, 1), ("tokens", rates.tokens, tokens)):
            if limit is not None:
                bucket = self._bucket(what, limit * share())
                # A call larger than the bucket takes all of it.
                await bucket.acquire(min(amount, bucket.max_rate))

    def _bucket(self, what: str, a_minute: float) -> aiolimiter.AsyncLimiter:
        if (what, a_minute) not in self._buckets:
            import aiolimiter

            seconds = max(_BURST, 60.0 / a_minute)  # one call must fit, however low the rate
            self._buckets[what, a_minute] = aiolimiter.AsyncLimiter(a_minute * seconds / 60.0, seconds)
        return self._buckets[what, a_minute]


_traffic: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Traffic]] = WeakKeyDictionary()
_reported: dict[str, tuple[ServerTraffic, ...]] = {}


def traffic_of(place: str) -> Traffic:
    """The traffic to a server: one for all models that are asked there by the running event loop."""
    here = _traffic.setdefault(asyncio.get_running_loop(), {})
    if place not in here:
        here[place] = Traffic(place)
    return here[place]


def forget_idle() -> None:
    """Forget the servers that the running event loop has asked and asks nothing now: what comes next on the same loop,
    another run in a notebook, is not shown with them, and learns anew what they bear."""
    here = _traffic.get(asyncio.get_running_loop(), {})
    for place in [place for place, traffic in here.items() if not traffic.flow.flying]:
        del here[place]


def flows() -> list[ServerTraffic]:
    """The traffic of every server that this process, or one that works for it, has asked: one record a server."""
    together: dict[str, ServerTraffic] = {}
    # A loop that is closed asks nobody any more, whenever it is collected.
    here = [
        traffic.flow
        for loop, asked in list(_traffic.items())
        if not loop.is_closed()
        for traffic in list(asked.values())
    ]
    for flow in [*here, *itertools.chain.from_iterable(list(_reported.values()))]:
        before = together.get(flow.place)
        together[flow.place] = flow if before is None else before + flow
    return list(together.values())


def report_flows(process: str, flows: tuple[ServerTraffic, ...]) -> None:
    """Record the traffic of another process that works for this one; empty when it has ended."""
    _reported[process] = flows
