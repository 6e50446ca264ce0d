"""Engines, connections and transactions of stores, on SQLite and PostgreSQL; all that differs between the two is here.

A command has one store of its own, which :func:`open_engine` opens. Runs are copied from and to others, which
:func:`open_source` and :func:`open_target` open: files anywhere, or PostgreSQL URLs.
"""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.pool import NullPool

from ragrounds.errors import StopRun, UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.run_names import is_file

_LOCK = 0x7261_6772
"""PostgreSQL's advisory lock of those who make or change the tables."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_engine(home: Path, url: str | None = None) -> sa.Engine:
    """The engine of the store at `url`, by default ``home/store.sqlite``; its tables are made where there are none.

    Raises:
        UserError: the folder cannot be written, the file is not a store, or one of another version.
    """
    return _prepared(_connectable(home, url))


def open_file(path: Path) -> sa.Engine:
    """The engine of a SQLite store by its path; it is made where there is none.

    Raises:
        UserError: as :func:`open_engine`.
    """
    return _prepared(_sqlite(path))


def open_to_read(path: Path) -> sa.Engine:
    """The engine of a SQLite file of unknown origin, which is never changed. Nothing of it is checked here."""
    where = f"{path.resolve().as_uri()}?mode=ro"
    engine = sa.create_engine(
        _file_url(path),
        creator=lambda: sqlite3.connect(where, uri=True, timeout=60, check_same_thread=False),
        poolclass=NullPool,
    )
    sa.event.listen(engine, "connect", _distrust)
    return engine


def version_of(engine: sa.Engine) -> int:
    """The store's version; 0 where there is no store.

    Raises:
        UserError: it is one of another version, or no store.
    """
    try:
        with engine.connect() as connection:
            return _version(connection, engine)
    except sa.exc.DatabaseError as error:
        raise UserError(f"Cannot open the store {shown(engine)}: {said(error)}.") from error


def shown(engine: sa.Engine) -> str:
    """Where the store is, for messages: the file's path, or the URL without its password."""
    return engine.url.database or "" if is_sqlite(engine) else engine.url.render_as_string(True)


def is_sqlite(engine: sa.Engine) -> bool:
    """Whether the store is a SQLite file; else it is PostgreSQL."""
    return engine.dialect.name == "sqlite"


