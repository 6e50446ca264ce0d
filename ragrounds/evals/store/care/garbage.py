"""Garbage collection (`ragrounds runs gc`): finding, counting and removing rows that nothing in a store refers to.

Runs, judgements and arenas refer to recorded calls, and these to long texts. A recorded call stays while an attempt, a
judgement of an arena or a judged score refers to it, while an unfinished attempt has paid for it, and while the judging
of an existing run or arena has: interrupted work is resumed without paying twice.

The algorithm is mark and sweep. Marks are kept in temporary tables of the database, so a store of any size is walked in
little memory. The ledger and the transfer of runs walk a store by the same marks.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, get_args

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import AnswerStatus, Called, Noted, Run, Status, drawn_keys
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import (
    AttemptBody,
    DamagedRecord,
    decode_without_texts,
    decompress_untrusted,
    hash_of,
    run_of,
)
from ragrounds.evals.store.database import (
    insert_new,
    locked_tables,
    snapshot,
    store_location,
    stream,
    upsert,
    writing_failed,
)
from ragrounds.evals.store.journal import arena_payer, attempt_payer, judging_payer
from ragrounds.evals.store.row_sums import CHECKSUM, is_whole_row, summed_meta

BATCH = 500
"""Number of rows read or written at a time."""
Progress = Callable[[str, int], None]
"""Callback with the current step and the number of rows done."""


def reported(rows: Iterable[Any], step: str, report: Progress) -> Iterator[Any]:
    """Yield rows as they come, and report every five hundredth and the last."""
    count = 0
    for count, row in enumerate(rows, 1):
        if count % 500 == 0:
            report(step, count)
        yield row
    report(step, count)


class Marks:
    """Recorded calls (by key) and texts (by hash) that are referred to, marked on one connection."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        temporary_tables = sa.MetaData()
        self.calls, self.blobs, self.payers = (
            sa.Table(
                name,
                temporary_tables,
                sa.Column("mark", sa.LargeBinary, primary_key=True),
                prefixes=["TEMPORARY"],
                sqlite_with_rowid=False,
            )
            for name in ("marked_calls", "marked_blobs", "marked_payers")
        )
        self._unwritten: dict[str, tuple[sa.Table, set[bytes]]] = {}
        temporary_tables.create_all(connection, checkfirst=False)

    def mark(self, table: sa.Table, marks: Iterable[bytes]) -> None:
        """Mark more keys or hashes. They are in the table after the next `flush`."""
        unwritten = self._unwritten.setdefault(table.name, (table, set()))[1]
        unwritten.update(marks)
        if len(unwritten) >= BATCH:
            self._insert(table, unwritten)

    def flush(self) -> None:
        """Write the marks that are still in memory."""
        for table, unwritten in self._unwritten.values():
            self._insert(table, unwritten)

    def drop(self) -> None:
        """Drop the temporary tables."""
        for table in (self.calls, self.blobs, self.payers):
            table.drop(self.connection)

    def _insert(self, table: sa.Table, unwritten: set[bytes]) -> None:
        if unwritten:
            rows = [{"mark": mark} for mark in unwritten]
            self.connection.execute(insert_new(self.connection.engine, table), rows)
            unwritten.clear()

    def mark_row(self, table: sa.Table, row: Any) -> None:
        """Check a single row, and mark everything that it refers to.

        Raises:
            UNREADABLE: it does not match its checksum.
        """
        columns = _columns(table)
        for name, position in columns.words.items():
            if row[position] not in _WORDS[name]:
                raise ValueError(f"the {name.replace('_', ' ')} {row[position]!r} is none")
        if columns.has_checksum and not is_whole_row(table, row):
            raise ValueError(_NOT_WRITTEN.get(table.name, "a row does not match its checksum").format(row=row))
        if table in (schema.gradings, schema.regradings):
            self.mark(self.calls, [bytes(row.key)])
        if table is schema.blobs:
            text = decompress_untrusted(row.data)
            if hash_of(text) != bytes(row.hash):
                raise ValueError("a text is not what its hash says")
            text.decode("utf-8")
        for position in columns.packed:
            if (packed := row[position]) is not None:
                self._mark_record(table, packed)

    def _mark_record(self, table: sa.Table, packed: bytes) -> None:
        if table is schema.stoppings:  # JSON
            decompress_untrusted(packed)
            return
        plain, hashes = decode_without_texts(packed)
        if not isinstance(plain, dict | list):
            raise TypeError(f"{type(plain).__name__} is no record")
        self.mark(self.blobs, hashes)
        if table is schema.judgements:
            referenced = [(call["key"], call.get("error", "")) for call in dict(plain)["calls"]]
        elif table is schema.attempts:
            body = msgspec.convert(plain, AttemptBody, strict=False)
            referenced = [(event.call.key, event.call.error) for event in body.events if isinstance(event, Called)]
            referenced += [(key, "") for event in body.events if isinstance(event, Noted) for key in drawn_keys(event)]
        else:
            referenced = []
        # Calls that failed, and imported ones, are not in the journal.
        self.mark(self.calls, [bytes.fromhex(key) for key, error in referenced if key and not error])

    def of_rows(
        self, table: sa.Table, what: str, report: Progress, which: sa.ColumnElement[bool] | None = None
    ) -> None:
        """Mark everything that the rows of a table refer to, for all rows or those of a condition."""
        statement = sa.select(table) if which is None else sa.select(table).where(which)
        for row in reported(stream(self.connection, statement), what, report):
            self.mark_row(table, row)

    def unfinished(self, number: int, run: Run, final: Collection[str]) -> None:
        """Mark as payers the unfinished attempts of a run, and its judging.

        Interrupted work may have paid for calls that no row names yet.
        """
        self.mark(self.payers, [judging_payer(run)])
        self.attempts_to_come(number, run, final)

    def attempts_to_come(self, number: int, run: Run, final: Collection[str]) -> None:
        """Mark as payers the attempts of a run that are missing or have none of the statuses `final`."""
        attempts, questions = schema.attempts.c, schema.questions.c
        statuses = sa.select(attempts.question_id, attempts.epoch, attempts.status).where(attempts.run == number)
        done = {(row.question_id, row.epoch) for row in self.connection.execute(statuses) if row.status in final}
        for question_id in stream(
            self.connection, sa.select(questions.question_id).where(questions.set == run.questions)
        ):
            for key in ((question_id[0], epoch) for epoch in range(run.epochs)):
                if key not in done:
                    self.mark(self.payers, [attempt_payer(run, *key)])

    def of_payers(self) -> None:
        """Mark the calls that the payers marked so far have paid."""
        self.flush()
        paid = sa.select(schema.calls.c.key).join(self.payers, schema.calls.c.payer == self.payers.c.mark)
        for row in stream(self.connection, paid):
            self.mark(self.calls, [bytes(row.key)])
        self.flush()


