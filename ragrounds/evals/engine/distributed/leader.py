"""The leader of a distributed replay: it hands out questions, takes reports, and keeps budgets and stops."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from ragrounds.errors import StopRun, UserError
from ragrounds.evals.engine.attempt import kept
from ragrounds.evals.engine.budget import Budget, BudgetStop
from ragrounds.evals.engine.distributed.protocol import (
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
from ragrounds.evals.engine.plan import FinishedAttempt, Listener, PlannedRun, Recipe, Scorers, Stop, WorkItem
from ragrounds.evals.engine.scheduler import WorkQueue, interruptible
from ragrounds.evals.store.journal import Mode, StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.models import traffic
from ragrounds.records import Gold, Question

Opening = Callable[[], Awaitable[Sequence[WorkerLink]]]
"""Starts the workers. It is not asked where nothing is left to do."""
Serving = Callable[[Recipe, Callable[[StopRun], None]], Awaitable[Recipe]]
"""Starts what models are served by, and says where it is. Its second argument hears, in any thread, of its end."""
Say = Callable[[str], None]
Text = tuple[str, tuple[tuple[str, str], ...]]


async def replay_distributed(
    store: Store,
    journal: StoreJournal,
    planned_runs: Sequence[PlannedRun],
    questions: Sequence[Question],
    golds: Mapping[str, Gold],
    scorers: Scorers,
    *,
    open_lines: Opening,
    recipe: Recipe,
    home: Path,
    url: str | None,
    concurrency: int = 16,
    budget: Budget | None = None,
    stops: Sequence[Stop] = (),
    listener: Listener = lambda finished: None,
    say: Say = lambda text: None,
    serve: Serving | None = None,
) -> str:
    """As :func:`ragrounds.evals.engine.scheduler.replay`, by the workers at the other ends of the lines.

    The workers open the agents of `recipe` themselves, and write to the store at `url` (``None``: under `home`).
    `concurrency` is for all of them together. A worker that is lost is missed by nobody: what it had begun and not
    written is done by the others; `say` is told. Calls that workers made are counted in `journal`. `serve` starts what
    the models of the recipe are served by, if anything is left to ask; where that ends by itself, the run stops.

    Raises:
        StopRun: the run cannot go on, was interrupted, or all workers are lost.
    """
    source = WorkQueue(store, planned_runs, questions, golds, [BudgetStop(budget or Budget()), *stops], listener)
    leader = _Leader(store, planned_runs, scorers, source, concurrency, say)
    hello = _hello(recipe, planned_runs, home, url, journal.mode)
    try:
        await leader.lead(open_lines, hello, None if journal.mode == "replay" else serve)
    finally:
        journal.made += sum(worker.made for worker in leader.workers)
        journal.reused += sum(worker.reused for worker in leader.workers)
    return source.ended


def _hello(recipe: Recipe, planned_runs: Sequence[PlannedRun], home: Path, url: str | None, mode: Mode) -> WorkerSetup:
    return WorkerSetup(
        recipe=recipe,
        runs=tuple(planned.run for planned in planned_runs),
        home=str(home.absolute()),
        store=url,
        mode=mode,
        slots=0,
        share=0.0,
        folder=str(Path.cwd()),
        path=tuple(place for place in sys.path if place),
    )


@dataclass(eq=False)
class _Handed:
    """A item in some worker's hands."""

    item: WorkItem
    left: list[PlannedRun]


@dataclass(eq=False)
class _Worker:
    """A worker as the leader sees it."""

    line: WorkerLink
    items: dict[int, _Handed] = field(default_factory=dict)
    made: int = 0
    reused: int = 0
    alive: bool = True
    over: bool = False
    """It has said that it ends."""

    def post(self, message: ToWorker) -> None:
        if self.alive:
            self.line.post(encode(message))


