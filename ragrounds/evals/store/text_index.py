"""The full-text index: which attempts hold a word, a phrase, or the beginning of a word, and in which field.

SQLite's FTS5 and PostgreSQL's tsvector keep words of numbered documents (table `text_words`), and no text. An attempt's
own texts are one document; a passage or a question is one that attempts share, and `text_attempts` says which attempt
has which. So a passage that ten thousand attempts found is indexed once. Documents are never taken out of `text_words`:
what nothing in `text_attempts` names any more is not found. `runs gc` empties an index of which most is forgotten, and
it is made again from the journal (`index_backlog.py`).

Documents are numbered upwards inside the transaction that writes the attempts: FTS5 writes its buffer out at every
number that is smaller than the one before.
"""

from __future__ import annotations

import functools
import secrets
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import hash_of
from ragrounds.evals.store.database import autocommit, said
from ragrounds.evals.store.schema import TEXT_FIELDS
from ragrounds.evals.store.text_folding import BREAK, TextTerm, folded_words, joined, spans_of, terms_of

Documents = npt.NDArray[np.uint32]
"""Numbers of documents, ascending."""
AttemptPlace = tuple[int, str, int]
"""The number of a run in its store, a question's id, an epoch."""
_PACKED = "<u4"
_REMEMBERED = 60_000
"""Shared texts whose documents are kept in memory."""
_CHUNK = 500
_ROWS = 1000
"""Rows of one INSERT."""
_A, _S = schema.text_attempts, schema.text_shared
_OWN = tuple(name for name in TEXT_FIELDS if name not in ("question", "passage"))
_COLUMNS = tuple(column.name for column in _A.columns)
_REPLACED = (
    " ON CONFLICT (run, question_id, epoch) DO UPDATE SET doc = excluded.doc, "
    "question = excluded.question, passages = excluded.passages"
)
_POSITIONS = 16_000
"""Words of one tsvector, which counts to 16,383. A longer text has several; no phrase reaches over their ends."""
_VECTOR = 200_000
"""Characters of one: it may have a megabyte, with four bytes a character."""
_LONGEST_WORD = 200


class AttemptTexts(Struct, frozen=True):
    """What of an attempt joins the index."""

    question: str
    """Folded."""
    passages: tuple[tuple[str, str], ...]
    """Titles and texts, as they were found."""
    own: Mapping[str, str]
    """Field → folded texts."""


class _Document(Struct, frozen=True):
    number: int
    fields: Mapping[str, str]


