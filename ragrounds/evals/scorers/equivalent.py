"""Scorer ``equivalent``: OGCaReBench's judge. Is the answer equivalent to the gold answer, or a mismatch? The core
medical action decides (OGCaReBench, evaluation); the accuracy is the share of equivalent answers."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.base.records import Attempt, Gold, Question, Score, blank
from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.scorers.judged import JudgedScorer, JudgeQuestion, LabelMethod, Said, VerdictForm, fenced

_AXIS = "grade"
_FORM = VerdictForm((_AXIS,), ("equivalent", "mismatch"))

EQUIVALENT = JudgedScorer(
    name="equivalent",
    accuracy=True,
    judging="equivalence",
    summary="share of answers that the judge finds equivalent to the reference",
    method="the share of answers that a judge found equivalent to the reference",
)


class Equivalence(LabelMethod, frozen=True, kw_only=True):
    """Scores an answer 1.0 (equivalent) or 0.0 (mismatch, or no answer); no value where the judge gave no verdict."""

    labels: tuple[str, ...] = _FORM.values
    needs: str = "a reference answer in words"
    shows_question: bool = True
    """Whether the judge sees the question too."""

    def fits(self, question: Question, gold: Gold) -> bool:
        """Long answers with a reference."""
        return question.kind == "long" and bool(gold.answer.strip())

    def unasked(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[Score, ...]:
        """No answer is a mismatch, and free; nothing is said without a reference."""
        (scorer,), read = self.scorers, read_long(attempt)
        if attempt.status == "not_run" or not gold.answer.strip():
            reason = read.reason or "the question has no reference answer"
            return (scorer.scored(attempt, None, read, reason=reason),)
        return () if not blank(attempt.text) else (scorer.scored(attempt, 0.0, read),)

    def questions(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[JudgeQuestion, ...]:
        """The answer beside the reference."""
        texts = {"question": fenced(question.text)} if self.shows_question else {}
        texts |= {"reference": fenced(gold.answer), "answer": fenced(attempt.text)}
        return (JudgeQuestion(prompt=self.prompts[0], texts=texts, form=_FORM, subjects=(_AXIS,)),)

    def scores(self, attempt: Attempt, gold: Gold, said: Sequence[Said]) -> tuple[Score, ...]:
        """1.0 where the one verdict is ``equivalent``."""
        (scorer,), ((label, why),) = self.scorers, said
        value = None if not label else float(label == "equivalent")
        return (scorer.scored(attempt, value, read_long(attempt), label, f"judge: {why}" if why else ""),)

    def items(self, gold: Gold) -> dict[str, str]:
        """The question, and its reference answer."""
        return {gold.question_id: gold.answer}

    def verdicts(self, score: Score) -> dict[str, str | None]:
        """The one verdict on a question's answer."""
        return {score.question_id: score.prediction or None}


EQUIVALENCE = Equivalence(name="equivalence", scorers=(EQUIVALENT,), prompts=("judge/equivalent",))
