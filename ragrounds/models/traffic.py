"""Limits of a server's concurrent calls and of its calls per minute.

The number in flight adapts as TCP's window does (Jacobson 1988, "Congestion avoidance and control"): it starts small
and grows by one with every answer (slow start) until the server first answers 429, which reduces it by a fifth; from
then on it grows by one per round. Only answers to calls that left after the last reduction count, so that a burst of
429s to one window reduces it once. A 5xx, a cut connection or a time-out is unrelated to the rate and changes nothing.

Limits per minute are the user's (``rpm`` and ``tpm`` of a model), enforced by a leaky bucket (aiolimiter).
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
    """First-come, first-served semaphore whose size may change at any time; acquired places are kept."""

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """Number of waiters for a place."""
        return sum(not waiter.done() for waiter in self._waiting)

    async def acquire(self) -> None:
        """Wait for a place and take it; first come, first served."""
        if self.taken < self.count and not self._waiting:
            self.taken += 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
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
            waiter = self._waiting.popleft()
            if not waiter.done():
                self.taken += 1
                waiter.set_result(None)


START = 32
"""Calls in flight before the first answer."""
CUT = 0.8
_BURST = 5.0
"""Seconds of a minute's limit that may be used at once."""


class ServerTraffic(Struct, frozen=True):
    """Current calls to one server, in figures."""

    base_url: str
    flying: int
    allowed: int
    """Calls that may be in flight at once, as adapted so far."""
    waiting: int
    limited: int
    """Number of 429s so far."""

    def __add__(self, other: ServerTraffic) -> ServerTraffic:
        return ServerTraffic(
            self.base_url,
            self.flying + other.flying,
            self.allowed + other.allowed,
            self.waiting + other.waiting,
            self.limited + other.limited,
        )


class Rates(Struct, frozen=True):
    """Limits per minute that the user set for one server. ``None``: no limit."""

    requests: float | None = None
    """Requests per minute."""
    tokens: float | None = None
    """Tokens per minute (prompt plus maximum answer)."""

    def __post_init__(self) -> None:
        for name, limit in (("rpm", self.requests), ("tpm", self.tokens)):
            if limit is not None and limit <= 0:
                raise UserError(f"{name}={limit:g}: expected more than 0 a minute. Leave it out for no limit.")


class Traffic:
    """Calls to one server from all models of this process."""

    def __init__(self, base_url: str) -> None:
        self._server = base_url
        self._allowed = float(START)
        self._starting = True
        self._semaphore = ResizableSemaphore(START)
        self._limited = 0
        self._left = itertools.count(1)
        self._cut_at = 0
        self._buckets: dict[tuple[str, float], aiolimiter.AsyncLimiter] = {}

    @contextlib.asynccontextmanager
    async def call(self, rates: Rates = Rates(), tokens: int = 0) -> AsyncIterator[None]:  # noqa: B008 - frozen
        """Hold a place for one try of a call with `tokens` tokens, from its start to its answer.

        A 429 is raised through this context manager, which then reduces the limit.
        """
        await self._wait_for_rate(rates, tokens)
        await self._semaphore.acquire()
        number = next(self._left)
        try:
            yield
        except Transient as fault:
            if fault.status == 429:
                self._cut(number)
            raise
        else:
            # A window that is not filled does not show what the server can handle.
            if number >= self._cut_at and self._semaphore.taken >= self._semaphore.count:
                self._allowed += 1 if self._starting else 1 / self._allowed
                self._semaphore.resize(int(self._allowed))
        finally:
            self._semaphore.release()

    @property
    def flow(self) -> ServerTraffic:
        """Current traffic, in figures."""
        slots = self._semaphore
        return ServerTraffic(self._server, slots.taken, slots.count, slots.waiting, self._limited)

    def _cut(self, number: int) -> None:
        self._limited += 1
        self._starting = False
        if number < self._cut_at:
            return
        # An allowance that was never used is no measure: the reduction is from the calls really in flight.
        self._allowed = max(1.0, min(self._allowed, self._semaphore.taken) * CUT)
        self._semaphore.resize(int(self._allowed))
        self._cut_at = next(self._left)

    async def _wait_for_rate(self, rates: Rates, tokens: int) -> None:
        for kind, limit, amount in (("requests", rates.requests, 1), ("tokens", rates.tokens, tokens)):
            if limit is not None:
                key = kind, limit * share()
                if key not in self._buckets:
                    import aiolimiter

                    seconds = max(_BURST, 60.0 / key[1])  # one call must fit, however low the rate
                    self._buckets[key] = aiolimiter.AsyncLimiter(key[1] * seconds / 60.0, seconds)
                bucket = self._buckets[key]
                # A call larger than the bucket takes all of it.
                await bucket.acquire(min(amount, bucket.max_rate))


_traffic: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Traffic]] = WeakKeyDictionary()
_reported: dict[str, tuple[ServerTraffic, ...]] = {}


def traffic_of(base_url: str) -> Traffic:
    """Return the traffic to a server: one object for all models that use it in the running event loop."""
    by_server = _traffic.setdefault(asyncio.get_running_loop(), {})
    if base_url not in by_server:
        by_server[base_url] = Traffic(base_url)
    return by_server[base_url]


def forget_idle() -> None:
    """Forget the idle servers of the running event loop.

    The next run on the same loop, in a notebook, is not shown with them, and learns their limits again.
    """
    by_server = _traffic.get(asyncio.get_running_loop(), {})
    for server in [server for server, traffic in by_server.items() if not traffic.flow.flying]:
        del by_server[server]


def flows() -> list[ServerTraffic]:
    """Return the traffic of every server that this process or its workers have called: one record per server."""
    together: dict[str, ServerTraffic] = {}
    # A closed loop calls no server any more, whenever it is collected.
    own_flows = [
        traffic.flow
        for loop, by_server in list(_traffic.items())
        if not loop.is_closed()
        for traffic in list(by_server.values())
    ]
    for flow in [*own_flows, *itertools.chain.from_iterable(list(_reported.values()))]:
        before = together.get(flow.base_url)
        together[flow.base_url] = flow if before is None else before + flow
    return list(together.values())


def report_flows(process: str, flows: tuple[ServerTraffic, ...]) -> None:
    """Record the traffic of a worker process; empty when it has ended."""
    _reported[process] = flows
