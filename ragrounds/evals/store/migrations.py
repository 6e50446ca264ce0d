"""From older schemas to the newest one, step by step.

To change the schema: change `schema.py`, raise its `VERSION` by one, and append one step here that leads from the
version before to the new one. A step states what it makes in its own words (never by the tables of `schema.py`, which
later versions change), and a store that went through all steps must have the tables of a new one: a test compares
them on SQLite and PostgreSQL, starting from a store of version 1. Steps that were ever released are not changed.

Each step is one transaction under a lock that one process holds: whoever is killed in the middle leaves the version
before, and who opens the store meanwhile waits and finds the work done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.schema import CreateColumn

_LOCK = 0x7261_6772
"""PostgreSQL's advisory lock of those who make or change the tables."""


class Migration(Struct, frozen=True):
    """One step. `apply` gets a connection inside a transaction that is committed together with the new version."""

    version: int
    """What the store has after it."""
    apply: Callable[[sa.Connection], None]


@contextmanager
def alone(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that no other process changes tables beside; given up whole where the block raises."""
    if engine.dialect.name != "sqlite":
        with engine.begin() as connection:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            yield connection
        return
    # Python's driver begins a transaction before rows change, not before tables do: it is begun by hand.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise
        connection.exec_driver_sql("COMMIT")


def add_column(connection: sa.Connection, table: str, column: sa.Column[object]) -> None:
    """Add a column that may be null to a table."""
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


MIGRATIONS: tuple[Migration, ...] = (Migration(2, _to_2), Migration(3, _to_3), Migration(4, _to_4), Migration(5, _to_5))
