"""Observation of every HTTP call that leaves this process while a foreign system answers, by any client.

A context variable identifies the attempt of a call. Calls outside of any attempt, and those of ragrounds' own
transport, are not affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Protocol, TypeVar

from .unpacking import too_large

T = TypeVar("T")

PACKED = frozenset({"content-encoding", "transfer-encoding", "content-length", "set-cookie", "connection"})
"""Headers that are wrong for an unpacked body, or that concern the connection."""


class WireRequest(NamedTuple):
    """A request as a client sends it."""

    method: str
    url: str
    headers: Mapping[str, str]
    """Headers with names in lower case."""
    body: bytes


class WireResponse(NamedTuple):
    """A complete, unpacked response."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}
    """Other headers that a client may read, with names in lower case."""


class Unsent(BaseException):
    """Signal that a call must not leave the process: a cap is reached, a replay lacks the call, or the attempt has
    ended.

    It is not an `Exception`, so that no client retries and no system treats it as an answer.
    """


class NotSent(ConnectionError):
    """A call that is harmless but not sent. The client raises the same error as for an unreachable server."""


class SizeCheck:
    """Checks the size of a response while it is read."""

    def __init__(self, longest: int, over: Callable[[], bool]) -> None:
        self.longest = longest
        """Maximum number of bytes that are read."""
        self._over = over

    def __call__(self, size: int) -> None:
        """Check the number of bytes read so far.

        Raises:
            BadReply: the response is too large.
            Unsent: the attempt has ended.
        """
        if size > self.longest:
            raise too_large(self.longest, "unpacked")
        if self._over():
            raise Unsent("the attempt of this call has ended")


Send = Callable[[SizeCheck], Awaitable[WireResponse]]
"""Function that sends a request, and reads the complete response."""
BlockingSend = Callable[[SizeCheck], WireResponse]


class Watcher(Protocol):
    """Decides how each call of one attempt is answered."""

    @property
    def closed(self) -> bool:
        """Return True if nothing may leave the process, because this is a replay."""

    async def exchange(self, request: WireRequest, send: Send, *, waits: bool = True) -> WireResponse | None:
        """Return the response to a call, recorded or sent. ``None`` if the call is not recorded and must be sent
        unchanged.

        If `waits`, the call may wait until other calls of the attempt have ended, because the caller does not block
        them.
        """

    def exchange_blocking(self, request: WireRequest, send: BlockingSend) -> WireResponse | None:
        """Do the same for a synchronous client."""

    def unseen(self, label: str, *, counted: bool = False) -> None:
        """Report traffic that left the process through no known client. `counted` if it is part of an earlier report.

        Raises:
            Unsent: nothing may leave the process.
        """

    def forked(self) -> None:
        """Stop reporting, and wait for no lock. This is a copy in a forked child, which asks its parent."""


WATCHER: ContextVar[Watcher | None] = ContextVar("ragrounds_watcher", default=None)
"""Watcher of the calls in this context."""
PASSING: ContextVar[bool] = ContextVar("ragrounds_passing", default=False)
"""True while a permitted call is sent. Its connections are not reported again."""

OWN_TRAFFIC: ContextVar[bool] = ContextVar("ragrounds_own_traffic", default=False)
"""True while a request of ragrounds is sent. It is journaled by its caller, and is not a call of a foreign system."""


class ReportedCall:
    """A model call that a callback has reported.

    Its end may be reported in another context than its begin, as LangChain does for coroutines. Therefore a context
    refers to the call, and the call records whether it is running.
    """

    def __init__(self, token: str) -> None:
        """Register the call as running in this context. `token` identifies it; an empty token means no call."""
        self.token = token
        MODEL_CALL.set(self)

    def end(self) -> None:
        """Mark the call as ended in all contexts."""
        self.token = ""


MODEL_CALL: ContextVar[ReportedCall | None] = ContextVar("ragrounds_model_call", default=None)
"""The last model call that a callback has reported in this context."""


def model_call() -> str:
    """Return the token of the running model call in this context, or an empty text."""
    last = MODEL_CALL.get()
    return last.token if last is not None else ""


class Gate:
    """Rules for calls that belong to no attempt of this process."""

    closed = 0
    """Number of running systems whose traffic is refused."""
    parent: Watcher | None = None
    """Watcher that asks the parent, in a child of a process with a system."""


GATE = Gate()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, or ``None``."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def traffic_watcher() -> Watcher | None:
    """Return the watcher that records traffic outside known clients in this context.

    ``None`` if nothing watches, or the traffic is ragrounds' own or permitted.
    """
    return None if PASSING.get() or OWN_TRAFFIC.get() else WATCHER.get() or GATE.parent


def watcher() -> Watcher | None:
    """Return the watcher of the calls in this context.

    ``None`` if nothing watches, or the calls are ragrounds' own or permitted.

    Raises:
        Unsent: the call belongs to no attempt, and this is a replay.
    """
    current = traffic_watcher()
    if current is None and GATE.closed and not PASSING.get() and not OWN_TRAFFIC.get():
        raise Unsent("a call that belongs to no attempt, in a replay: nothing was sent")
    return current


@contextmanager
def setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable for the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def passing() -> AbstractContextManager[None]:
    """Permit the calls of this context."""
    return setting(PASSING, True)


def bounded(parts: Iterable[bytes], grown: SizeCheck) -> Iterator[bytes]:
    """Yield the parts of a response, and check the size before each."""
    size = 0
    for part in parts:
        size += len(part)
        grown(size)
        yield part


async def bounded_async(parts: AsyncIterable[bytes], grown: SizeCheck) -> AsyncIterator[bytes]:
    """Do the same for asynchronous parts."""
    size = 0
    async for part in parts:
        size += len(part)
        grown(size)
        yield part


def answered(status: int, headers: Iterable[tuple[str, str]], body: bytes) -> WireResponse:
    """Return a complete response, without the headers that are wrong for an unpacked body."""
    lower_case = {name.lower(): value for name, value in headers}
    remaining = {name: value for name, value in lower_case.items() if name not in PACKED}
    return WireResponse(status, remaining.get("content-type", ""), body, remaining)
