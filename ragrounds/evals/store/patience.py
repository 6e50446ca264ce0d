"""Outliving a restart of PostgreSQL: what was connected is connected again, for a bounded time, and a line says so.

A new connection waits for the server. A statement that a lost connection did not answer is carried out again on a
new one by :func:`again`, or by whoever holds the connection (the writer, the journal): all that a run writes is keyed,
so that it may be written twice and is there once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa

from ragrounds.errors import StopRun

PATIENCE = 120.0
"""Seconds for which a store that was reached before is waited for, where the settings do not say."""
_FIRST, _LONGEST, _GROWTH = 0.1, 2.0, 1.5
"""Seconds between two tries: at first, at most, and by what factor they grow."""
_TRIES = 5
"""How often one statement is carried out: a restart cuts it once."""
Say = Callable[[str], None]
T = TypeVar("T")


def lost(error: BaseException) -> bool:
    """Whether a statement failed because its connection was lost, so that it may be carried out on another."""
    return isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated


def again(work: Callable[[], T]) -> T:
    """Carry out `work`, which opens a connection and may be carried out twice; again where that connection is lost.

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


class Patience:
    """Makes the connections of an engine, and waits where the server does not answer any more.

    Args:
        engine: whose connections they are; one has been made already, so that the server is known to be right.
        place: the store in messages.
        seconds: for which is waited.
        say: called, in any thread, with a line when the waiting begins and one when it is over.
    """

    def __init__(self, engine: sa.Engine, place: str, seconds: float, say: Say) -> None:
        self._place, self._seconds, self._say = place, seconds, say
        self._waiting = threading.Lock()
        self._over = threading.Event()
        self._given_up = False
        sa.event.listen(engine, "do_connect", self._connect)
        logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns of each connection that is lost

    def end(self) -> None:
        """Wait for nothing any more: the store is closed."""
        self._over.set()

    def _connect(self, dialect: sa.Dialect, record: object, args: Any, options: Any) -> object:
        def connect() -> object:
            """Make the connection."""
            return dialect.connect(*args, **options)

        fault = dialect.loaded_dbapi.OperationalError
        try:
            connection = connect()
        except fault as error:
            connection = self._wait(connect, fault, error)
        self._given_up = False
        return connection

    def _wait(self, connect: Callable[[], object], fault: type[Exception], error: Exception) -> object:
        with self._waiting:  # whoever comes second finds the server there, or that it was given up
            start, pause, told = time.monotonic(), _FIRST, False
            while True:
                try:
                    connection = connect()
                except fault as now:
                    error = now
                else:
                    if told:
                        self._say(f"The store {self._place} answers again, after {time.monotonic() - start:.0f} s.")
                    return connection
                if self._given_up or time.monotonic() - start >= self._seconds or self._over.is_set():
                    self._given_up = True
                    raise StopRun(
                        f"The store {self._place} has not answered for {time.monotonic() - start:.0f} s: "
                        f"{' '.join(str(error).split())}. What was written before is safe; give the same command again "
                        "to resume."
                    ) from None
                if not told:
                    told = True
                    self._say(
                        f"The store {self._place} does not answer; it is waited for, for up to {self._seconds:g} s."
                    )
                self._over.wait(pause)
                pause = min(_LONGEST, pause * _GROWTH)
