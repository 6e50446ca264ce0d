"""The graph of `false-negatives`: START → candidates → draw → grade → END.

* ``candidates``: the `depth` documents that the retriever finds for the query, best first (CMedTEB: the top 50).
* ``draw``: which of them are graded.
* ``grade``: a model grades each from S to D (CMedTEB, Table 23), several a call. What it gave no readable grade for,
  or refused, stays without one; the query goes on, unless nothing of it was graded.

No node sees which documents the benchmark labels as relevant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.graph import StateGraph

from ragrounds.build.labels.labelling import PROMPT, label_passages
from ragrounds.build.missing.drawing import drawn, read_bands
from ragrounds.build.retrieval.sets import titled
from ragrounds.build.stages import Rejected, in_line, kept
from ragrounds.build.stages import State as Shared
from ragrounds.contracts import Context
from ragrounds.graphs.state import whole, word
from ragrounds.records import Query

PROMPTS = (PROMPT,)
NOTHING_FOUND = "nothing was found"


class State(Shared, total=False):
    found: dict[str, str]
    """Document → its best passage, best first."""
    drawn: list[str]
    """The documents that are graded."""


def build() -> StateGraph[Any, Context, Any, Any]:
    """The stages in line."""
    return in_line(State, {"candidates": candidates, "draw": draw, "grade": grade})


async def candidates(state: State, context: Context) -> Mapping[str, Any]:
    depth = whole(context, "depth", 50)
    asked, found = depth, await context.search(Query.of(context.stem), depth)
    while len({passage.document for passage in found}) < depth and len(found) == asked:
        # Of a corpus that is cut into chunks, several may be of one document.
        asked *= 4
        found = await context.search(Query.of(context.stem), asked)
    best: dict[str, str] = {}
    for passage in found:
        best.setdefault(passage.document, passage.id)
    if not best:
        raise Rejected(NOTHING_FOUND, f"for the query {context.stem.text}")
    return {"found": dict(list(best.items())[:depth])}


async def draw(state: State, context: Context) -> Mapping[str, Any]:
    bands = read_bands(word(context, "bands", "10,25"), whole(context, "depth", 50))
    seed = f"{whole(context, 'seed', 0, least=0)}\n{context.seed}"
    return {"drawn": drawn(list(state["found"]), bands, whole(context, "sample", 0, least=0), seed)}


async def grade(state: State, context: Context) -> Mapping[str, Any]:
    found = state["found"]
    texts = {document: titled(context.passage(found[document])) for document in state["drawn"]}
    said = await label_passages(context, texts, ["grading"], whole(context, "at_once", 10))
    grades = {document: given[0] for document, given in said.given.items()}
    return kept(candidates=list(found), grades=grades, faults=said.faults)
