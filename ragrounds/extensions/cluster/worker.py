"""A worker of a distributed replay: an ordinary pool of attempts that gets its questions from a leader.

Workers on this machine are processes of their own, reached through their standard input and output. When the leader
dies, however it dies, the pipe to its worker closes, and the worker ends by itself.
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

from ragrounds.agents.systems import is_foreign, reads_of_systems
from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.errors import Interrupted, StopRun, UserError, options_named
from ragrounds.base.processes import Activity, activity_of
from ragrounds.base.records import Called
from ragrounds.evals.engine.attempt import AttemptRunner, OnEnd, WorkItem
from ragrounds.evals.engine.opening import opening_recorded
from ragrounds.evals.engine.plan import PlannedRun, agent_identity, open_agents
from ragrounds.evals.engine.scheduler import AttemptSemaphore, disable_uploads, run_pool
from ragrounds.evals.engine.system_identity import SEEN_BY_LEADER, SystemIdentity, differences, in_words
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.codec import storable
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.extensions.cluster.heartbeat import PING, PONG
from ragrounds.extensions.cluster.protocol import (
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
from ragrounds.models.traffic import flows, set_share
from ragrounds.recorder.reads import leave_out

Inbox = asyncio.Queue[bytes | None]
"""Frames from the leader; ``None``: the line is cut, nobody waits for this worker any more."""


async def serve(inbox: Inbox, post: SendFrame, asked: Sequence[str] = ()) -> None:
    """Work until the leader says that it is enough; where the link is cut, end at once, whatever is in flight.

    Args:
        inbox: what the leader sends.
        post: sends to the leader.
        asked: holds who asked the worker to end, once it was not the leader.
    """
    frame = await inbox.get()
    setup = None if frame is None else to_worker(frame)
    if not isinstance(setup, WorkerSetup):
        return
    with options_named():  # the leader knows who reads it
        try:
            await _work(setup, inbox, post)
        except UserError as error:
            post(encode(WorkerFailure(str(error))))
    post(encode(WorkerDone(asked[0] if asked else "")))


class _LeaderSource:
    """Where a worker's pool gets its work from (contract: :class:`ragrounds.evals.engine.scheduler.WorkSource`)."""

    def __init__(self, planned_runs: Sequence[PlannedRun], journal: StoreJournal, post: SendFrame) -> None:
        self._planned_runs = planned_runs
        self._places = {planned.run.id: place for place, planned in enumerate(planned_runs)}
        self._journal = journal
        self._post = post
        self._assignments: asyncio.Queue[Assignment | None] = asyncio.Queue()
        self._numbers: dict[tuple[str, str, int], int] = {}

    def put(self, given: Assignment | None) -> None:
        """Take an assignment in; ``None``: no more will come."""
        self._assignments.put_nowait(given)

    async def next(self) -> WorkItem | None:
        """Ask the leader for work, and wait for it."""
        self._post(encode(WorkRequest()))
        given = await self._assignments.get()
        if given is None:
            self._assignments.put_nowait(None)  # for whoever asks again
            return None
        planned_runs = tuple(self._planned_runs[place] for place in given.planned_runs)
        for planned in planned_runs:
            self._numbers[planned.run.id, given.question.id, given.epoch] = given.number
        return WorkItem(given.question, given.gold, given.epoch, planned_runs)

    def attempt_ended(self, finished: FinishedAttempt) -> None:
        """Wait: the leader gets a report of what is written."""

    def attempt_written(self, finished: FinishedAttempt) -> None:
        """Report the attempt to the leader, of its events only calls that were tried again, which it counts."""
        events = tuple([one for one in finished.attempt.events if isinstance(one, Called) and one.call.faults])
        attempt, run = finished.attempt, finished.run.id
        report = AttemptReport(
            number=self._numbers.pop((run, attempt.question_id, attempt.epoch)),
            planned_run=self._places[run],
            attempt=storable(replace(attempt, events=events)),
            scores=tuple(storable(score) for score in finished.scores),
            tokens=finished.tokens_made,
            billable=finished.billable,
            made=self._journal.made,
            reused=self._journal.reused,
            searches=self._journal.searches,
            flows=tuple(flows()),
        )
        self._post(encode(report))


async def _work(setup: WorkerSetup, inbox: Inbox, post: SendFrame) -> None:
    disable_uploads()
    set_share(setup.share)
    _follow_leader(setup)
    leave_out(setup.home)
    ends: list[BaseException] = []
    with Store(Path(setup.home), setup.store, timeout=setup.store_timeout) as store:
        with opening_recorded(store, setup.mode, setup.recipe.prices, lambda words: None):
            planned_runs = _planned_runs(setup, store)
        journal, semaphore = StoreJournal(store, setup.mode), AttemptSemaphore(setup.concurrency)
        source = _LeaderSource(planned_runs, journal, post)
        runner = AttemptRunner(store, journal, planned_runs, scorers_for)

        async def make_attempt(planned: PlannedRun, item: WorkItem, on_end: OnEnd) -> FinishedAttempt:
            """Make an attempt; tell the leader of an error at once."""
            try:
                return await runner(planned, item, on_end)
            except UserError as error:
                post(encode(WorkerFailure(str(error))))  # now: what is in flight here may take its time
                raise

        async def read_messages() -> None:
            """Act on what the leader sends, until the link is cut."""
            while (frame := await inbox.get()) is not None:
                match to_worker(frame):
                    case Assignment() as assignment:
                        source.put(assignment)
                    case CapacityShare() as changed:
                        journal.collect()  # who is gone may have left responses
                        semaphore.resize(changed.concurrency)
                        set_share(changed.share)
                    case EndOfWork(now=now):
                        if now:
                            ends.append(Interrupted("The leader ended the run."))
                        source.put(None)

        pool = asyncio.ensure_future(run_pool(source, make_attempt, semaphore, ends))
        reader = asyncio.ensure_future(read_messages())
        try:
            await asyncio.wait({pool, reader}, return_when=asyncio.FIRST_COMPLETED)
            if pool.done():
                pool.result()
        finally:
            for task in (pool, reader):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await runner.close()
            for model in {id(model): model for planned in planned_runs for model in planned.all_models}.values():
                await model.close()
            journal.close()


