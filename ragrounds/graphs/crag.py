"""`crag`: what was found is graded, and kept, corrected by another search, or both (CRAG: Yan et al., 2024, Section 4).

Each passage that the question finds gets a score from -1 to 1 for how much it helps. One of at least `upper`: what was
found is *correct*. All below `lower`: *incorrect*, and a query of at most three keywords is written and searched for
elsewhere. Else *ambiguous*: both. What is used is refined: passages are cut to strips of `sentences` sentences, the
strips are graded in the same way, and the best are read in their old order: `strips` of what was found first,
`further_strips` of what was found elsewhere.

The authors' shipped script keeps whole passages, three of what was found first, by score: ``sentences=0,strips=3``,
``strip_order=score``. Strips of fewer than `shortest_strip` words (theirs: 4) are not graded and get -1.

Elsewhere is the last tool of two or more that search, ``crag[tools=[corpus,pubmed]]``, and the first one is searched
before it; the paper's is the web. An agent without them searches its own corpus again. The numbers are those of the
authors' code (HuskyInSalt/CRAG: ten passages, thresholds 0.592 and -0.995 for PopQA, strips of three sentences, six and
five of them).

Sees the options: `answer`. Differs: a model is asked for the scores, all in one call, where the authors train T5 for
them; it is the reader (`reader=`) where the agent has one. Pages of the web are cut to strips as passages are, where
theirs are to paragraphs. Scores that cannot be read count as 0: ambiguous. Without any strip the question is answered
from what the model knows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from msgspec.structs import replace
from typing_extensions import TypedDict

from ragrounds.base.contracts import Context, Tool
from ragrounds.base.records import Message, Passage, Query
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.documents import fitted, render_documents
from ragrounds.graphs.model_text import without_thought, written_query
from ragrounds.graphs.shapes import answered, branch, number, read_object, sentences
from ragrounds.graphs.state import Graph, Runtime, choice, int_parameter
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ANSWERING, "crag/grade", "crag/rewrite")


class Strip(TypedDict):
    """Part of a passage."""

    passage: str
    number: int


class State(Shared, total=False):
    action: Literal["correct", "incorrect", "ambiguous"]
    query: str
    further: list[str]
    """Ids of passages that were found elsewhere."""
    strips: list[Strip]
    """Strips that the model reads."""


def build() -> Graph:
    """Build the graph START → search → judge (→ rewrite → search_further) → refine → answer → END."""
    corrected = [rewrite, search_further, refine]
    ways = {"correct": [refine], "incorrect": corrected, "ambiguous": corrected}
    return branch(State, search, judge, choose_branch=lambda state, context: state["action"], ways=ways, answer=answer)


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search for the question's stem."""
    return {"passages": await found_by(runtime.context, Query.from_stem(runtime.context.stem), 0)}


async def judge(state: State, runtime: Runtime[Context]) -> State:
    """Grade the passages, and choose what to do with them."""
    context = runtime.context
    scores = await graded(context, [context.passage(id) for id in state["passages"]])
    if any(score >= number(context, "upper", 0.592) for score in scores):
        return {"action": "correct"}
    lower = number(context, "lower", -0.995)
    return {"action": "incorrect" if all(score < lower for score in scores) else "ambiguous"}


