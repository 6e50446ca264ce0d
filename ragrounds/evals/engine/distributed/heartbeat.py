"""Heartbeats: whether a worker that has not ended still works.

The leader asks each worker every few seconds. A thread of the worker answers, not its event loop: a graph that computes
for long holds the loop up, and must not be taken for a process that is stopped, frozen or cut off. So an answer proves
that the process runs; it says beside that for how long the loop has heard nothing, which is told to the user and
ends nothing. Code that holds Python's interpreter lock lets no thread answer, nor does a machine with too much to do:
such a process is known by what the system says of its threads, and is waited for. What neither answers nor computes is
ended.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import msgspec

from ragrounds.evals.engine.distributed.protocol import WorkerLink
from ragrounds.processes import Activity

WORKER_TIMEOUT = 20.0
"""Seconds without an answer after which a worker is ended, where the settings do not say."""
_BEATS = 10
"""Questions to a worker in that time."""
_COMPUTES = 0.05
"""Of a processor: what uses more computes."""
_LONG = 60.0
"""Seconds after which it is said that a worker computes and hears nothing."""
PING = b"ping"
"""The leader's question; the frame of no other message begins so."""
_PONG = b"pong"


def pong(busy: float) -> bytes:
    """The frame of a worker's answer: its event loop has heard nothing for so many seconds."""
    return _PONG + msgspec.msgpack.encode(busy)


def read_pong(frame: bytes) -> float | None:
    """The seconds of an answer; ``None``: the frame is another message."""
    return msgspec.msgpack.decode(frame[len(_PONG) :], type=float) if frame.startswith(_PONG) else None


class Pulse:
    """Tells, from any thread, for how long an event loop has heard nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._since: float | None = None

    def busy(self) -> float:
        """Seconds since the loop was asked and has not heard it; 0 where it had heard the last one."""
        with self._lock:
            if self._since is not None:
                return time.monotonic() - self._since
            self._since = time.monotonic()
        try:
            self._loop.call_soon_threadsafe(self._heard)
        except RuntimeError:  # the loop has ended
            self._heard()
        return 0.0

    def _heard(self) -> None:
        with self._lock:
            self._since = None


def _works(before: Activity | None, now: Activity | None, seconds: float) -> bool:
    """Whether a process that does not answer works: it has a thread that runs, as one has that waits for a processor on
    a machine with too much to do, or has used one in these seconds."""
    if before is None or now is None or now.stopped:
        return False
    return now.running or now.seconds - before.seconds >= _COMPUTES * seconds


async def until_hung(link: WorkerLink, limit: float, say: Callable[[str], None]) -> str:
    """Ask a worker again and again whether it works, and return when it does not: how it stands, in words.

    Args:
        link: the link to it.
        limit: seconds without an answer after which it does not.
        say: called with a line, once, where it computes for long and hears nothing meanwhile.
    """
    told = False

    def tell(seconds: float) -> None:
        """Say that it computes."""
        nonlocal told
        if not told and seconds >= _LONG:
            told = True
            say(
                f"{link.name}{link.place} has computed for {seconds:.0f} s without a pause; the other attempts that it "
                "has begun wait for that."
            )

    while True:
        await asyncio.sleep(limit / _BEATS)
        beat = asyncio.ensure_future(link.beat())
        try:
            silent = 0.0
            before: Activity | None = None
            while True:
                await asyncio.wait({beat}, timeout=limit / 2)
                if not beat.done():
                    before = await link.activity()
                    await asyncio.wait({beat}, timeout=limit / 2)
                if not beat.done():
                    # This process may have been suspended itself: then the answer is there and has not been read.
                    await asyncio.wait({beat}, timeout=limit / _BEATS)
                if beat.done():
                    tell(beat.result())
                    break
                silent += limit
                if not _works(before, await link.activity(), limit / 2):
                    return f"did not answer for {silent:g} s{link.place} and was ended"
                tell(silent)
        finally:
            beat.cancel()