class _Leader:
    def __init__(
        self,
        store: Store,
        planned_runs: Sequence[PlannedRun],
        scorers: Scorers,
        source: WorkQueue,
        concurrency: int,
        say: Say,
    ) -> None:
        self.workers: list[_Worker] = []
        self._store, self._planned_runs, self._scorers, self._source = store, planned_runs, scorers, source
        self._places = {planned.run.id: place for place, planned in enumerate(planned_runs)}
        self._concurrency = concurrency
        self._say = say
        self._ends: list[BaseException] = []
        self._leading = False
        self._wanting: deque[_Worker] = deque()
        self._later: deque[WorkItem] = deque()
        """Pieces that were lost with their worker, or whose text is in another worker's hands."""
        self._texts: dict[Text, list[_Worker]] = {}
        """Who holds what text, once for each item of it: all by the same worker, because equal texts make equal calls,
        and those are made once where they meet in one worker."""
        self._given = 0

    async def lead(self, open_lines: Opening, hello: WorkerSetup, serve: Serving | None) -> None:
        """Until nothing is left, or the run ends otherwise."""
        first = self._source.take()
        if first is None:
            return  # no worker is started for nothing
        self._later.append(first)
        with interruptible(self._ends, self._enough):
            self._leading = True
            try:
                if serve is not None:
                    hello = replace(hello, recipe=await serve(hello.recipe, self._breaking()))
                self.workers = [_Worker(line) for line in await open_lines()]
                async with asyncio.TaskGroup() as group:
                    for worker, share in zip(self.workers, self._shares(), strict=True):
                        worker.post(replace(hello, slots=share.slots, share=share.share))
                        group.create_task(self._hear(worker))
                    if self._ends:
                        self._enough()
            except asyncio.CancelledError:
                if not self._ends:  # not by our own second Ctrl-C
                    raise
            finally:
                self._leading = False
        if self._ends:
            raise self._ends[0]

    def _breaking(self) -> Callable[[StopRun], None]:
        """What stops the run at once, called in any thread."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(error: StopRun) -> None:
            if self._leading and task is not None:
                self._ends.insert(0, error)
                task.cancel()

        def hear(error: StopRun) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(stop, error)

        return hear

    async def _hear(self, worker: _Worker) -> None:
        try:
            while (frame := await worker.line.receive()) is not None:
                try:
                    self._heard(worker, from_worker(frame))
                except UserError as error:
                    self._ends.append(error)
                    self._enough()
        finally:
            worker.alive = False
            traffic.told(worker.line.name, ())
            how = await worker.line.end()
        if not worker.over:
            self._lost(worker, how)

    def _heard(self, worker: _Worker, message: FromWorker) -> None:
        match message:
            case WorkRequest():
                self._wanting.append(worker)
                self._hand_out()
            case AttemptReport():
                worker.made, worker.reused = message.made, message.reused
                traffic.told(worker.line.name, message.flows)
                planned = self._planned_runs[message.planned]
                finished = FinishedAttempt(planned.run, message.attempt, message.scores, message.tokens)
                self._ended(worker, message.number, planned, finished)
                self._hand_out()
            case WorkerFailure(reason=reason):
                self._ends.append(StopRun(reason))
                self._enough()
            case WorkerDone():
                worker.over = True

    def _ended(self, worker: _Worker, number: int, planned: PlannedRun, finished: FinishedAttempt) -> None:
        handed = worker.items[number]
        handed.left.remove(planned)
        if not handed.left:
            del worker.items[number]
            self._let_go(handed.item)
        self._source.over(finished)
        self._source.hear(finished)

    def _hand_out(self) -> None:
        while self._wanting and not self._ends:
            worker = self._wanting[0]
            if not worker.alive:
                self._wanting.popleft()
            elif (item := self._take(worker)) is not None:
                self._wanting.popleft()
                self._give(worker, item)
            elif not self._later and not any(worker.items for worker in self.workers):
                self._tell(EndOfWork())
                return
            else:
                return  # somebody may yet be lost, with what is in their hands

    def _take(self, worker: _Worker) -> WorkItem | None:
        """The next item whose text no other worker holds."""
        for place, item in enumerate(self._later):
            if self._free(item, worker):
                del self._later[place]
                return item
        while (fresh := self._source.take()) is not None:
            if self._free(fresh, worker):
                return fresh
            self._later.append(fresh)
        return None

    def _free(self, item: WorkItem, worker: _Worker) -> bool:
        holding = self._texts.get(_question_text(item))
        return holding is None or holding[0] is worker

    def _give(self, worker: _Worker, item: WorkItem) -> None:
        self._given += 1
        worker.items[self._given] = _Handed(item, list(item.planned_runs))
        self._texts.setdefault(_question_text(item), []).append(worker)
        places = tuple(self._places[planned.run.id] for planned in item.planned_runs)
        worker.post(Assignment(self._given, item.question, item.gold, item.epoch, places))

    def _let_go(self, item: WorkItem) -> None:
        text = _question_text(item)
        self._texts[text].pop()
        if not self._texts[text]:
            del self._texts[text]

    def _lost(self, worker: _Worker, how: str) -> None:
        """Its items go to others, but for what it had written and could not tell any more."""
        if self._ends:
            return
        unfinished = 0
        for number, handed in list(worker.items.items()):
            for planned in list(handed.left):
                found = kept(self._store, planned, handed.item, self._scorers)
                if found is not None:
                    self._ended(worker, number, planned, found)
            if handed.left:
                unfinished += 1
                self._let_go(handed.item)
                self._later.appendleft(replace(handed.item, planned_runs=tuple(handed.left)))
        worker.items.clear()
        alive = [other for other in self.workers if other.alive]
        said = f"{worker.line.name} {how or 'ended before its work did'}"
        if not alive:
            self._ends.append(
                StopRun(f"No worker is left: {said}. What is done is kept; the same command goes on from there.")
            )
            return
        lost = f"others take up the {unfinished:,} questions that it had begun" if unfinished else "the others go on"
        self._say(f"{said}; {lost}.")
        for other, share in zip(alive, self._shares(), strict=True):
            other.post(share)
        self._hand_out()

    def _shares(self) -> list[CapacityShare]:
        """What is for all workers together, shared out among those that are alive."""
        count = sum(worker.alive for worker in self.workers)
        each, rest = divmod(self._concurrency, max(1, count))
        return [CapacityShare(max(1, each + (place < rest)), 1 / count) for place in range(count)]

    def _enough(self) -> None:
        self._tell(EndOfWork(now=True))

    def _tell(self, message: ToWorker) -> None:
        for worker in self.workers:
            worker.post(message)


def _question_text(item: WorkItem) -> Text:
    return item.question.text, tuple(item.question.options.items())
