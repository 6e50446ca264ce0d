"""K-QA's judge (Manes et al. 2024): what does the answer say of each of the physicians' statements?

Two scorers: ``comprehensiveness`` is the share of must-have statements that the answer entails, higher is better;
``contradiction`` is the share of all statements that it contradicts, **lower is better**; its prediction gives the
number, which the paper averages as the hallucination figure, and the verdict on each statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragrounds.contracts import Journal, Model, Prompts
from ragrounds.evals.benchmarks.families.kqa import must_have, nice_to_have
from ragrounds.evals.judges.ask import TRIES, Judgement, ask
from ragrounds.evals.judges.attempts import Grade
from ragrounds.evals.judges.pairs import neutral
from ragrounds.evals.judges.verdict import Contract
from ragrounds.evals.scorers.answer_status import AnswerRead, read_long
from ragrounds.records import Attempt, Gold, Question, Score, Verdict

PROMPT = "judge/entails"
ENTAILED, NEUTRAL, CONTRADICTED = "entailment", "neutral", "contradiction"
COMPREHENSIVENESS, CONTRADICTION = "comprehensiveness", "contradiction"
_MISSING = "?"


class Statements(Struct, frozen=True):
    """Grades an answer statement by statement; a figure is missing where the verdict of one of its statements is."""

    at_once: int = 1
    """Statements in one call. One, as in the paper; more are cheaper and less independent."""
    tries: int = TRIES

    @property
    def scorers(self) -> tuple[str, ...]:
        return (COMPREHENSIVENESS, CONTRADICTION)

    async def grade(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> Grade:
        """Ask the judge; an attempt without text entails and contradicts nothing, and costs nothing."""
        read = read_long(attempt)
        must, nice = must_have(gold), nice_to_have(gold)
        statements = (*must, *nice)
        if attempt.status == "not_run" or not must:
            reason = read.reason or "the question has no statements"
            return Grade(scores=tuple(_score(attempt, name, None, read, reason) for name in self.scorers))
        if not attempt.text.strip():
            return Grade(scores=tuple(_score(attempt, name, 0.0, read, read.reason) for name in self.scorers))
        judgements: list[Judgement] = []
        said: list[tuple[str, str]] = []
        """For each statement the verdict, or why there is none."""
        for start in range(0, len(statements), self.at_once):
            part = statements[start : start + self.at_once]
            contract = Contract(tuple(f"s{n}" for n in range(1, len(part) + 1)), (ENTAILED, NEUTRAL, CONTRADICTED))
            messages = prompts.render(
                PROMPT,
                question.language,
                question=neutral(question.text),
                answer=neutral(attempt.text),
                statements="\n\n".join(
                    f"{axis}:\n<<<\n{neutral(text)}\n>>>" for axis, text in zip(contract.axes, part, strict=True)
                ),
                form=contract.example,
            )
            judgement = await ask(judge, journal, messages, contract, tries=self.tries)
            judgements.append(judgement)
            said += [(judgement.values.get(axis, ""), judgement.reasons.get(axis, "")) for axis in contract.axes]
        verdicts = tuple(
            Verdict(
                question_id=question.id,
                judge=judge.spec,
                axis=statement,
                first=attempt.run,
                outcome=outcome,
                reason=reason,
            )
            for statement, (outcome, reason) in zip(statements, said, strict=True)
        )
        return Grade(
            scores=self.scored(attempt, gold, said),
            verdicts=verdicts,
            calls=tuple(call for judgement in judgements for call in judgement.calls),
            failed=any(judgement.failed for judgement in judgements),
        )

    def scored(self, attempt: Attempt, gold: Gold, said: Sequence[tuple[str, str]]) -> tuple[Score, ...]:
        """The scores of an attempt with a text, from the verdicts on all statements: outcome, or why there is none."""
        read = read_long(attempt)
        outcomes = [outcome for outcome, _ in said]
        return (
            _share(attempt, COMPREHENSIVENESS, outcomes[: len(must_have(gold))], ENTAILED, read),
            _share(attempt, CONTRADICTION, outcomes, CONTRADICTED, read),
        )


def outcomes(score: Score) -> tuple[str | None, ...]:
    """The verdict on each statement that a score was made of; ``None``: missing. Empty: nothing was asked."""
    listed = score.prediction.partition(": ")[2]
    return tuple(None if outcome == _MISSING else outcome for outcome in listed.split(", ")) if listed else ()


def _share(attempt: Attempt, scorer: str, outcomes: list[str], counted: str, read: AnswerRead) -> Score:
    missing = sum(not outcome for outcome in outcomes)
    count = outcomes.count(counted)
    said = f"{count}/{len(outcomes)}: {', '.join(outcome or _MISSING for outcome in outcomes)}"
    if missing:
        reason = f"judge: no verdict on {missing} of {len(outcomes)} statements"
        return _score(attempt, scorer, None, read, reason, said)
    return _score(attempt, scorer, count / len(outcomes), read, read.reason, said)


def _score(
    attempt: Attempt, scorer: str, value: float | None, read: AnswerRead, reason: str, prediction: str = ""
) -> Score:
    return Score(
        question_id=attempt.question_id,
        epoch=attempt.epoch,
        scorer=scorer,
        value=value,
        answer_status=read.status,
        prediction=prediction,
        reason=reason,
    )
