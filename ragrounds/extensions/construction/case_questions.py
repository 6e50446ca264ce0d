"""Pipeline `case-questions`: makes a question about the next step from a case report (OGCaReBench, Section 3.1, steps 2
and 3).

significance → timeline → question → verbatim → follows → rewrite → unchanged. `verbatim` calls no model. A report whose
significance is only standard care for a rare disease is left out, as in the paper. The roles ``rewriting`` and
``checking`` have separate models if these are given (the paper used another model for rewriting than for writing); the
role of all other stages is ``writing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ragrounds.base.contracts import Context
from ragrounds.evals.scorers.judged import VerdictForm
from ragrounds.extensions.construction.pipeline import Pipeline
from ragrounds.extensions.construction.stages import (
    Changes,
    PipelineState,
    Rejected,
    Stage,
    ask_for,
    ask_verdict,
    folded,
    holds_verbatim,
    in_line,
    keep_item,
)
from ragrounds.graphs.state import Graph

PROMPTS = (
    "build/case_significance",
    "build/case_timeline",
    "build/case_question",
    "build/case_follows",
    "build/case_rewrite",
    "build/case_unchanged",
)
NOTHING_NEW = "no novel contribution"
NOT_SIGNIFICANT = "the answer does not follow from the significance"
NOT_REWRITTEN = "the rewriting added nothing"
ANSWER_CHANGED = "the rewriting changed the answer"
FOLLOWS = VerdictForm(("follows",), ("yes", "no"))
UNCHANGED = VerdictForm(("unchanged",), ("yes", "no"))
_MOST = 200
"""Largest number of events of a timeline."""


class CaseState(PipelineState, total=False):
    """State that the stages write."""

    contribution: str
    kind: str
    events: list[str]
    decision: int
    """Number of the event, from 1, that the question asks for."""
    asked: str
    reply: str
    """Answer to the question."""
    rewritten: str
    distractors: list[str]


def build() -> Graph:
    """Build the graph of the stages in their order."""
    return in_line(CaseState, STAGES)


class Significance(Struct):
    """Contribution that a report was published for."""

    kind: Literal["treatment", "test", "diagnosis", "none"]
    significance: str = ""


class Timeline(Struct):
    """The events of a report in their order."""

    timeline: list[str]


class Draft(Struct):
    """A question as a model first writes it."""

    decision: int
    case: str
    question: str
    answer: str


class RewrittenCase(Struct):
    """A question with distractors in it."""

    question: str
    distractors: list[str]
    answer: str = ""


async def significance(state: CaseState, context: Context) -> Changes:
    """Find the contribution that the report was published for; a report without any is rejected."""
    reply = await ask_for(
        context,
        "build/case_significance",
        Significance,
        role="writing",
        check=lambda reply: "" if reply.kind == "none" or reply.significance.strip() else "the significance is empty",
        shorten="report",
        report=context.stem.text,
    )
    if reply.kind == "none":
        raise Rejected(NOTHING_NEW, reply.significance)
    return {"contribution": reply.significance.strip(), "kind": reply.kind}


async def timeline(state: CaseState, context: Context) -> Changes:
    """List the report's events, 2 to 200."""

    def _check(reply: Timeline) -> str:
        count = len([event for event in reply.timeline if event.strip()])
        return "" if 2 <= count <= _MOST else f"expected 2 to {_MOST} events, got {count}"

    reply = await ask_for(
        context,
        "build/case_timeline",
        Timeline,
        role="writing",
        check=_check,
        shorten="report",
        report=context.stem.text,
    )
    return {"events": [" ".join(event.split()) for event in reply.timeline if event.strip()]}


async def question(state: CaseState, context: Context) -> Changes:
    """Write the case up to the decision point, the question, and its answer from the timeline."""
    events = state["events"]

    def _check(reply: Draft) -> str:
        if not 2 <= reply.decision <= len(events):
            return f"the decision is event {reply.decision}; expected 2 to {len(events)}"
        return "" if all(text.strip() for text in (reply.case, reply.question, reply.answer)) else "a field is empty"

    reply = await ask_for(
        context,
        "build/case_question",
        Draft,
        role="writing",
        check=_check,
        significance=state["contribution"],
        timeline=numbered(events),
    )
    full_question = f"{reply.case.strip()} {reply.question.strip()}"
    return {"asked": full_question, "reply": reply.answer.strip(), "decision": reply.decision}


