"""Other stores that runs are moved to and from: a SQLite file anywhere, or a PostgreSQL URL."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa

from ragrounds.errors import UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import open_engine, open_file, open_to_read, shown, version_of


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
