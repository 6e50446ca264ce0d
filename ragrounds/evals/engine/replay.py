"""Replaying questions through agents: what is left of a run, question after question, through a pool of attempts."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence

from ragrounds.evals.engine.attempting import Attempter
from ragrounds.evals.engine.budget import Budget, Spending
from ragrounds.evals.engine.interrupting import interruptible
from ragrounds.evals.engine.pool import run_pool
from ragrounds.evals.engine.slots import Slots
from ragrounds.evals.engine.strands import FINAL, Finished, Listener, Piece, Scorers, Stop, Strand
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.records import Gold, Question


class Remaining:
    """What is left to do of some strands (contract: :class:`ragrounds.evals.engine.strands.Source`)."""

    def __init__(
        self,
        store: Store,
        strands: Sequence[Strand],
        questions: Sequence[Question],
        golds: Mapping[str, Gold],
        stops: Sequence[Stop],
        listener: Listener,
    ) -> None:
        self._left = _left(store, strands, questions, golds, any(stop.whole for stop in stops))
        self._stops = stops
        self._listener = listener
        self.ended = ""
        """Why the run ended before its last question; empty: it did not."""

    def take(self) -> Piece | None:
        """The next question. The stops are asked here, between questions and never inside one: agents stay comparable
        on the same questions."""
        if self.ended or (piece := next(self._left, None)) is None:
            return None
        self.ended = next((reason for stop in self._stops if (reason := stop.reached())), "")
        return None if self.ended else piece

    async def next(self) -> Piece | None:
        """As :meth:`take`."""
        return self.take()

    def over(self, finished: Finished) -> None:
        """Tell the stops: they are asked before the next question, which does not wait for the disk."""
        for stop in self._stops:
            stop.hear(finished)

    def hear(self, finished: Finished) -> None:
        """Tell the display."""
        self._listener(finished)


async def replay(
    store: Store,
    journal: StoreJournal,
    strands: Sequence[Strand],
    questions: Sequence[Question],
    golds: Mapping[str, Gold],
    scorers: Scorers,
    *,
    concurrency: int = 16,
    budget: Budget | None = None,
    stops: Sequence[Stop] = (),
    listener: Listener = lambda finished: None,
) -> str:
    """Answer every question with every strand, as often as the run has epochs, leaving out what is done.

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
    attempter = Attempter(store, journal, strands, scorers)
    source = Remaining(store, strands, questions, golds, [Spending(budget or Budget()), *stops], listener)
    ends: list[BaseException] = []
    with interruptible(ends):
        try:
            await run_pool(source, attempter, Slots(concurrency), ends)
        except asyncio.CancelledError:
            if not ends:  # not by our own second Ctrl-C
                raise
    if ends:
        raise ends[0]
    return source.ended


def _left(
    store: Store, strands: Sequence[Strand], questions: Sequence[Question], golds: Mapping[str, Gold], whole: bool
) -> Iterator[Piece]:
    done = {strand.run.id: store.done(strand.run) for strand in strands}
    epochs = range(max((strand.run.epochs for strand in strands), default=0))
    order = (
        ((epoch, question) for question in questions for epoch in epochs)
        if whole
        else itertools.product(epochs, questions)
    )
    for epoch, question in order:
        left = tuple(
            strand
            for strand in strands
            if epoch < strand.run.epochs and done[strand.run.id].get((question.id, epoch)) not in FINAL
        )
        if left:
            yield Piece(question, golds[question.id], epoch, left)


def no_uploads() -> None:
    """LangSmith's variables in the environment would upload every trace; nothing leaves unless asked for."""
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING"):
        os.environ[name] = "false"
