"""The event loop that commands run on: uvloop where there is one, which takes a seventh less processor time a question
(``perf/engine.md``), else Python's own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """As :func:`asyncio.run`."""
    try:
        from uvloop import new_event_loop
    except ImportError:  # Windows, and other Pythons than CPython
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)
