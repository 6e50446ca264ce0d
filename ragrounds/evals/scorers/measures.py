"""Scorers and judge methods by measures: figures of a long answer and its passages that need texts, a judge and, for
some, an embedder. :mod:`ragrounds.evals.judges.measures` asks the judge for them.
"""

from __future__ import annotations

from typing import Literal

from ragrounds.base.records import Gold, Question
from ragrounds.evals.scorers.judged import JudgedScorer, JudgeMethod

Input = Literal["user_input", "response", "reference", "retrieved_contexts"]
"""Input of a measure, by ragas' name: question, answer, reference, passages."""


class MeasureScorer(JudgedScorer, frozen=True, kw_only=True):
    """Scorer of one measure, with the inputs that it requires."""

    takes: tuple[Input, ...]
    """Inputs that it cannot be computed without."""
    silent: float | None = None
    """Value of an attempt without a text; ``None`` if it has none because nothing can be split into statements."""


class MeasureMethod(JudgeMethod, frozen=True, kw_only=True):
    """Judge method by measures, one score each."""

    needs: str = "a long answer"
    scorers: tuple[MeasureScorer, ...]

    def fits(self, question: Question, gold: Gold) -> bool:
        """Return True for long answers, whatever else a measure needs."""
        return question.kind == "long"
