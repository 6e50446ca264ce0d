"""What rests on what in a store: the recorded calls that runs, judgements and arenas refer to, and the texts that
those refer to. Marks are kept in temporary tables of the database, so that any store can be walked in little memory.

`gc`: what nothing in the store refers to any more is counted, and removed.

A recorded call stays while an attempt, a judgement of an arena or a judged score refers to it, and while an attempt
that is still to be made has paid for it, or the judging of a run or an arena that is there: what was interrupted goes
on without paying twice.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import AttemptBody, loose, run_of
from ragrounds.evals.store.database import insert_new, shown, upsert, writing_failed
from ragrounds.evals.store.journal import judging, payer, playing
from ragrounds.evals.store.migrations import alone
from ragrounds.records import Called, Run

BATCH = 500
"""Rows read or written at a time."""


class Marks:
    """Marked calls (by key) and texts (by hash), on one connection."""

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
        self._waiting: dict[str, tuple[sa.Table, set[bytes]]] = {}
        frozen.create_all(connection, checkfirst=False)

    def mark(self, table: sa.Table, marks: Iterable[bytes]) -> None:
        """Mark more. They stand in the table after the next `flush`."""
        waiting = self._waiting.setdefault(table.name, (table, set()))[1]
        waiting.update(marks)
        if len(waiting) >= BATCH:
            self._insert(table, waiting)

    def flush(self) -> None:
        """Write what is waiting."""
        for table, waiting in self._waiting.values():
            self._insert(table, waiting)

    def count(self, table: sa.Table) -> int:
        """How many are marked."""
        return int(self.connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())

    def drop(self) -> None:
        """Give the tables back."""
        for table in (self.calls, self.blobs, self.payers):
            table.drop(self.connection)

    def _insert(self, table: sa.Table, waiting: set[bytes]) -> None:
        if waiting:
            rows = [{"mark": mark} for mark in waiting]
            self.connection.execute(insert_new(self.connection.engine, table), rows)
            waiting.clear()

    # What is marked

    def of_attempt(self, row: Any) -> None:
        """What the row of an attempt refers to."""
        plain, hashes = loose(row.body)
        body = msgspec.convert(plain, AttemptBody, strict=False)
        self.mark(self.calls, _keys(event.call for event in body.events if isinstance(event, Called)))
        self.mark(self.blobs, hashes)

    def of_judgement(self, row: Any) -> None:
        """What the row of an arena's judgement refers to."""
        plain, hashes = loose(row.body)
        self.mark(self.calls, _keys(_Named(**_named(call)) for call in plain["calls"]))
        self.mark(self.blobs, hashes)

    def of_call(self, row: Any) -> None:
        """What a recorded call refers to."""
        self.mark(self.blobs, loose(row.request)[1] | loose(row.response)[1])

    def unfinished(self, number: int, run: Run, final: Iterable[str]) -> None:
        """Who pays for a run without its being written what for: its attempts that are still to be made, or to be made
        again, and its judging, which may have been broken off."""
        self.mark(self.payers, [judging(run)])
        self.attempts_to_come(number, run, final)

    def attempts_to_come(self, number: int, run: Run, final: Iterable[str]) -> None:
        """Who pays for the attempts of a run that have none of the statuses `final`, or are not there."""
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
                self.mark(self.payers, [payer(run, row.question_id, epoch)])

    def of_arena(self, fingerprint: str) -> None:
        """Who pays for the judging of an arena, which may have been broken off."""
        self.mark(self.payers, [playing(fingerprint)])

    def of_payers(self) -> None:
        """The calls that all payers marked so far have paid."""
        self.flush()
        paid = sa.select(schema.calls.c.key).join(self.payers, schema.calls.c.payer == self.payers.c.mark)
        for row in stream(self.connection, paid):
            self.mark(self.calls, [bytes(row.key)])
        self.flush()


class _Named(msgspec.Struct):
    key: str
    error: str = ""


def _named(call: Mapping[str, Any]) -> dict[str, str]:
    return {"key": call["key"], "error": call.get("error", "")}


def _keys(calls: Iterable[Any]) -> list[bytes]:
    """Keys of calls that the journal holds: not of those that gave nothing, nor of those it was never told of."""
    return [bytes.fromhex(call.key) for call in calls if call.key and not call.error]


def stream(connection: sa.Connection, statement: sa.Select[Any], size: int = 100) -> Iterator[Any]:
    """Rows as they come, a few in memory."""
    with connection.execute(statement, execution_options={"yield_per": size}) as rows:
        yield from rows


