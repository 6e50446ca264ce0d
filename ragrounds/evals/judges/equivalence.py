"""OGCaReBench's judge: is the answer equivalent to the gold answer, or a mismatch? The core medical action decides
(OGCaReBench, evaluation). Protocol ``equivalent``: the accuracy is the share of equivalent answers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragrounds.contracts import Journal, Model, Prompts
from ragrounds.evals.judges.ask import TRIES, ask
from ragrounds.evals.judges.attempts import Grade
from ragrounds.evals.judges.pairs import neutral
from ragrounds.evals.judges.verdict import Contract
from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.records import AnswerStatus, Attempt, Gold, Question, Score, Verdict

PROMPT = "judge/equivalent"
_AXIS = "grade"
_EQUIVALENT = "equivalent"
CONTRACT = Contract((_AXIS,), (_EQUIVALENT, "mismatch"))


class Equivalence(Struct, frozen=True):
    """Grades an answer 1.0 (equivalent) or 0.0 (mismatch, or no answer); no value where the judge gave none."""

    scorer: str = _EQUIVALENT
    tries: int = TRIES

    @property
    def scorers(self) -> tuple[str, ...]:
        return (self.scorer,)

    async def grade(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> Grade:
        """Ask the judge, unless there is no answer to grade: that is a mismatch, and free."""
        read = read_long(attempt)
        if attempt.status == "not_run" or not gold.answer.strip():
            reason = read.reason or "the question has no reference answer"
            return Grade(scores=(self._score(attempt, None, read.status, "", reason),))
        if not attempt.text.strip():
            return Grade(scores=(self._score(attempt, 0.0, read.status, "", read.reason),))
        messages = prompts.render(
            PROMPT,
            question.language,
            question=neutral(question.text),
            reference=neutral(gold.answer),
            answer=neutral(attempt.text),
            form=CONTRACT.example,
        )
        judgement = await ask(judge, journal, messages, CONTRACT, tries=self.tries)
        grade, why = judgement.values.get(_AXIS, ""), judgement.reasons.get(_AXIS, "")
        verdict = Verdict(
            question_id=question.id, judge=judge.spec, axis=_AXIS, first=attempt.run, outcome=grade, reason=why
        )
        return Grade(
            scores=self.scored(attempt, gold, [(grade, why)]),
            verdicts=(verdict,),
            calls=judgement.calls,
            failed=judgement.failed,
        )

    def scored(self, attempt: Attempt, gold: Gold, said: Sequence[tuple[str, str]]) -> tuple[Score, ...]:
        """The score of an attempt with a text, from the one verdict on it: its outcome, or why there is none."""
        read = read_long(attempt)
        ((grade, why),) = said
        value = None if not grade else float(grade == _EQUIVALENT)
        return (self._score(attempt, value, read.status, grade, f"judge: {why}" if why else read.reason),)

    def _score(
        self, attempt: Attempt, value: float | None, answer_status: AnswerStatus, prediction: str, reason: str
    ) -> Score:
        return Score(
            question_id=attempt.question_id,
            epoch=attempt.epoch,
            scorer=self.scorer,
            value=value,
            answer_status=answer_status,
            prediction=prediction,
            reason=reason,
        )