_WORDS: dict[str, tuple[str, ...]] = {"status": get_args(Status), "answer_status": get_args(AnswerStatus)}
"""Columns with a fixed set of words."""


class _Columns(Struct, frozen=True):
    """Positions of a table's columns in its rows."""

    words: dict[str, int]
    """Columns with a fixed set of words."""
    packed: tuple[int, ...]
    """Columns with packed records."""
    has_checksum: bool


@cache
def _columns(table: sa.Table) -> _Columns:
    names = table.c.keys()
    packed = ("request", "response") if table is schema.calls else ("body",)
    return _Columns(
        words={name: names.index(name) for name in _WORDS if name in names},
        packed=tuple(names.index(name) for name in packed if name in names),
        has_checksum=CHECKSUM in names,
    )


_NOT_WRITTEN = {
    "attempts": "the attempt at {row.question_id!r} does not match its checksum",
    "scores": "the score of {row.question_id!r} by {row.scorer} does not match its checksum",
}
_READ_TABLES = "runs, questions, attempts, gradings, arenas, judgements, calls, blobs"
UNREADABLE = (
    DamagedRecord,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    MemoryError,
)
"""Exceptions that reading a row raises if the row does not match its checksum."""


class RowVolume(Struct, frozen=True):
    """Number of rows and the bytes that they hold."""

    count: int = 0
    bytes: int = 0


class Garbage(Struct, frozen=True, kw_only=True):
    """Rows that were removed, or would be removed."""

    calls: RowVolume
    texts: RowVolume
    questions: RowVolume
    """Questions of runs that are removed."""
    recent: RowVolume
    """Calls without a reference that are too young to be removed."""
    outside: RowVolume
    """Calls without a reference that no attempt and no judging of a run made, such as queries of `retrieve`, `build`.
    They are not removed.
    """


