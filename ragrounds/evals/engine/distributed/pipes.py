"""The leader's ends of the pipes to its workers, which are processes of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

from ragrounds.evals.engine.distributed.protocol import PING, PONG
from ragrounds.processes import Activity, activity_of

HEADER_BYTES = 4
"""Bytes of a frame's length."""
GRACE = 10.0
"""Seconds in which a worker ends by itself."""


class PipeLink:
    """The leader's end of a pipe to a worker."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self._name = name
        self._beat: asyncio.Future[None] | None = None

    @property
    def name(self) -> str:
        """``worker N``."""
        return self._name

    @property
    def pid(self) -> int:
        """The id of the worker's process."""
        return self._process.pid

    def post(self, frame: bytes) -> None:
        """Write a frame, its length first."""
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(len(frame).to_bytes(HEADER_BYTES, "big") + frame)

    async def receive(self) -> bytes | None:
        """Read the next frame that is no answer to :meth:`beat`; ``None``: the pipe is closed."""
        stdout = self._process.stdout
        assert stdout is not None
        while True:
            try:
                frame = await stdout.readexactly(int.from_bytes(await stdout.readexactly(HEADER_BYTES), "big"))
            except asyncio.IncompleteReadError:
                return None
            if frame != PONG:
                return frame
            if self._beat is not None and not self._beat.done():
                self._beat.set_result(None)

    @property
    def place(self) -> str:
        """`` (process 1234, which is stopped)``."""
        activity = activity_of(self.pid)
        return f" (process {self.pid}{', which is stopped' if activity and activity.stopped else ''})"

    async def beat(self) -> None:
        """Ask the thread of the worker that reads the pipe, and wait for its answer."""
        self._beat = asyncio.get_running_loop().create_future()
        self.post(PING)
        await self._beat

    async def activity(self) -> Activity | None:
        """What the system says of the process."""
        return activity_of(self.pid)

    async def kill(self) -> None:
        """Kill the process."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> str:
        """Close the pipe and wait for the process, which is killed where it does not end in time; give how it ended."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            code = await asyncio.wait_for(self._process.wait(), GRACE)
        except TimeoutError:
            self._process.kill()
            code = await self._process.wait()
        if code >= 0:
            return f"ended with exit code {code}" if code else ""
        return f"was ended by {signal.Signals(-code).name}"


async def open_pipes(count: int) -> list[PipeLink]:
    """Start `count` workers on this machine.

    Each leads a process group of its own: a Ctrl-C in the terminal reaches the leader alone, who decides.
    """
    return [
        PipeLink(
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "ragrounds.evals.engine.distributed.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                process_group=0,
            ),
            f"worker {number}",
        )
        for number in range(1, count + 1)
    ]
