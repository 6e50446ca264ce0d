"""The wire: every HTTP call that leaves this process while a foreign system answers, whichever client makes it.

A context variable says which attempt a call belongs to; calls outside of any attempt, and those of our own transport,
go their way as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from .unpacking import too_large

PACKED = frozenset({"content-encoding", "transfer-encoding", "content-length", "set-cookie", "connection"})
"""Headers that are not true of an unpacked body any more, or that concern the connection."""


class WireRequest(NamedTuple):
    """A request as a client sends it."""

    method: str
    url: str
    headers: Mapping[str, str]
    """With names in lower case."""
    body: bytes


class WireResponse(NamedTuple):
    """An answer, whole and unpacked."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}
    """What else a client may want to read; names in lower case."""


class Unsent(BaseException):
    """A call that may not leave the process: a cap is reached, a replay does not hold it, the attempt has ended.

    It is no `Exception`, so that no client tries again and no system takes it for an answer.
    """


class NotThere(ConnectionError):
    """Nothing is sent there, and that is no matter: a client raises what it raises where a server is gone."""


class Grown:
    """Is told of the bytes of an answer that were read so far."""

    def __init__(self, longest: int, over: Callable[[], bool]) -> None:
        self.longest = longest
        """Bytes that are read at most."""
        self._over = over

    def __call__(self, size: int) -> None:
        """Look at the bytes that were read so far.

        Raises:
            BadReply: they are more than are read.
            Unsent: the attempt has ended.
        """
        if size > self.longest:
            raise too_large(self.longest, "unpacked")
        if self._over():
            raise Unsent("the attempt of this call has ended")


Send = Callable[[Grown], Awaitable[WireResponse]]
"""Sends a request, and reads its answer whole."""
BlockingSend = Callable[[Grown], WireResponse]


class Watcher(Protocol):
    """Whoever decides what becomes of the calls of one attempt."""

    @property
    def closed(self) -> bool:
        """Whether nothing may leave the process: this is a replay."""

    async def exchange(self, request: WireRequest, send: Send, *, waits: bool = True) -> WireResponse | None:
        """The answer to a call, recorded or sent; ``None``: it is none of ours, and is to go its way unread.

        `waits`: it may wait until other calls of the attempt have ended; who asks does not hold these up.
        """

    def exchange_blocking(self, request: WireRequest, send: BlockingSend) -> WireResponse | None:
        """The same for a client without async."""

    def unseen(self, what: str, *, counted: bool = False) -> None:
        """Something left the process by no client that is known; `counted`: it is a part of what was told already.

        Raises:
            Unsent: nothing may leave it.
        """

    def forked(self) -> None:
        """This is a copy in a forked child, which asks elsewhere: say nothing from now on, and wait for no lock."""


WATCHER: ContextVar[Watcher | None] = ContextVar("ragrounds_watcher", default=None)
"""Whose calls these are."""
PASSING: ContextVar[bool] = ContextVar("ragrounds_passing", default=False)
"""A call that was let through is on its way: what it opens is no news."""

OWN_TRAFFIC: ContextVar[bool] = ContextVar("ragrounds_own_traffic", default=False)
"""Whether a request of ours is on its way: it is journaled by whoever makes it, and is no call of a foreign system."""


class ToldCall:
    """A model call that a callback has told of. Its end may be told in another context than its begin was, as
    LangChain's of coroutines is: so a context holds the call, and the call knows whether it goes on."""

    def __init__(self, token: str) -> None:
        """Have it go on in this context; `token` names it, empty: it is none."""
        self.token = token
        MODEL_CALL.set(self)

    def end(self) -> None:
        """It goes on in no context any more."""
        self.token = ""


MODEL_CALL: ContextVar[ToldCall | None] = ContextVar("ragrounds_model_call", default=None)
"""The last model call that a callback has told of in this context."""


def model_call() -> str:
    """The token of the model call that is going on in this context; empty: none is."""
    last = MODEL_CALL.get()
    return last.token if last is not None else ""


class Gate:
    """What becomes of calls that belong to no attempt of this process."""

    closed = 0
    """How many systems are running that nothing may leave."""
    parent: Watcher | None = None
    """In a child of a process with a system: whom it asks."""


GATE = Gate()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def hearer() -> Watcher | None:
    """Who is told of what leaves by other ways in this context; ``None``: nobody, or it is our own or was let
    through."""
    return None if PASSING.get() or OWN_TRAFFIC.get() else WATCHER.get() or GATE.parent


def watcher() -> Watcher | None:
    """Who watches the calls of this context; ``None``: nobody, or they are our own or were let through.

    Raises:
        Unsent: the call belongs to no attempt, and this is a replay.
    """
    found = hearer()
    if found is None and GATE.closed and not PASSING.get() and not OWN_TRAFFIC.get():
        raise Unsent("a call that belongs to no attempt, in a replay: nothing was sent")
    return found


@contextmanager
def passing() -> Iterator[None]:
    """Let what follows in this context through."""
    before = PASSING.set(True)
    try:
        yield
    finally:
        PASSING.reset(before)


def bounded(parts: Iterable[bytes], grown: Grown) -> Iterator[bytes]:
    """The parts of an answer, each once `grown` was told of it."""
    size = 0
    for part in parts:
        size += len(part)
        grown(size)
        yield part


async def bounded_async(parts: AsyncIterable[bytes], grown: Grown) -> AsyncIterator[bytes]:
    """The same of parts that are waited for."""
    size = 0
    async for part in parts:
        size += len(part)
        grown(size)
        yield part


def answered(status: int, headers: Iterable[tuple[str, str]], body: bytes) -> WireResponse:
    """An answer that was read whole, without the headers that are not true of it any more."""
    named = {name.lower(): value for name, value in headers}
    kept = {name: value for name, value in named.items() if name not in PACKED}
    return WireResponse(status, kept.get("content-type", ""), body, kept)
