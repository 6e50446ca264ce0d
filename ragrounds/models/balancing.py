"""Several servers of one model: each call goes to the one with the fewest calls in flight.

A server whose connections fail is left out, for a second at first and for twice as long after each further failure.
Then one call goes there to see; when that is answered, the server takes its share again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from ragrounds.models.faults import Transient
from ragrounds.models.metering import BusyCharge, BusyMeter
from ragrounds.models.transport import Transport, Unreachable

FIRST, LONGEST = 1.0, 60.0
"""Seconds that a server is left out after its first failure, and at most."""


class BalancedServer:
    """One server as calls see it."""

    def __init__(self, transport: Transport, meter: BusyMeter | None = None) -> None:
        self.transport = transport
        self.flying = 0
        self.picked = 0
        """The number of the call that came here last."""
        self.failures = 0
        """Failed connections in a row."""
        self.back = 0.0
        """When it may be tried again, while it is left out."""
        self._meter = meter

    @property
    def place(self) -> str:
        """Its address."""
        return self.transport.place

    @contextlib.contextmanager
    def metered(self, charge: BusyCharge) -> Iterator[None]:
        """While a request is with the server: its busy time is added to `charge`."""
        with self._meter.call(charge) if self._meter else contextlib.nullcontext():
            yield


class ServerPool:
    """The servers of one model."""

    def __init__(self, servers: Sequence[BalancedServer], clock: Callable[[], float] = time.monotonic) -> None:
        self._all = tuple(servers)
        self._clock = clock
        self._calls = 0
        self._answered = False

    @contextlib.contextmanager
    def least_busy(self) -> Iterator[BalancedServer]:
        """The server for one try of a call, for as long as it takes.

        Raises:
            Transient: its connection failed; the next try finds another server.
            StopRun: no server has ever been reached.
        """
        server = self._pick()
        self._calls += 1
        server.picked = self._calls
        server.flying += 1
        try:
            yield server
        except Unreachable as error:
            self._leave_out(server)
            if self._answered or any(not other.failures for other in self._all):
                raise Transient("connection", f"cannot connect to {server.place}") from error
            raise
        except Transient as fault:
            if fault.kind == "connection":
                self._leave_out(server)
            elif fault.status is not None:
                self._let_in(server)
            raise
        else:
            self._let_in(server)
        finally:
            server.flying -= 1

    def _pick(self) -> BalancedServer:
        if len(self._all) == 1:
            return self._all[0]
        now = self._clock()
        # After a failure one call goes there to see, and no second before it is answered.
        there = [one for one in self._all if not one.failures or (one.back <= now and not one.flying)]
        if not there:
            return min(self._all, key=lambda one: one.back)
        return min(there, key=lambda one: (one.flying, one.picked))

    def _leave_out(self, server: BalancedServer) -> None:
        now = self._clock()
        if server.back <= now:  # else one of many that were in flight when it failed
            server.back = now + min(LONGEST, FIRST * 2 ** min(server.failures, 10))
            server.failures += 1

    def _let_in(self, server: BalancedServer) -> None:
        server.failures = 0
        self._answered = True

    async def close(self) -> None:
        """Close the connections."""
        for server in self._all:
            await server.transport.close()
