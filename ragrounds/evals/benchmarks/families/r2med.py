"""R2MED (Li et al. 2025): eight retrieval sets whose queries need reasoning to be matched with their documents.

A dataset is a folder with ``query.jsonl`` {id, text, answer, body_system}, ``corpus.jsonl`` {id, text} and
``qrels.jsonl`` {q_id, p_id, score}. As questions they ask for the answer behind the query; graded retrieval is scored
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
from ragrounds.evals.benchmarks.qrels import Row, check_set, graded, query_ids, relevant

_QUERIES, _JUDGED = "query.jsonl", "qrels.jsonl"


class _Query(Struct):
    id: str | int
    text: str
    answer: str = ""
    body_system: str | None = None


class _Judgement(Struct):
    q_id: str | int
    p_id: str | int
    score: float = 1


def items(source: BenchmarkSource) -> Iterator[Item]:
    """The queries of one dataset's folder, or of every dataset's folder below the path.

    Raises:
        UserError: a broken file, or no dataset there.
    """
    for folder, name in folders(source):
        yield from _dataset(folder, name)


def folders(source: BenchmarkSource) -> list[tuple[Path, str]]:
    """The folders of the datasets that are named, with their names.

    Raises:
        UserError: there is none.
    """
    folder = source.path if source.path.is_dir() else source.path.parent
    if (folder / _QUERIES).is_file():
        return [(folder, source.dataset or folder.name.casefold())]
    known = {card.name.partition("/")[2] for card in family_cards("r2med") if "/" in card.name}
    wanted = [source.dataset] if source.dataset else sorted(known)
    below = {path.name.casefold(): path for path in folder.iterdir()} if folder.is_dir() else {}
    found = [name for name in wanted if (below.get(name, folder) / _QUERIES).is_file()]
    if not found:
        raise broken(source.path, f"it holds no {_QUERIES}, and no folder of a dataset that does")
    return [(below[name], name) for name in found]


def check(source: BenchmarkSource) -> list[Path]:
    """Read the corpus of each dataset.

    Raises:
        UserError: a broken file, an id that stands twice, or a judgement of a query or document that is not there.
    """
    corpora = []
    for folder, _ in folders(source):
        path, judged = folder / _QUERIES, folder / _JUDGED
        rows = ((place, str(convert(value, _Query, path, place).id)) for place, value in read_jsonl(path))
        queries = query_ids(rows, path)
        corpora.append(check_set(folder, queries, _QUERIES, {judged: graded(_rows(judged), judged)}))
    return corpora


def _rows(path: Path) -> Iterator[Row]:
    for place, value in read_jsonl(path):
        judgement = convert(value, _Judgement, path, place)
        yield place, str(judgement.q_id), str(judgement.p_id), judgement.score


def _dataset(folder: Path, name: str) -> Iterator[Item]:
    judged = folder / _JUDGED
    found = relevant(graded(_rows(judged), judged))
    path = folder / _QUERIES
    for place, value in read_jsonl(path):
        query = convert(value, _Query, path, place)
        question = Question(
            id=f"{name}/{query.id}",
            benchmark=f"r2med/{name}",
            text=query.text,
            kind="long",
            group=query.body_system or "",
        )
        documents = found.get(str(query.id), ())
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
