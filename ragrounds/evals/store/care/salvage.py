"""What can be read of a store whose file is damaged, saved into a new one (`ragrounds doctor --store --save FOLDER`).

Every page of the file is read by itself (:mod:`ragrounds.evals.store.care.sqlite_pages`), so that a damaged one hides
no other. A row is kept where it is what was written and where all that it rests on was kept too: the new store is
whole. What is lost is made again by the commands that made it: a run's from its recorded calls, which nobody pays
again.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.arenas import Arena
from ragrounds.evals.store.care.garbage import BATCH, UNREADABLE, Marks, Progress
from ragrounds.evals.store.care.sqlite_pages import Pages
from ragrounds.evals.store.care.transfer import check_row
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
"""What is read in one passage over the file: all that its rows rest on was read before. Leases are of processes that
are gone, facts are derived."""
_PAGE = 8192
"""Bytes of a page of a store's file."""


class SavedStore(Struct, frozen=True, kw_only=True):
    """What was saved of a damaged store."""

    place: str
    """The new store."""
    saved: dict[str, int]
    """Table → its rows in the new store."""
    dropped: dict[str, int]
    """Table → rows that were read and do not match their checksums, or depend on something that is lost."""
    unread: int
    """Pages of the file that could not be read; how many rows were there is not known."""

    def lines(self) -> Iterator[str]:
        """The same in words."""
        kept = ", ".join(f"{count:,} {table}" for table, count in self.saved.items() if count) or "nothing"
        yield f"{'saved':10} {kept}"
        dropped = ", ".join(f"{count:,} {table}" for table, count in self.dropped.items() if count)
        damaged = f"; {dropped} that do not match their checksums, or depend on what is lost" if dropped else ""
        yield f"{'lost':10} {self.unread:,} pages that cannot be read{damaged}"
        yield (
            f"  Put {self.place} in the place of the damaged file, without its -wal and -shm, or set RAGROUNDS_HOME "
            "to its folder. The commands of your runs rebuild what is lost from recorded calls."
        )


def save_store(damaged: Path, home: Path, old_home: Path, report: Progress = lambda step, rows: None) -> SavedStore:
    """Save all that can be read of a store's file into a new store in the folder `home`.

    Args:
        damaged: the file; it is only read.
        home: a folder without a store.
        old_home: the folder beside whose store answers may lie that are in none yet: they are copied.
        report: called with the step and the rows it has passed.

    Raises:
        UserError: there is no such file, or a store in the folder.
        StopRun: the new store cannot be written.
    """
    if not damaged.is_file():
        raise UserError(f"The file {damaged} does not exist.")
    if (home / "store.sqlite").exists():
        raise UserError(f"{home} already contains a store. Give a new folder.")
    with Store(home) as new, tempfile.TemporaryDirectory(prefix=".ragrounds-", dir=home) as beside:
        salvage = _Salvage(new, report)
        with closing(Pages(_merged(damaged, Path(beside)), _PAGE)) as pages:
            for tables in _PASSES:
                salvage.passage(pages, tables)
            copy_arrivals(old_home, str(damaged.absolute()), new)
            return SavedStore(
                place=new.place, saved=dict(salvage.saved), dropped=dict(salvage.dropped), unread=pages.unread
            )


