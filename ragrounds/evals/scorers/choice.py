"""Shared base of all scorers of multiple choice: right 1.0, anything else 0.0, and every question counts.

All of them accept a letter that a system gives apart from its text (:attr:`ragrounds.base.records.Attempt.choice`). An
attempt without a text is wrong under all of them with one exception: a completed attempt with an empty reply counts as
the letter that a scorer has for unreadable answers (``mirage``: A). An attempt that was never started has no value.
"""

from __future__ import annotations

from collections.abc import Callable

from ragrounds.base.records import Attempt, Gold, Kind, Question, Score, blank
from ragrounds.evals.scorers.answer_status import AnswerRead, no_text
from ragrounds.evals.scorers.base import ScorerRecord


class ChoiceScorer(ScorerRecord, frozen=True, kw_only=True):
    """Scorer of multiple-choice answers."""

    read: Callable[[str, Question], AnswerRead]
    otherwise: str = ""
    """Letter that counts if a text was received, or a completed attempt gave none, and no letter could be read."""
    kinds: tuple[Kind, ...] = ("choice",)

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """Score by the letter that the system gives apart from its text, otherwise by its final text alone.

        The attempt's status matters only if there is no text.
        """
        label = attempt.choice.strip()
        label = label if label in question.options else label.upper()
        # A system may give its option apart from its text.
        if label in question.options and attempt.status != "not_run":
            reading = AnswerRead("answered", label)
        else:
            reading = no_text(attempt) or self.read(attempt.text, question)
        prediction = reading.prediction
        if not prediction and (not blank(attempt.text) or attempt.status == "completed"):
            prediction = self.otherwise
        is_right = prediction == gold.answer and prediction != ""
        return self.scored(attempt, None if attempt.status == "not_run" else float(is_right), reading, prediction)