async def rewrite(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for keywords of the question."""
    context, stem = runtime.context, runtime.context.stem
    reply = await context.ask(
        context.prompts.render("crag/rewrite", stem.language, question=stem.text), role="querying"
    )
    query = written_query(context, without_thought(reply.text)).text
    if not query:
        context.note("no_queries", "no keywords were written; the question itself is searched for")
    return {"query": query or stem.text}


async def search_further(state: State, runtime: Runtime[Context]) -> State:
    """Search elsewhere, with the keywords."""
    return {"further": await found_by(runtime.context, Query(state["query"]), -1)}


def searching(context: Context) -> list[Tool]:
    """Return the agent's tools that search."""
    return [tool for tool in context.tools if "query" in str(tool.parameters.get("required"))]


async def found_by(context: Context, query: Query, index: int) -> list[str]:
    """Return the ids of passages that one of the agent's searching tools finds, or its corpus if it lists fewer than
    two.
    """
    k, tools = int_parameter(context, "top_k", 10), searching(context)
    if len(tools) > 1:
        passages = (await context.use(tools[index].name, {"query": query.text}, k=k)).passages
    else:
        passages = await context.search(query, k)
    return [passage.id for passage in passages]


async def refine(state: State, runtime: Runtime[Context]) -> State:
    """Cut passages to strips, and keep the best."""
    context = runtime.context
    passage_ids = state["passages"] if state["action"] != "incorrect" else []
    further = [id for id in state.get("further", []) if id not in passage_ids]
    return {
        "strips": await _best_strips(context, passage_ids, "strips", 6)
        + await _best_strips(context, further, "further_strips", 5)
    }


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Ask for the answer with the strips in place of documents."""
    context = runtime.context
    passages = [_strip_passage(context, strip) for strip in state["strips"]]
    if not passages:
        context.note("nothing_found", "no strip was left; the question is answered without any")
    return await answered(context, passages or None)


async def _best_strips(context: Context, ids: Sequence[str], parameter: str, default: int) -> list[Strip]:
    """Return the best strips of some passages, in their old order or by score. `parameter` names their number."""
    strips: list[Strip] = [
        {"passage": id, "number": index} for id in ids for index in range(len(_strip_texts(context, id)))
    ]
    by_score = choice(context, "strip_order", ("reading", "score")) == "score"
    shortest, scores = int_parameter(context, "shortest_strip", 0, 0), [-1.0] * len(strips)
    texts = [_strip_passage(context, strip) for strip in strips]
    long_enough = [index for index, text in enumerate(texts) if len(text.text.split()) >= shortest]
    for index, score in zip(long_enough, await graded(context, [texts[index] for index in long_enough]), strict=True):
        scores[index] = score
    best = sorted(range(len(strips)), key=lambda index: -scores[index])[: int_parameter(context, parameter, default)]
    return [strips[index] for index in (best if by_score else sorted(best))]


def _strip_texts(context: Context, id: str) -> list[str]:
    """Cut a passage's text to strips of `sentences` sentences; 0: the whole text is one."""
    text = context.passage(id).text
    size, parts = int_parameter(context, "sentences", 3, 0), sentences(text)
    if not size:
        return [text]
    return [" ".join(parts[start : start + size]) for start in range(0, len(parts), size)]


def _strip_passage(context: Context, strip: Strip) -> Passage:
    """Return the passage of a strip with the strip as its text."""
    return replace(context.passage(strip["passage"]), text=_strip_texts(context, strip["passage"])[strip["number"]])


async def graded(context: Context, texts: Sequence[Passage]) -> list[float]:
    """Return a score for each text. Texts that did not fit the window get -1."""
    if not texts:
        return []
    stem = context.stem

    def prompt(documents: str) -> tuple[Message, ...]:
        """Render the prompt with these documents."""
        count = str(len(texts))
        return context.prompts.render(
            "crag/grade", stem.language, question=stem.text, documents=documents, number=count
        )

    visible = fitted(context, texts, prompt, role="reading")
    reply = await context.ask(prompt(render_documents(visible)), role="reading")
    scores = read_scores(without_thought(reply.text))
    if len(scores) != len(visible):
        context.note("unreadable_scores", f"{len(scores)} scores for {len(visible)} texts; those that lack count as 0")
    return ([*scores, *[0.0] * len(visible)])[: len(visible)] + [-1.0] * (len(texts) - len(visible))


def read_scores(text: str) -> list[float]:
    """Return the scores in a model's reply, each from -1 to 1. An entry that is not a number counts as 0."""
    listed: Any = read_object(text).get("scores")
    return [_score(score) for score in listed] if isinstance(listed, list) else []


def _score(value: object) -> float:
    """Return a score from -1 to 1; 0 for a value that is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return 0.0
    return float(max(-1, min(1, value)))
