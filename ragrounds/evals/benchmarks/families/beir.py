"""BEIR folders (Thakur et al. 2021): ``queries.jsonl`` {_id, text, metadata}, ``corpus.jsonl``, ``qrels/SPLIT.tsv``.

As questions: the judged queries of a split with their relevant documents. Graded retrieval is scored by
`ragrounds retrieve`, which reads the same folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.reading import broken, convert, read_jsonl, read_text, shown
from ragrounds.evals.benchmarks.source import Family, Source
from ragrounds.records import Gold, Question


class _Query(Struct):
    _id: str
    text: str


def items(source: Source) -> Iterator[Item]:
    """The judged queries of the split (parameter ``split``, by default ``test``).

    Raises:
        UserError: a broken file, or a judged query that the folder does not have.
    """
    folder, split = source.path, source.text("split", "test")
    name = source.dataset or folder.name
    judged = folder / "qrels" / f"{split}.tsv"
    relevant = judgements(judged)
    path = folder / "queries.jsonl"
    seen = set()
    for place, value in read_jsonl(path):
        query = convert(value, _Query, path, place)
        if query._id not in relevant:
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
        yield Item(question, Gold(question_id=question.id, answer="", documents=relevant[query._id]))
    lost = next((query for query in relevant if query not in seen), None)
    if lost is not None:
        raise broken(judged, f"{path.name} has no such query", f"query {shown(lost)}")


def judgements(path: Path) -> dict[str, tuple[str, ...]]:
    """Relevant documents (score above 0) by query, from a tab-separated file with or without a heading.

    Raises:
        UserError: a line that is not query, document, score.
    """
    relevant: dict[str, list[str]] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        fields = line.split("\t")
        if not line.strip() or (number == 1 and fields[0] == "query-id"):
            continue
        try:
            query, document, score = fields[0], fields[1], float(fields[2])
        except (IndexError, ValueError):
            raise broken(path, "expected query, document and score between tabs", f"line {number}") from None
        if score > 0:
            relevant.setdefault(query, []).append(document)
    return {query: tuple(documents) for query, documents in relevant.items()}


FAMILY = Family(
    items=items,
    file="a folder with queries.jsonl, corpus.jsonl and qrels/",
    needs=("*.jsonl", "qrels/*.tsv"),
    parameters=("split", "language"),
    open=True,
)
