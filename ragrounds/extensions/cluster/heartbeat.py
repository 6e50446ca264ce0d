"""Heartbeats: check that a worker that has not ended still works.

The leader pings each worker every few seconds. A thread of the worker answers, not its event loop: a long computation
of a graph blocks the loop, and must not be taken for a process that is stopped, frozen or cut off. So an answer proves
that the process runs. Code that holds Python's interpreter lock lets no thread answer, nor does a machine with too much
to do: such a process is recognised by the system's report on its threads, and is waited for. A worker that neither
answers nor computes is ended.
"""

from __future__ import annotations

import asyncio

from ragrounds.base.processes import Activity
from ragrounds.extensions.cluster.protocol import WorkerLink

WORKER_TIMEOUT = 20.0
"""Seconds without an answer after which a worker is ended, unless the settings have another value."""
_PINGS_PER_TIMEOUT = 10
"""Number of pings to a worker in that time."""
_MIN_PROCESSOR_SHARE = 0.05
"""Share of a processor above which a process counts as computing."""
PING, PONG = b"ping", b"pong"
"""Frames of the leader's ping and the worker's answer; no other message is such a frame."""


def _is_working(before: Activity | None, now: Activity | None, seconds: float) -> bool:
    """Return True if a process that does not answer still works.

    It has a thread that runs, as a thread does that waits for a processor on an overloaded machine, or it has used a
    processor in these seconds.
    """
    if before is None or now is None or now.stopped:
        return False
    return now.running or now.seconds - before.seconds >= _MIN_PROCESSOR_SHARE * seconds


async def until_hung(link: WorkerLink, limit: float) -> str:
    """Ping a worker again and again until it no longer works, and return a description of its state.

    Args:
        link: the link to the worker.
        limit: seconds without an answer after which it counts as not working.
    """
    while True:
        await asyncio.sleep(limit / _PINGS_PER_TIMEOUT)
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
                    await asyncio.wait({beat}, timeout=limit / _PINGS_PER_TIMEOUT)
                if beat.done():
                    beat.result()
                    break
                silent += limit
                if not _is_working(before, await link.activity(), limit / 2):
                    return f"did not answer for {silent:g} s{link.process_note} and was ended"
        finally:
            beat.cancel()
