"""Heartbeats: whether a worker that has not ended still works.

The leader asks each worker every few seconds. A thread of the worker answers, not its event loop: a graph that computes
for long holds the loop up, and must not be taken for a process that is stopped, frozen or cut off. So an answer proves
that the process runs. Code that holds Python's interpreter lock lets no thread answer, nor does a machine with too much
to do: such a process is known by what the system says of its threads, and is waited for. What neither answers nor
computes is ended.
"""

from __future__ import annotations

import asyncio

from ragrounds.base.processes import Activity
from ragrounds.extensions.cluster.protocol import WorkerLink

WORKER_TIMEOUT = 20.0
"""Seconds without an answer after which a worker is ended, where the settings do not say."""
_BEATS = 10
"""Questions to a worker in that time."""
_COMPUTES = 0.05
"""Of a processor: what uses more computes."""
PING, PONG = b"ping", b"pong"
"""The leader's question and the worker's answer; no other message is such a frame."""


def _works(before: Activity | None, now: Activity | None, seconds: float) -> bool:
    """Whether a process that does not answer works: it has a thread that runs, as one has that waits for a processor on
    a machine with too much to do, or has used one in these seconds."""
    if before is None or now is None or now.stopped:
        return False
    return now.running or now.seconds - before.seconds >= _COMPUTES * seconds


async def until_hung(link: WorkerLink, limit: float) -> str:
    """Ask a worker again and again whether it works, and return when it does not: how it stands, in words.

    Args:
        link: the link to it.
        limit: seconds without an answer after which it does not.
    """
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
                    beat.result()
                    break
                silent += limit
                if not _works(before, await link.activity(), limit / 2):
                    return f"did not answer for {silent:g} s{link.place} and was ended"
        finally:
            beat.cancel()
