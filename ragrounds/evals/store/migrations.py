"""Migrations: the steps from older schemas to the newest one.

To change the schema: change `schema.py`, raise its `VERSION` by one, and append one step here that leads from the
version before to the new one. A step states what it makes in its own words (never by the tables of `schema.py`, which
later versions change), and a store that went through all steps must have the tables of a new one: a test compares
them on SQLite and PostgreSQL, starting from a store of version 1. Steps that were ever released are not changed.

Each step is one transaction under a lock that one process holds: a process that is killed in the middle leaves the
version before, and one that opens the store meanwhile waits and finds the work done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.schema import CreateColumn

from ragrounds.evals.store.codec import compress, decompress, score_checksum


class Migration(Struct, frozen=True):
    """One step. `apply` changes the tables on a connection whose transaction is committed with the new version."""

    version: int
    """The version that the store has after it."""
    apply: Callable[[sa.Connection], None]


def add_column(connection: sa.Connection, table: str, column: sa.Column[object]) -> None:
    """Add a nullable column to a table."""
    sa.Table(table, sa.MetaData(), column)  # a column has a type in SQL only where it has a table
    described = CreateColumn(column).compile(dialect=connection.dialect)
    connection.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {described}"))


def _to_2(connection: sa.Connection) -> None:
    """Who paid a call first; the calls of judges; arenas in stores that are older than arenas are."""
    add_column(connection, "calls", sa.Column("payer", sa.LargeBinary))
    frozen = sa.MetaData()
    sa.Table("runs", frozen, sa.Column("number", sa.Integer, primary_key=True))
    made = [
        sa.Table(
            "gradings",
            frozen,
            sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
            sa.Column("key", sa.LargeBinary, primary_key=True),
            sqlite_with_rowid=False,
        ),
        sa.Table(
            "arenas",
            frozen,
            sa.Column("number", sa.Integer, primary_key=True),
            sa.Column("id", sa.Text, nullable=False),
            sa.Column("fingerprint", sa.Text, nullable=False, unique=True),
            sa.Column("created", sa.Float, nullable=False),
            sa.Column("body", sa.LargeBinary, nullable=False),
        ),
        sa.Table(
            "judgements",
            frozen,
            sa.Column("arena", sa.Integer, sa.ForeignKey("arenas.number", ondelete="CASCADE"), primary_key=True),
            sa.Column("judge", sa.Integer, primary_key=True),
            sa.Column("question_id", sa.Text, primary_key=True),
            sa.Column("first", sa.Integer, primary_key=True),
            sa.Column("second", sa.Integer, primary_key=True),
            sa.Column("part", sa.Integer, primary_key=True),
            sa.Column("number", sa.Integer, nullable=False),
            sa.Column("outcomes", sa.Text, nullable=False),
            sa.Column("how", sa.Text, nullable=False),
            sa.Column("calls", sa.Integer, nullable=False),
            sa.Column("input", sa.Integer),
            sa.Column("output", sa.Integer),
            sa.Column("spent", sa.Float),
            sa.Column("cold", sa.Float),
            sa.Column("body", sa.LargeBinary, nullable=False),
            sqlite_with_rowid=False,
        ),
        sa.Table(
            "votes",
            frozen,
            sa.Column("arena", sa.Integer, sa.ForeignKey("arenas.number", ondelete="CASCADE"), primary_key=True),
            sa.Column("voter", sa.Text, primary_key=True),
            sa.Column("question_id", sa.Text, primary_key=True),
            sa.Column("first", sa.Integer, primary_key=True),
            sa.Column("second", sa.Integer, primary_key=True),
            sa.Column("axis", sa.Text, primary_key=True),
            sa.Column("outcome", sa.Text, nullable=False),
            sa.Column("at", sa.Float, nullable=False),
            sqlite_with_rowid=False,
        ),
    ]
    frozen.create_all(connection, made, checkfirst=True)


def _to_3(connection: sa.Connection) -> None:
    """Runs that were stopped by what they had come to."""
    frozen = sa.MetaData()
    sa.Table("runs", frozen, sa.Column("number", sa.Integer, primary_key=True))
    made = sa.Table(
        "stoppings",
        frozen,
        sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
        sa.Column("claim", sa.Text, primary_key=True),
        sa.Column("seed", sa.Text, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    frozen.create_all(connection, [made])


def _to_4(connection: sa.Connection) -> None:
    """Who is working at a run."""
    frozen = sa.MetaData()
    made = sa.Table(
        "leases",
        frozen,
        sa.Column("run", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("started", sa.Text, nullable=False),
        sa.Column("beat", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    frozen.create_all(connection, [made])


def _to_5(connection: sa.Connection) -> None:
    """What a judge's call cost when it was made."""
    add_column(connection, "gradings", sa.Column("body", sa.LargeBinary))


