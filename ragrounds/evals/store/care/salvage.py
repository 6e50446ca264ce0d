"""Salvage of a store whose file is damaged: all readable rows, saved into a new store (`ragrounds doctor --store --save
FOLDER`).

Every page of the file is read separately (:mod:`ragrounds.evals.store.care.sqlite_pages`), so that a damaged one hides
no other. A row is saved if it matches its checksum and if all rows that it depends on were saved too: the new store is
consistent. Lost rows are rebuilt by the commands that made them: a run's from its recorded calls, which are not paid
for again.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.engine import result_tuple

from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.arenas import Arena
from ragrounds.evals.store.care.garbage import BATCH, UNREADABLE, Marks, Progress
from ragrounds.evals.store.care.row_checks import check_row
from ragrounds.evals.store.care.sqlite_pages import Pages
from ragrounds.evals.store.codec import StoredQuestion, decompress_untrusted, run_of
from ragrounds.evals.store.database import insert_new, writing
from ragrounds.evals.store.journal import copy_arrivals
from ragrounds.evals.store.store import Store

_PASSES = (
    (schema.questions, schema.blobs, schema.servers, schema.meta),
    (schema.runs, schema.arenas, schema.calls),
    (
        schema.attempts,
        schema.gradings,
        schema.regradings,
        schema.stoppings,
        schema.notes,
        schema.reads,
        schema.recalls,
    ),
    (schema.scores, schema.judgements, schema.votes),
)
"""Tables that are read in each pass over the file. All tables on which they depend are in an earlier pass.

Leases are not saved because their processes have ended, and facts because they are derived.
"""
_PAGE = 8192
"""Number of bytes of a page of a store's file."""


class SavedStore(Struct, frozen=True, kw_only=True):
    """Result of saving a damaged store."""

    place: str
    """Path of the new store."""
    saved: dict[str, int]
    """Number of rows in the new store, by table."""
    dropped: dict[str, int]
    """Number of rows that were read but not saved, by table: they do not match their checksums, or depend on lost rows.
    """
    unread: int
    """Number of pages of the file that could not be read; the number of rows on them is not known."""

    def lines(self) -> Iterator[str]:
        """Yield the result as lines of text."""
        saved_words = ", ".join(f"{count:,} {table}" for table, count in self.saved.items() if count) or "nothing"
        yield f"{'saved':10} {saved_words}"
        dropped = ", ".join(f"{count:,} {table}" for table, count in self.dropped.items() if count)
        damaged = f"; {dropped} that do not match their checksums, or depend on what is lost" if dropped else ""
        yield f"{'lost':10} {self.unread:,} pages that cannot be read{damaged}"
        yield (
            f"  Put {self.place} in the place of the damaged file, without its -wal and -shm, or set RAGROUNDS_HOME "
            "to its folder. The commands of your runs rebuild what is lost from recorded calls."
        )


def save_store(damaged: Path, home: Path, old_home: Path, report: Progress = lambda step, rows: None) -> SavedStore:
    """Save all readable rows of a store's file into a new store in the folder `home`.

    Args:
        damaged: the file; it is only read.
        home: a folder without a store.
        old_home: the folder of the damaged store; answers in it that are in no store yet are copied.
        report: called with the step and the number of rows that are done.

    Raises:
        UserError: there is no such file, or a store in the folder.
        StopRun: the new store cannot be written.
    """
    if not damaged.is_file():
        raise UserError(f"The file {damaged} does not exist.")
    if (home / "store.sqlite").exists():
        raise UserError(f"{home} already contains a store. Give a new folder.")
    with Store(home) as new, tempfile.TemporaryDirectory(prefix=".ragrounds-", dir=home) as folder:
        salvage = _Salvage(new, report)
        with closing(Pages(_merged(damaged, Path(folder)), _PAGE)) as pages:
            for tables in _PASSES:
                salvage.passage(pages, tables)
            copy_arrivals(old_home, str(damaged.absolute()), new)
            return SavedStore(
                place=new.location, saved=dict(salvage.saved), dropped=dict(salvage.dropped), unread=pages.unread
            )


def _merged(damaged: Path, folder: Path) -> Path:
    """Return a copy of the file in which the content of its write-ahead log is merged."""
    for path in (damaged, damaged.with_name(f"{damaged.name}-wal")):
        if path.exists():
            shutil.copy(path, folder / path.name)
    copy = folder / damaged.name
    with suppress(sqlite3.Error), closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return copy