def collect_garbage(
    engine: sa.Engine,
    final: frozenset[str],
    *,
    hours: float,
    outside: bool = False,
    remove: bool = False,
    runs: Sequence[str] | None = None,
    report: Progress = lambda step, rows: None,
) -> Garbage:
    """Count all rows without a reference, and `remove` them in one transaction.

    Args:
        engine: The store.
        final: Statuses of attempts that are not made again.
        hours: Calls younger than this stay, by the wall clock.
        outside: True to include calls that no attempt made.
        remove: True to remove the rows; otherwise they are only counted.
        runs: Ids of the runs that the caller knows to be idle; any other run is an error.
        report: Called with the step and the number of rows that are done.

    Raises:
        UserError: a row cannot be read, or a run has begun; nothing was removed.
        StopRun: the store cannot be written; nothing was removed.
    """
    calls, blobs, questions = schema.calls, schema.blobs, schema.questions

    def volume(column: sa.ColumnElement[int], which: sa.ColumnElement[bool]) -> RowVolume:
        counted = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(column), 0)).where(which)
        return RowVolume(*map(int, connection.execute(counted).one()))

    try:
        with locked_tables(engine, _READ_TABLES) if remove else snapshot(engine) as connection:
            marks = Marks(connection)
            unmarked = ~sa.exists().where(marks.calls.c.mark == calls.c.key)
            old = calls.c.at <= time.time() - hours * 3600
            of_runs = sa.true() if outside else calls.c.payer.is_not(None)
            removable = sa.and_(unmarked, old, of_runs)
            unreferenced = ~sa.exists().where(marks.blobs.c.mark == blobs.c.hash)
            stored_runs = _mark_runs(marks, final, runs, report)
            marks.of_rows(calls, "recorded calls", report, ~removable)
            marks.flush()
            abandoned = questions.c.set.not_in({run.questions for run in stored_runs})
            size = sa.func.length(calls.c.request) + sa.func.length(calls.c.response)
            garbage = Garbage(
                calls=volume(size, removable),
                texts=volume(sa.func.length(blobs.c.data), unreferenced),
                questions=volume(sa.func.length(questions.c.body), abandoned),
                recent=volume(size, sa.and_(unmarked, ~old)),
                outside=volume(size, sa.and_(unmarked, old, ~of_runs)),
            )
            if remove:
                unfinished = sa.exists().where(marks.payers.c.mark == schema.recalls.c.payer)
                # Texts are deleted by the marks that were made while the calls still existed.
                for table, which in (
                    (calls, removable),
                    (blobs, unreferenced),
                    (schema.recalls, ~unfinished),
                    (questions, abandoned),
                ):
                    connection.execute(sa.delete(table).where(which))
                # Writers cache the existing texts; a new value tells them to discard the cache.
                mark = summed_meta(schema.TEXTS_REMOVED, secrets.token_hex(8))
                connection.execute(upsert(engine, schema.meta), mark)
            marks.drop()
        return garbage
    except sa.exc.SQLAlchemyError as error:
        raise writing_failed(engine, error) from error
    except UNREADABLE as error:
        raise UserError(f"{store_location(engine)} cannot be read: {error}. Nothing was removed.") from error


def _mark_runs(marks: Marks, final: frozenset[str], runs: Sequence[str] | None, report: Progress) -> list[Run]:
    """Mark everything that runs and arenas refer to, and return the runs."""
    numbered = {row.number: run_of(row.body) for row in marks.connection.execute(sa.select(schema.runs))}
    if runs is not None and {run.id for run in numbered.values()} != set(runs):
        raise UserError("A run has begun, or was removed, in this moment. Give the same command again.")
    for number, run in numbered.items():
        for table in (schema.attempts, schema.gradings):
            marks.of_rows(table, f"{run.id}: {table.name}", report, table.c.run == number)
        marks.unfinished(number, run, final)
    marks.of_rows(schema.judgements, "arenas", report)
    for fingerprint in marks.connection.execute(sa.select(schema.arenas.c.fingerprint)).scalars():
        marks.mark(marks.payers, [arena_payer(fingerprint)])
    marks.of_payers()
    return list(numbered.values())
