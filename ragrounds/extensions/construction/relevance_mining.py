"""Pipeline `relevance-mining`: finds a question's relevant documents by a committee and grades them by a model (R2MED,
Section 3.3 and Appendix A).

START → difficulty → open → reason → candidates → grade → END

* ``difficulty``: a panel of small models answers a multiple-choice question (Appendix A.1: four instruction-tuned
  ones). A question that more than one of them gets right is rejected, as is one for which the panel's unreadable
  replies could decide. Other questions pass.
* ``open``: a multiple-choice question is rewritten without its options; its answer is the right option's text.
* ``reason``: a model writes the reasoning from question to answer.
* ``candidates``: every retriever searches with question, answer and reasoning; documents are ranked by how often they
  are found.
* ``grade``: a model grades each from 0 to 10 on two axes, its relevance to the answer and its support of the reasoning.
  A grade that cannot be read or was refused leaves its document ungraded; the question continues.

8 and above on both axes is a verified positive, 4 and below on both a verified negative. Everything else is ambiguous
and dropped, 5 to 7 as well as an 8 with a 3: the paper mentions no mixed case, and a document that is neither is safest
left out. The two thresholds apply when the benchmark is written (:mod:`ragrounds.extensions.construction.benchmark`),
so that changing them repeats no model call. Equal texts are graded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import Context
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage, Query, Question
from ragrounds.evals.benchmarks.benchmark import Benchmark, Item
from ragrounds.evals.scorers.judged import VerdictForm
from ragrounds.evals.scorers.robust import read_robustly
from ragrounds.extensions.construction.committee import by_frequency, rankings_of
from ragrounds.extensions.construction.items import INTAKE, Dropped
from ragrounds.extensions.construction.judged_sets import Corpus, titled
from ragrounds.extensions.construction.outcome import JsonObject
from ragrounds.extensions.construction.pipeline import Pipeline
from ragrounds.extensions.construction.stages import (
    MALFORMED,
    NOTHING_FOUND,
    TRIES,
    Changes,
    PipelineState,
    Rejected,
    ask_for,
    ask_verdict,
    holds_verbatim,
    in_line,
    keep_item,
    none_left,
    of_part,
)
from ragrounds.graphs.answer_prompts import options_block
from ragrounds.graphs.state import Graph, int_parameter

PROMPTS = ("choice/direct", "build/open_question", "build/reasoning_path", "build/two_axes")
STAGES = ("difficulty", "open", "reason", "candidates", "grade")
TOO_EASY = "the panel answers it"
NEEDS_OPTIONS = "it needs its options"


class MiningState(PipelineState, total=False):
    """State that the stages write."""

    query: str
    reference: str
    """Answer as text."""
    reasoning: str
    candidates: list[JsonObject]


class OpenQuestion(Struct, frozen=True):
    """A question without its options; empty if it needs them."""

    question: str


class ReasoningPath(Struct, frozen=True):
    """The reasoning from a question to its answer."""

    reasoning: str


def build() -> Graph:
    """Build the graph of the stages."""
    return in_line(MiningState, dict(zip(STAGES, (_difficulty, _open, _reason, _candidates, _grade), strict=True)))


async def _difficulty(state: MiningState, context: Context) -> Changes:
    question, size = context.question, int_parameter(context, "panel", 0, least=0)
    if not question.options or not size:
        return {}
    roles = [f"panel_{number}" for number in range(1, size + 1)]
    predictions = {role: await _predicted(context, question, role) for role in roles}
    right_label = reference_of(question).label
    verdict = difficulty(predictions, right_label, int_parameter(context, "most_right", 1, least=0))
    replies_text = ", ".join(f"{role}: {prediction or '-'}" for role, prediction in predictions.items())
    if verdict == "too easy":
        raise Rejected(TOO_EASY, f"{right_label} is right ({replies_text})")
    if verdict == "undecided":
        raise Rejected(MALFORMED, f"unreadable replies could change the result ({replies_text})")
    return {}


async def _predicted(context: Context, question: Question, role: str) -> str | None:
    values = {"question": question.text, "options": options_block(question.options)}
    messages = context.prompts.render("choice/direct", question.language, **values)
    for _ in range(TRIES):
        prediction = chosen_option((await context.ask(messages, role=role)).text, question)
        if prediction is not None:
            return prediction
        context.note("malformed", f"{role}: no option can be read")
    return None


async def _open(state: MiningState, context: Context) -> Changes:
    question = context.question
    answer = reference_of(question).text
    if not question.options:
        return {"query": question.text, "reference": answer}

    def _check(reply: OpenQuestion) -> str:
        # An option in the original question is not a mistake of the rewriter.
        slips = [
            text
            for text in question.options.values()
            # A short option, such as "no" or "yes", may be in a question by chance.
            if (len(text) > _SHORT_OPTION or not text.isascii()) and not holds_verbatim(text, question.text)
        ]
        slipped = next((text for text in slips if holds_verbatim(text, reply.question)), "")
        return f"the question holds the option {slipped[:80]!r}" if slipped else ""

    values = {"question": question.text, "choices": options_block(question.options), "answer": answer}
    rewritten = await ask_for(context, "build/open_question", OpenQuestion, role="rewriting", check=_check, **values)
    if not rewritten.question.strip():
        raise Rejected(NEEDS_OPTIONS, f"the model gave an empty question for: {question.text}")
    return {"query": rewritten.question.strip(), "reference": answer}


async def _reason(state: MiningState, context: Context) -> Changes:
    path = await ask_for(
        context,
        "build/reasoning_path",
        ReasoningPath,
        role="reasoning",
        check=lambda reply: "" if reply.reasoning.strip() else "the reasoning is empty",
        question=state["query"],
        answer=state["reference"],
    )
    return {"reasoning": path.reasoning.strip()}


async def _candidates(state: MiningState, context: Context) -> Changes:
    depth = int_parameter(context, "top_k", 100)
    views = {"query": state["query"], "answer": state["reference"], "reasoning": state["reasoning"]}
    hits_by_view = {view: await context.search(Query(text), depth) for view, text in views.items()}
    known_ids = [passage.id for passage in known_of(context.question)]
    ranked = by_frequency(rankings_of(hits_by_view), int_parameter(context, "candidates", 100), known_ids)
    if not ranked:
        raise Rejected(NOTHING_FOUND, f"for the question {state['query']}")
    return {"candidates": [msgspec.to_builtins(candidate) for candidate in ranked]}


async def _grade(state: MiningState, context: Context) -> Changes:
    known_passages = {passage.id: passage for passage in known_of(context.question)}
    values = {"question": state["query"], "answer": state["reference"], "reasoning": state["reasoning"]}
    graded: dict[str, JsonObject] = {}
    faults: list[Rejected] = []
    rows: list[JsonObject] = []
    for candidate in state["candidates"]:
        id = candidate["id"]
        text = titled(known_passages.get(id) or context.passage(id))
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
        rows.append({**candidate, "known": id in known_passages, **graded[text]})
    if len(faults) == len(graded):
        none_left(faults)
    return keep_item(
        query=state["query"],
        answer=state["reference"],
        reasoning=state["reasoning"],
        grades=rows,
    )


_SHORT_OPTION = 3
"""Number of letters up to which an option is short."""
MOST_RIGHT = 1
"""Largest number of right answers by the panel; from the paper."""

PanelVerdict = Literal["kept", "too easy", "undecided"]
"""Verdict on a question; ``undecided`` if unreadable replies could make it too easy."""


def chosen_option(text: str, question: Question) -> str | None:
    """Return the option that a reply chooses, by the scorer ``robust``.

    Empty if it chooses none explicitly; ``None`` if it cannot be read.
    """
    reading = read_robustly(text, question)
    return reading.prediction if reading.status in ("answered", "abstained", "refused") else None


def difficulty(predictions: Mapping[str, str | None], answer: str, most_right: int = MOST_RIGHT) -> PanelVerdict:
    """Judge a question by its panel.

    Args:
        predictions: model → the option it chose, from :func:`chosen`.
        answer: the right option.
        most_right: largest number of right answers of a question that is not too easy.
    """
    right_count = sum(prediction == answer for prediction in predictions.values())
    unreadable_count = sum(prediction is None for prediction in predictions.values())
    if right_count > most_right:
        return "too easy"
    return "undecided" if right_count + unreadable_count > most_right else "kept"


AXES = ("relevance", "support")
HIGHEST = 10
CONTRACT = VerdictForm(AXES, tuple(str(grade) for grade in range(HIGHEST + 1)))
"""Form of the grader's verdict."""