@contextlib.contextmanager
def snapshot(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection that sees the store as it is now, whatever is written meanwhile."""
    if engine.dialect.name == "sqlite":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("BEGIN")
            try:
                yield connection
            finally:
                with contextlib.suppress(sa.exc.DatabaseError):
                    connection.exec_driver_sql("ROLLBACK")
        return
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        begun = connection.begin()
        try:
            yield connection
        finally:
            begun.rollback()


_WRITTEN = ("runs", "questions", "attempts", "gradings", "arenas", "judgements", "calls", "blobs")


class RowVolume(Struct, frozen=True):
    """Rows, and the bytes of what they hold."""

    count: int = 0
    bytes: int = 0


class Garbage(Struct, frozen=True, kw_only=True):
    """What was removed, or would be."""

    calls: RowVolume
    texts: RowVolume
    questions: RowVolume
    """Of runs that are gone."""
    recent: RowVolume
    """Calls that nothing refers to, left because they are too young."""
    outside: RowVolume
    """Calls that nothing refers to, left because no attempt and no judging of a run made them: queries of `retrieve`,
    `build`, and all that an older version recorded."""


def collect_garbage(
    engine: sa.Engine,
    final: frozenset[str],
    *,
    hours: float,
    outside: bool = False,
    remove: bool = False,
    runs: Sequence[str] | None = None,
    tell: Callable[[str, int], None] = lambda what, done: None,
) -> Garbage:
    """Count what nothing refers to, and `remove` it in one transaction.

    Args:
        engine: The store.
        final: Statuses of attempts that are not made again.
        hours: Calls younger than this stay, by the clock on the wall.
        outside: Calls that no attempt made go too.
        remove: Really remove it.
        runs: Ids of the runs that the caller knows to be idle: there must be no others.
        tell: Told what is being done and how much of it is done.

    Raises:
        UserError: a row cannot be read, or a run has begun; nothing was removed.
        StopRun: the store cannot be written; nothing was removed.
    """
    try:
        with _unchanging(engine) if remove else snapshot(engine) as connection:
            sweeping = _Sweep(connection, final, hours, outside, tell)
            sweeping.mark(runs)
            swept = sweeping.count()
            if remove:
                sweeping.remove()
            sweeping.marks.drop()
        return swept
    except sa.exc.SQLAlchemyError as error:
        raise writing_failed(engine, error) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{shown(engine)} cannot be read: {error}. Nothing was removed.") from error


def shrink(engine: sa.Engine) -> str:
    """Give what was removed back to the disk. Returns why that was not possible; empty: it was, or the database does it
    by itself."""
    if engine.dialect.name != "sqlite":
        return ""
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    except sa.exc.SQLAlchemyError as error:
        return str(getattr(error, "orig", error))
    return ""


@contextmanager
def _unchanging(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that nobody writes beside."""
    with alone(engine) as connection:
        if engine.dialect.name != "sqlite":
            connection.execute(sa.text(f"LOCK TABLE {', '.join(_WRITTEN)} IN SHARE ROW EXCLUSIVE MODE"))
        yield connection


class _Sweep:
    def __init__(
        self,
        connection: sa.Connection,
        final: frozenset[str],
        hours: float,
        outside: bool,
        tell: Callable[[str, int], None],
    ) -> None:
        self.marks = Marks(connection)
        self._connection = connection
        self._final = final
        self._tell = tell
        calls, blobs = schema.calls, schema.blobs
        unmarked = ~sa.exists().where(self.marks.calls.c.mark == calls.c.key)
        old = calls.c.at <= time.time() - hours * 3600
        ours = sa.true() if outside else calls.c.payer.is_not(None)
        self._doomed = sa.and_(unmarked, old, ours)
        self._recent = sa.and_(unmarked, ~old)
        self._outside = sa.and_(unmarked, old, ~ours)
        self._unread = ~sa.exists().where(self.marks.blobs.c.mark == blobs.c.hash)
        self._sets: list[str] = []

    def mark(self, runs: Sequence[str] | None) -> None:
        """Mark all that something refers to."""
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
        for row in self._rows(sa.select(schema.calls).where(~self._doomed), "recorded calls"):
            self.marks.of_call(row)
        self.marks.flush()

    def count(self) -> Garbage:
        """What nothing refers to."""
        calls, blobs, questions = schema.calls, schema.blobs, schema.questions
        bulk = sa.func.length(calls.c.request) + sa.func.length(calls.c.response)
        return Garbage(
            calls=self._heap(bulk, self._doomed),
            texts=self._heap(sa.func.length(blobs.c.data), self._unread),
            questions=self._heap(sa.func.length(questions.c.body), questions.c.set.in_(self._sets)),
            recent=self._heap(bulk, self._recent),
            outside=self._heap(bulk, self._outside),
        )

    def remove(self) -> None:
        """Remove it. Texts go by what was marked before, when the calls were still there."""
        self._connection.execute(sa.delete(schema.calls).where(self._doomed))
        self._connection.execute(sa.delete(schema.blobs).where(self._unread))
        # For writers that know which texts are there.
        mark = {"key": schema.SWEPT, "value": secrets.token_hex(8)}
        self._connection.execute(upsert(self._connection.engine, schema.meta), mark)
        self._connection.execute(sa.delete(schema.questions).where(schema.questions.c.set.in_(self._sets)))

    def _run(self, number: int, run: Run) -> None:
        attempts = sa.select(schema.attempts).where(schema.attempts.c.run == number)
        for row in self._rows(attempts, run.id):
            self.marks.of_attempt(row)
        for row in self._rows(sa.select(schema.gradings).where(schema.gradings.c.run == number), f"{run.id}: judges"):
            self.marks.mark(self.marks.calls, [bytes(row.key)])
        self.marks.unfinished(number, run, self._final)

    def _heap(self, bulk: sa.ColumnElement[int], which: sa.ColumnElement[bool]) -> RowVolume:
        counted = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(bulk), 0)).where(which)
        count, size = self._connection.execute(counted).one()
        return RowVolume(int(count), int(size))

    def _rows(self, statement: sa.Select[Any], what: str) -> Iterator[Any]:
        count = 0
        for count, row in enumerate(stream(self._connection, statement), 1):
            if count % 500 == 0:
                self._tell(what, count)
            yield row
        self._tell(what, count)
