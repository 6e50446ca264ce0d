"""The leader of a distributed replay: it hands out questions, takes reports, and keeps budgets and stops."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ragrounds.base.contracts import FinishedAttempt, Stop
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Gold, Question
from ragrounds.evals.engine.attempt import Scorers, WorkItem, stored_attempt
from ragrounds.evals.engine.interrupts import interruptible
from ragrounds.evals.engine.plan import PlannedRun, Recipe
from ragrounds.evals.engine.scheduler import Handover, Listener, WorkQueue
from ragrounds.evals.store.database import RECONNECT_SECONDS
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
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
"""Starts the workers. It is not called where nothing is left to do."""
StartServers = Callable[[Recipe, Callable[[StopRun], None]], Awaitable[Recipe]]
"""Starts the servers of the recipe's models and gives the recipe with their addresses. Its second argument is called,
in any thread, where a server ends by itself."""
Say = Callable[[str], None]
QuestionText = tuple[str, tuple[tuple[str, str], ...]]
"""A question's text, and its options."""


async def replay_distributed(
    store: Store,
    journal: StoreJournal,
    planned_runs: Sequence[PlannedRun],
    questions: Sequence[Question],
    golds: Mapping[str, Gold],
    scorers: Scorers,
    *,
    concurrency: int = 16,
    stops: Sequence[Stop] = (),
    listener: Listener = lambda finished: None,
    serve: StartServers | None = None,
    **how: Any,
) -> str:
    """Do as :func:`ragrounds.evals.engine.scheduler.replay` does, by several workers.

    `serve` starts the servers of the recipe's models, if anything is left to ask; where one ends by itself, the run
    stops. `how` is the rest of what a :class:`Leader` takes.

    Returns:
        Why the run ended before its last question; empty: it did not.

    Raises:
        StopRun: the run cannot go on, was interrupted, or all workers are lost.
    """
    source = WorkQueue(store, planned_runs, questions, golds, stops, listener)
    leader = Leader(store, journal, planned_runs, scorers, source, concurrency, **how)
    await leader.lead(None if journal.mode == "replay" else serve)
    return source.ended


@dataclass(eq=False)
class _AssignedItem:
    """A work item that a worker has, and the runs whose attempts it has not reported."""

    item: WorkItem
    left: list[PlannedRun]


@dataclass(eq=False)
class _Worker:
    """A worker as the leader sees it."""

    link: WorkerLink
    items: dict[int, _AssignedItem] = field(default_factory=dict)
    made: int = 0
    reused: int = 0
    searches: int = 0
    alive: bool = True
    done: bool = False
    """It has said that it ends."""
    left: str = ""
    """What asked it to end, where this leader did not."""
    hung: str = ""
    """How it was found to work no more; empty: it was not."""

    def post(self, message: ToWorker) -> None:
        """Send a message, if the worker is alive."""
        if self.alive:
            self.link.post(encode(message))