def _merged(damaged: Path, folder: Path) -> Path:
    """A copy of the file, with what was written to the log beside it in its place."""
    for path in (damaged, damaged.with_name(f"{damaged.name}-wal")):
        if path.exists():
            shutil.copy(path, folder / path.name)
    whole = folder / damaged.name
    with suppress(sqlite3.Error), closing(sqlite3.connect(whole)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return whole


def _row(table: sa.Table, rowid: int | None, values: Sequence[Any]) -> dict[str, Any] | None:
    """The row by column: a whole number that is the key is kept as the rowid, a whole float as a number. ``None``: by
    the number and kinds of its values it is of another table."""
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
    """What one row refers to, without a database."""

    def __init__(self) -> None:
        self.calls, self.blobs = schema.calls, schema.blobs
        self.found: list[tuple[str, bytes]] = []

    def mark(self, table: sa.Table, marks: Iterable[bytes]) -> None:
        self.found += ((table.name, mark) for mark in marks)


class _Salvage:
    """Passages over a damaged file."""

    def __init__(self, new: Store, report: Progress) -> None:
        self._new, self._report = new, report
        self.saved, self.dropped = Counter[str](), Counter[str]()
        self._runs: dict[int, Run] = {}
        self._asked: dict[str, set[int]] = {}
        """Set → the positions of its questions."""
        self._kept: set[tuple[Any, ...]] = set()
        """What others may rest on, by the name of its table and its key."""

    def passage(self, pages: Pages, tables: Sequence[sa.Table]) -> None:
        """Save the rows of some tables."""
        with writing(self._new.engine) as connection:
            for number, (rowid, values) in enumerate(pages.rows(), 1):
                rows = [(table, row) for table in tables if (row := _row(table, rowid, values)) is not None]
                for table, row in rows:
                    if self._keeps(table, SimpleNamespace(**row)):
                        self.saved[table.name] += connection.execute(insert_new(self._new.engine, table), row).rowcount
                        break
                else:
                    self.dropped.update(table.name for table, _ in rows[:1])
                if number % BATCH == 0:
                    self._report(f"saving {tables[0].name}", number)
            for name, positions in self._asked.items() if schema.questions in tables else ():
                if len(positions) <= max(positions):  # the command that asked them asks all again
                    broken = sa.delete(schema.questions).where(schema.questions.c.set == name)
                    self.dropped["questions"] += (gone := connection.execute(broken).rowcount)
                    self.saved["questions"] -= gone
                    positions.clear()

    def _keeps(self, table: sa.Table, row: Any) -> bool:
        """Whether a row is what was written, and all is there that it rests on; remembers what others rest on."""
        references = _References()
        try:
            references.of(table, row)
            made = self._made(table, row)
        except UNREADABLE:
            return False
        if made is None or not self._kept.issuperset(references.found):
            return False
        self._kept.update(made)
        return True

    def _made(self, table: sa.Table, row: Any) -> list[tuple[Any, ...]] | None:
        """What can rest on a row; ``None``: what it rests on itself is not there.

        Raises:
            UNREADABLE: it does not match its checksum.
        """
        if "run" in table.c:
            run = self._runs[row.run]  # a KeyError is unreadable, too
            known = ("questions", run.questions, getattr(row, "question_id", "")) in self._kept
            if "question_id" in table.c and not (known and 0 <= row.epoch < run.epochs):
                return None
        match table.name:
            case "blobs" | "calls":
                return [(table.name, row.hash if table is schema.blobs else row.key)]
            case "runs":
                told = run_of(row.body)
                same = (told.id, told.fingerprint, told.created) == (row.id, row.fingerprint, row.created)
                if not same or len(self._asked.get(told.questions, ())) != told.count:
                    return None
                self._runs[row.number] = told
            case "questions":
                item = msgspec.msgpack.decode(decompress_untrusted(row.body), type=StoredQuestion)
                if item.question.id != row.question_id:
                    return None
                self._asked.setdefault(row.set, set()).add(row.position)
                return [("questions", row.set, row.question_id)]
            case "attempts":
                return [("attempts", row.run, row.question_id, row.epoch)]
            case "scores" if ("attempts", row.run, row.question_id, row.epoch) not in self._kept:
                return None
            case "arenas":
                arena = msgspec.msgpack.decode(decompress_untrusted(row.body), type=Arena)
                return [("arenas", row.number)] if arena.fingerprint == row.fingerprint else None
            case "judgements" | "votes" if ("arenas", row.arena) not in self._kept:
                return None
            case "recalls":
                decompress_untrusted(row.response)
        return []
