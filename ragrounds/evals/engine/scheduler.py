"""The scheduler: what is left of some runs, question after question, through a bounded number of attempts in flight.

All of it happens on one event loop. The work comes from a :class:`WorkSource`: the questions themselves, or a leader in
another process. An attempt that waits long (``Retry-After``) or is being written lets another one begin. The first
Ctrl-C begins nothing further and waits for what is in flight.
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

from ragrounds.base.contracts import FinishedAttempt, Stop
from ragrounds.base.errors import UserError
from ragrounds.base.processes import NO_UPLOADS, processors, room_for_more
from ragrounds.base.records import Gold, Question
from ragrounds.base.request_pace import SLEEPING
from ragrounds.evals.engine.attempt import AttemptRunner, OnEnd, Scorers, WorkItem
from ragrounds.evals.engine.budget import BudgetStop
from ragrounds.evals.engine.interrupts import interruptible
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.engine.progress import BOUND
from ragrounds.evals.engine.question_order import BLOCK, SharedOrder
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.models.kept_prefixes import ASKED, AskedPrompts, KeptPrefixes
from ragrounds.models.traffic import ResizableSemaphore, set_share

Listener = Callable[[FinishedAttempt], None]
"""Called with every attempt that is written."""
MakeAttempt = Callable[[PlannedRun, WorkItem, OnEnd], Awaitable[FinishedAttempt]]
_OBJECTS_BETWEEN_COLLECTIONS = 20_000
"""Of Python's youngest generation; Python's own is 700."""
START = 5.0
"""Seconds that each worker must save beside one fewer: its start takes some two of a processor's."""
WINDOW = 1.0
"""Seconds over which the pace is measured, at least, and as many attempts as are in flight."""
BUSY = BOUND, 2 * BOUND
"""Processors that a process uses which workers help."""
_LEAST_EACH, _MOST = 4, 4
"""Attempts in flight that a worker has at least, and workers at most: more were not measured."""


class WorkSource(Protocol):
    """Where a pool of attempts gets its work from."""

    async def next(self) -> WorkItem | None:
        """Give the next item; ``None``: none is left, or none is to be begun any more."""

    def attempt_ended(self, finished: FinishedAttempt) -> None:
        """Take note of an attempt that has ended and is still to be written."""

    def attempt_written(self, finished: FinishedAttempt) -> None:
        """Take note of an attempt that is written."""


Lead = Callable[..., Any]
"""Gives the leader of so many workers, of the distributed replay: a leaf, which is imported where it is needed."""


async def replay(
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
    lead: Lead | None = None,
) -> str:
    """Answer every question with every agent, as often as the run has epochs, leaving out what is done.

    All agents of one question follow each other in the queue, so that equal calls meet. Attempts are written with
    their scores as soon as they end. Questions are asked in the order given, until one of `stops` ends the run. Where
    workers are worth their start they take up what is left, led by what `lead` gives.

    Returns:
        Why the run ended before its last question (its budget is used up); empty: it did not.

    Raises:
        StopRun: the run cannot go on, or was interrupted; everything that ended is kept, and the same command resumes
            from there.
    """
    disable_uploads()
    runner = AttemptRunner(store, journal, planned_runs, scorers)
    models = {model.spec for planned in planned_runs for model in planned.all_models}
    queue = WorkQueue(store, planned_runs, questions, golds, stops, listener)
    ends: list[BaseException] = []
    leading = lead and partial(lead, store, journal, planned_runs, scorers, queue, concurrency)
    here = Handover(queue, concurrency, ends, leading)
    with interruptible(ends, here.stop):
        try:
            await run_pool(here, runner, AttemptSemaphore(concurrency, models), ends)
            await here.finish()
        except asyncio.CancelledError:
            if not ends:  # not by our own second Ctrl-C
                raise
        finally:
            await here.close()
            await runner.close()
    if ends:
        raise ends[0]
    return queue.ended


