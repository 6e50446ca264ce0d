"""Garbage collection (`ragrounds runs gc`): finding, counting and removing what nothing in a store refers to any more.

Runs, judgements and arenas refer to recorded calls, and these to long texts. A recorded call stays while an attempt, a
judgement of an arena or a judged score refers to it, while an attempt that is still to be made has paid for it, and
while the judging of a run or arena that is there has: what was interrupted is resumed without paying twice.

It is mark and sweep. Marks are kept in temporary tables of the database, so a store of any size is walked in little
memory. The ledger and the transfer of runs walk a store by the same marks.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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
    shown,
    snapshot,
    stream,
    upsert,
    writing_failed,
)
from ragrounds.evals.store.journal import arena_payer, attempt_payer, judging_payer
from ragrounds.evals.store.row_sums import CHECKSUM, is_whole_row

BATCH = 500
"""Rows read or written at a time."""
Progress = Callable[[str, int], None]
"""Called with what is being done and the number of rows done."""


def reported(rows: Iterable[Any], step: str, report: Progress) -> Iterator[Any]:
    """Rows as they come, of which every five hundredth and the last are reported."""
    count = 0
    for count, row in enumerate(rows, 1):
        if count % 500 == 0:
            report(step, count)
        yield row
    report(step, count)


class Marks:
    """The recorded calls (by key) and texts (by hash) that something refers to, marked on one connection."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        frozen = sa.MetaData()
        self.calls, self.blobs, self.payers = (
            sa.Table(
                name,
                frozen,
                sa.Column("mark", sa.LargeBinary, primary_key=True),
                prefixes=["TEMPORARY"],
                sqlite_with_rowid=False,
            )
            for name in ("marked_calls", "marked_blobs", "marked_payers")
        )
        self._unwritten: dict[str, tuple[sa.Table, set[bytes]]] = {}
        frozen.create_all(connection, checkfirst=False)

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

    def of(self, table: sa.Table, row: Any) -> None:
        """Check a row by itself, and mark what it refers to.

        Raises:
            UNREADABLE: it does not match its checksum.
        """
        for name, known in _WORDS.items():
            if name in table.c and getattr(row, name) not in known:
                raise ValueError(f"the {name.replace('_', ' ')} {getattr(row, name)!r} is none")
        if CHECKSUM in table.c and not is_whole_row(table, row):
            raise ValueError(_NOT_WRITTEN.get(table.name, "a row does not match its checksum").format(row=row))
        if table in (schema.gradings, schema.regradings):
            self.mark(self.calls, [bytes(row.key)])
        if table is schema.blobs:
            text = decompress_untrusted(row.data)
            if hash_of(text) != bytes(row.hash):
                raise ValueError("a text is not what its hash says")
            text.decode("utf-8")
        for name in ("request", "response") if table is schema.calls else ("body",) if "body" in table.c else ():
            if (packed := getattr(row, name)) is not None:
                self._of_record(table, packed)

    def _of_record(self, table: sa.Table, packed: bytes) -> None:
        if table is schema.stoppings:  # JSON
            decompress_untrusted(packed)
            return
        plain, hashes = decode_without_texts(packed)
        if not isinstance(plain, dict | list):
            raise TypeError(f"{type(plain).__name__} is no record")
        self.mark(self.blobs, hashes)
        if table is schema.judgements:
            made = [(call["key"], call.get("error", "")) for call in dict(plain)["calls"]]
        elif table is schema.attempts:
            body = msgspec.convert(plain, AttemptBody, strict=False)
            made = [(event.call.key, event.call.error) for event in body.events if isinstance(event, Called)]
            made += [(key, "") for event in body.events if isinstance(event, Noted) for key in drawn_keys(event)]
        else:
            made = []
        # Those that failed, and imported ones, are not in the journal.
        self.mark(self.calls, [bytes.fromhex(key) for key, error in made if key and not error])

    def of_rows(
        self, table: sa.Table, what: str, report: Progress, which: sa.ColumnElement[bool] | None = None
    ) -> None:
        """Mark what the rows of a table refer to, all of them or those of a condition."""
        wanted = sa.select(table) if which is None else sa.select(table).where(which)
        for row in reported(stream(self.connection, wanted), what, report):
            self.of(table, row)

    def unfinished(self, number: int, run: Run, final: Collection[str]) -> None:
        """Mark as payers the attempts of a run that are still to be made, and its judging.

        What was interrupted may have paid for calls that no row names yet.
        """
        self.mark(self.payers, [judging_payer(run)])
        self.attempts_to_come(number, run, final)

    def attempts_to_come(self, number: int, run: Run, final: Collection[str]) -> None:
        """Mark as payers the attempts of a run that are missing or have none of the statuses `final`."""
        made, asked = schema.attempts.c, schema.questions.c
        statuses = sa.select(made.question_id, made.epoch, made.status).where(made.run == number)
        done = {(row.question_id, row.epoch) for row in self.connection.execute(statuses) if row.status in final}
        for question_id in stream(self.connection, sa.select(asked.question_id).where(asked.set == run.questions)):
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
"""Columns that hold one of some words."""
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
"""What a row that does not match its checksum raises where it is read."""


