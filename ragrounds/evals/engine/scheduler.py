"""Scheduler: the remaining work of some runs, question after question, with a bounded number of attempts in flight.

All of it runs on one event loop. The work comes from a :class:`WorkSource`: the questions themselves, or a leader in
another process. While an attempt waits long (``Retry-After``) or is written, another one may begin. After the first
Ctrl-C nothing further begins, and the attempts in flight are finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from ragrounds.agents.systems.kinds import kind_of
from ragrounds.base.contracts import FinishedAttempt, Stop
from ragrounds.base.errors import UserError
from ragrounds.base.processes import NO_UPLOADS, processors, room_for_more
from ragrounds.base.records import Gold, Question
from ragrounds.base.request_pace import SLEEPING
from ragrounds.evals.engine.attempt import AttemptRunner, OnEnd, WorkItem
from ragrounds.evals.engine.budget import BudgetStop
from ragrounds.evals.engine.interrupts import interruptible
from ragrounds.evals.engine.plan import PlannedRun, models_of
from ragrounds.evals.engine.progress import BOUND
from ragrounds.evals.engine.question_order import BLOCK, SharedOrder
from ragrounds.evals.engine.replayed_runs import ReplayedRuns
from ragrounds.models.kept_prefixes import ASKED, AskedPrompts, KeptPrefixes
from ragrounds.models.options import uses_vllm
from ragrounds.models.traffic import ResizableSemaphore, set_share

Listener = Callable[[FinishedAttempt], None]
"""Callback for every attempt that is written."""
MakeAttempt = Callable[[PlannedRun, WorkItem, OnEnd], Awaitable[FinishedAttempt]]
_OBJECTS_BETWEEN_COLLECTIONS = 20_000
"""Threshold of Python's youngest generation; Python's own is 700."""
START = 5.0
"""Seconds that each worker must save compared with one fewer: its start takes about two seconds of a processor."""
WINDOW = 1.0
"""Seconds over which the pace is measured, at least; it also includes as many attempts as are in flight."""
BUSY = BOUND, 2 * BOUND
"""Range of processor use, in cores, in which workers help."""
_LEAST_EACH, _MOST = 4, 4
"""Smallest number of attempts in flight for each worker, and largest number of workers: more were not measured."""


class WorkSource(Protocol):
    """Source of work for a pool of attempts."""

    async def next(self) -> WorkItem | None:
        """Return the next item; ``None`` if none is left, or none may be begun any more."""

    def attempt_ended(self, finished: FinishedAttempt) -> None:
        """Handle an attempt that has ended and is still to be written."""

    def attempt_written(self, finished: FinishedAttempt) -> None:
        """Handle an attempt that is written."""


Lead = Callable[..., Any]
"""Function that returns the leader of a number of workers of the distributed replay. It is imported only when it is
needed.
"""


async def replay(
    runs: ReplayedRuns,
    questions: Sequence[Question],
    golds: Mapping[str, Gold],
    *,
    concurrency: int = 16,
    stops: Sequence[Stop] = (),
    listener: Listener = lambda finished: None,
    lead: Lead | None = None,
) -> str:
    """Answer every question with every agent, as often as the run has epochs, except for finished attempts.

    All agents of one question follow each other in the queue, so that equal calls are made only once. Attempts are
    written with their scores as soon as they end. Questions are asked in the order given, until one of `stops` ends the
    run. If workers are worth their start, they take over the remaining work, led by the result of `lead`. A replay
    of built-in agents from the journal has at most four attempts in flight for each processor, and 16 in all.

    Returns:
        Why the run ended before its last question (its budget is used up); empty: it did not.

    Raises:
        StopRun: the run cannot continue, or was interrupted; everything that ended is stored, and the same command
            resumes from there.
    """
    os.environ.update(NO_UPLOADS)
    agents = [agent for planned in runs.planned_runs for agent in planned.agent.with_inner]
    if runs.journal.mode == "replay" and not any(kind_of(agent.card).is_users_system for agent in agents):
        # Nothing waits but for the processor: further attempts would only make the seconds of each longer.
        concurrency = min(concurrency, _LEAST_EACH * min(processors(), _MOST))
    models = [model.spec for model in models_of(runs.planned_runs)]
    queue = WorkQueue(runs, questions, golds, stops, listener)
    runner = AttemptRunner(runs)  # last, because it watches clients until it is closed
    errors: list[BaseException] = []
    leading = lead and partial(lead, runs, queue, concurrency)
    handover = Handover(queue, concurrency, errors, leading)
    with interruptible(errors, handover.stop):
        try:
            await run_pool(handover, runner, AttemptSemaphore(concurrency, models), errors)
            await handover.finish()
        finally:
            await handover.close()
            await runner.close()
    if errors:
        raise errors[0]
    return queue.end_reason


class WorkQueue:
    """Remaining work of some runs."""

    def __init__(
        self,
        runs: ReplayedRuns,
        questions: Sequence[Question],
        golds: Mapping[str, Gold],
        stops: Sequence[Stop],
        listener: Listener,
    ) -> None:
        planned_runs = runs.planned_runs
        together = any(stop.epochs_together for stop in stops)
        done = {
            run.id: runs.done[run.id] if run.id in runs.done else runs.store.settled(run).keys()
            for run in (planned.run for planned in planned_runs)
        }
        asked = {question.id for question in questions}  # a counterfactual asks some of those that have attempts
        self.left = sum(
            len(questions) * planned.run.epochs - sum(key[0] in asked for key in done[planned.run.id])
            for planned in planned_runs
        )
        """Number of attempts that have not ended."""
        in_order: Iterable[Question] = questions
        for shared in (stop for stop in stops if isinstance(stop, SharedOrder)):
            in_order = shared.blocks(in_order, golds, self._room)
        self._work = _work_left(done, planned_runs, in_order, golds, together)
        self._attempts = sum(planned.run.epochs for planned in planned_runs)
        self._n_started = self._n_ended = 0
        self._stops = stops
        self._listener = listener
        self.end_reason = ""
        """Reason why the run ended before its last question; empty if it did not."""

    def take(self) -> WorkItem | None:
        """Return the next question.

        The stops are checked between questions and never inside one, so that agents stay comparable on the same
        questions.
        """
        if self.end_reason or (item := next(self._work, None)) is None:
            return None
        for stop in self._stops:
            if reason := stop.reached():
                self.end_reason = reason
                return None
        self._n_started += len(item.planned_runs)
        return item

    def _room(self) -> int:
        """Return the number of questions that may be reordered: half of those that a budget leaves (`BudgetStop.room`).

        The budget then ends between such blocks, and a question that shares something with others has no better chance
        to be asked.
        """
        rooms = [stop.room(self._n_started, self._n_ended) for stop in self._stops if isinstance(stop, BudgetStop)]
        return int(max(1, min([BLOCK, *(room / self._attempts for room in rooms)])))

    def attempt_ended(self, finished: FinishedAttempt) -> None:
        """Notify the stops. They are checked before the next question, which does not wait for the disk."""
        self.left -= 1
        self._n_ended += 1
        for stop in self._stops:
            stop.observe(finished)

    def attempt_written(self, finished: FinishedAttempt) -> None:
        """Notify the listener."""
        self._listener(finished)


class Handover:
    """Work of this process on a queue (contract: :class:`WorkSource`), and its handover to workers if the processor
    limits the pace and more time is left than their start takes.

    Nothing is begun again. Both take from one queue, with the same budgets and stops: this process until the first
    worker asks for work, the workers from then on, while the attempts in flight here end.
    """

    def __init__(self, queue: WorkQueue, in_flight: int, errors: list[BaseException], lead: Lead | None) -> None:
        self._queue, self._in_flight, self._errors, self._lead = queue, in_flight, errors, lead
        self.handed_over = False
        """True once workers ask for the remaining work: this process begins nothing further."""
        self.open: dict[tuple[str, int], tuple[WorkItem, set[str]]] = {}
        """Items that were begun here, with the runs whose attempts at them have not ended."""
        self._n_ended = 0
        self._mark: tuple[float, float] | None = None
        self._leader: Any = None
        self._leading: asyncio.Task[None] | None = None

    async def next(self) -> WorkItem | None:
        """Return the next question, unless workers ask for it."""
        if self.handed_over or (item := self._queue.take()) is None:
            return None
        self.open[item.question.id, item.epoch] = item, {planned.run.id for planned in item.planned_runs}
        return item

    def attempt_ended(self, finished: FinishedAttempt) -> None:
        """Notify the queue; then check whether workers are worth their start, or have room now."""
        self._queue.attempt_ended(finished)
        key = finished.attempt.key
        self.open[key][1].discard(finished.run.id)
        if not self.open[key][1]:
            del self.open[key]
        self._n_ended += 1
        if self.handed_over:
            self._leader.hand_out()
        elif self._n_ended >= self._in_flight and self._lead is not None and self._leader is None:
            self._consider(self._lead)

    def attempt_written(self, finished: FinishedAttempt) -> None:
        """Notify the queue."""
        self._queue.attempt_written(finished)

    def _consider(self, lead: Lead) -> None:
        """Start workers if they save more time than their start takes."""
        now, used = time.perf_counter(), time.process_time()
        since, used_before = self._mark or (now, used)  # late imports and first connections are done by then
        if self._mark is not None and now - since < WINDOW:
            return
        n_ended, self._n_ended, self._mark = self._n_ended, 0, (now, used)
        # A process with threads that compute uses several processors already, and each worker would load its own copy
        # of a local model.
        if now == since or not BUSY[0] < (used - used_before) / (now - since) < BUSY[1] or "torch" in sys.modules:
            return
        left = self._queue.left * (now - since) / n_ended
        max_workers = min(processors(), room_for_more(), self._in_flight // _LEAST_EACH, _MOST)
        # One more worker than n - 1 saves left / (n - 1) - left / n seconds, which must be more than its start takes.
        count = max((n for n in range(1, max_workers + 1) if n * (n - 1) * START < left), default=1)
        if count > 1:
            self._leader = lead(self, count)
            self._leader.say(
                f"This process takes a whole core, and at this pace {left:,.0f} s are left: {count} workers share the "
                "rest; --workers 1 keeps one process."
            )
            self._leading = asyncio.create_task(self._leader.work())
            self._leading.add_done_callback(self._on_leader_done)

    def _on_leader_done(self, leading: asyncio.Task[None]) -> None:
        error = None if leading.cancelled() else leading.exception()
        if not self.handed_over and error is not None:
            self._leader.say(f"Workers could not take part, so that this process continues alone: {error}")

    def stop(self) -> None:
        """Let the workers begin nothing further if the run ends."""
        if self._leader is not None and self._errors:
            self._leader.stop(self._errors[0])

    async def finish(self) -> None:
        """Wait for the workers, once nothing is in flight here."""
        self.open.clear()
        self.stop()
        if self.handed_over and self._leading is not None:
            self._leader.divide()
            self._leader.hand_out()
            await self._leading

    async def close(self) -> None:
        """End the leader of the workers."""
        if self._leading is not None:
            self._leading.cancel()
            await asyncio.wait({self._leading})
            set_share(1.0)


def _work_left(
    done: Mapping[str, Container[tuple[str, int]]],
    planned_runs: Sequence[PlannedRun],
    questions: Iterable[Question],
    golds: Mapping[str, Gold],
    epochs_together: bool,
) -> Iterator[WorkItem]:
    epochs = range(max((planned.run.epochs for planned in planned_runs), default=0))
    by_question = ((epoch, question) for question in questions for epoch in epochs)
    # Questions in blocks that are made one by one come with epochs together: `product` would read all of them at once.
    for epoch, question in by_question if epochs_together else itertools.product(epochs, questions):
        left = tuple(
            planned
            for planned in planned_runs
            if epoch < planned.run.epochs and (question.id, epoch) not in done[planned.run.id]
        )
        if left:
            yield WorkItem(question, golds[question.id], epoch, left)


async def run_pool(
    source: WorkSource, make_attempt: MakeAttempt, semaphore: AttemptSemaphore, errors: list[BaseException]
) -> None:
    """Take items from `source` as slots get free, until it has none.

    The runs of an item follow each other, so that equal calls are made only once. The next item is requested when a
    slot is free and no run of the last one waits. As soon as `errors` has an element, nothing further is begun, and the
    attempts in flight are finished; an error of the user's kind that ends an attempt is added to it.
    """

    async def attempt(planned: PlannedRun, item: WorkItem) -> None:
        """Make one attempt in the slot that was acquired for it."""
        SLEEPING.set(semaphore.sleep)
        if semaphore.kept_prefixes:
            ASKED.set(AskedPrompts(semaphore.kept_prefixes))
        has_left_slot = False

        def on_end(finished: FinishedAttempt) -> None:
            """Let another attempt begin while this one is written."""
            nonlocal has_left_slot
            source.attempt_ended(finished)
            # No more are written at a time than there are slots: if the disk is slow, finished attempts would fill the
            # memory.
            if semaphore.writing < semaphore.count:
                has_left_slot = True
                semaphore.writing += 1
                semaphore.release()

        try:
            source.attempt_written(await make_attempt(planned, item, on_end))
        except UserError as error:
            errors.append(error)
        finally:
            if semaphore.kept_prefixes:
                semaphore.kept_prefixes.ended()
            if has_left_slot:
                semaphore.writing -= 1
            else:
                semaphore.release()

    queued: deque[tuple[PlannedRun, WorkItem]] = deque()
    with rare_garbage_collection():
        async with asyncio.TaskGroup() as group:
            while True:
                # First a slot, then a question: a question that is taken is also asked, so a stop between the two loses
                # nothing.
                await semaphore.acquire()
                if not queued and not errors and (item := await source.next()) is not None:
                    queued.extend((planned, item) for planned in item.planned_runs)
                if errors or not queued:
                    semaphore.release()
                    return
                group.create_task(attempt(*queued.popleft()))


class AttemptSemaphore(ResizableSemaphore):
    """Slots of attempts in flight. An attempt holds one from its first step to its last, except during long waits."""

    def __init__(self, count: int, models: Iterable[str] = ()) -> None:
        super().__init__(count)
        self.kept_prefixes = KeptPrefixes(self) if uses_vllm(models) else None
        self.paused = 0
        """Number of attempts that gave their slot away while they wait."""
        self.writing = 0
        """Number of attempts that have ended and are being written."""

    async def sleep(self, seconds: float) -> None:
        """Wait, with the slot given to another attempt meanwhile.

        Attempts that have begun come before new ones when slots get free. At most as many attempts wait without a slot
        as there are slots, so that started attempts do not pile up. However the wait ends, a slot is held again.
        """
        if self.paused >= self.count:
            await asyncio.sleep(seconds)
            return
        self.paused += 1
        self.release()
        slot: asyncio.Future[None] | None = None
        try:
            await asyncio.sleep(seconds)
            if self.taken < self.count:
                self.taken += 1
                return
            # The attempt goes ahead of attempts that have not begun, because it holds calls that are paid for already.
            slot = asyncio.get_running_loop().create_future()
            self._waiting.appendleft(slot)
            await slot
        except asyncio.CancelledError:
            if slot is None or slot.cancelled():
                self.taken += 1  # one too many for the moment in which the attempt ends
            raise
        finally:
            self.paused -= 1


_collecting_rarely: list[tuple[int, int, int]] = []
"""Original thresholds, once for each running pool."""


@contextlib.contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Collect cyclic garbage less often: imported and opened objects stay, and attempts leave little garbage.

    The last pool that ends restores the thresholds that held before the first.
    """
    _collecting_rarely.append(_collecting_rarely[0] if _collecting_rarely else gc.get_threshold())
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *_collecting_rarely[0][1:])
    try:
        yield
    finally:
        before = _collecting_rarely.pop()
        if not _collecting_rarely:
            gc.set_threshold(*before)
            gc.unfreeze()
