"""The row that a list has of an attempt, made of a trace that was read whole."""

from __future__ import annotations

from ragrounds.evals.scorers import headline_of
from ragrounds.evals.store.summaries import PREFERRED, AttemptSummary
from ragrounds.evals.store.traces import Trace
from ragrounds.records import outcome
from ragrounds.ui.trace.times import measured


def summary_of_trace(trace: Trace) -> AttemptSummary:
    """The row of an attempt as a list has it, by the headline of its question where that has scored it."""
    attempt, by_scorer = trace.attempt, {score.scorer: score for score in trace.scores}
    preferred = [*(one.scorer for one in headline_of([trace.question])), *PREFERRED]
    score = next((by_scorer[name] for name in preferred if name in by_scorer), None)
    used = attempt.usage
    return AttemptSummary(
        run=trace.run,
        index=-1,
        question=trace.question,
        gold=trace.gold,
        epoch=attempt.epoch,
        outcome=outcome(attempt.status, score.answer_status if score else None),
        scorer=score.scorer if score else "",
        value=score.value if score else None,
        prediction=score.prediction if score else "",
        cost_uncached=attempt.cost_uncached,
        cost_paid=attempt.cost_paid,
        tokens=used.input + used.output if used else None,
        calls=attempt.calls,
        seconds=measured(attempt.seconds, attempt.at),
        at=attempt.at,
    )