class TextIndexWriter:
    """Adds attempts to the index of one store, in transactions of its caller. It knows the documents of shared texts
    that it has committed."""

    def __init__(self) -> None:
        self._edition: str | None = None
        self._known: dict[bytes, int] = {}
        self._new: dict[bytes, int] = {}
        self._there: bool | None = None

    def write(self, connection: sa.Connection, rows: Iterable[Mapping[str, object]]) -> None:
        """Write rows of :func:`ragrounds.evals.store.attempt_texts.texts_row`, each in place of an earlier one of the
        same attempt. The caller commits, and then calls :meth:`committed`.

        Args:
            connection: in a transaction that has written already, or that nobody writes beside.
        """
        self._new = {}
        if self._there is None:
            self._there = has_words(connection)
        items = [(row, _texts_of(row)) for row in rows]
        if not self._there:
            _forget(connection, items)
            return
        edition = _meta(connection, schema.INDEX_EDITION)
        if edition != self._edition or len(self._known) > _REMEMBERED:
            self._edition, self._known = edition, {}
        shared: dict[bytes, tuple[str, str, str]] = {}
        names = [[_share(one, shared) for one in texts.passages] for _, texts in items]
        asked = [_share_question(texts.question, shared) for _, texts in items]
        documents = self._shared_documents(connection, shared)
        numbers = iter(_new_numbers(connection, len(items)))
        written = []
        for (row, texts), mine, question in zip(items, names, asked, strict=True):
            number = next(numbers)
            documents.append(_Document(number, texts.own))
            found = np.unique(np.array([self._number(name) for name in mine], _PACKED))
            asked_in = None if question is None else self._number(question)
            key = (row["run"], row["question_id"], row["epoch"])
            written.append((*key, number, asked_in, found.tobytes()))
        _add_words(connection, documents)
        _insert(connection, "text_attempts", _COLUMNS, written, _REPLACED)

    def committed(self) -> None:
        """Remember the documents of shared texts that were written: they are committed."""
        self._known.update(self._new)
        self._new = {}

    def without(self, error: sa.exc.DatabaseError) -> bool:
        """Go on without an index that SQLite says is damaged; give whether it does. What is not indexed is missing,
        and made again. An index that can be made again stops no run."""
        self._there = self._there and not is_damage(error)
        return self._there is False

    def _number(self, name: bytes) -> int:
        return self._known[name] if name in self._known else self._new[name]

    def _shared_documents(
        self, connection: sa.Connection, shared: Mapping[bytes, tuple[str, str, str]]
    ) -> list[_Document]:
        """The documents of the shared texts that the index does not hold; of all others their numbers are known."""
        # FTS5 wants them upwards, and each kind is one statement.
        unknown = sorted((shared[name][0] == "question", name) for name in shared if name not in self._known)
        self._new = _numbers_of(connection, [name for _, name in unknown])
        missing = [name for _, name in unknown if name not in self._new]
        if not missing:
            return []
        numbers = dict(zip(missing, _new_numbers(connection, len(missing)), strict=True))
        if connection.dialect.name != "sqlite":
            # Another process may write the same passage in this moment: the one that is first has it.
            numbers = _claimed(connection, numbers)
            self._new |= _numbers_of(connection, missing)
        else:
            _insert(connection, "text_shared", ("hash", "doc"), list(numbers.items()))
            self._new |= numbers
        return [
            _Document(number, {kind: joined(texts)})
            for name, number in numbers.items()
            for kind, *texts in [shared[name]]
        ]


def is_damage(error: sa.exc.DatabaseError) -> bool:
    """Whether SQLite says that the full-text index is not what was written."""
    return getattr(error.orig, "sqlite_errorcode", 0) == sqlite3.SQLITE_CORRUPT_VTAB


def has_words(connection: sa.Connection) -> bool:
    """Whether the store has a full-text index: one that a SQLite without FTS5 made has none."""
    if connection.dialect.name != "sqlite":
        return bool(sa.inspect(connection).has_table(schema.WORDS))
    # Looked at from outside: SQLite cannot open a table whose index is damaged.
    listed = f"SELECT 1 FROM sqlite_master WHERE name = '{schema.WORDS}'"  # noqa: S608 - a name of ours
    return connection.exec_driver_sql(listed).scalar() is not None


def count_words(engine: sa.Engine) -> int:
    """How many different words the index holds; on SQLite all of it is read for that.

    Raises:
        sqlalchemy.exc.DatabaseError: it is not what was written.
    """
    with autocommit(engine) as connection:
        if connection.dialect.name != "sqlite":
            counted = f"SELECT count(DISTINCT lexeme) FROM {schema.WORDS}, unnest(words)"  # noqa: S608 - a name of ours
            return int(connection.exec_driver_sql(counted).scalar_one())
        seen = f"CREATE VIRTUAL TABLE temp.words_seen USING fts5vocab('main', '{schema.WORDS}', 'row')"
        connection.exec_driver_sql(seen)  # gone with the connection
        return int(connection.exec_driver_sql("SELECT count(*), sum(cnt) FROM temp.words_seen").one()[0])


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
        if not has_words(connection):
            raise UserError(
                "This store has no full-text index: the SQLite of this Python has no FTS5. `/` finds texts inside an "
                "attempt; a Python with FTS5 makes the index by `ragrounds runs index`."
            )
        noted = _noted(connection, numbers, terms) if "note" in wanted else [set[AttemptPlace]() for _ in terms]
        try:
            found = [documents_of(connection, term, wanted) for term in terms]
        except sa.exc.DatabaseError as error:
            raise UserError(
                f"The full-text index cannot be read: {said(error)}. `ragrounds runs index --anew` makes it again."
            ) from error
        if any(not len(one) and not places for one, places in zip(found, noted, strict=True)):
            return []
        rows = _Rows.read(connection, numbers, shared=not {"question", "passage"}.isdisjoint(wanted))
        if not len(rows.own):
            return []
        holding = np.ones(len(rows.own), bool)
        for documents, places in zip(found, noted, strict=True):
            holding &= rows.holding(documents) | rows.at(places)
        return [rows.places[place] for place in np.flatnonzero(holding)]


