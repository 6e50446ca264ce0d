"""R2MED (Li et al. 2025): eight retrieval sets whose queries need reasoning to be matched with their documents.

A dataset is a folder with ``query.jsonl`` {id, text, answer, body_system}, ``corpus.jsonl`` {id, text} and
``qrels.jsonl`` {q_id, p_id, score}. As questions, the queries ask for their answer; graded retrieval is scored
by `ragrounds retrieve`, which reads the same folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ragrounds.base.files import broken, convert, read_jsonl
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.cards import family_cards
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family
from ragrounds.extensions.retrieval.qrels import check_set, query_ids, read_grades, relevant

_QUERIES, _QRELS = "query.jsonl", "qrels.jsonl"


class _Query(Struct):
    id: str | int
    text: str
    answer: str = ""
    body_system: str | None = None


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the queries of one dataset's folder, or of every dataset's folder below the path.

    Raises:
        UserError: a broken file, or no dataset there.
    """
    for folder, name in folders(source):
        yield from _dataset(folder, name)


def folders(source: BenchmarkSource) -> list[tuple[Path, str]]:
    """Return the folders of the requested datasets, with their names.

    Raises:
        UserError: no such folder.
    """
    folder = source.path if source.path.is_dir() else source.path.parent
    if (folder / _QUERIES).is_file():
        return [(folder, source.dataset or folder.name.casefold())]
    dataset_names = {card.name.partition("/")[2] for card in family_cards("r2med") if "/" in card.name}
    requested = [source.dataset] if source.dataset else sorted(dataset_names)
    subfolders = {path.name.casefold(): path for path in folder.iterdir()} if folder.is_dir() else {}
    present = [name for name in requested if (subfolders.get(name, folder) / _QUERIES).is_file()]
    if not present:
        raise broken(source.path, f"it holds no {_QUERIES}, and no folder of a dataset that does")
    return [(subfolders[name], name) for name in present]


def check(source: BenchmarkSource) -> list[Path]:
    """Read the corpus of each dataset.

    Raises:
        UserError: a broken file, a duplicate id, or a judgement of a query or document that is not there.
    """
    corpora = []
    for folder, _ in folders(source):
        path, qrels = folder / _QUERIES, folder / _QRELS
        rows = ((location, str(convert(value, _Query, path, location).id)) for location, value in read_jsonl(path))
        queries = query_ids(rows, path)
        corpora.append(check_set(folder, queries, _QUERIES, {qrels: read_grades(qrels)}))
    return corpora


def _dataset(folder: Path, name: str) -> Iterator[Item]:
    qrels = folder / _QRELS
    documents_by_query = relevant(read_grades(qrels))
    path = folder / _QUERIES
    for location, value in read_jsonl(path):
        query = convert(value, _Query, path, location)
        question = Question(
            id=f"{name}/{query.id}",
            benchmark=f"r2med/{name}",
            text=query.text,
            kind="long",
            group=query.body_system or "",
        )
        documents = documents_by_query.get(str(query.id), ())
        yield Item(question, Gold(question_id=question.id, answer=query.answer, documents=documents))


FAMILY = Family(
    name="r2med",
    items=items,
    file="a dataset's folder with query.jsonl, corpus.jsonl and qrels.jsonl, or the folder above",
    needs=("*.jsonl", "*/*.jsonl"),
    check=check,
    sets=folders,
    open=True,
)
