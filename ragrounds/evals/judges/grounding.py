"""Judging by :mod:`ragrounds.evals.scorers.grounding`: the claims, verdicts and questions that the four measures need.

Claims are split and verified as by ``--kind claims-together``, with the same prompts, so that the journal answers what
that method has asked. A reply that cannot be read is requested once more, and then leaves the measure missing.
"""

from __future__ import annotations

from itertools import count
from typing import cast

import msgspec

from ragrounds.base.records import Reply, blank
from ragrounds.base.replies import json_objects
from ragrounds.evals.judges.claims import AttemptVerification, passages_together, reference_of
from ragrounds.evals.judges.measures import (
    AskedEmbedder,
    MeasureContext,
    MeasureInputs,
    MeasureJudge,
    MeasureValue,
    measure_resources,
)
from ragrounds.evals.judges.methods import JudgeResources
from ragrounds.evals.judges.verdict import CUT, FAILED, ask, ask_until_read, spoken
from ragrounds.evals.judges.verifiers import TRIES, AskedVerifier
from ragrounds.evals.scorers.claim_record import ClaimRecord
from ragrounds.evals.scorers.grounding import (
    ANSWER_RELEVANCY,
    CONTEXT_PRECISION,
    FAITHFULNESS,
    GroundingMethod,
    GroundingScorer,
    cosines,
)
from ragrounds.evals.scorers.judged import VerdictForm, fenced
from ragrounds.evals.scorers.measures import MeasureScorer
from ragrounds.models.faults import CallFailed

QUESTIONS = 3
"""Number of questions that are made from an answer, as in ragas."""
_USEFULNESS = VerdictForm(("passage",), ("useful", "useless"))


class GroundingJudge(MeasureJudge, frozen=True, kw_only=True):
    """Judge of answers by the four measures."""

    async def compute(self, scorer: MeasureScorer, inputs: MeasureInputs, context: MeasureContext) -> MeasureValue:
        """Ask for the verdicts of one measure, and compute it."""
        try:
            if scorer.name == ANSWER_RELEVANCY.name:
                record, reason = await _ask_for_questions(inputs, context)
            elif scorer.name == CONTEXT_PRECISION.name:
                record, reason = await _ask_for_usefulness(inputs, context)
            else:
                record, reason = await _ask_for_support(inputs, context, of_answer=scorer.name == FAITHFULNESS.name)
        except CallFailed:
            return MeasureValue(None, FAILED)
        value = cast("GroundingScorer", scorer).figure(record)
        if value is None:
            reason = f"judge: {reason or 'nothing was found to judge'}"
        return MeasureValue(value, reason, msgspec.json.encode(record).decode())


async def _ask_for_support(
    inputs: MeasureInputs, context: MeasureContext, *, of_answer: bool
) -> tuple[ClaimRecord, str]:
    """Split the answer or the reference into claims, and verify them by all passages together."""
    verifier = AskedVerifier(context.judge, context.journal, context.prompts, context.question)
    claims, reason = (() if of_answer else reference_of(context.question, context.gold)[1]), ""
    if not claims:
        claims, reason = await verifier.split(inputs["response" if of_answer else "reference"])
    verification = AttemptVerification(verifier, "llm")
    verdicts = await verification.entails(passages_together(inputs["retrieved_contexts"]), claims)
    context.calls.extend(verifier.calls)
    if verifier.failed:
        raise CallFailed("judge", FAILED)
    unsupported = [claim for claim, verdict in zip(claims, verdicts, strict=True) if verdict is False]
    if None in verdicts:
        reason = f"no verdict on {verdicts.count(None):,} of {len(claims):,} claims"
    elif unsupported:
        reason = f"in no passage: {'; '.join(unsupported)}"
    by_passages = tuple((verdict,) for verdict in verdicts)
    if of_answer:
        return ClaimRecord(claims=claims, by_passages=by_passages), reason
    return ClaimRecord(gold=claims, gold_by_passages=by_passages), reason


async def _ask_for_usefulness(inputs: MeasureInputs, context: MeasureContext) -> tuple[ClaimRecord, str]:
    """Ask of each passage whether it is useful for arriving at the reference."""
    verdicts: list[bool | None] = []
    fences = {"question": fenced(inputs["user_input"]), "reference": fenced(inputs["reference"])}
    for passage in inputs["retrieved_contexts"]:
        if blank(passage):
            verdicts.append(False)
            continue
        messages = context.prompts.render(
            "judge/useful", context.question.language, **fences, passage=fenced(passage), form=_USEFULNESS.example
        )
        judgement = await ask(context.judge, context.journal, messages, _USEFULNESS, tries=TRIES, node=context.node)
        context.calls.extend(judgement.calls)
        if judgement.failed:
            raise CallFailed("judge", FAILED)
        verdicts.append(judgement.values["passage"] == "useful" if judgement.values else None)
    missing = verdicts.count(None)
    reason = f"no verdict on {missing:,} of {len(verdicts):,} passages" if missing else ""
    return ClaimRecord(useful=tuple(verdicts)), reason


async def _ask_for_questions(inputs: MeasureInputs, context: MeasureContext) -> tuple[ClaimRecord, str]:
    """Have questions made from the answer, and compare their vectors with the question's.

    An answer that commits to nothing needs no vectors.
    """
    messages = context.prompts.render("judge/question", context.question.language, answer=fenced(inputs["response"]))
    questions, noncommittal, occurrences = list[str](), list[bool](), count()
    for _ in range(QUESTIONS):
        parsed, reason = await ask_until_read(
            context.judge,
            context.journal,
            messages,
            _read_question,
            context.calls,
            node=context.node,
            tries=TRIES,
            occurrences=occurrences,
        )
        if parsed is None:
            return ClaimRecord(questions=tuple(questions), noncommittal=(*noncommittal, None)), reason
        questions.append(parsed[0])
        noncommittal.append(parsed[1])
    compared: tuple[float | None, ...] = ()
    if not all(noncommittal):
        embedder = cast("AskedEmbedder", context.embedder)
        vector, *others = await embedder.aembed_texts([inputs["user_input"], *questions])
        compared = cosines(vector, others)
    record = ClaimRecord(questions=tuple(questions), noncommittal=tuple(noncommittal), cosines=compared)
    return record, "a vector of zeros has no cosine" if None in compared else ""


def _read_question(reply: Reply) -> tuple[tuple[str, bool] | None, str]:
    """Return the last question of a reply with its flag, or the reason why it has none."""
    for parsed, _, _ in reversed(list(json_objects(spoken(reply.text)))):
        question, noncommittal = parsed.get("question"), parsed.get("noncommittal")
        if isinstance(question, str) and question.strip() and noncommittal in (True, False):
            return (question.strip(), bool(noncommittal)), ""
    return None, CUT if reply.finish == "length" else "no question in the reply"


def open_judge(method: GroundingMethod, means: JudgeResources) -> GroundingJudge:
    """Return the judge of attempts by the measures of this method.

    Raises:
        UserError: a measure that compares vectors has no embedder.
    """
    return GroundingJudge(**measure_resources(method, means))
