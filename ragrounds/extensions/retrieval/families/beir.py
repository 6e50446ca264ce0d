"""BEIR folders (Thakur et al. 2021): ``queries.jsonl`` {_id, text, metadata}, ``corpus.jsonl``, ``qrels/SPLIT.tsv``.

As questions: the judged queries of a split with their relevant documents. Graded retrieval is scored by
`ragrounds retrieve`, which reads the same folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ragrounds.base.files import broken, convert, quote_value, read_jsonl
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family
from ragrounds.extensions.retrieval.qrels import check_set, query_ids, read_grades, relevant

_QUERIES = "queries.jsonl"


class _Query(Struct):
    _id: str
    text: str


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the judged queries of the split (parameter ``split``, by default ``test``).

    Raises:
        UserError: a broken file, or a judged query that the folder does not have.
    """
    folder, split = source.path, source.text("split", "test")
    name = source.dataset or folder.name
    qrels = folder / "qrels" / f"{split}.tsv"
    documents = relevant(read_grades(qrels))
    path = folder / _QUERIES
    seen = set()
    for location, value in read_jsonl(path):
        query = convert(value, _Query, path, location)
        if query._id not in documents:
            continue
        seen.add(query._id)
        question = Question(
            id=f"{name}/{query._id}",
            benchmark=f"beir/{name}",
            text=query.text,
            kind="long",
            split=split,
            language=source.text("language", "en"),
        )
        yield Item(question, Gold(question_id=question.id, answer="", documents=documents[query._id]))
    missing_query = next((query for query in documents if query not in seen), None)
    if missing_query is not None:
        raise broken(qrels, f"{path.name} has no such query", f"query {quote_value(missing_query)}")


def check(source: BenchmarkSource) -> list[Path]:
    """Read the corpus and every split's judgements.

    Raises:
        UserError: a broken file, a duplicate id, or a judgement of a query or document that is not there.
    """
    path = source.path / _QUERIES
    rows = ((location, convert(value, _Query, path, location)._id) for location, value in read_jsonl(path))
    queries = query_ids(rows, path)
    grades_by_file = {file: read_grades(file) for file in sorted((source.path / "qrels").glob("*.tsv"))}
    return [check_set(source.path, queries, _QUERIES, grades_by_file)]


FAMILY = Family(
    name="beir",
    items=items,
    file="a folder with queries.jsonl, corpus.jsonl and qrels/",
    needs=("*.jsonl", "qrels/*.tsv"),
    check=check,
    parameters=("split", "language"),
    open=True,
)
