"""Connections to servers with OpenAI's protocol, and the choice among several servers of one model.

A request is one POST, JSON out and bytes back, over one shared aiohttp session (:mod:`ragrounds.base.http`). OpenAI's
client is not used: it took a third of a replayed question's processor time. Per 1,000 calls of 24 kB it needs 1.1 s
over its aiohttp transport, aiohttp alone 0.2 s (``perf/engine.md``).

Each call goes to the server that received most of the beginning of its prompt before, since that may be in its prefix
cache, unless it has many more calls in flight than the others; among equals to the one with the fewest. A server whose
connection failed gets no calls for some seconds if there are others.
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
from ragrounds.models.faults import CallFailed, Transient
from ragrounds.models.server_time import ServerClock, ServerTime
from ragrounds.recorder.redaction import Redactor


class Unreachable(StopRun):
    """Error for an address at which nothing has ever answered."""


class Transport:
    """Requests to one server.

    `base_url` is its base address, `timeout` the seconds that a whole answer may take. `headers` replace the one that
    contains `key`; `setting` is the option with which the user gave the address, for errors.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        timeout: float,
        *,
        headers: Mapping[str, str] | None = None,
        setting: str = "--base-url",
    ) -> None:
        self.base_url = base_url.rstrip("/")
        auth_headers = {"Authorization": f"Bearer {key}"} if headers is None else headers
        self.redact = Redactor(
            key, *auth_headers.values(), *(value.rpartition(" ")[2] for value in auth_headers.values())
        )
        """Redacts this server's key, and others, in its answers."""
        self._timeout = timeout
        self._setting = setting
        self._client = HttpClient(base_url, {**auth_headers, "Content-Type": "application/json"}, timeout, self.redact)
        self._answered = False

    async def post(
        self, path: str, body: Mapping[str, object], stream: Sink | None = None, limits: ReplyLimits = REPLY
    ) -> HttpAnswer:
        """Send `body` as JSON and read the whole answer, whatever its status; events of a stream go to `stream`.

        Raises:
            Transient: no complete answer in time, or the connection was cut.
            CallFailed: the answer is too large.
            Unreachable: nothing has ever answered at this address.
            StopRun: the server redirects, or a proxy requires a login.
        """
        return await self._send("POST", path, msgspec.json.encode(body), stream, limits)

    async def get(self, path: str) -> HttpAnswer:
        """Read the answer at a path of the server, as :meth:`post` does."""
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
            raise Transient("timeout", f"no complete answer within {self._timeout:g} s{self._client.via}") from error
        except BadReply as error:
            if error.kind == "too_large":  # another try would give the same
                raise CallFailed(error.kind, error.message) from error
            raise Transient(error.kind, error.message) from error
        except aiohttp.InvalidURL as error:
            raise StopRun(f"{self.base_url!r} is not a server's address. Is {self._setting} right?") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error
        if answer.status == 407:
            raise StopRun(f"{self.base_url} is not reached{self._client.via}, which requires a login (407).")
        self._answered = True
        return answer

    def _unreachable(self, error: Exception) -> Exception:
        cause = self.redact(root_cause(error))[:300]
        if isinstance(error, aiohttp.ClientConnectorError | ConnectionRefusedError):
            message = f"cannot connect to {self.base_url}{self._client.via}"
            if not self._answered:
                # Nothing has ever answered here: a wrong address is more likely than a passing fault.
                return Unreachable(f"{message}: {cause}. Is the server running, and is {self._setting} right?")
            return Transient("unreachable", message)
        return Transient("connection", f"the connection{self._client.via} was cut: {cause}")


PAUSE = 10.0
"""Seconds for which a server gets no calls after its connection failed."""


_PIECE, _PIECES, _REMEMBERED, _UNEVEN = 512, 64, 100_000, 1.25
"""Characters per step of a beginning; steps compared per prompt; beginnings remembered per server; factor on the mean
number of calls in flight up to which a server is preferred for its cache."""


class BalancedServer:
    """Server of a model, with its calls in flight."""

    def __init__(self, transport: Transport, clock: ServerClock | None = None) -> None:
        self.transport = transport
        self.in_flight = 0
        self.picked = 0
        """Number of the last call that was sent here."""
        self.back = 0.0
        """Time at which it may be tried again after a failure."""
        self.had: set[int] = set()
        """Hashes of the beginnings of prompts that it received."""
        self._clock = clock

    @property
    def base_url(self) -> str:
        """Base address of the server."""
        return self.transport.base_url

    def metered(self, charge: ServerTime) -> contextlib.AbstractContextManager[None]:
        """Measure a request: the server's time that it takes is added to `charge`."""
        return self._clock.call(charge) if self._clock else contextlib.nullcontext()


class ServerPool:
    """Servers of one model, among which calls are balanced."""

    def __init__(self, servers: Sequence[BalancedServer], clock: Callable[[], float] = time.monotonic) -> None:
        self._all = tuple(servers)
        self._clock = clock
        self._calls = 0
        self._answered = False

    @property
    def in_flight(self) -> int:
        """Number of calls in flight."""
        return sum(server.in_flight for server in self._all)

    @contextlib.contextmanager
    def server_for(self, prompt: str = "") -> Iterator[BalancedServer]:
        """Choose the server for one try of a call, which counts as in flight there while the block lasts.

        Raises:
            Transient: its connection failed; the next try uses another server.
            StopRun: no server has ever been reached.
        """
        server, begins = self._all[0], set[int]()
        if len(self._all) > 1:
            now, begins = self._clock(), _beginnings(prompt)
            max_in_flight = _UNEVEN * self.in_flight / len(self._all) + 1
            had = {
                candidate: len(begins & candidate.had) if candidate.in_flight < max_in_flight else 0
                for candidate in self._all
            }
            server = min(
                self._all,
                key=lambda candidate: (candidate.back > now, -had[candidate], candidate.in_flight, candidate.picked),
            )
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
                raise Transient("unreachable", f"cannot connect to {server.base_url}") from error
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
    """Return the beginnings of a prompt, as hashes."""
    ends = range(_PIECE, min(len(prompt), _PIECE * _PIECES) + 1, _PIECE)
    return set(itertools.accumulate((hash(prompt[end - _PIECE : end]) for end in ends), lambda *both: hash(both)))
