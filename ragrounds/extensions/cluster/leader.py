"""Leader of a distributed replay: it hands out questions, takes reports, and enforces budgets and stops."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import FinishedAttempt, Stop
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Gold, Question
from ragrounds.evals.engine.attempt import WorkItem, stored_attempt
from ragrounds.evals.engine.interrupts import interruptible
from ragrounds.evals.engine.plan import PlannedRun, Recipe
from ragrounds.evals.engine.replayed_runs import ReplayedRuns
from ragrounds.evals.engine.scheduler import Handover, Listener, WorkQueue
from ragrounds.evals.store.database import RECONNECT_SECONDS
from ragrounds.extensions.cluster.heartbeat import WORKER_TIMEOUT, until_hung
from ragrounds.extensions.cluster.protocol import (
    Assignment,
    AttemptReport,
    CapacityShare,
    EndOfWork,
    FromWorker,
    ToWorker,
    WorkerDone,
    WorkerFailure,
    WorkerLink,
    WorkerSetup,
    WorkRequest,
    encode,
    from_worker,
)
from ragrounds.models import traffic

OpenLinks = Callable[[], Awaitable[Sequence[WorkerLink]]]
"""Function that starts the workers. It is not called if nothing is left to do."""
StartServers = Callable[[Recipe, Callable[[StopRun], None]], Awaitable[Recipe]]
"""Function that starts the servers of the recipe's models and returns the recipe with their addresses.

