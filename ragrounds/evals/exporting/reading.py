"""Whole runs with everything recorded about their attempts, one at a time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from ragrounds.evals.store.store import Store
from ragrounds.evals.traces import Trace, TracedStep, traced_call
from ragrounds.evals.tree import steps
from ragrounds.records import Attempt, Run, Score


def every_trace(store: Store, run: Run) -> Iterator[Trace]:
    """The traces of a run, by question id. Questions and scores are read once, attempts in pieces."""
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    scores: dict[tuple[str, int], list[Score]] = {}
    for score in store.scores(run):
        scores.setdefault((score.question_id, score.epoch), []).append(score)
    for attempt in store.attempts(run):
        yield Trace(
            run=run,
            question=by_id[attempt.question_id],
            gold=golds[attempt.question_id],
            attempt=attempt,
            scores=tuple(scores.get((attempt.question_id, attempt.epoch), ())),
            steps=_steps(store, attempt),
        )


def traces_by_question(store: Store, runs: Sequence[Run]) -> Iterator[Trace]:
    """The traces of several runs, those of one question beside each other."""
    return heapq.merge(
        *(every_trace(store, run) for run in runs), key=lambda trace: (trace.question.id, trace.attempt.epoch)
    )


def _steps(store: Store, attempt: Attempt) -> tuple[TracedStep, ...]:
    return tuple(
        TracedStep(
            node=step.node,
            seconds=step.seconds,
            calls=tuple(traced_call(store, call) for call in step.calls),
            notes=step.notes,
            changes=step.changes,
            error=step.error,
        )
        for step in steps(attempt.events)
    )
