"""Index of the words of attempts: SQLite's FTS5 in a file next to the store, which anybody may delete.

A document has the folded words of one attempt outside its calls, or of one recorded call, by field. Attempts share
recorded calls, so a call is read and indexed once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ragrounds.base.errors import StopRun
from ragrounds.evals.trace.text_folding import TextTerm, words_of

FILE = "words.sqlite"
"""Name of the file in the store's folder."""
FIELDS = ("answer", "tool", "reason", "note", "question", "query", "reply", "prompt", "passage")
"""Fields of the texts."""
_BREAK = " \N{BROKEN BAR} "
"""Word between two texts of a field, so that no phrase spans both. No folded text contains it."""
_TABLES = f"""
PRAGMA synchronous=OFF;
CREATE TABLE IF NOT EXISTS stores (name TEXT);
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT, question_id TEXT, epoch INTEGER, made_at REAL, noted_at REAL,
    UNIQUE (run, question_id, epoch)
);
CREATE TABLE IF NOT EXISTS documents (id INTEGER PRIMARY KEY, call TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS contents (document INTEGER, attempt INTEGER, PRIMARY KEY (document, attempt)) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5({", ".join(FIELDS)}, content='', columnsize=0, tokenize='ascii');
"""
# The tokenizer separates words at blanks and leaves other letters as they are: the words are folded already.
_EMPTY = """
BEGIN IMMEDIATE;
DELETE FROM stores;
DELETE FROM attempts;
DELETE FROM documents;
DELETE FROM contents;
INSERT INTO words (words) VALUES ('delete-all');
COMMIT;
"""

Texts = Mapping[str, Sequence[str]]
"""Texts by field."""
Version = tuple[float, float]
"""Times at which an attempt was made and at which its notes were last written."""


class TextIndex:
    """Open index.

    Args:
        connection: to the file, in autocommit mode.
        with_prompts: True if the texts of calls include their prompts. A call may be indexed with them and without.
    """

    def __init__(self, connection: sqlite3.Connection, with_prompts: bool) -> None:
        self._connection, self._suffix = connection, " with prompts" if with_prompts else ""

    def __contains__(self, key: object) -> bool:
        """Return True if the call with this key is indexed."""
        return self._document(key) is not None

    def versions(self, run: str) -> set[tuple[str, int, float, float]]:
        """Return question id, epoch and version of each attempt of a run that is indexed."""
        rows = self._connection.execute(
            "SELECT question_id, epoch, made_at, noted_at FROM attempts WHERE run = ?", [run]
        )
        return set(rows.fetchall())

    def size(self) -> int:
        """Return a number that grows with every attempt that is indexed."""
        return int(self._connection.execute("SELECT coalesce(max(id), 0) FROM attempts").fetchone()[0])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write in one transaction, which is committed also if the caller is interrupted."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    def add(
        self, attempt: tuple[str, str, int], version: Version, own: Texts, calls: Iterable[tuple[str, Texts]]
    ) -> None:
        """Index an attempt, in place of an earlier version of it.

        Args:
            attempt: run id, question id and epoch.
            version: version of the attempt.
            own: texts outside its calls.
            calls: key and texts of each call; the key is empty if the call may be another one next time.
        """
        cursor = self._connection.execute(
            "INSERT OR REPLACE INTO attempts (run, question_id, epoch, made_at, noted_at) VALUES (?, ?, ?, ?, ?)",
            [*attempt, *version],
        )
        documents = {self._add_document("", own)}
        documents |= {self._document(key) or self._add_document(key, texts) for key, texts in calls}
        rows = [(document, cursor.lastrowid) for document in documents]
        self._connection.executemany("INSERT INTO contents VALUES (?, ?)", rows)

    def find(self, terms: Sequence[TextTerm], fields: Sequence[str]) -> Iterator[tuple[str, str, int]]:
        """Yield run id, question id and epoch of the attempts that contain all terms, in some of the fields, if given.

        An attempt that has changed since it was indexed may be among them.
        """
        columns = "{" + " ".join(fields or FIELDS) + "} : "
        containing = "SELECT attempt FROM contents WHERE document IN (SELECT rowid FROM words WHERE words MATCH ?)"
        matches = [columns + f'"{" ".join(term.words)}"' + ("*" if term.prefix else "") for term in terms]
        selected = " INTERSECT ".join([containing] * len(matches))
        statement = f"SELECT run, question_id, epoch FROM attempts WHERE id IN ({selected})"  # noqa: S608
        yield from self._connection.execute(statement, matches)

    def _document(self, key: object) -> int | None:
        row = self._connection.execute("SELECT id FROM documents WHERE call = ?", [f"{key}{self._suffix}"]).fetchone()
        return int(row[0]) if row and key else None

    def _add_document(self, key: str, texts: Texts) -> int:
        call = f"{key}{self._suffix}" if key else None
        document = self._connection.execute("INSERT INTO documents (call) VALUES (?)", [call]).lastrowid or 0
        words = [_BREAK.join(" ".join(words_of(text)) for text in texts.get(field, ())) for field in FIELDS]
        columns, marks = ", ".join(("rowid", *FIELDS)), ", ".join("?" * (1 + len(FIELDS)))
        self._connection.execute(f"INSERT INTO words ({columns}) VALUES ({marks})", [document, *words])  # noqa: S608
        return document


@contextmanager
def open_text_index(path: Path, store: str, with_prompts: bool = False) -> Iterator[TextIndex]:
    """Open the index of a store (by a text that tells it from others), which is created if it is missing, and emptied
    if it was another store's.

    Raises:
        StopRun: the file is damaged or cannot be written.
    """
    with suppress(OSError):  # the error is reported when the file is opened
        path.touch(mode=0o600)  # like the store's: SQLite would let others read it
    try:
        with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
            connection.executescript(_TABLES)
            if connection.execute("SELECT name FROM stores").fetchall() != [(store,)]:
                connection.executescript(_EMPTY)
                connection.execute("INSERT INTO stores VALUES (?)", [store])
            yield TextIndex(connection, with_prompts)
    except sqlite3.Error as error:
        raise StopRun(f"Cannot use {path}: {error}. Delete this file: the next search makes it again.") from error