def documents_of(connection: sa.Connection, term: TextTerm, fields: Sequence[str]) -> Documents:
    """The documents that hold a term in one of some fields."""
    if connection.dialect.name == "sqlite":
        phrase = " ".join(term.words)
        asked = f'{{{" ".join(fields)}}} : "{phrase}"{" *" if term.prefix else ""}'
        statement = f"SELECT rowid FROM {schema.WORDS} WHERE {schema.WORDS} MATCH ?"  # noqa: S608 - names of ours
        rows = connection.exec_driver_sql(statement, (asked,)).all()
    else:
        words = [f"'{word[:_LONGEST_WORD]}'" for word in term.words]
        asked = " <-> ".join(words) + (":*" if term.prefix else "")
        places = [TEXT_FIELDS.index(name) for name in fields]
        matching = "words @@ CAST(%s AS tsquery) AND field = ANY(%s)"
        statement = f"SELECT DISTINCT doc FROM {schema.WORDS} WHERE {matching}"  # noqa: S608 - names of ours
        rows = connection.exec_driver_sql(statement, (asked, places)).all()
    return np.sort(np.fromiter((row[0] for row in rows), np.uint32, len(rows)))


class _Rows:
    """The attempts of some runs with the documents of each."""

    def __init__(self, places: list[AttemptPlace], own: Documents, question: Documents, packed: list[bytes]) -> None:
        self.places = places
        self.own = own
        self._question = question
        sizes = np.fromiter((len(one) for one in packed), np.int64, len(packed)) // 4
        self._passages = np.frombuffer(b"".join(packed), _PACKED)
        self._of = np.repeat(np.arange(len(packed)), sizes)

    @classmethod
    def read(cls, connection: sa.Connection, numbers: Sequence[int], shared: bool) -> _Rows:
        """Read them in the order of their key; `shared` says whether their questions and passages are asked for."""
        key = (_A.c.run, _A.c.question_id, _A.c.epoch)
        mine = _A.c.run.in_(list(numbers))
        if not shared:
            plain = connection.execute(sa.select(*key, _A.c.doc).where(mine).order_by(*key)).all()
            own = np.fromiter((row[3] for row in plain), np.uint32, len(plain))
            return cls([(row[0], row[1], row[2]) for row in plain], own, np.zeros(len(plain), np.uint32), [])
        rows = connection.execute(
            sa.select(*key, _A.c.doc, _A.c.question, _A.c.passages).where(mine).order_by(*key)
        ).all()
        own = np.fromiter((row[3] for row in rows), np.uint32, len(rows))
        question = np.fromiter((row[4] or 0 for row in rows), np.uint32, len(rows))
        return cls([(row[0], row[1], row[2]) for row in rows], own, question, [bytes(row[5]) for row in rows])

    def holding(self, documents: Documents) -> npt.NDArray[np.bool_]:
        """Which of the attempts have one of these documents."""
        largest = max((int(one[-1]) for one in (documents,) if len(one)), default=0)
        largest = max(largest, int(self.own.max()), int(self._question.max()))
        if len(self._passages):
            largest = max(largest, int(self._passages.max()))
        wanted = np.zeros(largest + 1, bool)
        wanted[documents] = True
        wanted[0] = False
        held = wanted[self.own] | wanted[self._question]
        if len(self._passages):
            held[self._of[wanted[self._passages]]] = True
        return held

    def at(self, places: Collection[AttemptPlace]) -> npt.NDArray[np.bool_]:
        """Which of the attempts are at these places."""
        if not places:
            return np.zeros(len(self.places), bool)
        return np.fromiter((place in places for place in self.places), bool, len(self.places))


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
    if has_words(connection):
        if connection.dialect.name == "sqlite":
            # Not emptied row by row: FTS5 would want every text once more.
            _drop_words(connection)
            connection.exec_driver_sql(schema.WORDS_ON_SQLITE)
        else:
            connection.exec_driver_sql(f"TRUNCATE {schema.WORDS}")
    connection.execute(sa.delete(_A))
    connection.execute(sa.delete(_S))
    renew_edition(connection)


