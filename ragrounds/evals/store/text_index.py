"""The full-text index: which attempts hold a word, a phrase, or the beginning of a word, and in which field.

A database keeps words of numbered documents (table `text_words`), and no text. An attempt's own texts are one document;
a passage or a question is one that attempts share, and `text_attempts` says which attempt has which. So a passage that
ten thousand attempts found is indexed once.

No attempt waits for it: what was written since joins when somebody looks for something
(:func:`ragrounds.evals.store.index_backlog.index_missing`). Documents are not taken out of `text_words`, which SQLite
could do only by their texts: what nothing in `text_attempts` names any more is not found, and `runs gc` empties an
index of which most is that.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from ragrounds.errors import UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.attempt_texts import AttemptTexts
from ragrounds.evals.store.codec import hash_of
from ragrounds.evals.store.database import autocommit, chunks, dialect_of, said, upsert
from ragrounds.evals.store.dialect import AttemptPlace, Document
from ragrounds.evals.store.schema import TEXT_FIELDS
from ragrounds.evals.store.text_folding import TextTerm, joined, spans_of, terms_of

Documents = npt.NDArray[np.uint32]
"""Numbers of documents, ascending."""
_PACKED = "<u4"
_CHUNK = 500
_A, _S = schema.text_attempts, schema.text_shared


def add_texts(connection: sa.Connection, attempts: Iterable[tuple[AttemptPlace, float, AttemptTexts]]) -> None:
    """Add attempts to the index, each in place of an earlier one at the same place.

    Args:
        connection: in a transaction beside which nobody else adds any (:func:`exclusive_transaction`).
        attempts: where each stands, when it was made, and its texts.
    """
    words = dialect_of(connection).words
    items = list(attempts)
    found: dict[bytes, tuple[str, ...]] = {_name(*one): one for _, _, texts in items for one in _shared(texts)}
    numbers = _numbers_of(connection, list(found))
    new = sorted((name for name in found if name not in numbers), key=lambda name: (found[name][0], name))
    # Upwards from the newest: FTS5 writes its buffer out at every number that is smaller than the one before.
    following = 1 + max(
        words.newest(connection),
        *(int(connection.execute(sa.select(sa.func.max(table.c.doc))).scalar() or 0) for table in (_A, _S)),
    )
    numbers |= {name: following + place for place, name in enumerate(new)}
    # A question is folded as a whole already; what two attempts share of passages is the title with the text.
    documents = [
        Document(numbers[name], {kind: joined(texts) if kind == "passage" else texts[0]})
        for name in new
        for kind, *texts in [found[name]]
    ]
    rows = []
    for number, ((run, question_id, epoch), at, texts) in enumerate(items, following + len(new)):
        documents.append(Document(number, texts.own))
        passages = np.unique(np.array([numbers[_name("passage", *one)] for one in texts.passages], _PACKED))
        question = numbers[_name("question", texts.question)] if texts.question else None
        key = {"run": run, "question_id": question_id, "epoch": epoch}
        rows.append(key | {"at": at, "doc": number, "question": question, "passages": passages.tobytes()})
    words.add(connection, documents)
    if new:
        connection.execute(sa.insert(_S), [{"hash": name, "doc": numbers[name]} for name in new])
    if rows:
        connection.execute(upsert(connection.engine, _A), rows)


def _shared(texts: AttemptTexts) -> list[tuple[str, ...]]:
    """What of an attempt others may have too: kind and texts."""
    return [*(("passage", *one) for one in texts.passages), *([("question", texts.question)] if texts.question else [])]


def has_words(connection: sa.Connection) -> bool:
    """Whether the store has a full-text index: one that a SQLite without FTS5 made has none."""
    return dialect_of(connection).words.there(connection)


def count_words(engine: sa.Engine) -> int:
    """How many different words the index holds; on SQLite all of it is read for that.

    Raises:
        sqlalchemy.exc.DatabaseError: it is not what was written.
    """
    with autocommit(engine) as connection:
        return dialect_of(connection).words.count(connection)


def find_attempts(
    engine: sa.Engine, numbers: Sequence[int], text: str, fields: Collection[str] = ()
) -> list[AttemptPlace]:
    """The attempts of some runs in which each word, phrase, and beginning of a word of `text` stands.

    Args:
        engine: the store's.
        numbers: of the runs.
        text: what a reader typed: ``edema "upper limb" lymph*``. Nothing in it has another meaning.
        fields: of :data:`TEXT_FIELDS`: where it is to stand; none: anywhere. Two words may stand in two fields.

    Returns:
        By run, question id and epoch. Attempts that are not indexed yet are not found:
        :func:`ragrounds.evals.store.index_backlog.missing` counts them.

    Raises:
        TextQueryError: there is no word in `text`.
        UserError: the store has no index.
    """
    terms = terms_of(text)
    wanted = [name for name in TEXT_FIELDS if not fields or name in fields]
    with autocommit(engine) as connection:
        words = dialect_of(connection).words
        if not words.there(connection):
            raise UserError(
                "This store has no full-text index: the SQLite of this Python has no FTS5. `/` finds texts inside an "
                "attempt; a Python with FTS5 makes the index by `ragrounds runs index`."
            )
        noted = _noted(connection, numbers, terms) if "note" in wanted else [set[AttemptPlace]() for _ in terms]
        try:
            found = [np.fromiter(words.find(connection, term, wanted), np.uint32) for term in terms]
        except sa.exc.DatabaseError as error:
            raise UserError(
                f"The full-text index cannot be read: {said(error)}. `ragrounds runs index --anew` makes it again."
            ) from error
        if any(not len(one) and not places for one, places in zip(found, noted, strict=True)):
            return []
        rows = _Rows(connection, numbers)
    holding = np.ones(len(rows.places), bool)
    for documents, places in zip(found, noted, strict=True):
        holding &= rows.holding(documents) | np.fromiter((place in places for place in rows.places), bool)
    return [rows.places[place] for place in np.flatnonzero(holding)]


class _Rows:
    """The indexed attempts of some runs, in the order of their key, with the documents of each."""

    def __init__(self, connection: sa.Connection, numbers: Sequence[int]) -> None:
        key = (_A.c.run, _A.c.question_id, _A.c.epoch)
        wanted = sa.select(*key, _A.c.doc, _A.c.question, _A.c.passages).where(_A.c.run.in_(list(numbers)))
        rows = connection.execute(wanted.order_by(*key)).all()
        self.places: list[AttemptPlace] = [(row[0], row[1], row[2]) for row in rows]
        self._own = np.fromiter((row[3] for row in rows), np.uint32, len(rows))
        self._question = np.fromiter((row[4] or 0 for row in rows), np.uint32, len(rows))
        packed = [bytes(row[5]) for row in rows]
        self._passages = packed_documents(b"".join(packed))
        self._of = np.repeat(np.arange(len(packed)), [len(one) // 4 for one in packed])
        """For each of `_passages`, the attempt that has it."""

    def holding(self, documents: Documents) -> npt.NDArray[np.bool_]:
        """Which of the attempts have one of these documents."""
        all_of_them = (documents, self._own, self._question, self._passages)
        wanted = np.zeros(1 + max(int(one.max()) if len(one) else 0 for one in all_of_them), bool)
        wanted[documents] = True
        wanted[0] = False
        held = wanted[self._own] | wanted[self._question]
        held[self._of[wanted[self._passages]]] = True
        return held


def _noted(connection: sa.Connection, numbers: Sequence[int], terms: Sequence[TextTerm]) -> list[set[AttemptPlace]]:
    """By term, the attempts in whose readers' notes it stands: these are few, and have no document."""
    found: list[set[AttemptPlace]] = [set() for _ in terms]
    table = schema.notes
    for row in connection.execute(sa.select(table).where(table.c.run.in_(list(numbers)))):
        for places, term in zip(found, terms, strict=True):
            if spans_of(row.text, [term]) or spans_of(row.mark, [term]):
                places.add((row.run, row.question_id, row.epoch))
    return found


