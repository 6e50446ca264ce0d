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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.asked_again import retry_numbers_of, to_make_again_of
from ragrounds.evals.store.codec import AttemptBody, decode_without_texts, run_of
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
from ragrounds.evals.store.text_index import clear, unused_documents
from ragrounds.records import Called, Run

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

    def count(self, table: sa.Table) -> int:
        """How many marks a table holds."""
        return int(self.connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())

    def drop(self) -> None:
        """Drop the temporary tables."""
        for table in (self.calls, self.blobs, self.payers):
            table.drop(self.connection)

    def _insert(self, table: sa.Table, unwritten: set[bytes]) -> None:
        if unwritten:
            rows = [{"mark": mark} for mark in unwritten]
            self.connection.execute(insert_new(self.connection.engine, table), rows)
            unwritten.clear()

    def of_attempt(self, row: Any) -> None:
        """Mark what the row of an attempt refers to."""
        plain, hashes = decode_without_texts(row.body)
        body = msgspec.convert(plain, AttemptBody, strict=False)
        self.mark(self.calls, _keys(event.call for event in body.events if isinstance(event, Called)))
        self.mark(self.blobs, hashes)

    def of_judgement(self, row: Any) -> None:
        """Mark what the row of an arena's judgement refers to."""
        plain, hashes = decode_without_texts(row.body)
        self.mark(self.calls, _keys(_CallReference(**_reference(call)) for call in plain["calls"]))
        self.mark(self.blobs, hashes)

    def of_call(self, row: Any) -> None:
        """Mark the texts that a recorded call refers to."""
        self.mark(self.blobs, decode_without_texts(row.request)[1] | decode_without_texts(row.response)[1])

    def unfinished(self, number: int, run: Run, final: Iterable[str]) -> None:
        """Mark as payers the attempts of a run that are still to be made, or made again, and its judging.

        What was interrupted may have paid for calls that no row names yet.
        """
        self.mark(self.payers, [judging_payer(run)])
        self.attempts_to_come(number, run, final)

    def attempts_to_come(self, number: int, run: Run, final: Iterable[str]) -> None:
        """Mark as payers the attempts of a run that are missing, have none of the statuses `final`, or are to be made
        again."""
        retries = retry_numbers_of(self.connection, number)
        for question_id, epoch in to_make_again_of(self.connection, number):
            self.mark(self.payers, [attempt_payer(run, question_id, epoch, retries[question_id, epoch])])
        asked, made = schema.questions.c, schema.attempts.c
        for epoch in range(run.epochs):
            over = sa.exists().where(
                made.run == number,
                made.question_id == asked.question_id,
                made.epoch == epoch,
                made.status.in_(tuple(final)),
            )
            left = sa.select(asked.question_id).where(asked.set == run.questions, ~over)
            for row in stream(self.connection, left):
                retry = retries.get((row.question_id, epoch), 0)
                self.mark(self.payers, [attempt_payer(run, row.question_id, epoch, retry)])

    def of_arena(self, fingerprint: str) -> None:
        """Mark as payer the judging of an arena, which may have been interrupted."""
        self.mark(self.payers, [arena_payer(fingerprint)])

    def of_payers(self) -> None:
        """Mark the calls that the payers marked so far have paid."""
        self.flush()
        paid = sa.select(schema.calls.c.key).join(self.payers, schema.calls.c.payer == self.payers.c.mark)
        for row in stream(self.connection, paid):
            self.mark(self.calls, [bytes(row.key)])
        self.flush()


class _CallReference(Struct):
    key: str
    error: str = ""


def _reference(call: Mapping[str, Any]) -> dict[str, str]:
    return {"key": call["key"], "error": call.get("error", "")}


def _keys(calls: Iterable[Any]) -> list[bytes]:
    """Keys of calls that the journal holds: those that failed, and imported ones, are not in it."""
    return [bytes.fromhex(call.key) for call in calls if call.key and not call.error]


_READ_TABLES = (
    "runs, questions, attempts, earlier_attempts, gradings, arenas, judgements, calls, blobs, "
    "text_attempts, text_shared"
)


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
    documents: int = 0
    """Documents of the full-text index that no attempt has any more, where that is most of it: then it is emptied, and
    the next search makes it again."""


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
    try:
        with locked_tables(engine, _READ_TABLES) if remove else snapshot(engine) as connection:
            collection = _Collection(connection, final, hours, outside, report)
            collection.mark(runs)
            garbage = collection.count()
            if remove:
                collection.remove()
                if garbage.documents:
                    clear(connection)
            collection.marks.drop()
        return garbage
    except sa.exc.SQLAlchemyError as error:
        raise writing_failed(engine, error) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{shown(engine)} cannot be read: {error}. Nothing was removed.") from error


