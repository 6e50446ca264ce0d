"""ResizableSemaphore for attempts in flight.

A steady pool of attempts in flight on one event loop: whatever its work comes from, and whoever is told of it.

Replaying questions through agents: what is left of a run, question after question, through a pool of attempts.

Ctrl-C while calls are in flight: what was paid for is waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from ragrounds.errors import StopRun, UserError
from ragrounds.evals.engine.attempt import AttemptRunner
from ragrounds.evals.engine.budget import Budget, BudgetStop
from ragrounds.evals.engine.plan import (
    FINAL,
    Ended,
    FinishedAttempt,
    Listener,
    PlannedRun,
    Scorers,
    Source,
    Stop,
    WorkItem,
)
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.models.faults import sleeping
from ragrounds.models.traffic import ResizableSemaphore
from ragrounds.records import Gold, Question


class AttemptSemaphore(ResizableSemaphore):
    """Attempts have them from their first step to their last, but for long waits."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.paused = 0
        """Attempts that gave their place away while they wait."""
        self.writing = 0
        """Attempts that have ended and are being written."""

    def place(self) -> Place:
        """A place that was acquired, to be left once."""
        return Place(self)

    async def sleep(self, seconds: float) -> None:
        """Wait, with the place given to somebody else meanwhile.

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
            place = asyncio.get_running_loop().create_future()
            self._waiting.appendleft(place)
            await place
        except asyncio.CancelledError:
            if place is None or place.cancelled():
                self.taken += 1  # one too many for the moment in which the attempt ends
            raise
        finally:
            self.paused -= 1


class Place:
    """One attempt's place. While it is being written, others go on; but no more than there are places are written at a
    time, so that a slow disk slows the run and does not fill the memory."""

    def __init__(self, slots: AttemptSemaphore) -> None:
        self._slots = slots
        self._writing = False

    def leave_to_write(self) -> None:
        """The attempt has ended and is only written any more."""
        if self._slots.writing < self._slots.count:
            self._writing = True
            self._slots.writing += 1
            self._slots.release()

    def leave(self) -> None:
        """The attempt is over."""
        if self._writing:
            self._slots.writing -= 1
        else:
            self._slots.release()


_COLLECT = 20_000
"""Objects made between looks for cycles among the newest; Python's own is 700."""
Attempting = Callable[[PlannedRun, WorkItem, Ended], Awaitable[FinishedAttempt]]


async def run_pool(source: Source, attempting: Attempting, slots: AttemptSemaphore, ends: list[BaseException]) -> None:
    """Take items from `source` as places get free, until it has none.

    The planned_runs of a item follow each other, so that equal calls meet. The next item is asked for when a place is
    free and nothing of the last one waits. As soon as something stands in `ends` nothing further is begun, and what is
    in flight is finished; an error of the user's kind that ends an attempt is put there.
    """

    async def one(planned: PlannedRun, item: WorkItem) -> None:
        sleeping.set(slots.sleep)
        place = slots.place()

        def ended(finished: FinishedAttempt) -> None:
            source.over(finished)
            place.leave_to_write()

        try:
            source.hear(await attempting(planned, item, ended))
        except UserError as error:
            ends.append(error)
        finally:
            place.leave()

    waiting: deque[tuple[PlannedRun, WorkItem]] = deque()
    with _seldom_collected():
        async with asyncio.TaskGroup() as group:
            while True:
                await slots.acquire()
                if not waiting and not ends and (item := await source.next()) is not None:
                    waiting.extend((planned, item) for planned in item.planned_runs)
                if ends or not waiting:
                    slots.release()
                    return
                group.create_task(one(*waiting.popleft()))


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Look for garbage in cycles less often: what was imported and opened stays, and attempts leave little."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_COLLECT, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class WorkQueue:
    """What is left to do of some planned_runs (contract: :class:`ragrounds.evals.engine.plan.Source`)."""

    def __init__(
        self,
        store: Store,
        planned_runs: Sequence[PlannedRun],
        questions: Sequence[Question],
        golds: Mapping[str, Gold],
        stops: Sequence[Stop],
        listener: Listener,
    ) -> None:
        self._left = _left(store, planned_runs, questions, golds, any(stop.whole for stop in stops))
        self._stops = stops
        self._listener = listener
        self.ended = ""
        """Why the run ended before its last question; empty: it did not."""

    def take(self) -> WorkItem | None:
        """The next question. The stops are asked here, between questions and never inside one: agents stay comparable
        on the same questions."""
        if self.ended or (item := next(self._left, None)) is None:
            return None
        self.ended = next((reason for stop in self._stops if (reason := stop.reached())), "")
        return None if self.ended else item

    async def next(self) -> WorkItem | None:
        """As :meth:`take`."""
        return self.take()

    def over(self, finished: FinishedAttempt) -> None:
        """Tell the stops: they are asked before the next question, which does not wait for the disk."""
        for stop in self._stops:
            stop.hear(finished)

    def hear(self, finished: FinishedAttempt) -> None:
        """Tell the display."""
        self._listener(finished)


