"""The runs and arenas of a store by name, read quickly and without touching it: for a shell that completes a word.

No library for databases is loaded, nothing is made, migrated or locked for writing; what cannot be read has no runs.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from msgspec import Struct

_MOST = 500
"""Runs that are looked at, the newest first."""
_RUNS = f"SELECT body FROM runs ORDER BY number DESC LIMIT {_MOST}"  # noqa: S608 - a number of our own
_QUESTIONS = 'SELECT question_id FROM questions WHERE "set" = {mark} ORDER BY position LIMIT 5000'
_ARENAS = "SELECT id, created FROM arenas ORDER BY number DESC"
_SECONDS = 1


class RunName(Struct, frozen=True):
    """What names a run."""

    id: str
    agent: str
    benchmark: str
    questions: str
    """The hash of its questions, as they are stored under."""
    created: float


def run_names(home: Path, url: str | None = None) -> list[RunName]:
    """The newest runs of the store at `url`, by default ``home/store.sqlite``; none where there is no such store."""
    decompressor, decoder = zstandard.ZstdDecompressor(), msgspec.msgpack.Decoder(RunName)
    return [decoder.decode(decompressor.decompress(body)) for (body,) in _rows(home, url, _RUNS)]


def arena_names(home: Path, url: str | None = None) -> list[tuple[str, float]]:
    """The ids of the arenas, the newest first, each with the time when it was made."""
    return [(str(id), float(created)) for id, created in _rows(home, url, _ARENAS)]


def question_ids(run: RunName, home: Path, url: str | None = None) -> list[str]:
    """The questions of a run, in its order."""
    statement = _QUESTIONS.format(mark="%s" if url else "?")
    return [str(id) for (id,) in _rows(home, url, statement, run.questions)]


def _rows(home: Path, url: str | None, statement: str, *values: str) -> list[tuple[Any, ...]]:
    return _postgresql(url, statement, values) if url else _sqlite(home / "store.sqlite", statement, values)


def is_file(path: Path) -> bool:
    """Whether there is a file; no where no system has such a path, as one that is too long."""
    try:
        return path.is_file()
    except OSError:
        return False


def _sqlite(path: Path, statement: str, values: tuple[str, ...]) -> list[tuple[Any, ...]]:
    if not is_file(path):
        return []
    # A store that nobody has open is read as it lies: SQLite would make files beside it to lock it. Where these are
    # there already, they are used as every reader does.
    busy = path.with_name(f"{path.name}-wal").exists()
    where = f"{path.absolute().as_uri()}?{'mode=ro' if busy else 'immutable=1'}"
    with closing(sqlite3.connect(where, uri=True, timeout=_SECONDS)) as connection:
        return connection.execute(statement, values).fetchall()


def _postgresql(url: str, statement: str, values: tuple[str, ...]) -> list[tuple[Any, ...]]:
    import psycopg

    plain = url.replace("postgresql+psycopg:", "postgresql:", 1)
    settings = f"-c default_transaction_read_only=on -c statement_timeout={_SECONDS}s"
    with psycopg.connect(plain, connect_timeout=_SECONDS, options=settings) as connection:
        return connection.execute(statement.encode(), values).fetchall()
