"""Workers on this machine: processes of their own, spoken to through their standard input and output.

When the leader dies, however it dies, the pipe to its worker closes, and the worker ends by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time

from ragrounds.evals.engine.distributed.worker import Inbox, serve

_HEAD = 4
"""Bytes of a frame's length."""
_PATIENCE = 10.0
"""Seconds in which a worker ends by itself."""


class Pipe:
    """The leader's end (contract: :class:`ragrounds.evals.engine.distributed.lines.Line`)."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def pid(self) -> int:
        """The worker's process."""
        return self._process.pid

    def post(self, frame: bytes) -> None:
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(len(frame).to_bytes(_HEAD, "big") + frame)

    async def receive(self) -> bytes | None:
        stdout = self._process.stdout
        assert stdout is not None
        try:
            return await stdout.readexactly(int.from_bytes(await stdout.readexactly(_HEAD), "big"))
        except asyncio.IncompleteReadError:
            return None

    async def end(self) -> str:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            code = await asyncio.wait_for(self._process.wait(), _PATIENCE)
        except TimeoutError:
            self._process.kill()
            code = await self._process.wait()
        if code >= 0:
            return f"ended with exit code {code}" if code else ""
        return f"was ended by {signal.Signals(-code).name}"


async def open_pipes(count: int) -> list[Pipe]:
    """Start `count` workers.

    Each leads a process group of its own: a Ctrl-C in the terminal reaches the leader alone, who decides.
    """
    return [
        Pipe(
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "ragrounds.evals.engine.distributed.pipes"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                process_group=0,
            ),
            f"worker {number}",
        )
        for number in range(1, count + 1)
    ]


def main() -> None:
    """The worker's process."""
    incoming, outgoing = os.dup(0), os.dup(1)
    # What a graph of the user's own prints must not get between the frames, nor may it read them.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    asyncio.run(_main(incoming, outgoing))


async def _main(incoming: int, outgoing: int) -> None:
    inbox: Inbox = asyncio.Queue()
    reader = threading.Thread(target=_read, args=(incoming, inbox, asyncio.get_running_loop()), daemon=True)
    reader.start()

    def post(frame: bytes) -> None:
        rest = len(frame).to_bytes(_HEAD, "big") + frame
        with contextlib.suppress(BrokenPipeError):  # the reader will say so
            while rest:
                rest = rest[os.write(outgoing, rest) :]

    await serve(inbox, post)


def _read(incoming: int, inbox: Inbox, loop: asyncio.AbstractEventLoop) -> None:
    """A thread of its own: it notices the leader's end also while a graph keeps the event loop busy."""
    with os.fdopen(incoming, "rb") as stream, contextlib.suppress(RuntimeError):  # the loop has ended
        while len(head := stream.read(_HEAD)) == _HEAD:
            frame = stream.read(int.from_bytes(head, "big"))
            loop.call_soon_threadsafe(inbox.put_nowait, frame)
        loop.call_soon_threadsafe(inbox.put_nowait, None)
    time.sleep(_PATIENCE)
    os._exit(1)


if __name__ == "__main__":
    main()
