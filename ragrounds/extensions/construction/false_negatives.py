"""Pipeline `false-negatives`: estimates how many relevant documents a benchmark's labels miss (CMedTEB, Appendix E,
Table 20).

START → candidates → grade → END

* ``candidates``: the `depth` documents that the retriever finds for the query, best first (CMedTEB: the top 50).
* ``grade``: a model grades each from S to D (CMedTEB, Table 23), several per call. A document for which it gave no
  readable grade, or which it refused, has no grade; the query continues, unless none of its documents was graded.

No node sees which documents the benchmark labels as relevant.
"""

from __future__ import annotations

from ragrounds.base.contracts import Context
from ragrounds.base.records import Gold, Query, Question
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.extensions.construction.items import INTAKE, Dropped, ItemSet, draw_items, plain_name
from ragrounds.extensions.construction.judged_sets import titled
from ragrounds.extensions.construction.pipeline import Pipeline
from ragrounds.extensions.construction.relevance_labels import PROMPT, label_passages
from ragrounds.extensions.construction.stages import NOTHING_FOUND, Changes, PipelineState, Rejected, in_line, keep_item
from ragrounds.extensions.retrieval.query_sets import QuerySet
from ragrounds.graphs.state import Graph, int_parameter

PROMPTS = (PROMPT,)


class FalseNegativeState(PipelineState, total=False):
    """State that the stages write."""

    found: dict[str, str]
    """Document → id of its best passage, best first."""


def build() -> Graph:
    """Build the graph of the stages."""
    return in_line(FalseNegativeState, {"candidates": candidates, "grade": grade})


async def candidates(state: FalseNegativeState, context: Context) -> Changes:
    """Search until `depth` documents are found, or the results are exhausted."""
    depth = int_parameter(context, "depth", 50)
    requested, hits = depth, await context.search(Query.from_stem(context.stem), depth)
    while len({passage.document for passage in hits}) < depth and len(hits) == requested:
        # If the corpus is cut into chunks, several may be of one document.
        requested *= 4
        hits = await context.search(Query.from_stem(context.stem), requested)
    best: dict[str, str] = {}
    for passage in hits:
        best.setdefault(passage.document, passage.id)
    if not best:
        raise Rejected(NOTHING_FOUND, f"for the query {context.stem.text}")
    return {"found": dict(list(best.items())[:depth])}


async def grade(state: FalseNegativeState, context: Context) -> Changes:
    """Grade the documents by a model."""
    passage_by_document = state["found"]
    texts = {document: titled(context.passage(passage)) for document, passage in passage_by_document.items()}
    labelled = await label_passages(context, texts, ["grading"], int_parameter(context, "at_once", 10))
    grades = {document: model_grades[0] for document, model_grades in labelled.grades.items()}
    return keep_item(candidates=list(passage_by_document), grades=grades, faults=labelled.faults)


def judged_query_items(query_set: QuerySet, *, language: str, limit: int | None, seed: int) -> ItemSet:
    """Return the queries as items. Their gold are the documents labelled as relevant, which no node of the graph sees.

    Raises:
        UserError: no query has a text.
    """
    benchmark, items, dropped = f"false-negatives/{query_set.name}", list[Item](), list[Dropped]()
    for query, text in query_set.queries.items():
        if not text.strip():
            dropped.append(Dropped(id=query, stage=INTAKE, reason="it is empty"))
            continue
        labelled = tuple(document for document, grade in query_set.judgements[query].items() if grade > 0)
        question = Question(id=query, benchmark=benchmark, text=text, kind="long", language=language)
        items.append(Item(question, Gold(question_id=query, answer="", documents=labelled)))
    name = plain_name(query_set.name)
    return draw_items(f"false-negatives/{name}", items, dropped, source=query_set.name, limit=limit, seed=seed)


PIPELINE = Pipeline(
    name="false-negatives",
    graph="ragrounds.extensions.construction.false_negatives:build",
    summary="The best found documents of every query of a benchmark, graded again, against the benchmark's labels.",
    source="CMedTEB, Appendix E, Table 20",
    stages=("candidates", "grade"),
    parameters={"depth": 50, "at_once": 10},
    searches=True,
)
"""Defaults: `depth` documents per query are graded, `at_once` per call."""
