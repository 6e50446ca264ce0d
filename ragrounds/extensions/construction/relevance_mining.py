"""`relevance-mining`: a question's relevant documents, found by a committee and graded by a model (R2MED, Section 3.3
and Appendix A).

START → difficulty → open → reason → candidates → grade → END

* ``difficulty``: a panel of small models answers a multiple-choice question (Appendix A.1: four instruction-tuned
  ones). A question that more than one of them gets right is rejected, as is one where the panel's unreadable replies
  could decide. Other questions pass.
* ``open``: a multiple-choice question is rewritten without its options; its answer is the right option's text.
* ``reason``: a model writes the way from question to answer.
* ``candidates``: every retriever searches with question, answer and reasoning; documents are ranked by how often they
  are found.
* ``grade``: a model grades each from 0 to 10 on two axes, its relevance to the answer and its support of the reasoning.
  A grade that cannot be read or was refused leaves its document ungraded; the question continues.

8 and above on both axes is a verified positive, 4 and below on both a verified negative. Everything else is ambiguous
and dropped, 5 to 7 as much as an 8 beside a 3: the paper mentions no mixed case, and a document that is neither is
safest left out. The two thresholds apply where the benchmark is written
(:mod:`ragrounds.extensions.construction.benchmark`), so that changing them asks no model again. Equal texts are graded
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import Context
from ragrounds.base.errors import UserError
from ragrounds.base.records import Gold, Passage, Query, Question
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
    kept,
    none_left,
    of_part,
)
from ragrounds.graphs.answer_prompts import options_block
from ragrounds.graphs.state import Graph, whole

PROMPTS = ("choice/direct", "build/open_question", "build/reasoning_path", "build/two_axes")
STAGES = ("difficulty", "open", "reason", "candidates", "grade")
TOO_EASY = "the panel answers it"
NEEDS_OPTIONS = "it needs its options"


class MiningState(PipelineState, total=False):
    """What the stages write."""

    query: str
    reference: str
    """The answer, as text."""
    reasoning: str
    candidates: list[JsonObject]


class OpenQuestion(Struct, frozen=True):
    """A question without its options; empty: it needs them."""

    question: str


class ReasoningPath(Struct, frozen=True):
    """A way from question to answer."""

    reasoning: str


def build() -> Graph:
    """The stages in line."""
    return in_line(MiningState, dict(zip(STAGES, (_difficulty, _open, _reason, _candidates, _grade), strict=True)))


async def _difficulty(state: MiningState, context: Context) -> Changes:
    question, size = context.question, whole(context, "panel", 0, least=0)
    if not question.options or not size:
        return {}
    roles = [f"panel_{number}" for number in range(1, size + 1)]
    predictions = {role: await _predicted(context, question, role) for role in roles}
    right = reference_of(question).label
    found = difficulty(predictions, right, whole(context, "most_right", 1, least=0))
    said = ", ".join(f"{role}: {prediction or '-'}" for role, prediction in predictions.items())
    if found == "too easy":
        raise Rejected(TOO_EASY, f"{right} is right ({said})")
    if found == "undecided":
        raise Rejected(MALFORMED, f"unreadable replies could change the result ({said})")
    return {}


async def _predicted(context: Context, question: Question, role: str) -> str | None:
    values = {"question": question.text, "options": options_block(question.options)}
    messages = context.prompts.render("choice/direct", question.language, **values)
    for _ in range(TRIES):
        prediction = chosen((await context.ask(messages, role=role)).text, question)
        if prediction is not None:
            return prediction
        context.note("malformed", f"{role}: no option can be read")
    return None


async def _open(state: MiningState, context: Context) -> Changes:
    question = context.question
    answer = reference_of(question).text
    if not question.options:
        return {"query": question.text, "reference": answer}

    def _check(given: OpenQuestion) -> str:
        # What the question itself already said is no slip of the rewriter.
        slips = [
            text for text in question.options.values() if _gives_away(text) and not holds_verbatim(text, question.text)
        ]
        slipped = next((text for text in slips if holds_verbatim(text, given.question)), "")
        return f"the question holds the option {slipped[:80]!r}" if slipped else ""

    values = {"question": question.text, "choices": options_block(question.options), "answer": answer}
    made = await ask_for(context, "build/open_question", OpenQuestion, role="rewriting", check=_check, **values)
    if not made.question.strip():
        raise Rejected(NEEDS_OPTIONS, f"the model gave an empty question for: {question.text}")
    return {"query": made.question.strip(), "reference": answer}


async def _reason(state: MiningState, context: Context) -> Changes:
    def _check(given: ReasoningPath) -> str:
        return "" if given.reasoning.strip() else "the reasoning is empty"

    values = {"question": state["query"], "answer": state["reference"]}
    made = await ask_for(context, "build/reasoning_path", ReasoningPath, role="reasoning", check=_check, **values)
    return {"reasoning": made.reasoning.strip()}


async def _candidates(state: MiningState, context: Context) -> Changes:
    depth = whole(context, "top_k", 100)
    views = {"query": state["query"], "answer": state["reference"], "reasoning": state["reasoning"]}
    found = {view: await context.search(Query(text), depth) for view, text in views.items()}
    known = [passage.id for passage in known_of(context.question)]
    ranked = by_frequency(rankings_of(found), whole(context, "candidates", 100), known)
    if not ranked:
        raise Rejected(NOTHING_FOUND, f"for the question {state['query']}")
    return {"candidates": [msgspec.to_builtins(each) for each in ranked]}


async def _grade(state: MiningState, context: Context) -> Changes:
    known = {passage.id: passage for passage in known_of(context.question)}
    values = {"question": state["query"], "answer": state["reference"], "reasoning": state["reasoning"]}
    graded: dict[str, JsonObject] = {}
    faults: list[Rejected] = []
    rows: list[JsonObject] = []
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
        grades=rows,
    )


def _gives_away(option: str) -> bool:
    """Whether an option's text in a question gives the option away: "no" and "yes" may stand there by chance."""
    return len(option) > _SHORT or not option.isascii()


