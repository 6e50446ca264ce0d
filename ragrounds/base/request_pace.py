"""Settings shared by all code that waits for servers: how to wait, and this process's share of request limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

Sleep = Callable[[float], Awaitable[None]]


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


SLEEPING: ContextVar[Sleep] = ContextVar("sleeping", default=_sleep)
"""Function that waits some seconds in the current attempt.

A scheduler of many attempts sets it, so that an attempt that waits for ``Retry-After`` makes room for another.
"""

_share = [1.0]


def share() -> float:
    """Return the share of all request-rate limits that this process may use, 0 to 1."""
    return _share[0]


def set_share(part: float) -> None:
    """Set the share of all request-rate limits, because several processes call the same servers."""
    _share[0] = part