async def verbatim(state: CaseState, context: Context) -> Changes:
    """Reject a pair unless its answer is verbatim from the timeline and the question does not give it away."""
    events, decision, reply = state["events"], state["decision"], state["reply"]
    fault = timeline_fault(reply, events, decision) or question_fault(state["asked"], reply, events, decision)
    if fault:
        raise Rejected(fault, reply)
    return {}


async def follows(state: CaseState, context: Context) -> Changes:
    """Reject a pair whose answer does not follow from the report's significance."""
    verdict, reply = await ask_verdict(
        context,
        "build/case_follows",
        FOLLOWS,
        role="writing",
        significance=state["contribution"],
        question=state["asked"],
        answer=state["reply"],
    )
    if verdict["follows"] == "no":
        raise Rejected(NOT_SIGNIFICANT, reply)
    return {}


async def rewrite(state: CaseState, context: Context) -> Changes:
    """Write the question again with distractors; its answer must stay the same, and must not be given away."""
    reply = await ask_for(
        context,
        "build/case_rewrite",
        RewrittenCase,
        role="rewriting",
        check=lambda reply: "" if reply.question.strip() else "the question is empty",
        question=state["asked"],
        answer=state["reply"],
    )
    distractors = [" ".join(text.split()) for text in reply.distractors if text.strip()]
    if not distractors or folded(reply.question) == folded(state["asked"]):
        raise Rejected(NOT_REWRITTEN, reply.question)
    if reply.answer.strip() and folded(reply.answer) != folded(state["reply"]):
        raise Rejected(ANSWER_CHANGED, reply.answer)
    fault = question_fault(reply.question, state["reply"], state["events"], state["decision"])
    if fault:
        raise Rejected(fault, reply.question)
    return {"rewritten": reply.question.strip(), "distractors": distractors}


async def unchanged(state: CaseState, context: Context) -> Changes:
    """Ask a second model, which sees both questions, whether the answer is still right."""
    verdict, reply = await ask_verdict(
        context,
        "build/case_unchanged",
        UNCHANGED,
        role="checking",
        question=state["asked"],
        rewritten=state["rewritten"],
        answer=state["reply"],
    )
    if verdict["unchanged"] == "no":
        raise Rejected(ANSWER_CHANGED, reply)
    return keep_item(
        question=state["rewritten"],
        answer=state["reply"],
        original=state["asked"],
        significance=state["contribution"],
        kind=state["kind"],
        timeline=state["events"],
        decision=state["decision"],
        distractors=state["distractors"],
    )


def numbered(events: list[str]) -> str:
    """Return the events as lines, numbered from 1."""
    return "\n".join(f"{number}. {event}" for number, event in enumerate(events, 1))


NOT_IN_TIMELINE = "the answer is not in the timeline"
TOO_EARLY = "the answer is before the decision point"
IN_QUESTION = "the answer is in the question"
TELLS_LATER_EVENT = "the question reveals what came after the decision point"
_CARRYING = 4
"""Number of letters from which a word counts as a part of the answer."""


def timeline_fault(answer: str, events: Sequence[str], decision: int) -> str:
    """Return why an answer is not verbatim from the timeline at its decision point or after, or an empty string.

    `decision` counts from 1.
    """
    event_numbers = [number for number, event in enumerate(events, 1) if holds_verbatim(answer, event)]
    if not event_numbers:
        return NOT_IN_TIMELINE
    return "" if event_numbers[-1] >= decision else TOO_EARLY


def question_fault(question: str, answer: str, events: Sequence[str], decision: int) -> str:
    """Return why a question gives its answer away; empty if it does not.

    It does if it contains the answer word for word, or all of its longer words, or a complete later event.
    """
    question_words = set(folded(question).split())
    answer_words = {word for word in folded(answer).split() if len(word) >= _CARRYING}
    if holds_verbatim(answer, question) or (answer_words and answer_words <= question_words):
        return IN_QUESTION
    return TELLS_LATER_EVENT if any(holds_verbatim(event, question) for event in events[decision - 1 :]) else ""


STAGES: dict[str, Stage] = {
    "significance": significance,
    "timeline": timeline,
    "question": question,
    "verbatim": verbatim,
    "follows": follows,
    "rewrite": rewrite,
    "unchanged": unchanged,
}
PIPELINE = Pipeline(
    name="case-questions",
    graph="ragrounds.extensions.construction.case_questions:build",
    summary="Case reports → questions up to the decision point, verbatim answers, distractors, a sheet for experts.",
    source="OGCaReBench, Section 3.1",
    stages=tuple(STAGES),
)