class WorkQueue:
    """What is left to do of some runs."""

    def __init__(
        self,
        store: Store,
        planned_runs: Sequence[PlannedRun],
        questions: Sequence[Question],
        golds: Mapping[str, Gold],
        stops: Sequence[Stop],
        listener: Listener,
    ) -> None:
        together = any(stop.epochs_together for stop in stops)
        done = {planned.run.id: store.settled(planned.run) for planned in planned_runs}
        self.left = sum(max(0, len(questions) * one.run.epochs - len(done[one.run.id])) for one in planned_runs)
        """Attempts that have not ended."""
        asked: Iterable[Question] = questions
        for shared in (stop for stop in stops if isinstance(stop, SharedOrder)):
            asked = shared.blocks(asked, golds, self._room)
        self._work = _work_left(done, planned_runs, asked, golds, together)
        self._attempts = sum(planned.run.epochs for planned in planned_runs)
        self._begun = self._over = 0
        self._stops = stops
        self._listener = listener
        self.ended = ""
        """Why the run ended before its last question; empty: it did not."""

    def take(self) -> WorkItem | None:
        """Give the next question. The stops are asked here, between questions and never inside one: agents stay
        comparable on the same questions."""
        if self.ended or (item := next(self._work, None)) is None:
            return None
        for stop in self._stops:
            if reason := stop.reached():
                self.ended = reason
                return None
        self._begun += len(item.planned_runs)
        return item

    def _room(self) -> int:
        """Questions that may be asked in an order of their own: half of those that a budget leaves, so that it ends
        between such blocks, and what shares something with others has no better chance to be asked."""
        rooms = [stop.room(self._begun, self._over) for stop in self._stops if isinstance(stop, BudgetStop)]
        return int(max(1, min([BLOCK, *(room / self._attempts for room in rooms)])))

    def attempt_ended(self, finished: FinishedAttempt) -> None:
        """Tell the stops: they are asked before the next question, which does not wait for the disk."""
        self.left -= 1
        self._over += 1
        for stop in self._stops:
            stop.observe(finished)

    def attempt_written(self, finished: FinishedAttempt) -> None:
        """Tell the listener."""
        self._listener(finished)