@contextmanager
def exclusive_transaction(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction beside which no other process changes tables; it is rolled back where the block raises."""
    if not is_sqlite(engine):
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


@contextmanager
def locked_tables(engine: sa.Engine, tables: str) -> Iterator[sa.Connection]:
    """As :func:`exclusive_transaction`, and nobody writes to these tables (their names with commas between them)."""
    with exclusive_transaction(engine) as connection:
        if not is_sqlite(engine):  # SQLite has one writer at a time
            connection.execute(sa.text(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE"))
        yield connection


@contextmanager
def snapshot(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection that sees the store as it is now, whatever is written meanwhile."""
    if is_sqlite(engine):
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("BEGIN")
            try:
                yield connection
            finally:
                with suppress(sa.exc.DatabaseError):
                    connection.exec_driver_sql("ROLLBACK")
        return
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        transaction = connection.begin()
        try:
            yield connection
        finally:
            transaction.rollback()


def autocommit(engine: sa.Engine) -> sa.Connection:
    """A connection of which every read sees what is committed by then, and no read holds a writer up."""
    return engine.connect().execution_options(isolation_level="AUTOCOMMIT")


def stream(connection: sa.Connection, statement: sa.Select[Any], size: int = 100) -> Iterator[Any]:
    """The rows of a statement one after the other; `size` of them are in memory. The connection is in a transaction
    (:func:`snapshot`): PostgreSQL has no cursor outside of one."""
    with connection.execute(statement, execution_options={"yield_per": size}) as rows:
        yield from rows


def reclaim_space(engine: sa.Engine) -> str:
    """Return the space of removed rows to the disk.

    Returns:
        Why that was not possible; empty: it was done, or the database does it by itself.
    """
    if not is_sqlite(engine):
        return ""
    try:
        with autocommit(engine) as connection:
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    except sa.exc.SQLAlchemyError as error:
        return str(getattr(error, "orig", error))
    return ""


class ChangeWatch:
    """Tells whether another process has written attempts or scores since it was last asked."""

    def __init__(self, engine: sa.Engine) -> None:
        self._connection = autocommit(engine)
        # Both are counters that cost nothing to read: commits of others, and rows written as the server's statistics
        # have them (a few seconds late).
        self._statement = sa.text("PRAGMA data_version" if is_sqlite(engine) else _ROWS_WRITTEN)
        self._last = self._count()

    def changed(self) -> bool:
        """Whether something was written since the last call."""
        last, self._last = self._last, self._count()
        return last != self._last

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _count(self) -> int:
        return int(self._connection.execute(self._statement).scalar_one())


_ROWS_WRITTEN = (
    "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables "
    "WHERE relname IN ('attempts', 'scores')"
)


def upsert(engine: sa.Engine, table: sa.Table) -> sa.Insert:
    """An INSERT statement that replaces a row of the same primary key."""
    statement = _insert(engine)(table)
    keys = [column.name for column in table.primary_key.columns]
    rest = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
    executable: sa.Insert = statement.on_conflict_do_update(index_elements=keys, set_=rest)
    return executable


def insert_new(engine: sa.Engine, table: sa.Table) -> sa.Insert:
    """An INSERT statement that leaves a row of the same primary key as it is."""
    executable: sa.Insert = _insert(engine)(table).on_conflict_do_nothing()
    return executable


def writing_failed(engine: sa.Engine, error: Exception) -> StopRun:
    """The error to raise when a write failed: it names the store, the cause and what to do."""
    cause = getattr(error, "orig", None) or error
    return StopRun(
        f"Cannot write to the store {shown(engine)}: {cause}. What was written before is safe; free the "
        "cause and give the same command again to resume."
    )


def said(error: sa.exc.DBAPIError) -> str:
    """What a database says of an error, in one line."""
    return " ".join(str(error.orig).split())


def _insert(engine: sa.Engine) -> Any:
    return sqlite.insert if is_sqlite(engine) else postgresql.insert


def _connectable(home: Path, url: str | None) -> sa.Engine:
    if url is None:
        try:
            home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"Cannot make the folder {home}: {error.strerror}. Set RAGROUNDS_HOME to another."
            ) from error
        return _sqlite(home / "store.sqlite")
    try:
        parts = sa.make_url(url)
        if parts.drivername not in ("postgresql", "postgresql+psycopg"):
            raise UserError(
                f"Cannot use a store by {parts.drivername}:// : expected postgresql://USER@HOST/DATABASE. A SQLite "
                "store is store.sqlite in RAGROUNDS_HOME."
            )
        driven = parts.set(drivername="postgresql+psycopg")
        return sa.create_engine(driven, pool_pre_ping=True, connect_args=_NOTICED)
    except (sa.exc.ArgumentError, ImportError, ValueError) as error:
        # What was given may hold a password.
        why = "it is no URL such as postgresql://USER@HOST/DATABASE." if not isinstance(error, ImportError) else error
        raise UserError(f"Cannot use the store that the settings name: {why}") from error