DocumentFate = Literal["positive", "negative", "dropped", "ungraded"]


class GradeThresholds(Struct, frozen=True, kw_only=True):
    """Thresholds of the grades of positives and negatives."""

    positive: int = 8
    """Smallest grade of a positive, on both axes."""
    negative: int = 4
    """Largest grade of a negative, on both axes."""

    def __post_init__(self) -> None:
        if not 0 <= self.negative < self.positive <= HIGHEST:
            raise UserError(
                f"Negatives up to {self.negative} and positives from {self.positive}: expected 0 ≤ negative < positive "
                f"≤ {HIGHEST}."
            )


def fate(grades: Mapping[str, Any], thresholds: GradeThresholds) -> DocumentFate:
    """Return the fate of a document with these grades (axis → whole number); without both it is ungraded."""
    axis_grades = [grades[axis] for axis in AXES if axis in grades]
    if len(axis_grades) < len(AXES):
        return "ungraded"
    if min(axis_grades) >= thresholds.positive:
        return "positive"
    return "negative" if max(axis_grades) <= thresholds.negative else "dropped"


class ReferenceAnswer(Struct, frozen=True):
    """Reference answer of an item. The item carries it with its question, because the graph grades by it."""

    text: str
    label: str = ""
    """Label of the right option."""


