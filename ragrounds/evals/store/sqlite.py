"""SQLite: the store of one machine, in one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import NullPool

from ragrounds.evals.store.dialect import Say
from ragrounds.evals.store.locked_file import connect


def open_file(path: Path) -> sa.Engine:
    """Return the engine of a store's file, which is created if it is missing. A file that cannot be written is opened
    for reading.
    """
    if not is_writable(path):
        return open_to_read(path)
    # SQLite gives the file's permissions to the additional files that it creates.
    with suppress(OSError):  # the error is reported when the file is opened
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    engine = sa.create_engine(_url(path), creator=lambda: connect(str(path.absolute())), poolclass=NullPool)
    # Readers never block the writer (WAL); a commit is on the disk when it returns (FULL). A call's row has 1 to 2 kB:
    # on pages of 4 kB it would need a page of its own in addition to the table's.
    settings = ("page_size=8192", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-16000")
    return _with(engine, settings)


def is_writable(path: Path) -> bool:
    """Return True if a store's file can be written, or created. SQLite also writes files in the same folder."""
    return not path.exists() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def open_to_read(path: Path) -> sa.Engine:
    """Return the engine of a file of unknown origin, which is never changed. Nothing of it is checked here."""
    # In a read-only folder SQLite cannot create the index of a write-ahead log. Without a log the file is complete.
    immutable = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    uri = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"
    engine = sa.create_engine(_url(path), creator=lambda: connect(uri, uri=True), poolclass=NullPool)
    # The schema of a foreign file must not call functions of this process, and every page is checked before it is used.
    return _with(engine, ("trusted_schema=OFF", "cell_size_check=ON"))


def _url(path: Path) -> sa.URL:
    # The URL is built from parts, because ?, # and % in a path have another meaning in a text.
    return sa.URL.create("sqlite", database=str(path.absolute()))


def _with(engine: sa.Engine, pragmas: Sequence[str]) -> sa.Engine:
    @sa.event.listens_for(engine, "connect")
    def _set_pragmas(connection: Any, _record: object) -> None:
        # By a cursor, which waits: SQLite itself does not where another process makes the file and its log.
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return engine


class Sqlite:
    """Dialect of stores in files."""

    changes = "PRAGMA data_version"

    def insert(self, table: sa.Table) -> Any:
        return sqlite.insert(table)

    @contextmanager
    def exclusive(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        # Python's driver begins a transaction before rows change, not before tables do, so it is begun explicitly.
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.exec_driver_sql("ROLLBACK")
                raise
            connection.exec_driver_sql("COMMIT")

    def lock(self, connection: sa.Connection, tables: str) -> None:
        """Do nothing, because SQLite has only one writer at a time."""

    @contextmanager
    def snapshot(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("BEGIN")
            try:
                yield connection
            finally:
                with suppress(sa.exc.DatabaseError):
                    connection.exec_driver_sql("ROLLBACK")

    def among(self, column: Any, values: Sequence[int] | Sequence[str]) -> sa.ColumnElement[bool]:
        listed = sa.func.json_each(msgspec.json.encode(list(values)).decode()).table_valued("value")
        within: sa.ColumnElement[bool] = column.in_(sa.select(listed.c.value))
        return within

    def reclaim(self, engine: sa.Engine) -> None:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def faults(self, engine: sa.Engine, limit: int) -> Iterator[tuple[str, str, str]]:
        with engine.connect() as connection:
            for (text,) in connection.exec_driver_sql(f"PRAGMA integrity_check({limit})"):
                if text != "ok":
                    yield "database", "integrity_check", text
            for table, *_, other, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
                yield "reference", table, f"a row refers to a missing one of {other}"

    def reconnect(self, engine: sa.Engine, location: str, seconds: float, say: Say) -> Callable[[], None]:
        return lambda: None


SQLITE = Sqlite()