Its second argument is called, in any thread, if a server ends by itself.
"""
Say = Callable[[str], None]
QuestionText = tuple[str, tuple[tuple[str, str], ...]]
"""Text of a question, and its options."""


async def replay_distributed(
    runs: ReplayedRuns,
    questions: Sequence[Question],
    golds: Mapping[str, Gold],
    *,
    concurrency: int = 16,
    stops: Sequence[Stop] = (),
    listener: Listener = lambda finished: None,
    serve: StartServers | None = None,
    **leader_arguments: Any,
) -> str:
    """Do as :func:`ragrounds.evals.engine.scheduler.replay` does, with several workers.

    `serve` starts the servers of the recipe's models, if anything is left to ask; if one ends by itself, the run stops.
    `leader_arguments` are the other arguments of :class:`Leader`.

    Returns:
        Reason why the run ended before its last question; empty if it did not.

    Raises:
        StopRun: the run cannot go on, was interrupted, or all workers are lost.
    """
    source = WorkQueue(runs, questions, golds, stops, listener)
    leader = Leader(runs, source, concurrency, **leader_arguments)
    await leader.lead(None if runs.journal.mode == "replay" else serve)
    return source.end_reason


@dataclass(eq=False)
class _AssignedItem:
    """Work item of a worker, and the runs whose attempts it has not reported."""

    item: WorkItem
    left: list[PlannedRun]


@dataclass(eq=False)
class _Worker:
    """State of a worker, as known to the leader."""

    link: WorkerLink
    items: dict[int, _AssignedItem] = field(default_factory=dict)
    calls_made: int = 0
    reused: int = 0
    searches: int = 0
    tool_calls: int = 0
    alive: bool = True
    done: bool = False
    """True if it has reported that it ends."""
    left: str = ""
    """Reason for its end, if this leader did not ask for it."""
    hung: str = ""
    """Description of its state when it was found hanging; empty if it was not."""

    def post(self, message: ToWorker) -> None:
        """Send a message, if the worker is alive."""
        if self.alive:
            self.link.post(encode(message))


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """Agents and store of workers, and the time until they count as lost."""

    recipe: Recipe
    """Agents, which the workers open themselves."""
    home: Path
    url: str | None
    """Store that workers write to; ``None``: the one under `home`."""
    say: Say = lambda text: None
    """Called with a message if a worker is lost."""
    worker_timeout: float = WORKER_TIMEOUT
    """Seconds after which a worker that neither answers nor computes is ended, and so lost."""
    store_timeout: float = RECONNECT_SECONDS
    """Seconds that workers wait for a store that no longer answers."""


class Leader:
    """Leader of workers; if they join a replaying process, `local_handover` has the attempts in flight there.

    `concurrency` is for all workers together. If a worker is lost, the others do the attempts that it had begun and not
    written. Calls that workers made are counted in the journal of `runs`.
    """

    def __init__(
        self,
        runs: ReplayedRuns,
        source: WorkQueue,
        concurrency: int,
        local_handover: Handover | None = None,
        *,
        open_links: OpenLinks,
        options: WorkerOptions,
    ) -> None:
        self.workers: list[_Worker] = []
        self.say = options.say
        self._journal, self._handover, self._open_links = runs.journal, local_handover, open_links
        planned_runs = runs.planned_runs
        self._setup = WorkerSetup(
            recipe=options.recipe,
            runs=tuple(planned.run for planned in planned_runs),
            home=str(options.home.absolute()),
            store=options.url,
            mode=runs.journal.mode,
            concurrency=0,
            share=0.0,
            folder=str(Path.cwd()),
            path=tuple(entry for entry in sys.path if entry),
            store_timeout=options.store_timeout,
        )
        self._store, self._planned_runs, self._scorers, self._source = runs.store, planned_runs, runs.scorers, source
        self._run_indices = {planned.run.id: index for index, planned in enumerate(planned_runs)}
        self._concurrency = concurrency
        self._timeout = options.worker_timeout
        self._ends: list[BaseException] = []
        self._leading = False
        self._server_ended = False
        """True once a model server that was started here has ended, which cancels the task that leads."""
        self._asking: deque[_Worker] = deque()
        self._waiting_items: deque[WorkItem] = deque()
        """Items that were lost with their worker, or whose text another worker has."""
        self._texts: dict[QuestionText, list[_Worker]] = {}
        """Workers of each question text, once for each item of it.

        A text is always given to the same worker: equal texts make equal calls, which one worker makes only once.
        """
        self._assigned = 0

    async def lead(self, serve: StartServers | None) -> None:
        """Hand out questions until nothing is left, or the run ends for another reason."""
        first = self._source.take()
        if first is None:
            return  # no worker is started for nothing
        self._waiting_items.append(first)
        with interruptible(self._ends, self._end_work):
            self._leading = True
            try:
                if serve is not None:
                    served = await serve(self._setup.recipe, self._stop_from_any_thread())
                    self._setup = replace(self._setup, recipe=served)
                await self.work()
            except asyncio.CancelledError:
                if not self._server_ended:
                    raise
            finally:
                self._leading = False
        if self._ends:
            raise self._ends[0]

    async def work(self) -> None:
        """Start the workers, and hand out questions until nothing is left.

        Raises:
            StopRun: as :func:`replay_distributed`.
        """
        self.workers = [_Worker(link) for link in await self._open_links()]
        async with asyncio.TaskGroup() as group:
            for worker, share in zip(self.workers, self._shares(), strict=True):
                worker.post(replace(self._setup, concurrency=share.concurrency, share=share.share))
                group.create_task(self._read_messages(worker))
            if self._ends:
                self._end_work()
        if self._ends:
            raise self._ends[0]

    def stop(self, error: BaseException) -> None:
        """Let the workers finish the attempts in flight; :meth:`work` raises this error then."""
        self._ends.append(error)
        self._end_work()

    def divide(self) -> None:
        """Divide the limits among the workers that are alive."""
        for worker, share in zip([worker for worker in self.workers if worker.alive], self._shares(), strict=True):
            worker.post(share)

    def _stop_from_any_thread(self) -> Callable[[StopRun], None]:
        """Return a function that stops the run at once, from any thread."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(error: StopRun) -> None:
            """End the run on the event loop."""
            if self._leading and task is not None:
                # First of all, because errors of the workers that lost the server would hide it.
                self._ends.insert(0, error)
                self._server_ended = True
                task.cancel()

        def stop_soon(error: StopRun) -> None:
            """Schedule the end of the run from any thread."""
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(stop, error)

        return stop_soon

    async def _supervise(self, worker: _Worker) -> None:
        """End a worker that hangs; its loss is noticed when its messages end."""
        worker.hung = await until_hung(worker.link, self._timeout)
        await worker.link.kill()

    async def _read_messages(self, worker: _Worker) -> None:
        supervision = asyncio.create_task(self._supervise(worker))
        try:
            while (frame := await worker.link.receive()) is not None:
                try:
                    self._act_on(worker, from_worker(frame))
                except UserError as error:
                    self._ends.append(error)
                    self._end_work()
        finally:
            worker.alive = False
            supervision.cancel()
            traffic.report_flows(worker.link.name, ())
            exit_description = await worker.link.end()
        if not worker.done:
            self._reassign(worker, worker.hung or worker.left or exit_description)

    def _act_on(self, worker: _Worker, message: FromWorker) -> None:
        match message:
            case WorkRequest():
                self._asking.append(worker)
                if self._handover is not None and not self._handover.handed_over:
                    self._handover.handed_over = True
                    traffic.set_share(self._shares()[0].share)
                self.hand_out()
            case AttemptReport():
                for count in ("calls_made", "reused", "searches", "tool_calls"):
                    more = getattr(message, count) - getattr(worker, count)
                    setattr(self._journal, count, getattr(self._journal, count) + more)
                    setattr(worker, count, getattr(message, count))
                traffic.report_flows(worker.link.name, message.flows)
                planned = self._planned_runs[message.planned_run]
                finished = FinishedAttempt(
                    planned.run, message.attempt, message.scores, message.tokens, message.billable
                )
                self._ended(worker, message.number, planned, finished)
                self.hand_out()
            case WorkerFailure(reason=reason):
                self._ends.append(StopRun(reason))
                self._end_work()
            case WorkerDone(reason=reason):
                worker.done = not reason
                worker.left = reason

    def _ended(self, worker: _Worker, number: int, planned: PlannedRun, finished: FinishedAttempt) -> None:
        assigned = worker.items[number]
        assigned.left.remove(planned)
        if not assigned.left:
            del worker.items[number]
            self._release_text(assigned.item)
        self._source.attempt_ended(finished)
        self._source.attempt_written(finished)

    def hand_out(self) -> None:
        """Give work to the workers that ask for it."""
        while self._asking and not self._ends:
            worker = self._asking[0]
            if not worker.alive:
                self._asking.popleft()
            elif self._is_full():
                return  # an attempt that ends makes room
            elif (item := self._next_item(worker)) is not None:
                self._asking.popleft()
                self._assign(worker, item)
            elif not self._waiting_items and not any(worker.items for worker in self.workers):
                self._post_all(EndOfWork())
                return
            else:
                return  # another worker may still be lost, and its items must be handed out again

    def _is_full(self) -> bool:
        """Return True if one more question would exceed the concurrency.

        Only needed while a joined process still has attempts in flight.
        """
        in_flight_here = sum(len(runs) for _, runs in self._handover.open.values()) if self._handover is not None else 0
        assigned = sum(len(assigned_item.left) for worker in self.workers for assigned_item in worker.items.values())
        return in_flight_here > 0 and in_flight_here + assigned + len(self._planned_runs) > self._concurrency

    def _next_item(self, worker: _Worker) -> WorkItem | None:
        """Return the next item whose text no other worker has."""
        for index, item in enumerate(self._waiting_items):
            if self._may_have(item, worker):
                del self._waiting_items[index]
                return item
        while (fresh := self._source.take()) is not None:
            if self._may_have(fresh, worker):
                return fresh
            self._waiting_items.append(fresh)
        return None

    def _may_have(self, item: WorkItem, worker: _Worker) -> bool:
        text = _question_text(item)
        if self._handover is not None and any(
            _question_text(open_item) == text for open_item, _ in self._handover.open.values()
        ):
            return False
        holding = self._texts.get(text)
        return holding is None or holding[0] is worker

    def _assign(self, worker: _Worker, item: WorkItem) -> None:
        self._assigned += 1
        worker.items[self._assigned] = _AssignedItem(item, list(item.planned_runs))
        self._texts.setdefault(_question_text(item), []).append(worker)
        run_indices = tuple(self._run_indices[planned.run.id] for planned in item.planned_runs)
        worker.post(Assignment(self._assigned, item.question, item.gold, item.epoch, run_indices))

    def _release_text(self, item: WorkItem) -> None:
        text = _question_text(item)
        self._texts[text].pop()
        if not self._texts[text]:
            del self._texts[text]

    def _reassign(self, worker: _Worker, reason: str) -> None:
        """Put the worker's items back for the others, except attempts that it had written and could not report."""
        if self._ends:
            return
        unfinished = 0
        for number, assigned in list(worker.items.items()):
            for planned in list(assigned.left):
                finished = stored_attempt(self._store, planned, assigned.item, self._scorers)
                if finished is not None:
                    self._ended(worker, number, planned, finished)
            if assigned.left:
                unfinished += 1
                self._release_text(assigned.item)
                self._waiting_items.appendleft(replace(assigned.item, planned_runs=tuple(assigned.left)))
        worker.items.clear()
        alive = [other for other in self.workers if other.alive]
        description = f"{worker.link.name} {reason or 'ended before its work was finished'}"
        if not alive:
            self._ends.append(
                StopRun(f"All workers ended: {description}. Finished work is saved; the same command resumes.")
            )
            return
        consequence = f"other workers take its {unfinished:,} questions" if unfinished else "the others continue"
        self.say(f"{description}; {consequence}.")
        self.divide()
        self.hand_out()

    def _shares(self) -> list[CapacityShare]:
        """Divide the concurrency and the models' rate limits among the workers that are alive."""
        count = sum(worker.alive for worker in self.workers)
        per_worker, rest = divmod(self._concurrency, max(1, count))
        part = 1 / max(1, count + bool(self._handover is not None and self._handover.open))
        return [CapacityShare(max(1, per_worker + (index < rest)), part) for index in range(count)]

    def _end_work(self) -> None:
        self._post_all(EndOfWork(now=True))

    def _post_all(self, message: ToWorker) -> None:
        for worker in self.workers:
            worker.post(message)


def _question_text(item: WorkItem) -> QuestionText:
    return item.question.text, tuple(item.question.options.items())
