"""`consensus-labels`: several models label what several retrievers find for a query (CMedTEB, Section 3.1).

START → candidates → label → synonyms → END

* ``candidates``: every retriever searches with the query; passages go by how many found them.
* ``label``: each model gives each passage a grade from S to D (:mod:`ragrounds.build.labels.labelling`). What a model
  gave no readable label for, or refused, stays without one; the query goes on.
* ``synonyms``: where the query holds a term that has a synonym, a model writes the three sentences of a triple. A
  faulty or refused triple is recorded and costs the query nothing.

What becomes of a labelled pair is decided where the benchmark is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from langgraph.graph import StateGraph

from ragrounds.build.labels.labelling import PROMPT, label_passages
from ragrounds.build.labels.synonyms import Sentences, Synonym, fault
from ragrounds.build.parts import of_part
from ragrounds.build.retrieval.candidates import by_frequency, rankings_of
from ragrounds.build.retrieval.sets import titled
from ragrounds.build.stages import Rejected, State, ask_for, in_line, kept
from ragrounds.contracts import Context
from ragrounds.graphs.state import whole
from ragrounds.records import Query, Question

PROMPTS = (PROMPT, "build/synonym_triple")
STAGES = ("candidates", "label", "synonyms")
NOTHING_FOUND = "nothing was found"


class Labelled(State, total=False):
    """What the stages write."""

    candidates: list[str]
    labels: dict[str, list[str | None]]
    """Passage → every model's grade, in the models' order."""
    faults: list[dict[str, Any]]
    """Calls that gave no labels."""


def build() -> StateGraph[Any, Context, Any, Any]:
    """The stages in line."""
    return in_line(Labelled, dict(zip(STAGES, (_candidates, _label, _synonyms), strict=True)))


def synonym_of(question: Question) -> Synonym | None:
    """The pair of names that an item carries; ``None``: it has none."""
    given = question.metadata.get("synonym", "")
    return msgspec.json.decode(given, type=Synonym) if given else None


async def _candidates(state: Labelled, context: Context) -> Mapping[str, Any]:
    found = await context.search(Query.of(context.stem), whole(context, "top_k", 500))
    ranked = by_frequency(rankings_of({"query": found}), whole(context, "candidates", 500))
    if not ranked:
        raise Rejected(NOTHING_FOUND, f"for the query {context.stem.text}")
    return {"candidates": [each.id for each in ranked]}


async def _label(state: Labelled, context: Context) -> Mapping[str, Any]:
    roles = [f"labelling_{number}" for number in range(1, whole(context, "labellers", 3) + 1)]
    texts = {id: titled(context.passage(id)) for id in state["candidates"]}
    said = await label_passages(context, texts, roles, whole(context, "at_once", 10))
    return {"labels": said.given, "faults": said.faults}


async def _synonyms(state: Labelled, context: Context) -> Mapping[str, Any]:
    pair, query = synonym_of(context.question), context.stem.text
    product: dict[str, Any] = {"labels": state["labels"], "faults": state["faults"]}
    if pair is None:
        return kept(**product)
    values = {"query": query, "term": pair.term, "synonym": pair.synonym}
    try:
        made = await of_part(
            ask_for(
                context,
                "build/synonym_triple",
                Sentences,
                role="writing",
                check=lambda sentences: fault(query, pair, sentences),
                **values,
            )
        )
    except Rejected as rejected:
        return kept(**product, triple_fault=rejected.detail, triple_reason=rejected.reason)
    return kept(**product, triple=msgspec.to_builtins(made))