_SHORT = 3


MOST_RIGHT = 1
"""Of the panel may answer right; the paper's own number."""

PanelVerdict = Literal["kept", "too easy", "undecided"]
"""``undecided``: replies that cannot be read could make it too easy."""


def chosen(text: str, question: Question) -> str | None:
    """The option that a reply chooses, by the scorer ``robust``; empty where it chooses none in so many words;
    ``None`` where it cannot be read."""
    found = read_robustly(text, question)
    return found.prediction if found.status in ("answered", "abstained", "refused") else None


def difficulty(predictions: Mapping[str, str | None], answer: str, most_right: int = MOST_RIGHT) -> PanelVerdict:
    """Judge a question by its panel.

    Args:
        predictions: Model → the option it chose, as :func:`chosen` gives it.
        answer: The right option.
        most_right: More right answers than this, and the question is too easy.
    """
    right = sum(prediction == answer for prediction in predictions.values())
    silent = sum(prediction is None for prediction in predictions.values())
    return "too easy" if right > most_right else "undecided" if right + silent > most_right else "kept"


AXES = ("relevance", "support")
HIGHEST = 10
CONTRACT = VerdictForm(AXES, tuple(str(grade) for grade in range(HIGHEST + 1)))
"""What the grader must answer."""

DocumentFate = Literal["positive", "negative", "dropped", "ungraded"]


class GradeThresholds(Struct, frozen=True, kw_only=True):
    """Where positives begin and negatives end."""

    positive: int = 8
    """At least this on both axes."""
    negative: int = 4
    """At most this on both axes."""

    def __post_init__(self) -> None:
        if not 0 <= self.negative < self.positive <= HIGHEST:
            raise UserError(
                f"Negatives up to {self.negative} and positives from {self.positive}: expected 0 ≤ negative < positive "
                f"≤ {HIGHEST}."
            )


def fate(grades: Mapping[str, Any], thresholds: GradeThresholds) -> DocumentFate:
    """What becomes of a document with these grades (axis → whole number); without both it is ungraded."""
    given = [grades[axis] for axis in AXES if axis in grades]
    if len(given) < len(AXES):
        return "ungraded"
    if min(given) >= thresholds.positive:
        return "positive"
    return "negative" if max(given) <= thresholds.negative else "dropped"


class ReferenceAnswer(Struct, frozen=True):
    """What is right: the graph grades by it, so an item carries it with its question."""

    text: str
    label: str = ""
    """Of the right option."""


def reference_of(question: Question) -> ReferenceAnswer:
    """The answer that an item carries."""
    return ReferenceAnswer(question.metadata["answer"], question.metadata.get("label", ""))


def known_of(question: Question) -> list[Passage]:
    """The initial positives that an item carries: passages of the documents its benchmark names."""
    return msgspec.json.decode(question.metadata.get("known", "[]"), type=list[Passage])


def question_items(benchmark: Benchmark, corpus: Corpus) -> tuple[list[Item], list[Dropped]]:
    """Items from any benchmark that has answers, and what of it is none."""
    items: list[Item] = []
    dropped: list[Dropped] = []
    for question in benchmark.questions:
        gold = benchmark.golds[question.id]
        answer = _answer(question, gold)
        if question.kind == "extraction":
            dropped.append(_dropped(question, "it asks for no answer in words"))
        elif not answer.text.strip():
            dropped.append(_dropped(question, "it has no answer"))
        else:
            items.append(Item(_carrying(question, answer, _known(gold, corpus)), gold))
    return items, dropped


def _dropped(question: Question, reason: str) -> Dropped:
    return Dropped(id=question.id, stage=INTAKE, reason=reason, detail=question.text)


def _answer(question: Question, gold: Gold) -> ReferenceAnswer:
    if question.options:
        return ReferenceAnswer(question.options[gold.answer], gold.answer)
    # A question with required facts and no reference answer: the facts, each in its first wording.
    return ReferenceAnswer(gold.answer or "; ".join(wordings[0] for wordings in gold.facts if wordings))


def _known(gold: Gold, corpus: Corpus) -> list[Passage]:
    return [passage for document in gold.documents for passage in corpus.document(document)]


def _carrying(question: Question, answer: ReferenceAnswer, known: Iterable[Passage]) -> Question:
    carried: Mapping[str, str] = {
        "answer": answer.text,
        "label": answer.label,
        "known": msgspec.json.encode(list(known)).decode(),
    }
    return replace(question, metadata=dict(carried))


PIPELINE = Pipeline(
    name="relevance-mining",
    graph="ragrounds.extensions.construction.relevance_mining:build",
    summary="Questions with answers → the documents of a corpus that they rest on, by a committee and two-axis grades.",
    source="R2MED, Section 3.3 and Appendix A",
    stages=STAGES,
    parameters={"panel": 0, "most_right": 1, "top_k": 100, "candidates": 100, "positive": 8, "negative": 4},
    searches=True,
)
