"""Pipeline `consensus-labels`: several models label the passages that several retrievers find for a query (CMedTEB,
Section 3.1).

START → candidates → label → END

* ``candidates``: every retriever searches with the query; passages are ranked by how many retrievers found them.
* ``label``: each model gives each passage a grade from S to D
  (:mod:`ragrounds.extensions.construction.relevance_labels`). A passage for which a model gave no readable label, or
  which it refused, has no label of that model; the query continues.

:mod:`ragrounds.extensions.construction.benchmark` decides the fate of a labelled pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragrounds.base.contracts import Context
from ragrounds.base.records import Gold, Query, Question
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.catalogue import load
from ragrounds.extensions.construction.committee import by_frequency, rankings_of
from ragrounds.extensions.construction.items import INTAKE, Dropped
from ragrounds.extensions.construction.judged_sets import titled
from ragrounds.extensions.construction.pipeline import Pipeline
from ragrounds.extensions.construction.relevance_labels import PROMPT, RELEVANT, label_passages
from ragrounds.extensions.construction.stages import (
    NOTHING_FOUND,
    Changes,
    PipelineState,
    Rejected,
    in_line,
    keep_item,
)
from ragrounds.graphs.state import Graph, int_parameter
from ragrounds.tools.corpora import CorpusSource, passages

PROMPTS = (PROMPT,)
STAGES = ("candidates", "label")


class LabelState(PipelineState, total=False):
    """State that the stages write."""

    candidates: list[str]


def build() -> Graph:
    """Build the graph of the stages."""
    return in_line(LabelState, dict(zip(STAGES, (_candidates, _label), strict=True)))


async def _candidates(state: LabelState, context: Context) -> Changes:
    hits = await context.search(Query.from_stem(context.stem), int_parameter(context, "top_k", 500))
    ranked = by_frequency(rankings_of({"query": hits}), int_parameter(context, "candidates", 500))
    if not ranked:
        raise Rejected(NOTHING_FOUND, f"for the query {context.stem.text}")
    return {"candidates": [candidate.id for candidate in ranked]}


async def _label(state: LabelState, context: Context) -> Changes:
    roles = [f"labelling_{number}" for number in range(1, int_parameter(context, "labellers", 3) + 1)]
    texts = {id: titled(context.passage(id)) for id in state["candidates"]}
    labelled = await label_passages(context, texts, roles, int_parameter(context, "at_once", 10))
    return keep_item(labels=labelled.grades, faults=labelled.faults)


def open_queries(text: str, home: Path, language: str) -> list[Question]:
    """Return the queries of a JSON Lines file {id, text} (BEIR's and R2MED's forms), or the questions of a benchmark,
    without their options.

    Raises:
        UserError: neither such a file nor such a benchmark, or a broken one.
    """
    path = Path(text).expanduser()
    if path.is_file():
        name = path.name.partition(".")[0]
        rows = (passage for passage, _ in passages(CorpusSource(name, (path,))))
        return [_question(f"{name}/{row.id}", row.text, language) for row in rows]
    return [
        _question(question.id, question.text, question.language, question.group)
        for question in load(text, home).questions
    ]


def query_items(queries: Sequence[Question]) -> tuple[list[Item], list[Dropped]]:
    """Return the items, and the queries that are dropped: empty ones, and repetitions of an earlier query."""
    items: list[Item] = []
    dropped: list[Dropped] = []
    id_by_wording: dict[str, str] = {}
    for query in queries:
        wording = " ".join(query.text.split()).casefold()
        if not wording:
            dropped.append(Dropped(id=query.id, stage=INTAKE, reason="it is empty"))
            continue
        if wording in id_by_wording:
            dropped.append(
                Dropped(id=query.id, stage=INTAKE, reason="it is there already", detail=id_by_wording[wording])
            )
            continue
        id_by_wording[wording] = query.id
        items.append(Item(query, Gold(question_id=query.id, answer="")))
    return items, dropped


def _question(id: str, text: str, language: str, group: str = "") -> Question:
    return Question(id=id, benchmark="consensus-labels", text=text, kind="long", language=language, group=group)


PIPELINE = Pipeline(
    name="consensus-labels",
    graph="ragrounds.extensions.construction.consensus_labels:build",
    summary="Queries → relevant passages that several models agree on; reranking and similarity sets of the same.",
    source="CMedTEB, Section 3.1",
    stages=STAGES,
    parameters={"labellers": 3, "top_k": 500, "candidates": 500, "at_once": 10, "relevant": RELEVANT},
    searches=True,
)
