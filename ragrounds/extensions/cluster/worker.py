"""Worker of a distributed replay: an ordinary pool of attempts that gets its questions from a leader.

Workers on this machine are separate processes, reached through their standard input and output. When the leader
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
from msgspec.structs import asdict, replace

from ragrounds.agents.systems.kinds import reads_of_systems
from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.errors import Interrupted, StopRun, UserError, options_named
from ragrounds.base.process_end import ProcessEnd
from ragrounds.base.processes import NO_UPLOADS, Activity, activity_of
from ragrounds.base.records import Called
from ragrounds.evals.engine.attempt import AttemptRunner, OnEnd, WorkItem
from ragrounds.evals.engine.opening import opening_recorded
from ragrounds.evals.engine.plan import PlannedRun, agent_identity, models_of, open_agents
from ragrounds.evals.engine.replayed_runs import ReplayedRuns
from ragrounds.evals.engine.scheduler import AttemptSemaphore, run_pool
from ragrounds.evals.engine.system_identity import SEEN_BY_LEADER, SystemIdentity, differences, in_words, is_own
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
"""Queue of frames from the leader; ``None`` if the link is cut, so that no leader waits for this worker."""


async def serve(inbox: Inbox, post: SendFrame, end_reasons: Sequence[str] = ()) -> None:
    """Work until the leader ends the work; if the link is cut, end at once, whatever is in flight.

    Args:
        inbox: frames from the leader.
        post: sends a frame to the leader.
        end_reasons: gets the reason for the end if the leader did not ask for it.
    """
    frame = await inbox.get()
    setup = None if frame is None else to_worker(frame)
    if not isinstance(setup, WorkerSetup):
        return
    with options_named():  # errors name options; the leader knows its interface
        try:
            await _work(setup, inbox, post)
        except UserError as error:
            post(encode(WorkerFailure(str(error))))
    post(encode(WorkerDone(end_reasons[0] if end_reasons else "")))


class _LeaderSource:
    """Source of work of a worker's pool (contract: :class:`ragrounds.evals.engine.scheduler.WorkSource`)."""

    def __init__(self, planned_runs: Sequence[PlannedRun], journal: StoreJournal, post: SendFrame) -> None:
        self._planned_runs = planned_runs
        self._run_indices = {planned.run.id: index for index, planned in enumerate(planned_runs)}
        self._journal = journal
        self._post = post
        self._assignments: asyncio.Queue[Assignment | None] = asyncio.Queue()
        self._numbers: dict[tuple[str, str, int], int] = {}

    def put(self, assignment: Assignment | None) -> None:
        """Take in an assignment; ``None``: no more will come."""
        self._assignments.put_nowait(assignment)

    async def next(self) -> WorkItem | None:
        """Ask the leader for work, and wait for it."""
        self._post(encode(WorkRequest()))
        assignment = await self._assignments.get()
        if assignment is None:
            self._assignments.put_nowait(None)  # for the next call
            return None
        planned_runs = tuple(self._planned_runs[index] for index in assignment.planned_runs)
        for planned in planned_runs:
            self._numbers[planned.run.id, assignment.question.id, assignment.epoch] = assignment.number
        return WorkItem(assignment.question, assignment.gold, assignment.epoch, planned_runs)

    def attempt_ended(self, finished: FinishedAttempt) -> None:
        """Do nothing: the leader gets a report after the attempt is written."""

    def attempt_written(self, finished: FinishedAttempt) -> None:
        """Report the attempt to the leader.

        Its events are only the calls that were tried again, which the leader counts.
        """
        events = tuple([event for event in finished.attempt.events if isinstance(event, Called) and event.call.faults])
        attempt, run = finished.attempt, finished.run.id
        report = AttemptReport(
            number=self._numbers.pop((run, attempt.question_id, attempt.epoch)),
            planned_run=self._run_indices[run],
            attempt=storable(replace(attempt, events=events)),
            scores=tuple(storable(score) for score in finished.scores),
            tokens=finished.tokens_made,
            billable=finished.billable,
            calls_made=self._journal.calls_made,
            reused=self._journal.reused,
            searches=self._journal.searches,
            tool_calls=self._journal.tool_calls,
            flows=tuple(flows()),
        )
        self._post(encode(report))


async def _work(setup: WorkerSetup, inbox: Inbox, post: SendFrame) -> None:
    os.environ.update(NO_UPLOADS)
    set_share(setup.share)
    # Files and modules are found by the same names as in the leader.
    with contextlib.suppress(OSError):  # another machine may not have the folder, and may not need it
        os.chdir(setup.folder)
    sys.path.extend(entry for entry in setup.path if entry not in sys.path)
    leave_out(setup.home)
    ends: list[BaseException] = []
    with Store(Path(setup.home), setup.store, timeout=setup.store_timeout) as store:
        with opening_recorded(store, setup.mode, setup.recipe.prices, lambda words: None):
            planned_runs = _planned_runs(setup, store)
        journal, semaphore = StoreJournal(store, setup.mode), AttemptSemaphore(setup.concurrency)
        source = _LeaderSource(planned_runs, journal, post)
        runner = AttemptRunner(ReplayedRuns(store, journal, planned_runs, scorers_for))

        async def make_attempt(planned: PlannedRun, item: WorkItem, on_end: OnEnd) -> FinishedAttempt:
            """Make an attempt, and report an error to the leader at once."""
            try:
                return await runner(planned, item, on_end)
            except UserError as error:
                post(encode(WorkerFailure(str(error))))  # now, because the attempts in flight here may take long
                raise

        async def read_messages() -> None:
            """Act on the leader's messages until the link is cut."""
            while (frame := await inbox.get()) is not None:
                match to_worker(frame):
                    case Assignment() as assignment:
                        source.put(assignment)
                    case CapacityShare() as new_share:
                        journal.collect()  # a worker that is gone may have left responses
                        semaphore.resize(new_share.concurrency)
                        set_share(new_share.share)
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
            for model in models_of(planned_runs):
                await model.close()
            journal.close()


