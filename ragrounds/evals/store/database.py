"""Opening a store: SQLite file or PostgreSQL URL, its schema version, its connections.

Other stores that runs are moved to and from: a SQLite file anywhere, or a PostgreSQL URL.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.pool import NullPool

from ragrounds.errors import StopRun, UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.migrations import MIGRATIONS, alone


def open_engine(home: Path, url: str | None = None) -> sa.Engine:
    """The engine of the store at `url`, by default ``home/store.sqlite``; its tables are made where there are none, and
    brought to the newest version where an older one made them.

    Raises:
        UserError: the folder cannot be written, the file is not a store, or a newer version made it.
    """
    return _prepared(_connectable(home, url))


def open_file(path: Path) -> sa.Engine:
    """The engine of a SQLite store by its path; it is made where there is none.

    Raises:
        UserError: as :func:`open_engine`.
    """
    return _prepared(_sqlite(path))


def open_to_read(path: Path) -> sa.Engine:
    """A SQLite file of unknown origin, to be read and never changed. Nothing of it has been looked at."""
    where = f"file:{quote(str(path.resolve()))}?mode=ro"
    engine = sa.create_engine(
        f"sqlite:///{path}",
        creator=lambda: sqlite3.connect(where, uri=True, timeout=60, check_same_thread=False),
        poolclass=NullPool,
    )
    sa.event.listen(engine, "connect", _distrust)
    return engine


def version_of(engine: sa.Engine) -> int:
    """The store's version; 0 where there is no store.

    Raises:
        UserError: it is newer than this program, or no store.
    """
    try:
        with engine.connect() as connection:
            return _version(connection, engine)
    except sa.exc.DatabaseError as error:
        raise UserError(f"Cannot open the store {shown(engine)}: {error.orig}.") from error


def shown(engine: sa.Engine) -> str:
    """The store's place, without a password."""
    return engine.url.database or "" if engine.dialect.name == "sqlite" else engine.url.render_as_string(True)


def upsert(engine: sa.Engine, table: sa.Table) -> sa.Insert:
    """INSERT that replaces a row of the same primary key."""
    statement = _insert(engine)(table)
    keys = [column.name for column in table.primary_key.columns]
    rest = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
    executable: sa.Insert = statement.on_conflict_do_update(index_elements=keys, set_=rest)
    return executable


def insert_new(engine: sa.Engine, table: sa.Table) -> sa.Insert:
    """INSERT that leaves a row of the same primary key as it is."""
    executable: sa.Insert = _insert(engine)(table).on_conflict_do_nothing()
    return executable


def writing_failed(engine: sa.Engine, error: Exception) -> StopRun:
    """What a failed write means to the user."""
    cause = getattr(error, "orig", None) or error
    return StopRun(
        f"Cannot write to the store {shown(engine)}: {cause}. What was written before is safe; free the "
        "cause and give the same command again to go on."
    )


def _insert(engine: sa.Engine) -> Any:
    return sqlite.insert if engine.dialect.name == "sqlite" else postgresql.insert


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
        return sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), pool_pre_ping=True)
    except (sa.exc.ArgumentError, ImportError) as error:
        raise UserError(f"Cannot use the store {url.partition('@')[2] or url!r}: {error}") from error


def _sqlite(path: Path) -> sa.Engine:
    engine = sa.create_engine(
        f"sqlite:///{path}", poolclass=NullPool, connect_args={"timeout": 60, "check_same_thread": False}
    )
    sa.event.listen(engine, "connect", _settle)
    return engine