def _drop_words(connection: sa.Connection) -> None:
    """Remove SQLite's table, also one that is so damaged that it cannot be opened."""
    try:
        connection.exec_driver_sql(f"DROP TABLE {schema.WORDS}")
    except sa.exc.DatabaseError:
        # An index without any words, as FTS5 makes it: sums (1), and no segments (10).
        connection.exec_driver_sql(f"DELETE FROM {schema.WORDS}_data")  # noqa: S608 - a name of ours
        empty = f"INSERT INTO {schema.WORDS}_data (id, block) VALUES (1, x''), (10, x'00000000000000')"  # noqa: S608
        connection.exec_driver_sql(empty)
        connection.exec_driver_sql(f"DROP TABLE {schema.WORDS}")


def renew_edition(connection: sa.Connection) -> None:
    """Have writers forget which documents they know."""
    meta = schema.meta
    connection.execute(sa.delete(meta).where(meta.c.key == schema.INDEX_EDITION))
    connection.execute(sa.insert(meta), {"key": schema.INDEX_EDITION, "value": secrets.token_hex(8)})


def packed_documents(data: bytes) -> Documents:
    """The documents of a row's `passages`."""
    return np.frombuffer(data[: len(data) // 4 * 4], _PACKED)


def _shared_document(number: int, kind: str, first: str, second: str) -> _Document:
    return _Document(number, {kind: first if kind == "question" else joined((first, second))})


def _forget(connection: sa.Connection, items: Iterable[tuple[Mapping[str, object], AttemptTexts]]) -> None:
    """Take attempts out of the index whose words of before are of another attempt."""
    for row, _ in items:
        same = (_A.c.run == row["run"], _A.c.question_id == row["question_id"], _A.c.epoch == row["epoch"])
        connection.execute(sa.delete(_A).where(*same))


def _texts_of(row: Mapping[str, object]) -> AttemptTexts:
    texts = row["texts"]
    if not isinstance(texts, AttemptTexts):
        raise TypeError(f"texts are {type(texts).__name__}")
    return texts


def _share(passage: tuple[str, str], shared: dict[bytes, tuple[str, str, str]]) -> bytes:
    name = _name(passage)
    shared.setdefault(name, ("passage", *passage))
    return name


def _share_question(text: str, shared: dict[bytes, tuple[str, str, str]]) -> bytes | None:
    if not text:
        return None
    name = hash_of(b"question\0" + text.encode("utf-8", "replace"))
    shared.setdefault(name, ("question", text, ""))
    return name


@functools.lru_cache(maxsize=4096)
def _name(passage: tuple[str, str]) -> bytes:
    # The same passages come again and again.
    return hash_of("\0".join(("passage", *passage)).encode("utf-8", "replace"))


def _numbers_of(connection: sa.Connection, names: Sequence[bytes]) -> dict[bytes, int]:
    """Names of shared texts → their documents, of those that the index holds."""
    found: dict[bytes, int] = {}
    for start in range(0, len(names), _CHUNK):
        part = tuple(names[start : start + _CHUNK])
        marks = ", ".join([_mark(connection)] * len(part))
        statement = f"SELECT hash, doc FROM text_shared WHERE hash IN ({marks})"  # noqa: S608 - places of values
        found |= {bytes(hash): doc for hash, doc in connection.exec_driver_sql(statement, part)}
    return found


def _meta(connection: sa.Connection, key: str) -> str | None:
    statement = f"SELECT value FROM meta WHERE key = {_mark(connection)}"  # noqa: S608 - a place of a value
    value = connection.exec_driver_sql(statement, (key,)).scalar()
    return None if value is None else str(value)


def _mark(connection: sa.Connection) -> str:
    return "?" if connection.dialect.name == "sqlite" else "%s"


def _claimed(connection: sa.Connection, numbers: Mapping[bytes, int]) -> dict[bytes, int]:
    """Those of these shared texts that this transaction has written; PostgreSQL."""
    from sqlalchemy.dialects.postgresql import insert

    rows = [{"hash": name, "doc": number} for name, number in sorted(numbers.items())]
    statement = insert(_S).values(rows).on_conflict_do_nothing().returning(_S.c.hash, _S.c.doc)
    return {bytes(row.hash): row.doc for row in connection.execute(statement)}


def _new_numbers(connection: sa.Connection, count: int) -> list[int]:
    """The numbers of so many new documents, ascending."""
    if not count:
        return []
    if connection.dialect.name != "sqlite":
        asked = "SELECT nextval('text_documents') FROM generate_series(1, %s)"
        return sorted(int(row[0]) for row in connection.exec_driver_sql(asked, (count,)))
    last = int(_meta(connection, schema.LAST_DOCUMENT) or 0)
    newest = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    connection.exec_driver_sql(newest, (schema.LAST_DOCUMENT, str(last + count)))
    return list(range(last + 1, last + count + 1))


def _add_words(connection: sa.Connection, documents: Sequence[_Document]) -> None:
    if connection.dialect.name == "sqlite":
        for fields in (("passage",), ("question",), _OWN):
            rows = [
                (one.number, *(one.fields.get(name, "") for name in fields))
                for one in documents
                if not one.fields.keys().isdisjoint(fields)
            ]
            _insert(connection, schema.WORDS, ("rowid", *fields), rows)
        return
    parts = [
        (one.number, TEXT_FIELDS.index(name), part, words)
        for one in documents
        for name, text in one.fields.items()
        for part, words in enumerate(_vectors(text))
    ]
    _insert(connection, schema.WORDS, ("doc", "field", "part", "words"), parts)


def _vectors(text: str) -> Iterable[str]:
    """A folded text as tsvectors; the break between two texts has a place and no word."""
    places: dict[str, list[int]] = {}
    size = place = 0
    for word in folded_words(text):
        if place >= _POSITIONS or size >= _VECTOR:
            yield _vector(places)
            places, size, place = {}, 0, 0
        place += 1
        if word != BREAK:
            places.setdefault(word[:_LONGEST_WORD], []).append(place)
            size += len(word[:_LONGEST_WORD]) + 8
    if places:
        yield _vector(places)


def _vector(places: Mapping[str, Sequence[int]]) -> str:
    return " ".join(f"'{word}':{','.join(map(str, at))}" for word, at in places.items())


def _insert(
    connection: sa.Connection,
    table: str,
    columns: Sequence[str],
    rows: Sequence[tuple[object, ...]],
    conflict: str = "",
) -> None:
    """Insert rows by few statements: SQLite's driver lets others run after each row of an executemany, and SQLAlchemy's
    way to a statement costs more than the statement."""
    one = f"({', '.join([_mark(connection)] * len(columns))})"
    head = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "  # noqa: S608 - names of ours
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS]
        given = tuple(value for row in part for value in row)
        connection.exec_driver_sql(head + ", ".join([one] * len(part)) + conflict, given)
