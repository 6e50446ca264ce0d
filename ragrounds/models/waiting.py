"""How a call waits before another try.

Whoever runs many attempts sets :data:`sleeping`, so that an attempt that waits for ``Retry-After`` gives its place to
another one; by default a wait is a wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

Sleep = Callable[[float], Awaitable[None]]


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


sleeping: ContextVar[Sleep] = ContextVar("sleeping", default=_sleep)
"""Seconds → a wait, in the attempt that is now running."""
