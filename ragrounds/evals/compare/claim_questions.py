"""Which answers speak against a claim: for people who look for the reason why it does not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.compare.assertions import ClaimVerdict
from ragrounds.evals.compare.claims import parse_claim, resolved
from ragrounds.evals.store.store import Store
from ragrounds.records import Gold, Run, outcome


class GivenAnswer(Struct, frozen=True, kw_only=True):
    """What a run made of a question."""

    run: str
    """Its id."""
    agent: str
    outcome: str
    """One of :data:`ragrounds.records.OUTCOMES`."""
    prediction: str = ""
    """What was read of the answer."""
    right: bool | None = None
    """Whether that scored in full; ``None``: no score."""
    reason: str = ""
    """Why it ended, where it was not completed."""


class QuestionAgainst(Struct, frozen=True, kw_only=True):
    """A question that breaks a condition by itself."""

    question_id: str
    gold: str
    answers: tuple[GivenAnswer, ...]
    """Of the runs that the condition names; of every epoch."""


class ConditionAgainst(Struct, frozen=True, kw_only=True):
    """The questions that break a condition by themselves."""

    claim: str
    measured: str
    claimed: str
    count: int
    alike: int
    """Of a claimed difference: questions beside these that have none."""
    questions: tuple[QuestionAgainst, ...]


def questions_against(
    store: Store, runs: Sequence[Run], verdicts: Sequence[ClaimVerdict], most: int = 8
) -> tuple[ConditionAgainst, ...]:
    """The questions that speak against claims which do not hold, with what the runs answered there.

    Args:
        store: of the runs.
        runs: that the claims were checked on.
        verdicts: of these claims.
        most: questions of a condition.
    """
    known, found = {run.id: run for run in runs}, []
    golds: Mapping[str, Gold] = store.questions(runs[0])[1] if runs else {}
    for verdict in verdicts:
        conditions = resolved(parse_claim(verdict.claim), runs).conditions
        for condition, judged in zip(conditions, verdict.conditions, strict=True):
            if not judged.against and not judged.alike:
                continue
            named = list(dict.fromkeys(term.run for term in condition.terms))
            given = [_answers(store, known[run], verdict.scorer, judged.against[:most]) for run in named]
            questions = tuple(
                QuestionAgainst(
                    question_id=question,
                    gold=golds[question].answer if question in golds else "",
                    answers=tuple(answer for each in given for answer in each.get(question, ())),
                )
                for question in judged.against[:most]
            )
            found.append(
                ConditionAgainst(
                    claim=verdict.claim,
                    measured=judged.measured,
                    claimed=judged.claimed,
                    count=judged.against_count,
                    alike=judged.alike,
                    questions=questions,
                )
            )
    return tuple(found)


def _answers(store: Store, run: Run, scorer: str, questions: Sequence[str]) -> dict[str, list[GivenAnswer]]:
    """Question id → what the run made of it, an epoch each."""
    wanted, found = set(questions), dict[str, list[GivenAnswer]]()
    scores = {(one.question_id, one.epoch): one for one in store.scores(run, scorer) if one.question_id in wanted}
    for attempt in store.summaries(run):
        if attempt.question_id not in wanted:
            continue
        score = scores.get((attempt.question_id, attempt.epoch))
        found.setdefault(attempt.question_id, []).append(
            GivenAnswer(
                run=run.id,
                agent=run.agent,
                outcome=outcome(attempt.status, score.answer_status if score else None),
                prediction=score.prediction if score else "",
                right=None if score is None or score.value is None else score.value >= 1,
                reason=attempt.reason,
            )
        )
    return found