class _Collection:
    def __init__(
        self,
        connection: sa.Connection,
        final: frozenset[str],
        hours: float,
        outside: bool,
        report: Progress,
    ) -> None:
        self.marks = Marks(connection)
        self._connection = connection
        self._final = final
        self._report = report
        calls, blobs = schema.calls, schema.blobs
        unmarked = ~sa.exists().where(self.marks.calls.c.mark == calls.c.key)
        old = calls.c.at <= time.time() - hours * 3600
        ours = sa.true() if outside else calls.c.payer.is_not(None)
        self._removable = sa.and_(unmarked, old, ours)
        self._recent = sa.and_(unmarked, ~old)
        self._outside = sa.and_(unmarked, old, ~ours)
        self._unreferenced = ~sa.exists().where(self.marks.blobs.c.mark == blobs.c.hash)
        self._sets: list[str] = []

    def mark(self, runs: Sequence[str] | None) -> None:
        """Mark everything that something refers to."""
        known = {row.number: run_of(row.body) for row in self._rows(sa.select(schema.runs), "runs")}
        if runs is not None and {run.id for run in known.values()} != set(runs):
            raise UserError("A run has begun, or was removed, in this moment. Give the same command again.")
        for number, run in known.items():
            self._run(number, run)
        for row in self._rows(sa.select(schema.judgements), "arenas"):
            self.marks.of_judgement(row)
        for fingerprint in self._connection.execute(sa.select(schema.arenas.c.fingerprint)).scalars():
            self.marks.of_arena(fingerprint)
        self.marks.of_payers()
        sets = set(self._connection.execute(sa.select(schema.questions.c.set).distinct()).scalars())
        self._sets = sorted(sets - {run.questions for run in known.values()})
        for row in self._rows(sa.select(schema.calls).where(~self._removable), "recorded calls"):
            self.marks.of_call(row)
        self.marks.flush()

    def count(self) -> Garbage:
        """Count what nothing refers to."""
        calls, blobs, questions = schema.calls, schema.blobs, schema.questions
        bulk = sa.func.length(calls.c.request) + sa.func.length(calls.c.response)
        return Garbage(
            calls=self._volume(bulk, self._removable),
            texts=self._volume(sa.func.length(blobs.c.data), self._unreferenced),
            documents=unused_documents(self._connection),
            questions=self._volume(sa.func.length(questions.c.body), questions.c.set.in_(self._sets)),
            recent=self._volume(bulk, self._recent),
            outside=self._volume(bulk, self._outside),
        )

    def remove(self) -> None:
        """Remove what nothing refers to; texts by the marks made while the calls were still there."""
        self._connection.execute(sa.delete(schema.calls).where(self._removable))
        self._connection.execute(sa.delete(schema.blobs).where(self._unreferenced))
        unfinished = sa.exists().where(self.marks.payers.c.mark == schema.recalls.c.payer)
        self._connection.execute(sa.delete(schema.recalls).where(~unfinished))
        # For writers that know which texts are there.
        mark = {"key": schema.TEXTS_REMOVED, "value": secrets.token_hex(8)}
        self._connection.execute(upsert(self._connection.engine, schema.meta), mark)
        self._connection.execute(sa.delete(schema.questions).where(schema.questions.c.set.in_(self._sets)))

    def _run(self, number: int, run: Run) -> None:
        attempts = sa.select(schema.attempts).where(schema.attempts.c.run == number)
        for row in self._rows(attempts, run.id):
            self.marks.of_attempt(row)
        earlier = sa.select(schema.earlier_attempts).where(schema.earlier_attempts.c.run == number)
        for row in self._rows(earlier, f"{run.id}: earlier attempts"):
            self.marks.of_attempt(row)
        for row in self._rows(sa.select(schema.gradings).where(schema.gradings.c.run == number), f"{run.id}: judges"):
            self.marks.mark(self.marks.calls, [bytes(row.key)])
        self.marks.unfinished(number, run, self._final)

    def _volume(self, bulk: sa.ColumnElement[int], which: sa.ColumnElement[bool]) -> RowVolume:
        counted = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(bulk), 0)).where(which)
        count, size = self._connection.execute(counted).one()
        return RowVolume(int(count), int(size))

    def _rows(self, statement: sa.Select[Any], what: str) -> Iterator[Any]:
        return reported(stream(self._connection, statement), what, self._report)
