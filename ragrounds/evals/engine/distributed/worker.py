"""A worker of a spread replay: an ordinary pool of attempts that gets its questions over a line.

Workers on this machine: processes of their own, spoken to through their standard input and output.

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
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ragrounds.errors import StopRun, UserError
from ragrounds.evals.engine.attempt import AttemptRunner
from ragrounds.evals.engine.distributed.protocol import (
    Assignment,
    AttemptReport,
    CapacityShare,
    EndOfWork,
    SendFrame,
    WorkerDone,
    WorkerFailure,
    WorkerSetup,
    WorkRequest,
    encode,
    to_worker,
)
from ragrounds.evals.engine.plan import Ended, FinishedAttempt, PlannedRun, WorkItem, agent_identity, opened
from ragrounds.evals.engine.scheduler import AttemptSemaphore, Interrupted, no_uploads, run_pool
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.codec import storable
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.models.traffic import flows, set_share

Inbox = asyncio.Queue[bytes | None]
"""Frames from the leader; ``None``: the line is cut, nobody waits for this worker any more."""


async def serve(inbox: Inbox, post: SendFrame) -> None:
    """Work until told that it is enough, or until the line is cut: then at once, whatever is in flight."""
    frame = await inbox.get()
    hello = None if frame is None else to_worker(frame)
    if not isinstance(hello, WorkerSetup):
        return
    try:
        await _work(hello, inbox, post)
    except UserError as error:
        post(encode(WorkerFailure(str(error))))
    post(encode(WorkerDone()))


class _Desk:
    """Where a worker's pool gets its items from (contract: :class:`ragrounds.evals.engine.plan.Source`)."""

    def __init__(self, planned_runs: Sequence[PlannedRun], journal: StoreJournal, post: SendFrame) -> None:
        self._planned_runs = planned_runs
        self._places = {planned.run.id: place for place, planned in enumerate(planned_runs)}
        self._journal = journal
        self._post = post
        self._given: asyncio.Queue[Assignment | None] = asyncio.Queue()
        self._numbers: dict[tuple[str, str, int], int] = {}

    def put(self, given: Assignment | None) -> None:
        """A item has come; ``None``: no more will."""
        self._given.put_nowait(given)

    async def next(self) -> WorkItem | None:
        self._post(encode(WorkRequest()))
        given = await self._given.get()
        if given is None:
            self._given.put_nowait(None)  # for whoever asks again
            return None
        planned_runs = tuple(self._planned_runs[place] for place in given.planned_runs)
        for planned in planned_runs:
            self._numbers[planned.run.id, given.question.id, given.epoch] = given.number
        return WorkItem(given.question, given.gold, given.epoch, planned_runs)

    def over(self, finished: FinishedAttempt) -> None:
        """The leader hears of what is written."""

    def hear(self, finished: FinishedAttempt) -> None:
        attempt, run = finished.attempt, finished.run.id
        told = AttemptReport(
            number=self._numbers.pop((run, attempt.question_id, attempt.epoch)),
            planned=self._places[run],
            attempt=storable(replace(attempt, events=())),
            scores=tuple(storable(score) for score in finished.scores),
            tokens=finished.made,
            made=self._journal.made,
            reused=self._journal.reused,
            flows=tuple(flows()),
        )
        self._post(encode(told))


async def _work(hello: WorkerSetup, inbox: Inbox, post: SendFrame) -> None:
    no_uploads()
    set_share(hello.share)
    _stand(hello)
    ends: list[BaseException] = []
    with Store(Path(hello.home), hello.store) as store:
        planned_runs = _planned_runs(hello)
        journal, slots = StoreJournal(store, hello.mode), AttemptSemaphore(hello.slots)
        desk = _Desk(planned_runs, journal, post)
        attempter = AttemptRunner(store, journal, planned_runs, scorers_for)

        async def attempting(planned: PlannedRun, item: WorkItem, ended: Ended) -> FinishedAttempt:
            try:
                return await attempter(planned, item, ended)
            except UserError as error:
                post(encode(WorkerFailure(str(error))))  # now: what is in flight here may take its time
                raise

        async def listening() -> None:
            while (frame := await inbox.get()) is not None:
                match to_worker(frame):
                    case Assignment() as given:
                        desk.put(given)
                    case CapacityShare() as changed:
                        slots.resize(changed.slots)
                        set_share(changed.share)
                    case EndOfWork(now=now):
                        if now:
                            ends.append(Interrupted("The leader ended the run."))
                        desk.put(None)

        pool = asyncio.ensure_future(run_pool(desk, attempting, slots, ends))
        listener = asyncio.ensure_future(listening())
        try:
            await asyncio.wait({pool, listener}, return_when=asyncio.FIRST_COMPLETED)
            if pool.done():
                pool.result()
        finally:
            for task in (pool, listener):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            for model in {id(model): model for planned in planned_runs for model in planned.models.values()}.values():
                await model.close()
            journal.close()


def _stand(hello: WorkerSetup) -> None:
    """Where the leader stands, so that files are found by the same names."""
    with contextlib.suppress(OSError):  # another machine may not have the folder, and may not need it
        os.chdir(hello.folder)
    sys.path.extend(place for place in hello.path if place not in sys.path)


def _planned_runs(hello: WorkerSetup) -> list[PlannedRun]:
    """The leader's planned_runs, opened here.

    Raises:
        StopRun: they would be other agents here than where the run was planned.
    """
    planned_runs = []
    for run, one in zip(hello.runs, opened(hello.recipe, Path(hello.home)), strict=True):
        here = agent_identity(one.agent, one.models, one.searcher)
        differing = [key for key, value in here.items() if _plain(value) != _plain(run.identity.get(key))]
        if differing:
            raise StopRun(
                f"The agent {one.agent.spec!r} differs on {os.uname().nodename} from what the run {run.id} was planned "
                f"with, in: {', '.join(differing)}. Every machine needs the same version, prompts, graphs and corpora."
            )
        planned_runs.append(PlannedRun(run, one.agent, one.models, one.searcher, hello.recipe.prices))
    return planned_runs


def _plain(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


_HEAD = 4
"""Bytes of a frame's length."""
_PATIENCE = 10.0
"""Seconds in which a worker ends by itself."""


class PipeLink:
    """The leader's end (contract: :class:`ragrounds.evals.engine.distributed.protocol.WorkerLink`)."""

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


async def open_pipes(count: int) -> list[PipeLink]:
    """Start `count` workers.

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
