"""`relevance-mining`: a question's relevant documents, found by a committee and graded by a model (R2MED, Section 3.3
and Appendix A).

START → difficulty → open → reason → candidates → grade → END

* ``difficulty``: a panel of small models answers a multiple-choice question; one that too many of them get right is
  rejected, as is one where the panel's unreadable replies could decide. Other questions pass.
* ``open``: a multiple-choice question is rewritten without its options; its answer is the right option's text.
* ``reason``: a model writes the way from question to answer.
* ``candidates``: every retriever searches with question, answer and reasoning; documents go by how often they are
  found.
* ``grade``: a model grades each on two axes. A grade that cannot be read or was refused leaves its document ungraded;
  the question goes on.

What becomes of a graded document is decided where the benchmark is written. Equal texts are graded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from langgraph.graph import StateGraph
from msgspec import Struct

from ragrounds.build.mining.difficulty import chosen, difficulty
from ragrounds.build.mining.grades import CONTRACT
from ragrounds.build.mining.item import known_of, reference_of
from ragrounds.build.parts import none_left, of_part
from ragrounds.build.retrieval.candidates import by_frequency, rankings_of
from ragrounds.build.retrieval.sets import titled
from ragrounds.build.stages import MALFORMED, TRIES, Rejected, State, ask_for, ask_verdict, in_line, kept
from ragrounds.build.wording import within
from ragrounds.contracts import Context
from ragrounds.graphs.answer_prompts import options_block
from ragrounds.graphs.state import whole
from ragrounds.records import Query, Question

PROMPTS = ("choice/direct", "build/open_question", "build/reasoning_path", "build/two_axes")
STAGES = ("difficulty", "open", "reason", "candidates", "grade")
TOO_EASY = "the panel answers it"
NEEDS_OPTIONS = "it needs its options"
NOTHING_FOUND = "nothing was found"


class Mined(State, total=False):
    """What the stages write."""

    panel: dict[str, str | None]
    """The panel's role → the option it chose."""
    query: str
    reference: str
    """The answer, as text."""
    reasoning: str
    candidates: list[dict[str, Any]]


class Rewritten(Struct, frozen=True):
    """A question without its options; empty: it needs them."""

    question: str


class Reasoned(Struct, frozen=True):
    """A way from question to answer."""

    reasoning: str


def build() -> StateGraph[Any, Context, Any, Any]:
    """The stages in line."""
    return in_line(Mined, dict(zip(STAGES, (_difficulty, _open, _reason, _candidates, _grade), strict=True)))


async def _difficulty(state: Mined, context: Context) -> Mapping[str, Any]:
    question, size = context.question, whole(context, "panel", 0, least=0)
    if not question.options or not size:
        return {}
    roles = [f"panel_{number}" for number in range(1, size + 1)]
    predictions = {role: await _predicted(context, question, role) for role in roles}
    found = difficulty(predictions, reference_of(question).label, whole(context, "most_right", 1, least=0))
    said = ", ".join(f"{role}: {prediction or '-'}" for role, prediction in predictions.items())
    if found.fate == "too easy":
        raise Rejected(TOO_EASY, f"{found.right} of {size} are right ({said})")
    if found.fate == "undecided":
        raise Rejected(MALFORMED, f"{found.silent} of {size} cannot be read and could decide ({said})")
    return {"panel": predictions}


async def _predicted(context: Context, question: Question, role: str) -> str | None:
    values = {"question": question.text, "options": options_block(question.options)}
    messages = context.prompts.render("choice/direct", question.language, **values)
    for _ in range(TRIES):
        prediction = chosen((await context.ask(messages, role=role)).text, question)
        if prediction is not None:
            return prediction
        context.note("malformed", f"{role}: no option can be read")
    return None


async def _open(state: Mined, context: Context) -> Mapping[str, Any]:
    question = context.question
    answer = reference_of(question).text
    if not question.options:
        return {"query": question.text, "reference": answer}

    def check(given: Rewritten) -> str:
        # What the question itself already said is no slip of the rewriter.
        slips = [text for text in question.options.values() if _telling(text) and not within(text, question.text)]
        slipped = next((text for text in slips if within(text, given.question)), "")
        return f"the question holds the option {slipped[:80]!r}" if slipped else ""

    values = {"question": question.text, "choices": options_block(question.options), "answer": answer}
    made = await ask_for(context, "build/open_question", Rewritten, role="rewriting", check=check, **values)
    if not made.question.strip():
        raise Rejected(NEEDS_OPTIONS, f"the model gave an empty question for: {question.text}")
    return {"query": made.question.strip(), "reference": answer}


async def _reason(state: Mined, context: Context) -> Mapping[str, Any]:
    def check(given: Reasoned) -> str:
        return "" if given.reasoning.strip() else "the reasoning is empty"

    values = {"question": state["query"], "answer": state["reference"]}
    made = await ask_for(context, "build/reasoning_path", Reasoned, role="reasoning", check=check, **values)
    return {"reasoning": made.reasoning.strip()}


async def _candidates(state: Mined, context: Context) -> Mapping[str, Any]:
    depth = whole(context, "top_k", 100)
    views = {"query": state["query"], "answer": state["reference"], "reasoning": state["reasoning"]}
    found = {view: await context.search(Query(text), depth) for view, text in views.items()}
    known = [passage.id for passage in known_of(context.question)]
    ranked = by_frequency(rankings_of(found), whole(context, "candidates", 100), known)
    if not ranked:
        raise Rejected(NOTHING_FOUND, f"for the question {state['query']}")
    return {"candidates": [msgspec.to_builtins(each) for each in ranked]}


async def _grade(state: Mined, context: Context) -> Mapping[str, Any]:
    known = {passage.id: passage for passage in known_of(context.question)}
    values = {"question": state["query"], "answer": state["reference"], "reasoning": state["reasoning"]}
    graded: dict[str, dict[str, Any]] = {}
    faults: list[Rejected] = []
    rows: list[dict[str, Any]] = []
    for candidate in state["candidates"]:
        id = candidate["id"]
        text = titled(known.get(id) or context.passage(id))
        if text not in graded:
            try:
                grades, _ = await of_part(
                    ask_verdict(
                        context, "build/two_axes", CONTRACT, role="grading", shorten="document", document=text, **values
                    )
                )
                graded[text] = {axis: int(grade) for axis, grade in grades.items()}
            except Rejected as rejected:
                faults.append(rejected)
                graded[text] = {"fault": rejected.detail, "reason": rejected.reason}
        rows.append({**candidate, "known": id in known, **graded[text]})
    if len(faults) == len(graded):
        none_left(faults)
    return kept(
        query=state["query"],
        answer=state["reference"],
        reasoning=state["reasoning"],
        panel=state.get("panel", {}),
        grades=rows,
    )


def _telling(option: str) -> bool:
    """Whether an option's text in a question tells something: "no" or "yes" there is a word like another."""
    return len(option) > _SHORT or not option.isascii()


_SHORT = 3
