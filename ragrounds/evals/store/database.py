"""Engines, connections and transactions of stores, for every kind of database (:mod:`ragrounds.evals.store.dialect`).

A command has one store, which :func:`open_engine` opens. Runs are copied from and to others, which :func:`open_source`
and :func:`open_target` open: files anywhere, or URLs.
"""

from __future__ import annotations

import importlib
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from ragrounds.base import hooks
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.files import make_home
from ragrounds.evals.store import schema
from ragrounds.evals.store.dialect import Dialect
from ragrounds.evals.store.sqlite import SQLITE, open_file, open_to_read

T = TypeVar("T")
SAVE = "`ragrounds doctor --store --save FOLDER` makes a new store of all that is whole in this one."
"""Advice if something in a store does not match its checksum."""
ARRIVALS = "arrivals"
"""Name of the folder next to a store for answers that are not in the store yet."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
RECONNECT_SECONDS = 120.0
"""Default number of seconds to wait for a server that was reached before."""
_TRIES = 5
"""Largest number of tries of one statement: a restart of the server interrupts it once."""


def dialect_of(bound: sa.Engine | sa.Connection) -> Dialect:
    """Return the dialect of an engine's or a connection's database."""
    scheme = bound.dialect.name
    if scheme == "sqlite":
        return SQLITE
    dialect: Dialect = getattr(_server(scheme), scheme.upper())
    return dialect


def _server(scheme: str) -> Any:
    """Return the module of a kind of database by the scheme of its URL; ``None`` if the scheme is unknown."""
    name = hooks.DATABASE.module(scheme)
    module = importlib.import_module(name) if name else None
    return module if hasattr(module, "open_url") else None


def open_engine(home: Path, url: str | None = None) -> sa.Engine:
    """Return the engine of the store at `url`, by default ``home/store.sqlite``. Missing tables are created, those of
    an earlier release migrated.

    Raises:
        UserError: the folder cannot be written, the file is not a store, or one of a later version.
    """
    return _prepared(_connectable(home, url))


def version_of(engine: sa.Engine) -> int:
    """Return the store's version; 0 without a store.

    Raises:
        UserError: it is one of a later version, or no store.
    """
    try:
        with engine.connect() as connection:
            return _version(connection, engine)
    except sa.exc.DatabaseError as error:
        raise UserError(f"Cannot open the store {store_location(engine)}: {database_message(error)}.") from error


def store_location(engine: sa.Engine) -> str:
    """Return the location of the store for messages: the file's path, or the URL without its password."""
    return engine.url.database or "" if engine.dialect.name == "sqlite" else engine.url.render_as_string(True)


def exclusive_transaction(engine: sa.Engine) -> AbstractContextManager[sa.Connection]:
    """Return a transaction during which no other process changes tables; it is rolled back if the block raises."""
    return dialect_of(engine).exclusive(engine)


@contextmanager
def locked_tables(engine: sa.Engine, tables: str) -> Iterator[sa.Connection]:
    """Open a transaction like :func:`exclusive_transaction` in which no other process writes to these tables (their
    names with commas between them).
    """
    with exclusive_transaction(engine) as connection:
        dialect_of(engine).lock(connection, tables)
        yield connection


def snapshot(engine: sa.Engine) -> AbstractContextManager[sa.Connection]:
    """Return a connection that sees the store as it is now, whatever is written meanwhile."""
    return dialect_of(engine).snapshot(engine)


def autocommit(engine: sa.Engine) -> sa.Connection:
    """Return a connection whose every read sees the rows committed by then, and whose reads block no writer."""
    return engine.connect().execution_options(isolation_level="AUTOCOMMIT")


def fetch_rows(engine: sa.Engine, statement: sa.Executable, **values: object) -> Sequence[Any]:
    """Return all rows of a statement, which is repeated if its connection is lost.

    Raises:
        StopRun: the store did not come back in time.
    """

    def read() -> Sequence[Any]:
        with engine.connect() as connection:
            return connection.execute(statement, values).all()

    return again(read)


def stream(connection: sa.Connection, statement: sa.Select[Any], size: int = 100) -> Iterator[Any]:
    """Yield the rows of a statement one after the other, with `size` of them in memory.

    The connection is in a transaction (:func:`snapshot`), because not every database has a cursor outside of one.
    """
    with connection.execute(statement, execution_options={"yield_per": size}) as rows:
        yield from rows


def reclaim_space(engine: sa.Engine) -> str:
    """Return the space of removed rows to the disk.

    Returns:
        Why that was not possible; empty: it was done, or the database does it by itself.
    """
    try:
        dialect_of(engine).reclaim(engine)
    except sa.exc.SQLAlchemyError as error:
        return str(getattr(error, "orig", error))
    return ""


def lost(error: BaseException) -> bool:
    """Return True if a statement failed because its connection was lost, so that it may be repeated on another."""
    return isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated


def again(work: Callable[[], T]) -> T:
    """Run `work`, which opens a connection, and repeat it if that connection is lost.

    All rows of a run have keys, so that writing them twice is harmless.

    Raises:
        StopRun: the store did not come back in time.
    """
    for _ in range(_TRIES - 1):
        try:
            return work()
        except sa.exc.DBAPIError as error:
            if not lost(error):
                raise
    return work()


