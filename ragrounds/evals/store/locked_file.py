"""Waiting for a SQLite file that another connection has locked, with a message that names the process."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ragrounds.base.text import safe

T = TypeVar("T")
_SECONDS = 60.0
"""Longest wait for the end of another connection's transaction."""
_TRY, _SILENT = 0.5, 1.0
"""Seconds that SQLite waits in one try, and seconds after the first one until the message. Signals are handled between
the tries.
"""
_PAUSE = 0.05
"""Seconds between tries if SQLite does not wait by itself, as in a transaction that has read before."""
_PENDING, _WRITER = 1 << 30, 120
"""First byte of the locks in the file; byte of the writer's lock in its ``-shm`` file (sqlite.org/walformat)."""


class WaitingCursor(sqlite3.Cursor):
    """Cursor whose statements wait for the end of another connection's transaction."""

    def execute(self, statement: str, parameters: Any = (), /) -> WaitingCursor:
        """Execute a statement."""
        try:
            return super().execute(statement, parameters)
        except sqlite3.OperationalError as error:
            return _again(partial(super().execute, statement, parameters), self.connection, error)

    def executemany(self, statement: str, parameters: Any, /) -> WaitingCursor:
        """Execute a statement with each set of parameters."""
        try:
            return super().executemany(statement, parameters)
        except sqlite3.OperationalError as error:
            return _again(partial(super().executemany, statement, parameters), self.connection, error)


def connect(database: str, **options: Any) -> sqlite3.Connection:
    """Open a file with cursors that wait."""
    connection = sqlite3.connect(database, timeout=_TRY, check_same_thread=False, factory=_Connection, **options)
    connection.cursor = partial(sqlite3.Connection.cursor, connection, WaitingCursor)  # type: ignore[method-assign,assignment]
    return connection


class _Connection(sqlite3.Connection):
    """Connection that takes attributes."""


def _again(execute: Callable[[], T], connection: sqlite3.Connection, error: sqlite3.OperationalError) -> T:
    """Execute a statement again until the file is not locked any more, and print a message within two seconds."""
    # A transaction that read an older state of the file (SQLITE_BUSY_SNAPSHOT) can never write.
    start, is_reported = time.monotonic(), False
    while error.sqlite_errorcode == sqlite3.SQLITE_BUSY and time.monotonic() - start < _SECONDS:
        if not is_reported and time.monotonic() - start > _SILENT:
            is_reported = True
            path = next(file for _, name, file in connection.execute("PRAGMA database_list") if name == "main")
            print(f"Waiting for the store {safe(path)}, which {lock_holder(Path(path))} has locked.", file=sys.stderr)  # noqa: T201
        time.sleep(_PAUSE)
        try:
            return execute()
        except sqlite3.OperationalError as later:
            error = later
    raise error


def lock_holder(path: Path) -> str:
    """Return the process that has locked a SQLite file: ``process 123 (python)``, if the system names it."""
    with suppress(OSError, ValueError, IndexError):  # not Linux
        first_byte = {path.stat().st_ino: _PENDING}
        with suppress(OSError):
            first_byte[path.with_name(f"{path.name}-shm").stat().st_ino] = _WRITER
        for line in Path("/proc/locks").read_text().splitlines():
            # number: kind, whether it is enforced, READ or WRITE, process, device and inode, first and last byte
            access, pid, file, first, _ = line.split()[-5:]
            from_byte = first_byte.get(int(file.rpartition(":")[2]))
            if from_byte is None or access != "WRITE" or int(pid) in (0, -1, os.getpid()):
                continue
            if int(first) <= from_byte if from_byte == _WRITER else int(first) >= from_byte:
                return f"process {pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    return "another connection"
