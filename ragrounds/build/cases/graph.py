"""The graph of `case-questions` (OGCaReBench, Section 3.1, steps 2 and 3).

significance → timeline → question → verbatim → follows → rewrite → unchanged. `verbatim` asks no model. A report whose
significance is only standard care for a rare disease is left, as in the paper. Roles: ``rewriting`` and ``checking``
have models of their own where they are named (the paper rewrote by another model than the one that asked); all else is
``writing``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from langgraph.graph import StateGraph
from msgspec import Struct

from ragrounds.build.cases.checks import question_fault, timeline_fault
from ragrounds.build.stages import Rejected, ask_for, ask_verdict, in_line, kept
from ragrounds.build.stages import State as Shared
from ragrounds.build.wording import folded
from ragrounds.contracts import Context
from ragrounds.evals.judges.verdict import Contract

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
FOLLOWS = Contract(("follows",), ("yes", "no"))
UNCHANGED = Contract(("unchanged",), ("yes", "no"))
_MOST = 200
"""Events of a timeline."""


class State(Shared, total=False):
    contribution: str
    kind: str
    events: list[str]
    decision: int
    """Number of the event, from 1, that the question asks for."""
    asked: str
    reply: str
    """The answer to the question."""
    rewritten: str
    distractors: list[str]


def build() -> StateGraph[Any, Context, Any, Any]:
    """The stages in their order."""
    return in_line(
        State,
        {
            "significance": significance,
            "timeline": timeline,
            "question": question,
            "verbatim": verbatim,
            "follows": follows,
            "rewrite": rewrite,
            "unchanged": unchanged,
        },
    )


class Significance(Struct):
    kind: Literal["treatment", "test", "diagnosis", "none"]
    significance: str = ""


class Timeline(Struct):
    timeline: list[str]


class Draft(Struct):
    decision: int
    case: str
    question: str
    answer: str


class Rewritten(Struct):
    question: str
    distractors: list[str]
    answer: str = ""


async def significance(state: State, context: Context) -> Mapping[str, Any]:
    def check(read: Significance) -> str:
        return "" if read.kind == "none" or read.significance.strip() else "the significance is empty"

    read = await ask_for(
        context,
        "build/case_significance",
        Significance,
        role="writing",
        check=check,
        shorten="report",
        report=context.stem.text,
    )
    if read.kind == "none":
        raise Rejected(NOTHING_NEW, read.significance)
    return {"contribution": read.significance.strip(), "kind": read.kind}


async def timeline(state: State, context: Context) -> Mapping[str, Any]:
    def check(read: Timeline) -> str:
        count = len([event for event in read.timeline if event.strip()])
        return "" if 2 <= count <= _MOST else f"expected 2 to {_MOST} events, got {count}"

    read = await ask_for(
        context,
        "build/case_timeline",
        Timeline,
        role="writing",
        check=check,
        shorten="report",
        report=context.stem.text,
    )
    return {"events": [" ".join(event.split()) for event in read.timeline if event.strip()]}


async def question(state: State, context: Context) -> Mapping[str, Any]:
    events = state["events"]

    def check(read: Draft) -> str:
        if not 2 <= read.decision <= len(events):
            return f"the decision is event {read.decision}; expected 2 to {len(events)}"
        return "" if all(text.strip() for text in (read.case, read.question, read.answer)) else "a field is empty"

    read = await ask_for(
        context,
        "build/case_question",
        Draft,
        role="writing",
        check=check,
        significance=state["contribution"],
        timeline=numbered(events),
    )
    asked = f"{read.case.strip()} {read.question.strip()}"
    return {"asked": asked, "reply": read.answer.strip(), "decision": read.decision}


async def verbatim(state: State, context: Context) -> Mapping[str, Any]:
    """The answer is verbatim from the timeline, and the question does not give it away."""
    events, decision, reply = state["events"], state["decision"], state["reply"]
    fault = timeline_fault(reply, events, decision) or question_fault(state["asked"], reply, events, decision)
    if fault:
        raise Rejected(fault, reply)
    return {}


async def follows(state: State, context: Context) -> Mapping[str, Any]:
    verdict, said = await ask_verdict(
        context,
        "build/case_follows",
        FOLLOWS,
        role="writing",
        significance=state["contribution"],
        question=state["asked"],
        answer=state["reply"],
    )
    if verdict["follows"] == "no":
        raise Rejected(NOT_SIGNIFICANT, said)
    return {}


async def rewrite(state: State, context: Context) -> Mapping[str, Any]:
    def check(read: Rewritten) -> str:
        return "" if read.question.strip() else "the question is empty"

    read = await ask_for(
        context,
        "build/case_rewrite",
        Rewritten,
        role="rewriting",
        check=check,
        question=state["asked"],
        answer=state["reply"],
    )
    added = [" ".join(text.split()) for text in read.distractors if text.strip()]
    if not added or folded(read.question) == folded(state["asked"]):
        raise Rejected(NOT_REWRITTEN, read.question)
    if read.answer.strip() and folded(read.answer) != folded(state["reply"]):
        raise Rejected(ANSWER_CHANGED, read.answer)
    fault = question_fault(read.question, state["reply"], state["events"], state["decision"])
    if fault:
        raise Rejected(fault, read.question)
    return {"rewritten": read.question.strip(), "distractors": added}


async def unchanged(state: State, context: Context) -> Mapping[str, Any]:
    """A second model sees both questions: is the answer still the one to give?"""
    verdict, said = await ask_verdict(
        context,
        "build/case_unchanged",
        UNCHANGED,
        role="checking",
        question=state["asked"],
        rewritten=state["rewritten"],
        answer=state["reply"],
    )
    if verdict["unchanged"] == "no":
        raise Rejected(ANSWER_CHANGED, said)
    return kept(
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
    """Events as lines, from 1."""
    return "\n".join(f"{number}. {event}" for number, event in enumerate(events, 1))