def _row(table: sa.Table, rowid: int | None, values: Sequence[Any]) -> dict[str, Any] | None:
    """Return the row by column; ``None`` if the number and kinds of its values show that it belongs to another table.

    SQLite stores an integer key as the rowid, and a float without a fraction as an integer.
    """
    if table.dialect_options["sqlite"]["with_rowid"] != (rowid is not None) or len(values) != len(table.c):
        return None
    row = dict(zip(table.c.keys(), values, strict=True))
    for column in table.c:
        if column.name == "number" and column.primary_key:
            row["number"] = rowid
        elif isinstance(column.type, sa.Float) and isinstance(row[column.name], int):
            row[column.name] = float(row[column.name])
    try:
        check_row(table, tuple(row.values()))
    except ValueError:
        return None
    return row


class _References(Marks):
    """References of one row, without a database."""

    def __init__(self) -> None:
        self.calls, self.blobs = schema.calls, schema.blobs
        self.marks: list[tuple[str, bytes]] = []

    def mark(self, table: sa.Table, marks: Iterable[bytes]) -> None:
        self.marks += ((table.name, mark) for mark in marks)


class _Salvage:
    """Passes over a damaged file."""

    def __init__(self, new: Store, report: Progress) -> None:
        self._new, self._report = new, report
        self.saved, self.dropped = Counter[str](), Counter[str]()
        self._runs: dict[int, Run] = {}
        self._positions_by_set: dict[str, set[int]] = {}
        """Positions of the questions of each set."""
        self._saved_keys: set[tuple[Any, ...]] = set()
        """Keys of rows on which others may depend, each with the name of its table."""

    def passage(self, pages: Pages, tables: Sequence[sa.Table]) -> None:
        """Save the rows of some tables."""
        with writing(self._new.engine) as connection:
            for number, (rowid, values) in enumerate(pages.rows(), 1):
                rows = [(table, row) for table in tables if (row := _row(table, rowid, values)) is not None]
                for table, row in rows:
                    if self._is_consistent(table, result_tuple(table.c.keys())(row.values())):
                        self.saved[table.name] += connection.execute(insert_new(self._new.engine, table), row).rowcount
                        break
                else:
                    self.dropped.update(table.name for table, _ in rows[:1])
                if number % BATCH == 0:
                    self._report(f"saving {tables[0].name}", number)
            for name, positions in self._positions_by_set.items() if schema.questions in tables else ():
                if len(positions) <= max(positions):  # the command that asked them asks all of them again
                    broken = sa.delete(schema.questions).where(schema.questions.c.set == name)
                    self.dropped["questions"] += (gone := connection.execute(broken).rowcount)
                    self.saved["questions"] -= gone
                    positions.clear()

    def _is_consistent(self, table: sa.Table, row: Any) -> bool:
        """Return True if a row matches its checksum and all rows that it depends on were saved; remember its key for
        others.
        """
        references = _References()
        try:
            references.mark_row(table, row)
            keys = self._keys_of(table, row)
        except UNREADABLE:
            return False
        if keys is None or not self._saved_keys.issuperset(references.marks):
            return False
        self._saved_keys.update(keys)
        return True

    def _keys_of(self, table: sa.Table, row: Any) -> list[tuple[Any, ...]] | None:
        """Return the keys under which others may depend on a row; ``None`` if a row that it depends on itself is
        missing.

        Raises:
            UNREADABLE: it does not match its checksum.
        """
        if "run" in table.c:
            run = self._runs[row.run]  # a KeyError counts as unreadable, too
            has_question = ("questions", run.questions, getattr(row, "question_id", "")) in self._saved_keys
            if "question_id" in table.c and not (has_question and 0 <= row.epoch < run.epochs):
                return None
        match table.name:
            case "blobs" | "calls":
                return [(table.name, row.hash if table is schema.blobs else row.key)]
            case "runs":
                run_record = run_of(row.body)
                same = (run_record.id, run_record.fingerprint, run_record.created) == (
                    row.id,
                    row.fingerprint,
                    row.created,
                )
                if not same or len(self._positions_by_set.get(run_record.questions, ())) != run_record.count:
                    return None
                self._runs[row.number] = run_record
            case "questions":
                stored = msgspec.msgpack.decode(decompress_untrusted(row.body), type=StoredQuestion)
                if stored.question.id != row.question_id:
                    return None
                self._positions_by_set.setdefault(row.set, set()).add(row.position)
                return [("questions", row.set, row.question_id)]
            case "attempts":
                return [("attempts", row.run, row.question_id, row.epoch)]
            case "scores" if ("attempts", row.run, row.question_id, row.epoch) not in self._saved_keys:
                return None
            case "arenas":
                arena = msgspec.msgpack.decode(decompress_untrusted(row.body), type=Arena)
                return [("arenas", row.number)] if arena.fingerprint == row.fingerprint else None
            case "judgements" | "votes" if ("arenas", row.arena) not in self._saved_keys:
                return None
            case "recalls":
                decompress_untrusted(row.response)
        return []