_RENAMED_COLUMNS = (
    ("attempts", "spent", "cost_paid"),
    ("attempts", "cold", "cost_uncached"),
    ("judgements", "spent", "cost_paid"),
    ("judgements", "cold", "cost_uncached"),
    ("scores", "protocol", "scorer"),
    ("scores", "reading", "answer_status"),
)
_RENAMED_VALUES = (
    ("attempts", "status", "refused", "blocked"),
    ("scores", "answer_status", "unparsable", "unreadable"),
    ("scores", "answer_status", "none", "empty"),
)
_BATCH = 500
"""Rows whose bodies are rewritten together."""


def _to_6(connection: sa.Connection) -> None:
    """The field's words: cost paid and uncached, scorer, answer status, blocked; in tables and inside bodies."""
    for table, old, new in _RENAMED_COLUMNS:
        connection.execute(sa.text(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}"))
    for table, column, old, new in _RENAMED_VALUES:
        update = sa.text(f"UPDATE {table} SET {column} = :new WHERE {column} = :old")  # noqa: S608
        connection.execute(update, {"old": old, "new": new})
    _rewrite(connection, "attempts", ("run", "question_id", "epoch"), _events_in_new_words)
    _rewrite(connection, "gradings", ("run", "key"), _call_in_new_words)
    _rewrite(
        connection, "judgements", ("arena", "judge", "question_id", "first", "second", "part"), _calls_in_new_words
    )
    _rewrite(connection, "stoppings", ("run", "claim", "seed"), _stopping_in_new_words)


def _rewrite(
    connection: sa.Connection, table: str, key: tuple[str, ...], change: Callable[[dict[str, Any]], bool]
) -> None:
    """Rewrite the bodies of a table that `change` says it has changed, a batch at a time in the order of its key."""
    columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in key]
    body: sa.ColumnClause[Any] = sa.column("body")
    source = sa.table(table, *columns, sa.column("body"))
    ordered = sa.select(*columns, body).select_from(source).where(body.is_not(None)).order_by(*columns).limit(_BATCH)
    last: tuple[Any, ...] | None = None
    while True:
        beyond = ordered if last is None else ordered.where(sa.tuple_(*columns) > last)
        rows = connection.execute(beyond).all()
        if not rows:
            return
        for row in rows:
            plain = msgspec.msgpack.decode(decompress(row.body))
            if change(plain):
                same = sa.and_(*(column == value for column, value in zip(columns, row, strict=False)))
                data = compress(msgspec.msgpack.encode(plain))
                connection.execute(sa.update(source).where(same).values(body=data))
        last = tuple(rows[-1])[: len(key)]


def _call_in_new_words(call: dict[str, Any]) -> bool:
    if "cold" not in call:
        return False
    call["cost_uncached"] = call.pop("cold")
    return True


def _events_in_new_words(body: dict[str, Any]) -> bool:
    return sum(_call_in_new_words(event["call"]) for event in body["events"] if event["type"] == "called") > 0


def _calls_in_new_words(detail: Any) -> bool:
    return sum(_call_in_new_words(call) for call in detail["calls"]) > 0


def _stopping_in_new_words(stopping: dict[str, Any]) -> bool:
    if "protocol" not in stopping:
        return False
    stopping["scorer"] = stopping.pop("protocol")
    stopping["state"] = stopping.pop("watched")
    return True


def _to_7(connection: sa.Connection) -> None:
    """By which code scores were made."""
    add_column(connection, "scores", sa.Column("code", sa.Text))


def _to_8(connection: sa.Connection) -> None:
    """What version 8 keeps beside version 7."""
    _judges_calls_made_again(connection)
    _answers_of_fresh_calls(connection)
    _add_servers(connection)
    add_column(connection, "attempts", sa.Column("models", sa.Text))
    _check_sums_of_scores(connection)
    _attempts_made_again(connection)


