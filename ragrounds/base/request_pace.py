"""What everything that waits for a server shares: how a wait is spent, and how much of a limit this process has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

Sleep = Callable[[float], Awaitable[None]]


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


SLEEPING: ContextVar[Sleep] = ContextVar("sleeping", default=_sleep)
"""Waits some seconds, in the attempt that is running. Whoever runs many attempts sets it, so that one that waits for
``Retry-After`` makes room for another."""

_share = [1.0]


def share() -> float:
    """The share of every limit of requests in a time that this process may use, 0 to 1."""
    return _share[0]


def set_share(part: float) -> None:
    """Use this share of every such limit from now on, as several processes ask the same servers."""
    _share[0] = part