class Handover:
    """The work of this process on a queue (contract: :class:`WorkSource`), and its handover to workers: where the
    processor sets the pace, and more time is left than their start takes.

    Nothing is begun again. Both take from one queue, with the same budgets and stops: this process until the first
    worker asks for work, the workers from then on, while what is in flight here ends.
    """

    def __init__(self, queue: WorkQueue, in_flight: int, ends: list[BaseException], lead: Lead | None) -> None:
        self._queue, self._in_flight, self._ends, self._lead = queue, in_flight, ends, lead
        self.given = False
        """Workers ask for what is left: this process begins nothing further."""
        self.open: dict[tuple[str, int], tuple[WorkItem, set[str]]] = {}
        """What was begun here, with the runs whose attempts at it have not ended."""
        self._ended = 0
        self._mark: tuple[float, float] | None = None
        self._leader: Any = None
        self._leading: asyncio.Task[None] | None = None

    async def next(self) -> WorkItem | None:
        """Give the next question, unless workers ask for it."""
        if self.given or (item := self._queue.take()) is None:
            return None
        self.open[item.question.id, item.epoch] = item, {planned.run.id for planned in item.planned_runs}
        return item

    def attempt_ended(self, finished: FinishedAttempt) -> None:
        """Tell the queue; then look whether workers are worth their start, or have room now."""
        self._queue.attempt_ended(finished)
        key = finished.attempt.question_id, finished.attempt.epoch
        self.open[key][1].discard(finished.run.id)
        if not self.open[key][1]:
            del self.open[key]
        self._ended += 1
        if self.given:
            self._leader.hand_out()
        elif self._ended >= self._in_flight and self._lead is not None and self._leader is None:
            self._consider(self._lead)

    def attempt_written(self, finished: FinishedAttempt) -> None:
        """Tell the queue."""
        self._queue.attempt_written(finished)

    def _consider(self, lead: Lead) -> None:
        """Start workers where they save more than their start takes."""
        now, used = time.perf_counter(), time.process_time()
        since, used_before = self._mark or (now, used)  # what is imported late, and first connections, are behind it
        if self._mark is not None and now - since < WINDOW:
            return
        ended, self._ended, self._mark = self._ended, 0, (now, used)
        # What computes with threads of its own has several processors already, and a model here is loaded by each.
        if now == since or not BUSY[0] < (used - used_before) / (now - since) < BUSY[1] or "torch" in sys.modules:
            return
        left = self._queue.left * (now - since) / ended
        most = min(processors(), room_for_more(), self._in_flight // _LEAST_EACH, _MOST)
        count = max((n for n in range(1, most + 1) if n * (n - 1) * START < left), default=1)
        if count > 1:
            self._leader = lead(self, count)
            self._leader.say(
                f"This process takes a whole core, and at this pace {left:,.0f} s are left: {count} workers share the "
                "rest; --workers 1 keeps one process."
            )
            self._leading = asyncio.create_task(self._leader.work())
            self._leading.add_done_callback(self._over)

    def _over(self, leading: asyncio.Task[None]) -> None:
        error = None if leading.cancelled() else leading.exception()
        if not self.given and error is not None:
            self._leader.say(f"Workers could not take part, so that this process continues alone: {error}")

    def stop(self) -> None:
        """Have the workers begin nothing further, where the run ends."""
        if self._leader is not None and self._ends:
            self._leader.stop(self._ends[0])

    async def finish(self) -> None:
        """Wait for the workers, once nothing is in flight here."""
        self.open.clear()
        self.stop()
        if self.given and self._leading is not None:
            self._leader.divide()
            self._leader.hand_out()
            await self._leading

    async def close(self) -> None:
        """End what leads workers."""
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
    for epoch, question in by_question if epochs_together else itertools.product(epochs, questions):
        left = tuple(
            planned
            for planned in planned_runs
            if epoch < planned.run.epochs and (question.id, epoch) not in done[planned.run.id]
        )
        if left:
            yield WorkItem(question, golds[question.id], epoch, left)


async def run_pool(
    source: WorkSource, make_attempt: MakeAttempt, semaphore: AttemptSemaphore, ends: list[BaseException]
) -> None:
    """Take items from `source` as places get free, until it has none.

    The runs of an item follow each other, so that equal calls meet. The next item is asked for when a place is free
    and nothing of the last one waits. As soon as something stands in `ends` nothing further is begun, and what is in
    flight is finished; an error of the user's kind that ends an attempt is put there.
    """

    async def attempt(planned: PlannedRun, item: WorkItem) -> None:
        """Make one attempt in the place that was acquired for it."""
        SLEEPING.set(semaphore.sleep)
        ASKED.set(AskedPrompts(semaphore.kept))
        place = AttemptPlace(semaphore)

        def on_end(finished: FinishedAttempt) -> None:
            """Let another attempt begin while this one is written."""
            source.attempt_ended(finished)
            place.leave_to_write()

        try:
            source.attempt_written(await make_attempt(planned, item, on_end))
        except UserError as error:
            ends.append(error)
        finally:
            semaphore.kept.ended()
            place.leave()

    queued: deque[tuple[PlannedRun, WorkItem]] = deque()
    with _rare_garbage_collection():
        async with asyncio.TaskGroup() as group:
            while True:
                # First a place, then a question: one that is taken is asked, so a stop between two loses nothing.
                await semaphore.acquire()
                if not queued and not ends and (item := await source.next()) is not None:
                    queued.extend((planned, item) for planned in item.planned_runs)
                if ends or not queued:
                    semaphore.release()
                    return
                group.create_task(attempt(*queued.popleft()))


class AttemptSemaphore(ResizableSemaphore):
    """The places of attempts in flight. An attempt holds one from its first step to its last, but for long waits."""

    def __init__(self, count: int, models: Iterable[str] = ()) -> None:
        super().__init__(count)
        self.kept = KeptPrefixes(self, models)
        self.paused = 0
        """Attempts that gave their place away while they wait."""
        self.writing = 0
        """Attempts that have ended and are being written."""

    async def sleep(self, seconds: float) -> None:
        """Wait, with the place given to another attempt meanwhile.

        Attempts that have begun come before new ones when places get free, and at most as many wait without a place as
        there are places, so that what is begun does not pile up. However it ends, a place is held again.
        """
        if self.paused >= self.count:
            await asyncio.sleep(seconds)
            return
        self.paused += 1
        self.release()
        place: asyncio.Future[None] | None = None
        try:
            await asyncio.sleep(seconds)
            if self.taken < self.count:
                self.taken += 1
                return
            # Ahead of attempts that have not begun: what is begun holds calls that are paid for already.
            place = asyncio.get_running_loop().create_future()
            self._waiting.appendleft(place)
            await place
        except asyncio.CancelledError:
            if place is None or place.cancelled():
                self.taken += 1  # one too many for the moment in which the attempt ends
            raise
        finally:
            self.paused -= 1


class AttemptPlace:
    """The acquired place of one attempt. While the attempt is written, others begin; but no more are written at a time
    than there are places, so that a slow disk slows the run and does not fill the memory."""

    def __init__(self, semaphore: AttemptSemaphore) -> None:
        self._semaphore = semaphore
        self._writing = False

    def leave_to_write(self) -> None:
        """Give the place back, where it may be: the attempt has ended and is only written any more."""
        # Beyond that the place is kept until the disk has caught up: finished attempts would fill the memory.
        if self._semaphore.writing < self._semaphore.count:
            self._writing = True
            self._semaphore.writing += 1
            self._semaphore.release()

    def leave(self) -> None:
        """Give the place back, unless it was before: the attempt has ended."""
        if self._writing:
            self._semaphore.writing -= 1
        else:
            self._semaphore.release()


_collecting_rarely: list[tuple[int, int, int]] = []
"""The thresholds of before, once for each pool at work."""


@contextlib.contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Look for garbage in cycles less often: what was imported and opened stays, and attempts leave little. The last
    pool that ends restores what was before the first."""
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


def disable_uploads() -> None:
    """Switch LangSmith's tracing off: its variables in the environment would upload every trace, and nothing leaves
    unless it was asked for."""
    os.environ.update(NO_UPLOADS)
