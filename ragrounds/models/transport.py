"""Connections to servers that speak OpenAI's protocol, and the choice among several servers of one model.

A request is one POST, JSON out and bytes back, over one shared aiohttp session (:mod:`ragrounds.base.http`). It is not
openai's own client, which took a third of a replayed question's processor time: per 1,000 calls of 24 kB it needs 1.1 s
over its aiohttp transport, aiohttp alone 0.2 s (``perf/engine.md``).

Each call goes to the server that had most of the beginning of its prompt before, for it may have kept what it computed
for that (a prefix cache), as long as it has not many more calls in flight than the others; among equals to the one with
the fewest. A server whose connection failed is asked for nothing for some seconds, as long as there is another.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import aiohttp
import msgspec

from ragrounds.base.errors import StopRun
from ragrounds.base.http import REPLY, BadReply, HttpAnswer, HttpClient, ReplyLimits, Sink, root_cause
from ragrounds.base.redaction import Redactor
from ragrounds.models.faults import CallFailed, Transient
from ragrounds.models.server_time import ServerClock, ServerTime


class Unreachable(StopRun):
    """Nothing has ever answered at an address."""


class Transport:
    """Requests to one server. `place` is its base address, `timeout` the seconds that a whole answer may take.
    `headers` stand in for the one that holds `key`; `setting` is what the user gave the address by, for errors."""

    def __init__(
        self,
        place: str,
        key: str,
        timeout: float,
        *,
        headers: Mapping[str, str] | None = None,
        setting: str = "--base-url",
    ) -> None:
        self.place = place.rstrip("/")
        own = {"Authorization": f"Bearer {key}"} if headers is None else headers
        self.redact = Redactor(key, *own.values(), *(value.rpartition(" ")[2] for value in own.values()))
        """Takes this server's key, and others, out of what it says."""
        self._timeout = timeout
        self._setting = setting
        self._client = HttpClient(place, {**own, "Content-Type": "application/json"}, timeout, self.redact)
        self._answered = False

    async def post(
        self, path: str, body: Mapping[str, object], stream: Sink | None = None, limits: ReplyLimits = REPLY
    ) -> HttpAnswer:
        """Send `body` as JSON and read the whole answer, whatever its status; events of a stream go to `stream`.

        Raises:
            Transient: no complete answer in time, or the connection was cut.
            CallFailed: the answer is too large.
            Unreachable: nothing has ever answered at this address.
            StopRun: the server redirects.
        """
        return await self._send("POST", path, msgspec.json.encode(body), stream, limits)

    async def get(self, path: str) -> HttpAnswer:
        """Read what stands at a path of the server, as :meth:`post` does."""
        return await self._send("GET", path, None, None)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _send(
        self, method: str, path: str, body: bytes | None, stream: Sink | None, limits: ReplyLimits = REPLY
    ) -> HttpAnswer:
        try:
            answer = await self._client.send(method, path, body, limits=limits, sink=stream)
        except TimeoutError as error:
            raise Transient("timeout", f"no complete answer within {self._timeout:g} s") from error
        except BadReply as error:
            if error.kind == "too_large":  # it would be again
                raise CallFailed(error.kind, error.message) from error
            raise Transient(error.kind, error.message) from error
        except aiohttp.InvalidURL as error:
            raise StopRun(f"{self.place!r} is not a server's address. Is {self._setting} right?") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error
        self._answered = True
        return answer

    def _unreachable(self, error: Exception) -> Exception:
        said = self.redact(root_cause(error))[:300]
        if isinstance(error, aiohttp.ClientConnectorError | ConnectionRefusedError):
            message = f"cannot connect to {self.place}"
            if not self._answered:
                # Nothing has ever answered here: more likely a wrong address than a passing fault.
                return Unreachable(f"{message}: {said}. Is the server running, and is {self._setting} right?")
            return Transient("unreachable", message)
        return Transient("connection", f"the connection was cut: {said}")


PAUSE = 10.0
"""Seconds that a server is left out after its connection failed."""


_PIECE, _PIECES, _REMEMBERED, _UNEVEN = 512, 64, 100_000, 1.25
"""Characters by which beginnings grow, how many are compared of a prompt and remembered of a server, and how many times
the mean number of calls in flight a server may have for their sake."""


class BalancedServer:
    """One of the servers of a model, with its calls in flight."""

    def __init__(self, transport: Transport, clock: ServerClock | None = None) -> None:
        self.transport = transport
        self.in_flight = 0
        self.picked = 0
        """The number of the call that came here last."""
        self.back = 0.0
        """When it may be tried again, while it is left out."""
        self.had: set[int] = set()
        """The beginnings of prompts that it was sent."""
        self._clock = clock

    @property
    def place(self) -> str:
        """Its address."""
        return self.transport.place

    def metered(self, charge: ServerTime) -> contextlib.AbstractContextManager[None]:
        """Measure a request: the server's time that it takes is added to `charge`."""
        return self._clock.call(charge) if self._clock else contextlib.nullcontext()


class ServerPool:
    """The servers of one model, among which calls are balanced."""

    def __init__(self, servers: Sequence[BalancedServer], clock: Callable[[], float] = time.monotonic) -> None:
        self._all = tuple(servers)
        self._clock = clock
        self._calls = 0
        self._answered = False

    @property
    def in_flight(self) -> int:
        """Calls in flight."""
        return sum(server.in_flight for server in self._all)

    @contextlib.contextmanager
    def server_for(self, prompt: str = "") -> Iterator[BalancedServer]:
        """The server for one try of a call, which counts as in flight there while the block lasts.

        Raises:
            Transient: its connection failed; the next try finds another server.
            StopRun: no server has ever been reached.
        """
        server, begins = self._all[0], set[int]()
        if len(self._all) > 1:
            now, begins = self._clock(), _beginnings(prompt)
            most = _UNEVEN * self.in_flight / len(self._all) + 1
            had = {one: len(begins & one.had) if one.in_flight < most else 0 for one in self._all}
            server = min(self._all, key=lambda one: (one.back > now, -had[one], one.in_flight, one.picked))
            if len(server.had) > _REMEMBERED:
                server.had.clear()
            server.had |= begins
        self._calls += 1
        server.picked = self._calls
        server.in_flight += 1
        try:
            yield server
            self._answered = True
        except Unreachable as error:
            server.back = self._clock() + PAUSE
            if self._answered or any(not other.back for other in self._all):
                raise Transient("unreachable", f"cannot connect to {server.place}") from error
            raise
        except Transient as fault:
            if fault.kind in ("connection", "unreachable"):
                server.back = self._clock() + PAUSE
            self._answered = self._answered or fault.status is not None
            server.had -= begins  # the next try may go elsewhere
            raise
        finally:
            server.in_flight -= 1

    async def close(self) -> None:
        """Close the connections."""
        for server in self._all:
            await server.transport.close()


def _beginnings(prompt: str) -> set[int]:
    """The beginnings of a prompt, as hashes."""
    ends = range(_PIECE, min(len(prompt), _PIECE * _PIECES) + 1, _PIECE)
    return set(itertools.accumulate((hash(prompt[end - _PIECE : end]) for end in ends), lambda *both: hash(both)))