def write(engine: sa.Engine, work: Callable[[sa.Connection], T]) -> T:
    """Run `work` in a transaction, repeating it like :func:`again`.

    Raises:
        StopRun: the store cannot be written.
    """

    def in_transaction() -> T:
        with engine.begin() as connection:
            return work(connection)

    try:
        return again(in_transaction)
    except sa.exc.SQLAlchemyError as error:
        raise writing_failed(engine, error) from error


class ChangeWatch:
    """Watch for attempts and scores that another process has written since the last check."""

    def __init__(self, engine: sa.Engine) -> None:
        self._connection = autocommit(engine)
        self._statement = sa.text(dialect_of(engine).changes)
        self._last = self._count()

    def changed(self) -> bool:
        """Return True if something was written since the last call."""
        last, self._last = self._last, self._count()
        return last != self._last

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _count(self) -> int:
        return int(self._connection.execute(self._statement).scalar_one())


def upsert(engine: sa.Engine, table: sa.Table, newest: sa.Column[Any] | None = None) -> sa.Insert:
    """Return an INSERT statement that replaces a row of the same primary key; with `newest` only if that column
    grows.
    """
    return _upsert(dialect_of(engine).insert, table, newest)


@cache  # building a statement takes longer than executing it
def _upsert(insert: Callable[[sa.Table], Any], table: sa.Table, newest: sa.Column[Any] | None) -> sa.Insert:
    statement = insert(table)
    keys = [column.name for column in table.primary_key.columns]
    rest = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
    later = None if newest is None else statement.excluded[newest.name] > newest
    executable: sa.Insert = statement.on_conflict_do_update(index_elements=keys, set_=rest, where=later)
    return executable


def insert_new(engine: sa.Engine, table: sa.Table) -> sa.Insert:
    """Return an INSERT statement that leaves a row of the same primary key unchanged."""
    return _insert_new(dialect_of(engine).insert, table)


@cache
def _insert_new(insert: Callable[[sa.Table], Any], table: sa.Table) -> sa.Insert:
    executable: sa.Insert = insert(table).on_conflict_do_nothing()
    return executable


def writing_failed(engine: sa.Engine, error: BaseException) -> StopRun:
    """Return the error for a failed write: it names the store, the cause and the remedy."""
    cause = getattr(error, "orig", None) or error
    if "readonly" in str(cause):
        return StopRun(
            f"The store {store_location(engine)} is read-only here, and this command must write to it: copy the "
            "file into a "
            "folder that you may write, and set RAGROUNDS_HOME to that."
        )
    location = store_location(engine)
    advice = "What was written before is safe; remove the cause and give the same command again to resume."
    if engine.dialect.name == "sqlite" and not Path(location).exists():
        advice = "The file was removed; the last answers are still there. The same command asks for the rest again."
    return StopRun(f"Cannot write to the store {location}: {str(cause) or type(cause).__name__}. {advice}")


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Open a transaction whose failure stops the run.

    Raises:
        StopRun: the store cannot be written.
    """
    try:
        with engine.begin() as connection:
            yield connection
    except sa.exc.SQLAlchemyError as error:
        raise writing_failed(engine, error) from error


def database_message(error: sa.exc.DBAPIError) -> str:
    """Return a database's message about an error, in one line."""
    return " ".join(str(error.orig).split())


def _connectable(home: Path, url: str | None) -> sa.Engine:
    if url is None:
        make_home(home)
        path = home / "store.sqlite"
        if path.is_file() and not path.stat().st_size and (home / ARRIVALS).is_dir():
            raise UserError(
                f"The store {path} is empty (0 bytes), although calls were stored. Restore it from a backup, or "
                "remove it to start again."
            )
        return open_file(path)
    try:
        parts = sa.make_url(url)
        scheme, _, driver = parts.drivername.partition("+")
        server = _server(scheme)
        if server is None or driver not in ("", "psycopg"):
            raise UserError(
                f"Cannot use a store by {parts.drivername}:// : expected postgresql://USER@HOST/DATABASE, which needs "
                "ragrounds/extensions/cluster. A SQLite store is store.sqlite in RAGROUNDS_HOME."
            )
        engine: sa.Engine = server.open_url(parts)
        return engine
    except (sa.exc.ArgumentError, ImportError, ValueError) as error:
        # The given text may contain a password, so it is not repeated.
        problem = (
            "it is no URL such as postgresql://USER@HOST/DATABASE." if not isinstance(error, ImportError) else error
        )
        raise UserError(f"Cannot use the store that the settings name: {problem}") from error


def _prepared(engine: sa.Engine) -> sa.Engine:
    try:
        _prepare(engine)
    except sa.exc.DatabaseError as error:
        remedy = f" {SAVE}" if engine.dialect.name == "sqlite" else ""
        raise UserError(
            f"Cannot open the store {store_location(engine)}: {database_message(error)}.{remedy}"
        ) from error
    return engine