def reference_of(question: Question) -> ReferenceAnswer:
    """Return the answer that an item carries."""
    return ReferenceAnswer(question.metadata["answer"], question.metadata.get("label", ""))


def known_of(question: Question) -> list[Passage]:
    """Return the initial positives that an item carries: passages of the documents that its benchmark names."""
    return msgspec.json.decode(question.metadata.get("known", "[]"), type=list[Passage])


def question_items(benchmark: Benchmark, corpus: Corpus) -> tuple[list[Item], list[Dropped]]:
    """Return items from any benchmark with answers, and the questions that are dropped."""
    items: list[Item] = []
    dropped: list[Dropped] = []
    for question in benchmark.questions:
        gold = benchmark.golds[question.id]
        if question.options:
            answer = ReferenceAnswer(question.options[gold.answer], gold.answer)
        else:
            # If a question has facts and no reference answer, the answer is the facts, each in its first wording.
            answer = ReferenceAnswer(gold.answer or "; ".join(wordings[0] for wordings in gold.facts if wordings))
        if question.kind == "extraction":
            dropped.append(_dropped(question, "it asks for no answer in words"))
        elif not answer.text.strip():
            dropped.append(_dropped(question, "it has no answer"))
        else:
            known_passages = [passage for document in gold.documents for passage in corpus.document(document)]
            known_json = msgspec.json.encode(known_passages).decode()
            metadata = {"answer": answer.text, "label": answer.label, "known": known_json}
            items.append(Item(replace(question, metadata=metadata), gold))
    return items, dropped


def _dropped(question: Question, reason: str) -> Dropped:
    return Dropped(id=question.id, stage=INTAKE, reason=reason, detail=question.text)


PIPELINE = Pipeline(
    name="relevance-mining",
    graph="ragrounds.extensions.construction.relevance_mining:build",
    summary="Questions with answers → the documents of a corpus that support them, by a committee and two-axis grades.",
    source="R2MED, Section 3.3 and Appendix A",
    stages=STAGES,
    parameters={"panel": 0, "most_right": 1, "top_k": 100, "candidates": 100, "positive": 8, "negative": 4},
    searches=True,
)