def _follow_leader(setup: WorkerSetup) -> None:
    """Work in the leader's folder with its import path, so that files and modules are found by the same names."""
    with contextlib.suppress(OSError):  # another machine may not have the folder, and may not need it
        os.chdir(setup.folder)
    sys.path.extend(place for place in setup.path if place not in sys.path)


def _planned_runs(setup: WorkerSetup, store: Store) -> list[PlannedRun]:
    """Open the agents of the leader's runs here.

    Raises:
        StopRun: an agent would be another one here than where its run was planned.
    """
    planned_runs = []
    for run, opened in zip(setup.runs, open_agents(setup.recipe, Path(setup.home)), strict=True):
        here, planned, card = agent_identity(opened), run.identity, opened.agent.card
        reads = reads_of_systems(one.card for one in opened.agent.whole)
        told = {*SEEN_BY_LEADER} - ({"models"} if here["tier"] != "own" else set()) if is_foreign(card) else set[str]()
        # Of the run's identity the agent's part. What a system of one's own has read is compared by itself.
        differing = [
            key for key, value in here.items() if key not in told and _plain(value) != _plain(planned.get(key))
        ]
        if reads is not None:
            found = differences(store, run, SystemIdentity(here, reads))
            differing += [in_words(one) for one in found if one.kind != "package" or one.now]
        if differing:
            raise StopRun(
                f"The agent {opened.agent.spec!r} differs on {os.uname().nodename} from what the run {run.id} was "
                f"planned with, in: {', '.join(differing)}. Every machine needs the same version, prompts, graphs "
                "and corpora."
            )
        made = PlannedRun(run, opened.agent, opened.models, opened.searcher, setup.recipe.prices)
        planned_runs.append(replace(made, tools=opened.tools, inner=opened.inner))
    return planned_runs


def _plain(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


_HEADER_BYTES = 4
"""Bytes of a frame's length."""
_GRACE = 10.0
"""Seconds in which a worker ends by itself."""


class PipeLink:
    """The leader's end of a pipe to a worker (contract: :class:`WorkerLink`)."""

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
            stdin.write(len(frame).to_bytes(_HEADER_BYTES, "big") + frame)

    async def receive(self) -> bytes | None:
        """Read the next frame that is no answer to :meth:`beat`; ``None``: the pipe is closed."""
        stdout = self._process.stdout
        assert stdout is not None
        while True:
            try:
                frame = await stdout.readexactly(int.from_bytes(await stdout.readexactly(_HEADER_BYTES), "big"))
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
            code = await asyncio.wait_for(self._process.wait(), _GRACE)
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
                *(sys.executable, "-m", "ragrounds.extensions.cluster.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                process_group=0,
            ),
            f"worker {number}",
        )
        for number in range(1, count + 1)
    ]


def main() -> None:
    """Serve as a worker over standard input and output."""
    incoming, outgoing = os.dup(0), os.dup(1)
    # What a graph of the user's own prints must not get between the frames, nor may it read them.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    asyncio.run(_main(incoming, outgoing))


async def _main(incoming: int, outgoing: int) -> None:
    inbox: Inbox = asyncio.Queue()
    writing = threading.Lock()

    def post(frame: bytes) -> None:
        """Write a frame to standard output, from any thread."""
        rest = len(frame).to_bytes(_HEADER_BYTES, "big") + frame
        with writing, contextlib.suppress(BrokenPipeError):  # the reader will say so
            while rest:
                rest = rest[os.write(outgoing, rest) :]

    loop, asked = asyncio.get_running_loop(), list[str]()

    def drain() -> None:
        """Finish what is in flight, and begin nothing further; a second SIGTERM ends the process."""
        loop.remove_signal_handler(signal.SIGTERM)
        asked.append("got SIGTERM and finished the calls in flight")
        inbox.put_nowait(encode(EndOfWork(now=True)))

    with contextlib.suppress(NotImplementedError):  # Windows
        loop.add_signal_handler(signal.SIGTERM, drain)
    reader = threading.Thread(target=_read, args=(incoming, inbox, loop, post), daemon=True)
    reader.start()
    await serve(inbox, post, asked)


def _read(incoming: int, inbox: Inbox, loop: asyncio.AbstractEventLoop, post: SendFrame) -> None:
    """A thread of its own: it notices the leader's end, and answers its heartbeats, also while a graph keeps the event
    loop busy."""
    with os.fdopen(incoming, "rb") as stream, contextlib.suppress(RuntimeError):  # the loop has ended
        while len(head := stream.read(_HEADER_BYTES)) == _HEADER_BYTES:
            frame = stream.read(int.from_bytes(head, "big"))
            if frame == PING:
                post(PONG)
                continue
            loop.call_soon_threadsafe(inbox.put_nowait, frame)
        loop.call_soon_threadsafe(inbox.put_nowait, None)
    time.sleep(_GRACE)
    os._exit(1)


if __name__ == "__main__":
    main()
