"""Items of `false-negatives`: the judged queries of a benchmark."""

from __future__ import annotations

from ragrounds.build.intake import INTAKE, Dropped, Intake, take_in
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.retrieval.query_sets import QuerySet
from ragrounds.records import Gold, Question


def query_items(asked: QuerySet, *, language: str, limit: int | None, seed: int) -> Intake:
    """The queries with what is labelled relevant as their gold, which no node of the graph sees.

    Raises:
        UserError: no query has a text.
    """
    items = [_item(query, text, asked, language) for query, text in asked.queries.items() if text.strip()]
    dropped = [
        Dropped(id=query, stage=INTAKE, reason="it is empty")
        for query, text in asked.queries.items()
        if not text.strip()
    ]
    name = "".join(letter if letter.isalnum() or letter in "_.-" else "_" for letter in asked.name)
    return take_in(f"false-negatives/{name}", items, dropped, of=asked.name, limit=limit, seed=seed)


def _item(query: str, text: str, asked: QuerySet, language: str) -> Item:
    labelled = tuple(document for document, grade in asked.judgements[query].items() if grade > 0)
    question = Question(id=query, benchmark=f"false-negatives/{asked.name}", text=text, kind="long", language=language)
    return Item(question, Gold(question_id=query, answer="", documents=labelled))
