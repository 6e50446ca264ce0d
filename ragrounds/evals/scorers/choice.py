"""What all scorers of multiple choice share: right 1.0, anything else 0.0, and every question counts.

A letter that a system gives apart from its text (:attr:`ragrounds.base.records.Attempt.choice`) is taken by all of
them. An attempt without a text is wrong under all of them but one case: a completed attempt with an empty reply counts
as the letter that a scorer has for what it cannot read (``mirage``: A). An attempt that was never begun has no value.
"""

from __future__ import annotations

from collections.abc import Callable

from ragrounds.base.records import Attempt, Gold, Kind, Question, Score, blank
from ragrounds.evals.scorers.answer_status import AnswerRead, no_text
from ragrounds.evals.scorers.base import ScorerRecord


class ChoiceScorer(ScorerRecord, frozen=True, kw_only=True):
    """A scorer of multiple-choice answers."""

    read: Callable[[str, Question], AnswerRead]
    otherwise: str = ""
    """The letter that counts where a text was received, or a completed attempt gave none, and no letter could be
    read."""
    kinds: tuple[Kind, ...] = ("choice",)

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """Score by the letter that the system gives apart from its text, else by its final text alone; its status
        matters only where there is no text."""
        read = _given(attempt, question) or no_text(attempt) or self.read(attempt.text, question)
        prediction = read.prediction
        if not prediction and (not blank(attempt.text) or attempt.status == "completed"):
            prediction = self.otherwise
        right = prediction == gold.answer and prediction != ""
        return self.scored(attempt, None if attempt.status == "not_run" else float(right), read, prediction)


def _given(attempt: Attempt, question: Question) -> AnswerRead | None:
    """The option that a system names by itself; ``None`` where it names none of the question's."""
    label = attempt.choice.strip()
    label = label if label in question.options else label.upper()
    return AnswerRead("answered", label) if label in question.options and attempt.status != "not_run" else None
