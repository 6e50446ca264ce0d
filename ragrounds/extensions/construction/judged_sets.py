"""Judged sets: candidates of queries with their judgements, their corpus, and the files made of both.

| files | form | read by |
|---|---|---|
| ``corpus.jsonl``, ``queries.jsonl``, ``qrels/test.tsv`` | BEIR | ``beir:FOLDER`` |
| ``corpus.jsonl``, ``query.jsonl``, ``qrels.jsonl`` | R2MED | ``r2med:FOLDER`` |
| ``rerank.jsonl`` | {query, positive, negative} | ``rerank:FILE``, ``cmedteb:FILE`` |
| ``sts.jsonl`` | {sentence1, sentence2, score} | ``sts:FILE`` |
| ``guard.jsonl`` | {query, documents} that a query may not find: the ambiguous ones | ``run`` and ``retrieve`` |

Judgements are 1 for a positive and 0 for a verified negative.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage, Question
from ragrounds.extensions.construction.files import Lines, beir_files, json_lines
from ragrounds.extensions.construction.outcome import JsonObject
from ragrounds.tools.corpora import corpora_of
from ragrounds.tools.index.collection_builder import Progress, open_collection
from ragrounds.tools.leak_guard import GUARD_FILE


class JudgedQuery(Struct, frozen=True, kw_only=True):
    """A query with the judgements of its candidates."""

    id: str
    text: str
    answer: str = ""
    group: str = ""
    positives: tuple[str, ...]
    negatives: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    """Candidates that are neither positive nor negative: ambiguous, or without a label that could be read."""


def refined(queries: Sequence[JudgedQuery]) -> list[JudgedQuery]:
    """Return the queries without judgements on documents that :func:`kept_documents` leaves out."""
    removed = _ambiguous(queries)
    return [replace(query, negatives=tuple(id for id in query.negatives if id not in removed)) for query in queries]


def kept_documents(queries: Iterable[JudgedQuery], corpus: Iterable[Passage]) -> Iterator[Passage]:
    """Return the corpus without documents that are ambiguous for some query and positive for none.

    Such a document would count as not relevant wherever it is found (CMedTEB's refined corpus, Section 3.1). The corpus
    is read once, as a stream.
    """
    removed = _ambiguous(queries)
    return (passage for passage in corpus if passage.id not in removed)


def judged_beir(queries: Sequence[JudgedQuery], corpus: Iterable[Passage]) -> dict[str, Lines]:
    """Return the files of a BEIR folder with the kept documents of a corpus, and the guard."""
    documents = kept_documents(queries, corpus)
    return beir_files(
        ((_encoded_id(passage.id), passage.title, passage.text) for passage in documents),
        {_encoded_id(query.id): query.text for query in queries},
        {_encoded_id(query.id): _grades(query) for query in queries},
    ) | {GUARD_FILE: guard_lines(queries)}


def judged_r2med(queries: Sequence[JudgedQuery], corpus: Iterable[Passage]) -> dict[str, Lines]:
    """Return the files of an R2MED folder. Its documents have no titles, so a title is the text's first line."""
    return {
        "corpus.jsonl": json_lines(
            {"id": _encoded_id(passage.id), "text": titled(passage)} for passage in kept_documents(queries, corpus)
        ),
        "query.jsonl": json_lines(
            {
                "id": _encoded_id(query.id),
                "text": query.text,
                "answer": query.answer,
                "doc_id": [_encoded_id(id) for id in query.positives],
                "body_system": query.group,
            }
            for query in queries
        ),
        "qrels.jsonl": json_lines(
            {"q_id": _encoded_id(query.id), "p_id": document, "score": grade}
            for query in queries
            for document, grade in _grades(query).items()
        ),
        GUARD_FILE: guard_lines(queries),
    }


def rerank_lines(queries: Iterable[JudgedQuery], texts: Mapping[str, str]) -> list[bytes]:
    """Return a reranking set of the queries that have a positive and a negative; `texts` are by document.

    A negative with the text of a positive is left out.
    """
    rows = []
    for query in queries:
        positive_texts = {texts[id] for id in query.positives}
        positive = list(dict.fromkeys(texts[id] for id in query.positives))
        negative = list(dict.fromkeys(texts[id] for id in query.negatives if texts[id] not in positive_texts))
        if positive and negative:
            rows.append({"query": query.text, "positive": positive, "negative": negative})
    return list(json_lines(rows))


def guard_lines(queries: Sequence[JudgedQuery]) -> list[bytes]:
    """Return the documents that each query may not find.

    These are ambiguous for the query but still in the corpus, because they are positives of other queries.
    """
    removed = _ambiguous(queries)
    rows = (
        {"query": _encoded_id(query.id), "documents": [_encoded_id(id) for id in query.dropped if id not in removed]}
        for query in queries
    )
    return list(json_lines(row for row in rows if row["documents"]))


def titled(passage: Passage) -> str:
    """Return a passage as one text, with its title in a line before it."""
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


def query_ids(question_ids: Sequence[str]) -> dict[str, str]:
    """Return ids of questions without their dataset's name, which the loaders add again.

    If there are several datasets, ids keep the name.
    """
    datasets = {id.partition("/")[0] for id in question_ids}
    drops_dataset = len(datasets) == 1 and all(id.partition("/")[2] for id in question_ids)
    return {id: id.partition("/")[2] if drops_dataset else id for id in question_ids}


def _ambiguous(queries: Iterable[JudgedQuery]) -> set[str]:
    all_queries = list(queries)
    return {id for query in all_queries for id in query.dropped} - {
        id for query in all_queries for id in query.positives
    }


def _grades(query: JudgedQuery) -> dict[str, int]:
    grades = dict.fromkeys(query.negatives, 0) | dict.fromkeys(query.positives, 1)
    return {_encoded_id(id): grade for id, grade in grades.items()}


def _encoded_id(id: str) -> str:
    """Return an id in a form for judgements and runs: blanks are percent-encoded."""
    return re.sub(r"\s", lambda blank: "".join(f"%{byte:02X}" for byte in blank.group().encode()), id)


class Corpus:
    """The passages of one corpus in their order. If the corpus is cut into chunks, these are its chunks."""

    def __init__(self, name: str, home: Path, *, progress: Progress | None = None) -> None:
        """Open the corpus, and store it first if needed.

        Raises:
            UserError: unknown name, a corpus that cannot be read, or several corpora.
        """
        if len(corpora_of(name)) > 1:
            raise UserError(
                f"{name!r} is several corpora, whose ids may collide: join them first with `ragrounds index build`."
            )
        self._collection = open_collection(name, home, progress=progress)
        self.version = self._collection.corpus

    def __iter__(self) -> Iterator[Passage]:
        for id, document, title, text in self._collection.store.iterate():
            yield Passage(id=id, document=document, title=title, text=text, corpus=self.version)

    def __len__(self) -> int:
        return len(self._collection.store)

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document; empty if it is not in the corpus."""
        return self._collection.document(id)

    def some(self, ids: Collection[str]) -> dict[str, Passage]:
        """Return passages by id. Those that the corpus does not contain are left out."""
        store = self._collection.store
        indices = {id: store.find(id) for id in ids}
        return {id: store.passage(index, self.version) for id, index in indices.items() if index is not None}


def by_fate(question: Question, id: str, rows: Iterable[JsonObject], text: str, answer: str = "") -> JudgedQuery:
    """Return a question as a query, from rows with the fate of each document."""
    ids_by_fate: dict[str, list[str]] = {}
    for row in rows:
        ids_by_fate.setdefault(row["fate"], []).append(row["document"])
    return JudgedQuery(
        id=id,
        text=text,
        answer=answer,
        group=question.group,
        positives=tuple(ids_by_fate.get("positive", ())),
        negatives=tuple(ids_by_fate.get("negative", ())),
        dropped=tuple(id for fate in ("dropped", "ungraded", "unlabelled") for id in ids_by_fate.get(fate, ())),
    )
