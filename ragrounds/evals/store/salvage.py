"""What can be read of a store whose file is damaged, saved into a new one (`ragrounds doctor --store --save FOLDER`).

Every page of the file is read by itself (:mod:`ragrounds.evals.store.sqlite_pages`), so that a damaged one hides no
other. A row is kept where it is what was written and where all that it rests on was kept too: the new store is whole.
What is lost is made again by the commands that made it: a run's from its recorded calls, which nobody pays again.
"""

from __future__ import annotations

import itertools
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

from ragrounds.errors import UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.arenas import Arena
from ragrounds.evals.store.codec import StoredQuestion, decompress_untrusted, run_of
from ragrounds.evals.store.database import chunks, insert_new, writing
from ragrounds.evals.store.garbage import BATCH, UNREADABLE, Marks, Progress
from ragrounds.evals.store.journal import copy_arrivals
from ragrounds.evals.store.sqlite_pages import Pages
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.transfer import check_row
from ragrounds.records import Run

_PASSES = (
    (schema.runs, schema.questions, schema.blobs, schema.arenas, schema.servers, schema.meta),
    (schema.calls,),
    (schema.attempts, schema.gradings, schema.regradings, schema.stoppings, schema.notes, schema.recalls),
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
    """Table → rows that were read and are not what was written, or rest on something that is lost."""
    unread: int
    """Pages of the file that could not be read; how many rows were there is not known."""

    def lines(self) -> Iterator[str]:
        """The same in words."""
        kept = ", ".join(f"{count:,} {table}" for table, count in self.saved.items() if count) or "nothing"
        yield f"{'saved':10} {kept}"
        dropped = ", ".join(f"{count:,} {table}" for table, count in self.dropped.items() if count)
        damaged = f"; {dropped} that are not what was written, or rest on what is lost" if dropped else ""
        yield f"{'lost':10} {self.unread:,} pages that cannot be read{damaged}"
        yield (
            f"  Put {self.place} in the place of the damaged file, without what lies beside that (-wal, -shm), or set "
            "RAGROUNDS_HOME to its folder. The commands that made runs make what is lost again, from recorded calls."
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
        raise UserError(f"There is no file {damaged} to save anything from.")
    if (home / "store.sqlite").exists():
        raise UserError(f"{home} holds a store already. Name a new folder.")
    with Store(home) as new, tempfile.TemporaryDirectory(prefix=".ragrounds-", dir=home) as beside:
        salvage = _Salvage(new, report)
        with closing(Pages(_merged(damaged, Path(beside)), _PAGE)) as pages:
            for tables in _PASSES:
                salvage.passage(pages, tables)
            copy_arrivals(old_home, str(damaged.absolute()), new)
            kept, dropped = ({table.name: count[table.name] for table in _TABLES} for count in salvage.counts)
            return SavedStore(place=new.place, saved=kept, dropped=dropped, unread=pages.unread)


def _merged(damaged: Path, folder: Path) -> Path:
    """A copy of the file, with what was written to the log beside it in its place."""
    for path in (damaged, damaged.with_name(f"{damaged.name}-wal")):
        if path.exists():
            shutil.copy(path, folder / path.name)
    whole = folder / damaged.name
    with suppress(sqlite3.Error), closing(sqlite3.connect(whole)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return whole


_TABLES = tuple(itertools.chain(*_PASSES))


def _fitting(tables: Sequence[sa.Table], rowid: int | None, values: Sequence[Any]) -> Iterator[sa.Table]:
    """The tables that a row can be of, by the number and kinds of its values."""
    for table in tables:
        if table.dialect_options["sqlite"]["with_rowid"] == (rowid is not None) and len(values) == len(table.c):
            with suppress(ValueError):
                check_row(table, tuple(_row(table, rowid, values).values()))
                yield table


def _row(table: sa.Table, rowid: int | None, values: Sequence[Any]) -> dict[str, Any]:
    """The row by column: a whole number that is the key is kept as the rowid, a whole float as a number."""
    row = dict(zip(table.c.keys(), values, strict=True))
    for column in table.c:
        if column.name == "number" and column.primary_key:
            row["number"] = rowid
        elif isinstance(column.type, sa.Float) and isinstance(row[column.name], int):
            row[column.name] = float(row[column.name])
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
        self.counts = Counter[str](), Counter[str]()
        """Rows by table: those that were kept, and those that were not."""
        self._runs: dict[int, Run] = {}
        self._arenas: set[int] = set()
        self._asked: dict[str, dict[int, str]] = {}
        """Set → position → the question's id."""
        self._ids: dict[str, frozenset[str]] = {}
        """Set → the ids of its questions, of those that are whole."""
        self._kept: set[tuple[str, bytes]] = set()
        """Recorded calls and texts that were kept: the table's name, the key."""
        self._attempts: set[tuple[int, str, int]] = set()

    def passage(self, pages: Pages, tables: Sequence[sa.Table]) -> None:
        """Save the rows of some tables."""
        batches: dict[sa.Table, list[dict[str, Any]]] = {table: [] for table in tables}
        for number, (rowid, values) in enumerate(pages.rows(), 1):
            fitting = list(_fitting(tables, rowid, values))
            table = next((one for one in fitting if self._keeps(one, _row(one, rowid, values))), None)
            if table is not None:
                batches[table].append(_row(table, rowid, values))
                if len(batches[table]) == BATCH:
                    self._write(table, batches[table])
                    batches[table] = []
            elif fitting:
                self.counts[1][fitting[0].name] += 1
            if number % BATCH == 0:
                self._report(f"saving {tables[0].name}", number)
        for table, batch in batches.items():
            self._write(table, batch)
        if schema.runs in tables:
            self._choose_runs()

    def _write(self, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        if rows:
            with writing(self._new.engine) as connection:
                self.counts[0][table.name] += connection.execute(insert_new(self._new.engine, table), rows).rowcount

    def _choose_runs(self) -> None:
        """Give the runs and questions up that lack a question: the same command makes such a run anew."""
        counts = {run.questions: run.count for run in self._runs.values()}
        for name, places in self._asked.items():
            if sorted(places) == list(range(counts.get(name, len(places)))):
                self._ids[name] = frozenset(places.values())
        lost = [number for number, run in self._runs.items() if run.questions not in self._ids]
        broken = [name for name in self._asked if name not in self._ids]
        for table, column, values in (
            (schema.runs, schema.runs.c.number, lost),
            (schema.questions, schema.questions.c.set, broken),
        ):
            for some in chunks(values):
                with writing(self._new.engine) as connection:
                    gone = connection.execute(sa.delete(table).where(column.in_(some))).rowcount
                self.counts[0][table.name] -= gone
                self.counts[1][table.name] += gone
        self._runs = {number: run for number, run in self._runs.items() if number not in lost}

    def _keeps(self, table: sa.Table, values: dict[str, Any]) -> bool:
        """Whether a row is what was written, and all is there that it rests on; remembers what others rest on."""
        row, references = SimpleNamespace(**values), _References()
        try:
            references.of(table, row)
            return all(one in self._kept for one in references.found) and self._fits(table, row)
        except UNREADABLE:
            return False

    def _fits(self, table: sa.Table, row: Any) -> bool:
        if "run" in table.c:
            run = self._runs.get(row.run)
            if run is None or ("question_id" in table.c and not self._is_asked(run, row)):
                return False
        match table.name:
            case "blobs" | "calls":
                self._kept.add((table.name, row.hash if table is schema.blobs else row.key))
            case "runs":
                run = run_of(row.body)
                if (run.id, run.fingerprint, run.created) != (row.id, row.fingerprint, row.created):
                    return False
                self._runs[row.number] = run
            case "questions":
                item = msgspec.msgpack.decode(decompress_untrusted(row.body), type=StoredQuestion)
                if item.question.id != row.question_id:
                    return False
                self._asked.setdefault(row.set, {})[row.position] = row.question_id
            case "attempts":
                self._attempts.add((row.run, row.question_id, row.epoch))
            case "scores":
                return (row.run, row.question_id, row.epoch) in self._attempts
            case "arenas":
                if msgspec.msgpack.decode(decompress_untrusted(row.body), type=Arena).fingerprint != row.fingerprint:
                    return False
                self._arenas.add(row.number)
            case "judgements" | "votes":
                return row.arena in self._arenas
            case "recalls":
                decompress_untrusted(row.response)
        return True

    def _is_asked(self, run: Run, row: Any) -> bool:
        return row.question_id in self._ids[run.questions] and 0 <= row.epoch < run.epochs