_NOTICED = {"connect_timeout": 10, "keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 4}
"""A PostgreSQL whose machine is gone, without a word, is noticed within these seconds."""


def _sqlite(path: Path) -> sa.Engine:
    engine = sa.create_engine(
        _file_url(path), poolclass=NullPool, connect_args={"timeout": 60, "check_same_thread": False}
    )
    sa.event.listen(engine, "connect", _settle)
    return engine


def _file_url(path: Path) -> sa.URL:
    # Made of parts: in a text, a path's ? # and % would mean something else.
    return sa.URL.create("sqlite", database=str(path.absolute()))


def _prepared(engine: sa.Engine) -> sa.Engine:
    try:
        _prepare(engine)
    except sa.exc.DatabaseError as error:
        raise UserError(f"Cannot open the store {shown(engine)}: {said(error)}.") from error
    return engine


def _distrust(connection: Any, _record: object) -> None:
    # What a file says of itself runs no function of ours, and every page is checked before it is used.
    for pragma in ("trusted_schema=OFF", "cell_size_check=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _settle(connection: Any, _record: object) -> None:
    # Readers never block the writer (WAL); a commit is on the disk when it returns (FULL). A call's row has 1 to 2 kB:
    # on pages of 4 kB it would have one of its own beside the table's.
    for pragma in ("page_size=8192", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-16000"):
        connection.execute(f"PRAGMA {pragma}")


def _prepare(engine: sa.Engine) -> None:
    """Make the tables where there are none."""
    with engine.connect() as connection:
        if _version(connection, engine):
            return
    with exclusive_transaction(engine) as connection:
        if _version(connection, engine) == 0:  # nobody was quicker
            schema.metadata.create_all(connection)
            schema.make_words(connection)
            connection.execute(sa.insert(schema.meta), {"key": "version", "value": str(schema.VERSION)})


def _version(connection: sa.Connection, engine: sa.Engine) -> int:
    """The store's version; 0 where there is no store yet."""
    inspector = sa.inspect(connection)
    if not inspector.has_table("meta"):
        others = set(inspector.get_table_names()) & {table.name for table in schema.metadata.sorted_tables}
        if others:
            raise UserError(
                f"{shown(engine)} is not a store of ragrounds: it has tables {sorted(others)} but no 'meta'."
            )
        return 0
    version = connection.execute(sa.select(schema.meta.c.value).where(schema.meta.c.key == "version")).scalar()
    if version != str(schema.VERSION):
        raise UserError(
            f"The store {shown(engine)} has version {version}; this ragrounds reads version {schema.VERSION} alone. "
            "Show or export its runs with the ragrounds that made it, or set RAGROUNDS_HOME to another folder."
        )
    return schema.VERSION


@contextmanager
def open_source(place: str) -> Iterator[sa.Engine]:
    """A store to read runs from. A file is never changed, and checked first, because it may be anybody's.

    Raises:
        UserError: it is not there, not a store, broken, or of another version.
    """
    if _URL.match(place):
        with _disposed(open_engine(Path(), place)) as engine:
            yield engine
        return
    path = Path(place).expanduser()
    if not is_file(path):
        raise UserError(f"There is no file {path}. Name a store's file, or the URL of a PostgreSQL store.")
    with _disposed(open_to_read(path)) as engine:
        _check(engine)
        if not version_of(engine):
            raise UserError(f"{path} is a database, but not a store of ragrounds.")
        yield engine


@contextmanager
def open_target(place: str) -> Iterator[sa.Engine]:
    """A store to write runs to; a file is made where there is none.

    A new file takes its name when the block ends without an error, and has no files beside it, so it can be copied.

    Raises:
        UserError: it cannot be made, or is not a store.
    """
    if _URL.match(place):
        with _disposed(open_engine(Path(), place)) as engine:
            yield engine
        return
    path = Path(place).expanduser()
    with suppress(OSError):  # where no system has such a path, making it says why
        if path.is_dir():
            raise UserError(f"{path} is a folder; name a file.")
    if is_file(path):
        with _disposed(open_file(path)) as engine:
            yield engine
        return
    try:
        folder = tempfile.TemporaryDirectory(prefix=".ragrounds-", dir=path.parent)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from error
    with folder as beside:
        made = Path(beside) / "store.sqlite"
        with _disposed(open_file(made)) as engine:
            yield engine
        with closing(sqlite3.connect(made)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
        made.replace(path)


@contextmanager
def _disposed(engine: sa.Engine) -> Iterator[sa.Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


def _check(engine: sa.Engine) -> None:
    """Check a file of unknown origin: it is whole, and holds tables and indexes of a store alone."""
    tables = {table.name for table in schema.metadata.sorted_tables}
    try:
        with engine.connect() as connection:
            listed = connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_master").all()
            indexed = any(_is_words(row) for row in listed)
            for row in listed:
                ours = row.tbl_name in tables or (indexed and (_is_words(row) or row.tbl_name in schema.WORDS_PARTS))
                if row.type not in ("table", "index") or not ours:
                    what = f"it holds the {row.type} {row.tbl_name!r}"
                    raise UserError(f"{shown(engine)} is not a store of ragrounds: {what}.")
            # The quick check misses rows out of order, which a search by key then passes over. Where there is a
            # full-text index, table by table: whose index it is nobody knows, so it is never opened. It is not copied.
            for table in sorted(tables & {row.name for row in listed}) if indexed else [""]:
                check = f"PRAGMA integrity_check({table or 1})"
                found = connection.exec_driver_sql(check).scalar()
                if found != "ok":
                    amiss = " ".join(str(found).split())  # it may have several lines
                    raise UserError(f"{shown(engine)} is damaged: {amiss}.")
    except UnicodeDecodeError as error:
        raise UserError(f"{shown(engine)} is damaged: a name in it is no text.") from error
    except sa.exc.DatabaseError as error:
        raise UserError(f"{shown(engine)} cannot be read: {said(error)}.") from error


def _is_words(row: sa.Row[tuple[object, ...]]) -> bool:
    """Whether a row of `sqlite_master` is our full-text index, made by nothing but our own statement."""
    return bool(row.type == "table" and row.name == schema.WORDS and row.sql == schema.WORDS_ON_SQLITE)
