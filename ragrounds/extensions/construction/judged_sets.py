"""Judged sets: each query's candidates with their judgements, the corpus they come from, and the files made of both.

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
    """A query with what was found out about its candidates."""

    id: str
    text: str
    answer: str = ""
    group: str = ""
    positives: tuple[str, ...]
    negatives: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    """Neither a positive nor a negative: ambiguous, or without a label that could be read."""


def refined(queries: Sequence[JudgedQuery]) -> list[JudgedQuery]:
    """The queries without judgements on documents that :func:`kept_documents` leaves out."""
    removed = _ambiguous(queries)
    return [replace(query, negatives=tuple(id for id in query.negatives if id not in removed)) for query in queries]


def kept_documents(queries: Iterable[JudgedQuery], corpus: Iterable[Passage]) -> Iterator[Passage]:
    """The corpus without what is ambiguous for some query and a positive of none: left in, such a document counts as
    not relevant wherever it is found (CMedTEB's refined corpus, Section 3.1). It is read once, as a stream."""
    removed = _ambiguous(queries)
    return (passage for passage in corpus if passage.id not in removed)


def judged_beir(queries: Sequence[JudgedQuery], corpus: Iterable[Passage]) -> dict[str, Lines]:
    """The files of a BEIR folder with the kept documents of a corpus, and the guard beside them."""
    documents = kept_documents(queries, corpus)
    return beir_files(
        ((_carried(each.id), each.title, each.text) for each in documents),
        {_carried(each.id): each.text for each in queries},
        {_carried(each.id): _grades(each) for each in queries},
    ) | {GUARD_FILE: guard_lines(queries)}


def judged_r2med(queries: Sequence[JudgedQuery], corpus: Iterable[Passage]) -> dict[str, Lines]:
    """The files of an R2MED folder. Its documents have no titles, so a title stands in the text's first line."""
    return {
        "corpus.jsonl": json_lines(
            {"id": _carried(each.id), "text": titled(each)} for each in kept_documents(queries, corpus)
        ),
        "query.jsonl": json_lines(
            {
                "id": _carried(each.id),
                "text": each.text,
                "answer": each.answer,
                "doc_id": [_carried(id) for id in each.positives],
                "body_system": each.group,
            }
            for each in queries
        ),
        "qrels.jsonl": json_lines(
            {"q_id": _carried(each.id), "p_id": document, "score": grade}
            for each in queries
            for document, grade in _grades(each).items()
        ),
        GUARD_FILE: guard_lines(queries),
    }


def rerank_lines(queries: Iterable[JudgedQuery], texts: Mapping[str, str]) -> list[bytes]:
    """A reranking set of the queries that have a positive and a negative; `texts` by document. A negative whose text is
    that of a positive is left out."""
    rows = []
    for query in queries:
        right = {texts[id] for id in query.positives}
        positive = list(dict.fromkeys(texts[id] for id in query.positives))
        negative = list(dict.fromkeys(texts[id] for id in query.negatives if texts[id] not in right))
        if positive and negative:
            rows.append({"query": query.text, "positive": positive, "negative": negative})
    return list(json_lines(rows))


def guard_lines(queries: Sequence[JudgedQuery]) -> list[bytes]:
    """Which documents each query may not find: what is ambiguous for it and still in the corpus, because it is another
    query's positive."""
    removed = _ambiguous(queries)
    rows = (
        {"query": _carried(each.id), "documents": [_carried(id) for id in each.dropped if id not in removed]}
        for each in queries
    )
    return list(json_lines(row for row in rows if row["documents"]))


def titled(passage: Passage) -> str:
    """A passage as one text, its title in a line before it."""
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


def query_ids(question_ids: Sequence[str]) -> dict[str, str]:
    """Ids of questions without their dataset's name, which the loaders put before them again; with it, where several
    datasets are among them."""
    datasets = {id.partition("/")[0] for id in question_ids}
    bare = len(datasets) == 1 and all(id.partition("/")[2] for id in question_ids)
    return {id: id.partition("/")[2] if bare else id for id in question_ids}


def _ambiguous(queries: Iterable[JudgedQuery]) -> set[str]:
    asked = list(queries)
    return {id for query in asked for id in query.dropped} - {id for query in asked for id in query.positives}


def _grades(query: JudgedQuery) -> dict[str, int]:
    grades = dict.fromkeys(query.negatives, 0) | dict.fromkeys(query.positives, 1)
    return {_carried(id): grade for id, grade in grades.items()}


def _carried(id: str) -> str:
    """An id as judgements and runs can carry it: blanks are percent-encoded."""
    return re.sub(r"\s", lambda blank: "".join(f"%{byte:02X}" for byte in blank.group().encode()), id)


class Corpus:
    """The passages of one corpus in their order. A corpus that is cut into chunks gives its chunks."""

    def __init__(self, name: str, home: Path, *, progress: Progress | None = None) -> None:
        """Open it, storing it first where it is not yet.

        Raises:
            UserError: there is none of that name, it cannot be read, or it is several.
        """
        if len(corpora_of(name)) > 1:
            raise UserError(
                f"{name!r} is several corpora, whose ids may collide: join them first with `ragrounds index build`."
            )
        self._collection = open_collection(name, home, progress=progress)
        self.version = self._collection.corpus

    def __iter__(self) -> Iterator[Passage]:
        for id, document, title, text in self._collection.store.each():
            yield Passage(id=id, document=document, title=title, text=text, corpus=self.version)

    def __len__(self) -> int:
        return len(self._collection.store)

    def document(self, id: str) -> list[Passage]:
        """The passages of a document; empty where there is none."""
        return self._collection.document(id)

    def some(self, ids: Collection[str]) -> dict[str, Passage]:
        """Passages by id; those that the corpus does not hold are left out."""
        store = self._collection.store
        places = {id: store.find(id) for id in ids}
        return {id: store.passage(place, self.version) for id, place in places.items() if place is not None}


def by_fate(question: Question, id: str, rows: Iterable[JsonObject], text: str, answer: str = "") -> JudgedQuery:
    """A question as a query, from rows that say of each document what becomes of it."""
    held: dict[str, list[str]] = {}
    for row in rows:
        held.setdefault(row["fate"], []).append(row["document"])
    return JudgedQuery(
        id=id,
        text=text,
        answer=answer,
        group=question.group,
        positives=tuple(held.get("positive", ())),
        negatives=tuple(held.get("negative", ())),
        dropped=tuple(id for what in ("dropped", "ungraded", "unlabelled") for id in held.get(what, ())),
    )
