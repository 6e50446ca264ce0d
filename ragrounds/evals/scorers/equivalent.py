"""Scorer ``equivalent``: OGCaReBench's judge, which decides whether the answer is equivalent to the gold answer or a
mismatch.

The core medical action decides (OGCaReBench, evaluation); the accuracy is the share of equivalent answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.base.records import Attempt, Gold, Question, Score, blank
from ragrounds.evals.scorers.answer_status import answer_text, read_long
from ragrounds.evals.scorers.judged import JudgedScorer, JudgeQuestion, LabelMethod, Said, VerdictForm, fenced

_AXIS = "grade"
_FORM = VerdictForm((_AXIS,), ("equivalent", "mismatch"))

EQUIVALENT = JudgedScorer(
    name="equivalent",
    accuracy=True,
    judging="equivalence",
    summary="share of answers equivalent to the reference",
    method="the share of answers that a judge found equivalent to the reference",
)


class Equivalence(LabelMethod, frozen=True, kw_only=True):
    """Judge method that scores an answer 1.0 (equivalent) or 0.0 (mismatch, or no answer).

    The score has no value if the judge gave no verdict.
    """

    labels: tuple[str, ...] = _FORM.values
    needs: str = "a reference answer in words"
    shows_question: bool = True
    """True if the judge sees the question too."""

    def fits(self, question: Question, gold: Gold) -> bool:
        """Return True for long answers with a reference."""
        return question.kind == "long" and bool(gold.answer.strip())

    def unasked(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[Score, ...]:
        """Return the score of an attempt that needs no judge.

        No answer is a mismatch, and free. Without a reference the score has no value.
        """
        (scorer,), reading = self.scorers, read_long(attempt, question)
        if attempt.status == "not_run" or not gold.answer.strip():
            reason = reading.reason or "the question has no reference answer"
            return (scorer.scored(attempt, None, reading, reason=reason),)
        return () if not blank(answer_text(attempt, question)) else (scorer.scored(attempt, 0.0, reading),)

    def questions(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[JudgeQuestion, ...]:
        """Return one question that shows the answer next to the reference."""
        texts = {"question": fenced(question.text)} if self.shows_question else {}
        texts |= {"reference": fenced(gold.answer), "answer": fenced(answer_text(attempt, question))}
        return (JudgeQuestion(prompt=self.prompts[0], texts=texts, form=_FORM, subjects=(_AXIS,)),)

    def scores(self, attempt: Attempt, gold: Gold, verdicts: Sequence[Said]) -> tuple[Score, ...]:
        """Return 1.0 if the only verdict is ``equivalent``."""
        (scorer,), ((label, missing_reason),) = self.scorers, verdicts
        value = None if not label else float(label == "equivalent")
        return (
            scorer.scored(
                attempt, value, read_long(attempt), label, f"judge: {missing_reason}" if missing_reason else ""
            ),
        )

    def items(self, gold: Gold) -> dict[str, str]:
        """Return the question's id with its reference answer."""
        return {gold.question_id: gold.answer}

    def verdicts(self, score: Score) -> dict[str, str | None]:
        """Return the only verdict on a question's answer."""
        return {score.question_id: score.prediction or None}


EQUIVALENCE = Equivalence(name="equivalence", scorers=(EQUIVALENT,), prompts=("judge/equivalent",))