async def replay(
    store: Store,
    journal: StoreJournal,
    planned_runs: Sequence[PlannedRun],
    questions: Sequence[Question],
    golds: Mapping[str, Gold],
    scorers: Scorers,
    *,
    concurrency: int = 16,
    budget: Budget | None = None,
    stops: Sequence[Stop] = (),
    listener: Listener = lambda finished: None,
) -> str:
    """Answer every question with every planned, as often as the run has epochs, leaving out what is done.

    All agents of one question follow each other in the queue, so that equal calls meet. Attempts are written with
    their scores as soon as they end. Questions are asked in the order given, until the budget or one of `stops` ends
    the run.

    Returns:
        Why the run ended before its last question (its budget is used up); empty: it did not.

    Raises:
        StopRun: the run cannot go on, or was interrupted; everything that ended is kept, and the same command goes on
            from there.
    """
    no_uploads()
    attempter = AttemptRunner(store, journal, planned_runs, scorers)
    source = WorkQueue(store, planned_runs, questions, golds, [BudgetStop(budget or Budget()), *stops], listener)
    ends: list[BaseException] = []
    with interruptible(ends):
        try:
            await run_pool(source, attempter, AttemptSemaphore(concurrency), ends)
        except asyncio.CancelledError:
            if not ends:  # not by our own second Ctrl-C
                raise
    if ends:
        raise ends[0]
    return source.ended


def _left(
    store: Store,
    planned_runs: Sequence[PlannedRun],
    questions: Sequence[Question],
    golds: Mapping[str, Gold],
    whole: bool,
) -> Iterator[WorkItem]:
    done = {planned.run.id: store.done(planned.run) for planned in planned_runs}
    epochs = range(max((planned.run.epochs for planned in planned_runs), default=0))
    order = (
        ((epoch, question) for question in questions for epoch in epochs)
        if whole
        else itertools.product(epochs, questions)
    )
    for epoch, question in order:
        left = tuple(
            planned
            for planned in planned_runs
            if epoch < planned.run.epochs and done[planned.run.id].get((question.id, epoch)) not in FINAL
        )
        if left:
            yield WorkItem(question, golds[question.id], epoch, left)


def no_uploads() -> None:
    """LangSmith's variables in the environment would upload every trace; nothing leaves unless asked for."""
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING"):
        os.environ[name] = "false"


class Interrupted(StopRun):
    """The user asked to stop."""


@contextlib.contextmanager
def interruptible(ends: list[BaseException], then: Callable[[], None] = lambda: None) -> Iterator[None]:
    """The first Ctrl-C lets what is in flight finish, and says so on stderr; the second stops at once. Both put an end
    into `ends`, and call `then`."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def stop() -> None:
        if not any(isinstance(end, Interrupted) for end in ends):
            # Here, not where the run ends: who sees nothing happen presses again, and what is in flight is lost.
            print("Finishing what is in flight; Ctrl-C once more stops at once.", file=sys.stderr, flush=True)  # noqa: T201
        elif task is not None:
            task.cancel()
        ends.append(Interrupted("Interrupted. What is done is kept; the same command goes on from there."))
        then()

    try:
        loop.add_signal_handler(signal.SIGINT, stop)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