def _prepare(engine: sa.Engine) -> None:
    """Create missing tables, and bring those of an earlier release to this version."""
    with engine.connect() as connection:
        if _version(connection, engine) == schema.VERSION:
            return
    with exclusive_transaction(engine) as connection:
        version = _version(connection, engine)  # another process may have been quicker
        if version == 0:
            schema.metadata.create_all(connection)
            connection.execute(sa.insert(schema.meta), {"key": "version", "value": str(schema.VERSION)})
            return
        for step in schema.MIGRATIONS[version - schema.FIRST_VERSION :]:
            step(connection)
        is_version = schema.meta.c.key == "version"
        connection.execute(sa.update(schema.meta).where(is_version).values(value=str(schema.VERSION)))


def _version(connection: sa.Connection, engine: sa.Engine) -> int:
    """Return the store's version; 0 without a store."""
    inspector = sa.inspect(connection)
    if not inspector.has_table("meta"):
        our_tables = schema.metadata.tables.keys() & set(inspector.get_table_names())
        if our_tables:
            raise UserError(
                f"{store_location(engine)} is not a store of ragrounds: it has tables {sorted(our_tables)} but no "
                "'meta'."
            )
        return 0
    version = connection.execute(sa.select(schema.meta.c.value).where(schema.meta.c.key == "version")).scalar()
    supported = {str(number): number for number in range(schema.FIRST_VERSION, schema.VERSION + 1)}
    if version not in supported:
        raise UserError(
            f"The store {store_location(engine)} has version {version}; this ragrounds reads only version "
            f"{' and '.join(supported)}. "
            "Show or export its runs with the ragrounds that made it, or set RAGROUNDS_HOME to another folder."
        )
    return supported[version]


@contextmanager
def open_source(location: str) -> Iterator[sa.Engine]:
    """Open a store to read runs from. A file is never changed, and is checked first, because its origin is unknown.

    Raises:
        UserError: it does not exist, is not a store, broken, or of an earlier or later version.
    """
    if _URL.match(location):
        with _disposed(open_engine(Path(), location)) as engine:
            yield engine
        return
    path = Path(location).expanduser()
    if not _is_file(path):
        raise UserError(f"There is no file {path}. Name a store's file, or the URL of a PostgreSQL store.")
    with _disposed(open_to_read(path)) as engine:
        _check(engine)
        version = version_of(engine)
        if not version:
            raise UserError(f"{path} is a database, but not a store of ragrounds.")
        if version != schema.VERSION:
            raise UserError(
                f"{path} has the tables of version {version}, and a file that is read is never changed. Copy it to "
                f"FOLDER/store.sqlite; `RAGROUNDS_HOME=FOLDER ragrounds runs ls` brings the copy to {schema.VERSION}."
            )
        yield engine


@contextmanager
def open_target(location: str) -> Iterator[sa.Engine]:
    """Open a store to write runs to; a missing file is created.

    A new file takes its name when the block ends without an error, and has no additional files, so that it can be
    copied.

    Raises:
        UserError: it cannot be created, or is not a store.
    """
    if _URL.match(location):
        with _disposed(open_engine(Path(), location)) as engine:
            yield engine
        return
    path = Path(location).expanduser()
    with suppress(OSError):  # if no system has such a path, creating it gives the reason
        if path.is_dir():
            raise UserError(f"{path} is a folder; name a file.")
    if _is_file(path):
        with _disposed(_prepared(open_file(path))) as engine:
            yield engine
        return
    try:
        folder = tempfile.TemporaryDirectory(prefix=".ragrounds-", dir=path.parent)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from error
    with folder as temporary:
        new_file = Path(temporary) / "store.sqlite"
        with _disposed(_prepared(open_file(new_file))) as engine:
            yield engine
        with closing(sqlite3.connect(new_file)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
        new_file.replace(path)


@contextmanager
def _disposed(engine: sa.Engine) -> Iterator[sa.Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


def _check(engine: sa.Engine) -> None:
    """Check a file of unknown origin: it is intact, and has only tables and indexes of a store."""
    tables = schema.metadata.tables
    try:
        with engine.connect() as connection:
            listed = connection.exec_driver_sql("SELECT type, tbl_name FROM sqlite_master").all()
            for row in listed:
                if row.type not in ("table", "index") or row.tbl_name not in tables:
                    problem = f"it holds the {row.type} {row.tbl_name!r}"
                    raise UserError(f"{store_location(engine)} is not a store of ragrounds: {problem}.")
            # The quick check misses rows out of order, which a search by key would then miss.
            check_message = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
            if check_message != "ok":
                one_line = " ".join(str(check_message).split())  # it may have several lines
                raise UserError(f"{store_location(engine)} is damaged: {one_line}.")
    except UnicodeDecodeError as error:
        raise UserError(f"{store_location(engine)} is damaged: a name in it is no text.") from error
    except sa.exc.DatabaseError as error:
        raise UserError(f"{store_location(engine)} cannot be read: {database_message(error)}.") from error


def _is_file(path: Path) -> bool:
    """Return True if a file exists; False if no system has such a path, for example if it is too long."""
    try:
        return path.is_file()
    except OSError:
        return False