def clear(connection: sa.Connection) -> None:
    """Empty the index; it is made again from the journal."""
    words = dialect_of(connection).words
    if words.there(connection):
        words.clear(connection)
    connection.execute(sa.delete(_A))
    connection.execute(sa.delete(_S))


def unused_documents(connection: sa.Connection) -> int:
    """How many documents of the index no attempt has any more: of retries, of removed runs, of their passages; 0 while
    attempts have most of them, for then it is not worth the making of all the others again."""
    if not has_words(connection):
        return 0
    rows = connection.execute(sa.select(_A.c.question, _A.c.passages)).all()
    shared = np.unique(packed_documents(b"".join(bytes(row.passages) for row in rows)))
    named = len(rows) + len(shared) + len({row.question for row in rows} - {None})
    unused = dialect_of(connection).words.documents(connection) - named
    return unused if unused > named else 0


def packed_documents(data: bytes) -> Documents:
    """The documents of a row's `passages`."""
    return np.frombuffer(data[: len(data) // 4 * 4], _PACKED)


@functools.lru_cache(maxsize=4096)
def _name(*texts: str) -> bytes:
    # The same passages come again and again.
    return hash_of("\0".join(texts).encode("utf-8", "replace"))


def _numbers_of(connection: sa.Connection, names: Sequence[bytes]) -> dict[bytes, int]:
    """Names of shared texts → their documents, of those that the index holds."""
    found: dict[bytes, int] = {}
    for chunk in chunks(names):
        held = connection.execute(sa.select(_S).where(_S.c.hash.in_(chunk)))
        found |= {bytes(row.hash): row.doc for row in held}
    return found