class Leader:
    """Leads workers; where they join a process at work, `here` knows what is in flight there.

    The workers open the agents of `recipe` themselves, and write to the store at `url` (``None``: under `home`), for
    which they wait `store_timeout` seconds where it does not answer any more.
    `concurrency` is for all of them together. Where a worker is lost, the others do what it had begun and not written,
    and `say` is called with that. One that neither answers for `worker_timeout` seconds nor computes is ended, and so
    lost. Calls that workers made are counted in `journal`.
    """

    def __init__(
        self,
        store: Store,
        journal: StoreJournal,
        planned_runs: Sequence[PlannedRun],
        scorers: Scorers,
        source: WorkQueue,
        concurrency: int,
        here: Handover | None = None,
        *,
        open_links: OpenLinks,
        recipe: Recipe,
        home: Path,
        url: str | None,
        say: Say = lambda text: None,
        worker_timeout: float = WORKER_TIMEOUT,
        store_timeout: float = RECONNECT_SECONDS,
    ) -> None:
        self.workers: list[_Worker] = []
        self.say = say
        self._journal, self._here, self._open_links = journal, here, open_links
        self._setup = WorkerSetup(
            recipe=recipe,
            runs=tuple(planned.run for planned in planned_runs),
            home=str(home.absolute()),
            store=url,
            mode=journal.mode,
            concurrency=0,
            share=0.0,
            folder=str(Path.cwd()),
            path=tuple(place for place in sys.path if place),
            store_timeout=store_timeout,
        )
        self._store, self._planned_runs, self._scorers, self._source = store, planned_runs, scorers, source
        self._places = {planned.run.id: place for place, planned in enumerate(planned_runs)}
        self._concurrency = concurrency
        self._timeout = worker_timeout
        self._ends: list[BaseException] = []
        self._leading = False
        self._asking: deque[_Worker] = deque()
        self._waiting_items: deque[WorkItem] = deque()
        """Items that were lost with their worker, or whose text another worker has."""
        self._texts: dict[QuestionText, list[_Worker]] = {}
        """Which worker has which text, once for each item of it: always the same one, because equal texts make equal
        calls, and those are made once where they meet in one worker."""
        self._assigned = 0

    async def lead(self, serve: StartServers | None) -> None:
        """Hand out questions until nothing is left, or the run ends otherwise."""
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
                if not self._ends:  # not by our own second Ctrl-C
                    raise
            finally:
                self._leading = False
        if self._ends:
            raise self._ends[0]

    async def work(self) -> None:
        """Start the workers, and hand out until nothing is left.

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
        """Have the workers finish what is in flight; :meth:`work` raises this error then."""
        self._ends.append(error)
        self._end_work()

    def divide(self) -> None:
        """Divide the limits among the workers that are alive."""
        for worker, share in zip([worker for worker in self.workers if worker.alive], self._shares(), strict=True):
            worker.post(share)

    def _stop_from_any_thread(self) -> Callable[[StopRun], None]:
        """Give a function that stops the run at once, whichever thread calls it."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(error: StopRun) -> None:
            """End the run on the event loop."""
            if self._leading and task is not None:
                self._ends.insert(0, error)
                task.cancel()

        def stop_soon(error: StopRun) -> None:
            """Have it ended, from any thread."""
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(stop, error)

        return stop_soon

    async def _supervise(self, worker: _Worker) -> None:
        """End a worker that hangs; reading its messages then finds that it is lost."""
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
            how = await worker.link.end()
        if not worker.done:
            self._lost(worker, worker.hung or worker.left or how)

    def _act_on(self, worker: _Worker, message: FromWorker) -> None:
        match message:
            case WorkRequest():
                self._asking.append(worker)
                if self._here is not None and not self._here.given:
                    self._here.given = True
                    traffic.set_share(self._shares()[0].share)
                self.hand_out()
            case AttemptReport():
                for count in ("made", "reused", "searches"):
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
            case WorkerDone(how=how):
                worker.done = not how
                worker.left = how

    def _ended(self, worker: _Worker, number: int, planned: PlannedRun, finished: FinishedAttempt) -> None:
        assigned = worker.items[number]
        assigned.left.remove(planned)
        if not assigned.left:
            del worker.items[number]
            self._release_text(assigned.item)
        self._source.attempt_ended(finished)
        self._source.attempt_written(finished)

    def hand_out(self) -> None:
        """Give work to those that ask for it."""
        while self._asking and not self._ends:
            worker = self._asking[0]
            if not worker.alive:
                self._asking.popleft()
            elif self._full():
                return  # an attempt that ends makes room
            elif (item := self._next_item(worker)) is not None:
                self._asking.popleft()
                self._assign(worker, item)
            elif not self._waiting_items and not any(worker.items for worker in self.workers):
                self._post_all(EndOfWork())
                return
            else:
                return  # somebody may yet be lost, with what is in their hands

    def _full(self) -> bool:
        """Whether one more question would be too much, beside what is in flight where workers join."""
        here = sum(len(runs) for _, runs in self._here.open.values()) if self._here is not None else 0
        given = sum(len(one.left) for worker in self.workers for one in worker.items.values())
        return here > 0 and here + given + len(self._planned_runs) > self._concurrency

    def _next_item(self, worker: _Worker) -> WorkItem | None:
        """Give the next item whose text no other worker has."""
        for place, item in enumerate(self._waiting_items):
            if self._may_have(item, worker):
                del self._waiting_items[place]
                return item
        while (fresh := self._source.take()) is not None:
            if self._may_have(fresh, worker):
                return fresh
            self._waiting_items.append(fresh)
        return None

    def _may_have(self, item: WorkItem, worker: _Worker) -> bool:
        text = _question_text(item)
        if self._here is not None and any(_question_text(one) == text for one, _ in self._here.open.values()):
            return False
        holding = self._texts.get(text)
        return holding is None or holding[0] is worker

    def _assign(self, worker: _Worker, item: WorkItem) -> None:
        self._assigned += 1
        worker.items[self._assigned] = _AssignedItem(item, list(item.planned_runs))
        self._texts.setdefault(_question_text(item), []).append(worker)
        places = tuple(self._places[planned.run.id] for planned in item.planned_runs)
        worker.post(Assignment(self._assigned, item.question, item.gold, item.epoch, places))

    def _release_text(self, item: WorkItem) -> None:
        text = _question_text(item)
        self._texts[text].pop()
        if not self._texts[text]:
            del self._texts[text]

    def _lost(self, worker: _Worker, how: str) -> None:
        """Put the worker's items back for the others, but for attempts that it had written and could not report."""
        if self._ends:
            return
        unfinished = 0
        for number, assigned in list(worker.items.items()):
            for planned in list(assigned.left):
                found = stored_attempt(self._store, planned, assigned.item, self._scorers)
                if found is not None:
                    self._ended(worker, number, planned, found)
            if assigned.left:
                unfinished += 1
                self._release_text(assigned.item)
                self._waiting_items.appendleft(replace(assigned.item, planned_runs=tuple(assigned.left)))
        worker.items.clear()
        alive = [other for other in self.workers if other.alive]
        said = f"{worker.link.name} {how or 'ended before its work was finished'}"
        if not alive:
            self._ends.append(StopRun(f"All workers ended: {said}. Finished work is saved; the same command resumes."))
            return
        lost = f"other workers take its {unfinished:,} questions" if unfinished else "the others continue"
        self.say(f"{said}; {lost}.")
        self.divide()
        self.hand_out()

    def _shares(self) -> list[CapacityShare]:
        """Divide the concurrency and the models' rate limits among the workers that are alive."""
        count = sum(worker.alive for worker in self.workers)
        each, rest = divmod(self._concurrency, max(1, count))
        part = 1 / max(1, count + bool(self._here is not None and self._here.open))
        return [CapacityShare(max(1, each + (place < rest)), part) for place in range(count)]

    def _end_work(self) -> None:
        self._post_all(EndOfWork(now=True))

    def _post_all(self, message: ToWorker) -> None:
        for worker in self.workers:
            worker.post(message)


def _question_text(item: WorkItem) -> QuestionText:
    return item.question.text, tuple(item.question.options.items())
