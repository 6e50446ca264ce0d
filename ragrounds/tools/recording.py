"""Tool calls through the journal, so that a run with web searches can be replayed with the network off."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from ragrounds.contracts import Entry, Journal

T = TypeVar("T", bound=msgspec.Struct)


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool was asked, as the journal keeps it."""

    tool: str
    query: str
    """The query, the address, or the arguments as JSON."""
    k: int = 0


async def recorded(
    journal: Journal | None, actor: str, request: ToolRequest, make: Callable[[], Awaitable[T]], kind: type[T]
) -> T:
    """The recorded response of a tool, or the response of `make`, recorded before it is given.

    Args:
        journal: Where calls are recorded; ``None``: nowhere, every call is made.
        actor: Canonical text of what answers: a provider, a searcher with its corpus, the fetcher with its limits.
        request: What is asked. With `actor`, all that the response depends on.
        make: Makes the call.
        kind: What the response is.

    Raises:
        ragrounds.errors.StopRun: the journal only replays and does not hold the call; the message has the query.
    """
    if journal is None:
        return await make()
    digest = hashlib.blake2b(msgspec.msgpack.encode(["tool", actor, request]), digest_size=20).hexdigest()
    entry = Entry(key=digest, kind="tool", actor=actor, request=request)
    response, _ = await journal.once(entry, make, kind)
    return response
