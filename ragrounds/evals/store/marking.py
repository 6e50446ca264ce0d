"""What rests on what in a store: the recorded calls that runs, judgements and arenas refer to, and the texts that
those refer to. Marks are kept in temporary tables of the database, so that any store can be walked in little memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from ragrounds.evals.store import schema
from ragrounds.evals.store.database import insert_new
from ragrounds.evals.store.packing import loose
from ragrounds.evals.store.paying import judging, payer, playing
from ragrounds.evals.store.rows import AttemptBody
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