def _prepared(engine: sa.Engine) -> sa.Engine:
    try:
        _prepare(engine)
    except sa.exc.DatabaseError as error:
        raise UserError(f"Cannot open the store {shown(engine)}: {error.orig}.") from error
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
    """Make the tables where there are none, and bring those of an older version to the newest one."""
    with engine.connect() as connection:
        version = _version(connection, engine)
    if version == 0:
        with alone(engine) as connection:
            if _version(connection, engine) == 0:  # nobody was quicker
                schema.metadata.create_all(connection)
                connection.execute(sa.insert(schema.meta), {"key": "version", "value": str(schema.VERSION)})
        return
    for migration in MIGRATIONS:
        if migration.version > version:
            with alone(engine) as connection:
                if _version(connection, engine) < migration.version:
                    migration.apply(connection)
                    renewed = sa.update(schema.meta).where(schema.meta.c.key == "version")
                    connection.execute(renewed.values(value=str(migration.version)))


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
    if version is None or not version.isdecimal() or not 1 <= int(version) <= schema.VERSION:
        raise UserError(
            f"The store {shown(engine)} has version {version}; this ragrounds knows up to {schema.VERSION}. "
            "Install a newer ragrounds, or set RAGROUNDS_HOME to another folder."
        )
    return int(version)


@contextmanager
def source(place: str) -> Iterator[sa.Engine]:
    """A store to read from. A file is never changed, and not believed: it may be anybody's.

    Raises:
        UserError: it is not there, not a store, broken, or newer than this program.
    """
    if is_url(place):
        with _disposed(open_engine(Path(), place)) as engine:
            yield engine
        return
    path = Path(place).expanduser()
    if not path.is_file():
        raise UserError(f"There is no file {path}. Name a store's file, or the URL of a PostgreSQL store.")
    with _disposed(open_to_read(path)) as engine:
        _check(engine)
        version = version_of(engine)
        if version == 0:
            raise UserError(f"{path} is a database, but not a store of ragrounds.")
        if version == schema.VERSION:
            yield engine
            return
        with tempfile.TemporaryDirectory(prefix="ragrounds-") as folder:
            copy = Path(folder) / "store.sqlite"
            _copy(path, copy)
            with _disposed(open_file(copy)) as migrated:
                yield migrated


@contextmanager
def target(place: str) -> Iterator[sa.Engine]:
    """A store to write to; a file is made where there is none.

    A new file takes its name when the block ends well, and is one file alone, to be copied anywhere.

    Raises:
        UserError: it cannot be made, or is not a store.
    """
    if is_url(place):
        with _disposed(open_engine(Path(), place)) as engine:
            yield engine
        return
    path = Path(place).expanduser()
    if path.exists():
        if path.is_dir():
            raise UserError(f"{path} is a folder; name a file.")
        with _disposed(open_file(path)) as engine:
            yield engine
        return
    try:
        folder = tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from error
    with folder as beside:
        made = Path(beside) / "store.sqlite"
        with _disposed(open_file(made)) as engine:
            yield engine
        with closing(sqlite3.connect(made)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
        made.replace(path)


def is_url(place: str) -> bool:
    """Whether a place is the URL of a server."""
    return "://" in place


@contextmanager
def _disposed(engine: sa.Engine) -> Iterator[sa.Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


def _check(engine: sa.Engine) -> None:
    """A file of unknown origin: whole, and with tables and indexes alone, none of them unknown."""
    tables = {table.name for table in schema.metadata.sorted_tables}
    try:
        with engine.connect() as connection:
            for kind, table in connection.exec_driver_sql("SELECT type, tbl_name FROM sqlite_master"):
                if kind not in ("table", "index") or table not in tables:
                    raise UserError(f"{shown(engine)} is not a store of ragrounds: it holds the {kind} {table!r}.")
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
            if found != "ok":
                said = " ".join(str(found).split())  # it may have several lines
                raise UserError(f"{shown(engine)} is damaged: {said}.")
    except sa.exc.DatabaseError as error:
        raise UserError(f"{shown(engine)} cannot be read: {error.orig}.") from error


def _copy(path: Path, copy: Path) -> None:
    where = f"{path.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(where, uri=True)) as old, closing(sqlite3.connect(copy)) as new:
        old.backup(new)
