"""PostgreSQL store that several machines reach by URL. No module imports this file: it is found by a URL's scheme."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from ragrounds.base.errors import StopRun
from ragrounds.evals.store.dialect import Say

_LOCK = 0x7261_6772
"""Key of the advisory lock for making or changing the tables."""
_CONNECT_ARGUMENTS = {"connect_timeout": 10, "keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 4}
"""Seconds and counts after which a server whose machine has silently gone is noticed."""
_FIRST_WAIT, _LONGEST_WAIT, _WAIT_GROWTH = 0.1, 2.0, 1.5
"""Seconds between two tries to connect: first wait, longest wait, and growth factor."""


def open_url(url: sa.URL) -> sa.Engine:
    """Return the engine of a store by its URL.

    Raises:
        ImportError: psycopg is not installed.
    """
    driver_url = url.set(drivername="postgresql+psycopg")
    return sa.create_engine(driver_url, pool_pre_ping=True, connect_args=_CONNECT_ARGUMENTS)


class Postgresql:
    """Dialect for stores in databases of a PostgreSQL server."""

    changes = (
        "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables "
        "WHERE relname IN ('attempts', 'scores')"
    )  # as the server's statistics have them, a few seconds late

    def insert(self, table: sa.Table) -> Any:
        return postgresql.insert(table)

    @contextmanager
    def exclusive(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        with engine.begin() as connection:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            yield connection

    def lock(self, connection: sa.Connection, tables: str) -> None:
        connection.execute(sa.text(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE"))

    @contextmanager
    def snapshot(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            transaction = connection.begin()
            try:
                yield connection
            finally:
                transaction.rollback()

    def among(self, column: Any, values: Sequence[int] | Sequence[str]) -> sa.ColumnElement[bool]:
        kind = sa.Text() if isinstance(values[0], str) else sa.Integer()
        array = sa.literal(list(values), postgresql.ARRAY(kind))
        condition: sa.ColumnElement[bool] = column.in_(sa.select(sa.func.unnest(array).column_valued()))
        return condition

    def reclaim(self, engine: sa.Engine) -> None:
        """Do nothing: the server reclaims space by itself."""

    def faults(self, engine: sa.Engine, limit: int) -> Iterator[tuple[str, str, str]]:
        yield from ()

    def reconnect(self, engine: sa.Engine, location: str, seconds: float, say: Say) -> Callable[[], None]:
        return _Reconnection(engine, location, seconds, say).end


class _Reconnection:
    """Connection maker of an engine that waits for a server that no longer answers, so that a restart is survived.

    A statement that a lost connection did not answer is carried out again by its caller
    (:func:`ragrounds.evals.store.database.again`).
    """

    def __init__(self, engine: sa.Engine, location: str, seconds: float, say: Say) -> None:
        self._location, self._seconds, self._say = location, seconds, say
        self._waiting = threading.Lock()
        self._over = threading.Event()
        self._given_up = False
        sa.event.listen(engine, "do_connect", self._connect)
        logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns of each connection that is lost

    def end(self) -> None:
        """Stop all waiting, because the store is closed."""
        self._over.set()

    def _connect(self, dialect: sa.Dialect, record: object, args: Any, options: Any) -> object:
        def connect() -> object:
            return dialect.connect(*args, **options)

        fault = dialect.loaded_dbapi.OperationalError
        try:
            connection = connect()
        except fault as error:
            connection = self._wait(connect, fault, error)
        self._given_up = False
        return connection

    def _wait(self, connect: Callable[[], object], fault: type[Exception], error: Exception) -> object:
        with self._waiting:  # a second thread then finds the server reachable again, or given up
            start, pause, is_reported = time.monotonic(), _FIRST_WAIT, False
            while True:
                try:
                    connection = connect()
                except fault as latest:
                    error = latest
                else:
                    if is_reported:
                        self._say(f"The store {self._location} answers again, after {time.monotonic() - start:.0f} s.")
                    return connection
                if self._given_up or time.monotonic() - start >= self._seconds or self._over.is_set():
                    self._given_up = True
                    raise StopRun(
                        f"The store {self._location} has not answered for {time.monotonic() - start:.0f} s: "
                        f"{' '.join(str(error).split())}. What was written before is safe; give the same command again "
                        "to resume."
                    ) from None
                if not is_reported:
                    is_reported = True
                    self._say(f"The store {self._location} does not answer; waiting up to {self._seconds:g} s.")
                self._over.wait(pause)
                pause = min(_LONGEST_WAIT, pause * _WAIT_GROWTH)


POSTGRESQL = Postgresql()