class RowVolume(Struct, frozen=True):
    """A number of rows and the bytes that they hold."""

    count: int = 0
    bytes: int = 0


class Garbage(Struct, frozen=True, kw_only=True):
    """What was removed, or would be removed."""

    calls: RowVolume
    texts: RowVolume
    questions: RowVolume
    """Questions of runs that are gone."""
    recent: RowVolume
    """Calls that nothing refers to, left because they are too young."""
    outside: RowVolume
    """Calls that nothing refers to, left because no attempt and no judging of a run made them: queries of `retrieve`,
    `build`."""


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
    """Count what nothing refers to, and `remove` it in one transaction.

    Args:
        engine: The store.
        final: Statuses of attempts that are not made again.
        hours: Calls younger than this stay, by the wall clock.
        outside: Whether calls that no attempt made are removed too.
        remove: Whether it is removed; else it is only counted.
        runs: Ids of the runs that the caller knows to be idle; any other run is an error.
        report: Called with the step and the rows it has passed.

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
            ours = sa.true() if outside else calls.c.payer.is_not(None)
            removable = sa.and_(unmarked, old, ours)
            unreferenced = ~sa.exists().where(marks.blobs.c.mark == blobs.c.hash)
            known = _mark_runs(marks, final, runs, report)
            marks.of_rows(calls, "recorded calls", report, ~removable)
            marks.flush()
            abandoned = questions.c.set.not_in({run.questions for run in known})
            bulk = sa.func.length(calls.c.request) + sa.func.length(calls.c.response)
            garbage = Garbage(
                calls=volume(bulk, removable),
                texts=volume(sa.func.length(blobs.c.data), unreferenced),
                questions=volume(sa.func.length(questions.c.body), abandoned),
                recent=volume(bulk, sa.and_(unmarked, ~old)),
                outside=volume(bulk, sa.and_(unmarked, old, ~ours)),
            )
            if remove:
                unfinished = sa.exists().where(marks.payers.c.mark == schema.recalls.c.payer)
                # Texts go by the marks that were made while the calls were still there.
                for table, which in (
                    (calls, removable),
                    (blobs, unreferenced),
                    (schema.recalls, ~unfinished),
                    (questions, abandoned),
                ):
                    connection.execute(sa.delete(table).where(which))
                # For writers that know which texts are there.
                mark = {"key": schema.TEXTS_REMOVED, "value": secrets.token_hex(8)}
                connection.execute(upsert(engine, schema.meta), mark)
            marks.drop()
        return garbage
    except sa.exc.SQLAlchemyError as error:
        raise writing_failed(engine, error) from error
    except UNREADABLE as error:
        raise UserError(f"{shown(engine)} cannot be read: {error}. Nothing was removed.") from error


def _mark_runs(marks: Marks, final: frozenset[str], runs: Sequence[str] | None, report: Progress) -> list[Run]:
    """Mark all that runs and arenas refer to; gives the runs."""
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
