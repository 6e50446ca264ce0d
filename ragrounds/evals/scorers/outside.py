"""Scorers from outside, asked with care: what they raise becomes a missing score, and their scores stand under their
own names."""

from __future__ import annotations

import math

from msgspec.structs import replace

from ragrounds.contracts import AnyScorer, Scorer
from ragrounds.plugins import failure, say_once
from ragrounds.records import Attempt, Gold, Question, Score, blank


def careful_score(scorer: Scorer, attempt: Attempt, question: Question, gold: Gold) -> Score:
    """The score of an attempt. Where the scorer fails, its score is missing and says why: an answer that was paid for
    is not lost by it."""
    try:
        made: object = scorer.score(attempt, question, gold)
        if not isinstance(made, Score):
            raise TypeError(f"score() gave {type(made).__name__}, expected a Score")
        value = None if made.value is None else float(made.value)
        if value is not None and not math.isfinite(value):
            raise ValueError(f"score() gave the value {made.value}")
    except Exception as problem:
        reason = failure(problem)[:300]
        say_once(f"The scorer {scorer.name!r} failed on an answer, whose score is missing: {reason}")
        return Score(
            question_id=attempt.question_id,
            epoch=attempt.epoch,
            scorer=scorer.name,
            value=None,
            answer_status="answered" if not blank(attempt.text) else "empty",
            reason=f"the scorer failed: {reason}",
        )
    return replace(made, question_id=attempt.question_id, epoch=attempt.epoch, scorer=scorer.name, value=value)


def careful_default(scorer: AnyScorer, question: Question) -> bool:
    """Whether it scores the question wherever nothing else is asked for; one that fails does not."""
    try:
        return bool(scorer.default(question))
    except Exception as problem:
        say_once(f"The scorer {scorer.name!r} was left out: `default` failed: {failure(problem)}")
        return False