def _answers_of_fresh_calls(connection: sa.Connection) -> None:
    frozen = sa.MetaData()
    made = sa.Table(
        "recalls",
        frozen,
        sa.Column("payer", sa.LargeBinary, primary_key=True),
        sa.Column("key", sa.LargeBinary, primary_key=True),
        sa.Column("response", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    frozen.create_all(connection, [made])


def _judges_calls_made_again(connection: sa.Connection) -> None:
    frozen = sa.MetaData()
    sa.Table("runs", frozen, sa.Column("number", sa.Integer, primary_key=True))
    made = sa.Table(
        "regradings",
        frozen,
        sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
        sa.Column("key", sa.LargeBinary, primary_key=True),
        sa.Column("at", sa.Float, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    frozen.create_all(connection, [made])


def _add_servers(connection: sa.Connection) -> None:
    """What servers said of themselves."""
    made = sa.Table(
        "servers",
        sa.MetaData(),
        sa.Column("server", sa.Text, primary_key=True),
        sa.Column("fingerprint", sa.Text, primary_key=True),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("first", sa.Float, nullable=False),
        sa.Column("last", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
    made.create(connection)


def _check_sums_of_scores(connection: sa.Connection) -> None:
    add_column(connection, "scores", sa.Column("checksum", sa.LargeBinary))
    key = ("run", "scorer", "question_id", "epoch")
    columns: list[sa.ColumnClause[Any]] = [
        sa.column(name) for name in (*key, "value", "answer_status", "prediction", "reason")
    ]
    source = sa.table("scores", *columns, sa.column("checksum"))
    keys = [source.c[name] for name in key]
    renewed = (
        sa.update(source)
        .where(*(column == sa.bindparam(f"of_{column.name}") for column in keys))
        .values(checksum=sa.bindparam("sum"))
    )
    last: tuple[Any, ...] | None = None
    while True:
        ordered = sa.select(*columns).select_from(source).order_by(*keys).limit(_BATCH)
        rows = connection.execute(ordered if last is None else ordered.where(sa.tuple_(*keys) > last)).all()
        if not rows:
            return
        connection.execute(
            renewed,
            [{**{f"of_{name}": getattr(row, name) for name in key}, "sum": score_checksum(row)} for row in rows],
        )
        last = tuple(rows[-1])[: len(key)]


def _attempts_made_again(connection: sa.Connection) -> None:
    add_column(connection, "attempts", sa.Column("retry", sa.Integer))
    frozen = sa.MetaData()
    sa.Table("runs", frozen, sa.Column("number", sa.Integer, primary_key=True))
    made = sa.Table(
        "earlier_attempts",
        frozen,
        sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
        sa.Column("question_id", sa.Text, primary_key=True),
        sa.Column("epoch", sa.Integer, primary_key=True),
        sa.Column("retry", sa.Integer, primary_key=True),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("input", sa.Integer),
        sa.Column("output", sa.Integer),
        sa.Column("cached", sa.Integer),
        sa.Column("reasoning", sa.Integer),
        sa.Column("cost_paid", sa.Float),
        sa.Column("cost_uncached", sa.Float),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("models", sa.Text),
        sa.Column("chosen", sa.Text, nullable=False),
        sa.Column("asked_again", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    frozen.create_all(connection, [made])


def _to_9(connection: sa.Connection) -> None:
    """How many calls of an attempt are in no journal."""
    for table in ("attempts", "earlier_attempts"):
        add_column(connection, table, sa.Column("unrecorded", sa.Integer))


def _to_10(connection: sa.Connection) -> None:
    """Facts of attempts, what readers write beside them, and the full-text index."""
    frozen = sa.MetaData()
    sa.Table("runs", frozen, sa.Column("number", sa.Integer, primary_key=True))

    def _of_attempt() -> list[sa.Column[object]]:
        return [
            sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
            sa.Column("question_id", sa.Text, primary_key=True),
            sa.Column("epoch", sa.Integer, primary_key=True),
        ]

    counts = ("version", "steps", "searches", "repeated", "model_calls", "failed_calls", "failed_searches", "faults")
    golden = ("gold", "gold_found", "gold_seen", "gold_cut", "gold_rank", "gold_hop")
    facts = sa.Table(
        "facts",
        frozen,
        *_of_attempt(),
        *(sa.Column(name, sa.Integer, nullable=False) for name in counts),
        *(sa.Column(name, sa.Integer) for name in golden),
        sa.Column("notes", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    notes = sa.Table(
        "notes",
        frozen,
        *_of_attempt(),
        sa.Column("author", sa.Text, primary_key=True),
        sa.Column("mark", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
    frozen.create_all(connection, [facts, notes])
    _add_text_index(connection, frozen, _of_attempt())


def _add_text_index(connection: sa.Connection, frozen: sa.MetaData, of_attempt: list[sa.Column[object]]) -> None:
    """The full-text index. It is empty: who looks for something first has it filled."""
    attempts = sa.Table(
        "text_attempts",
        frozen,
        *of_attempt,
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("doc", sa.Integer, nullable=False, index=True),
        sa.Column("question", sa.Integer),
        sa.Column("passages", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    shared = sa.Table(
        "text_shared",
        frozen,
        sa.Column("hash", sa.LargeBinary, primary_key=True),
        sa.Column("doc", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    frozen.create_all(connection, [attempts, shared])
    if connection.dialect.name != "sqlite":
        for statement in (
            "CREATE TABLE text_words (doc integer, field smallint, part smallint, words tsvector NOT NULL, "
            "PRIMARY KEY (doc, field, part))",
            "CREATE INDEX ix_text_words_words ON text_words USING gin (words)",
            "CREATE SEQUENCE text_documents AS integer",
        ):
            connection.exec_driver_sql(statement)
    elif connection.exec_driver_sql("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").scalar():
        connection.exec_driver_sql(
            "CREATE VIRTUAL TABLE text_words USING fts5(question, query, passage, reply, tool, prompt, answer, reason, "
            "note, content='', tokenize='ascii')"
        )


MIGRATIONS: tuple[Migration, ...] = (
    Migration(2, _to_2),
    Migration(3, _to_3),
    Migration(4, _to_4),
    Migration(5, _to_5),
    Migration(6, _to_6),
    Migration(7, _to_7),
    Migration(8, _to_8),
    Migration(9, _to_9),
    Migration(10, _to_10),
)