def _planned_runs(setup: WorkerSetup, store: Store) -> list[PlannedRun]:
    """Open the agents of the leader's runs on this machine.

    Raises:
        StopRun: an agent differs here from the one its run was planned with.
    """
    planned_runs = []
    for run, opened in zip(setup.runs, open_agents(setup.recipe, Path(setup.home)), strict=True):
        local_identity, planned_identity = agent_identity(opened), run.identity
        reads = reads_of_systems(system.card for system in opened.agent.with_inner)
        reported_by_leader = (
            {*SEEN_BY_LEADER} - ({"models"} if local_identity["tier"] != "own" else set())
            if is_own(local_identity)
            else set[str]()
        )
        # Compare the agent's part of the run's identity. The files that a user's system has read are compared below.
        differing = [
            key
            for key, value in local_identity.items()
            if key not in reported_by_leader and _plain(value) != _plain(planned_identity.get(key))
        ]
        if reads is not None:
            changes = differences(store, run, SystemIdentity(local_identity, reads))
            differing += [in_words(change) for change in changes if change.kind != "package" or change.now]
        if differing:
            raise StopRun(
                f"The agent {opened.agent.spec!r} differs on {os.uname().nodename} from what the run {run.id} was "
                f"planned with, in: {', '.join(differing)}. Every machine needs the same version, prompts, graphs "
                "and corpora."
            )
        planned_runs.append(PlannedRun(**asdict(opened), run=run, prices=setup.recipe.prices))
    return planned_runs


def _plain(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


_HEADER_BYTES = 4
"""Number of bytes of a frame's length."""
_GRACE_SECONDS = ProcessEnd.after_second - 5.0
"""Seconds in which a worker must end by itself. The leader then still has time to say how the run ended."""


class PipeLink:
    """Leader's end of a pipe to a worker (contract: :class:`WorkerLink`)."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self._name = name
        self._beat: asyncio.Future[None] | None = None

    @property
    def name(self) -> str:
        """Name of the worker, ``worker N``."""
        return self._name

    @property
    def pid(self) -> int:
        """Id of the worker's process."""
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
    def process_note(self) -> str:
        """Process and its state, as `` (process 1234, which is stopped)``."""
        activity = activity_of(self.pid)
        return f" (process {self.pid}{', which is stopped' if activity and activity.stopped else ''})"

    async def beat(self) -> None:
        """Ping the worker's thread that reads the pipe, and wait for its answer."""
        self._beat = asyncio.get_running_loop().create_future()
        self.post(PING)
        await self._beat

    async def activity(self) -> Activity | None:
        """Return the system's report on the process."""
        return activity_of(self.pid)

    async def kill(self) -> None:
        """Kill the process."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> str:
        """Close the pipe and wait for the process, which is killed after a grace time; return how it ended."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            code = await asyncio.wait_for(self._process.wait(), _GRACE_SECONDS)
        except TimeoutError:
            self._process.kill()
            code = await self._process.wait()
        if code >= 0:
            return f"ended with exit code {code}" if code else ""
        return f"was ended by {signal.Signals(-code).name}"


async def open_pipes(count: int) -> list[PipeLink]:
    """Start `count` workers on this machine.

    Each has a separate process group, so that a Ctrl-C in the terminal reaches only the leader, which decides.
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
    # Output of a user's graph must not get between the frames, and the graph must not read the frames.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    asyncio.run(_main(incoming, outgoing))


async def _main(incoming: int, outgoing: int) -> None:
    inbox: Inbox = asyncio.Queue()
    writing = threading.Lock()

    def post(frame: bytes) -> None:
        """Write a frame to standard output, from any thread."""
        unwritten = len(frame).to_bytes(_HEADER_BYTES, "big") + frame
        with writing, contextlib.suppress(BrokenPipeError):  # the reading thread reports it
            while unwritten:
                unwritten = unwritten[os.write(outgoing, unwritten) :]

    loop, end_reasons = asyncio.get_running_loop(), list[str]()

    def drain() -> None:
        """Finish the attempts in flight, and begin nothing further. A second SIGTERM ends the process, and
        :class:`ProcessEnd` does if something waits for ever."""
        loop.remove_signal_handler(signal.SIGTERM)
        ProcessEnd().signalled()
        end_reasons.append("got SIGTERM and finished the calls in flight")
        inbox.put_nowait(encode(EndOfWork(now=True)))

    with contextlib.suppress(NotImplementedError):  # Windows
        loop.add_signal_handler(signal.SIGTERM, drain)
    reader = threading.Thread(target=_read_frames, args=(incoming, inbox, loop, post), daemon=True)
    reader.start()
    await serve(inbox, post, end_reasons)


def _read_frames(incoming: int, inbox: Inbox, loop: asyncio.AbstractEventLoop, post: SendFrame) -> None:
    """Read frames and answer heartbeats on a separate thread.

    It notices the leader's end, also while a graph keeps the event loop busy.
    """
    with os.fdopen(incoming, "rb") as stream, contextlib.suppress(RuntimeError):  # the loop has ended
        while len(head := stream.read(_HEADER_BYTES)) == _HEADER_BYTES:
            frame = stream.read(int.from_bytes(head, "big"))
            if frame == PING:
                post(PONG)
                continue
            loop.call_soon_threadsafe(inbox.put_nowait, frame)
        loop.call_soon_threadsafe(inbox.put_nowait, None)
    # The leader is gone. A graph that keeps the event loop busy would never end: exit after a grace time.
    time.sleep(_GRACE_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
