"""PostgreSQL: a store that several machines reach, by URL. Nothing imports this file: it is found by a URL's scheme."""

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
"""The advisory lock of those who make or change the tables."""
_NOTICED = {"connect_timeout": 10, "keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 4}
"""A server whose machine is gone, without a word, is noticed within these seconds."""
_FIRST, _LONGEST, _GROWTH = 0.1, 2.0, 1.5
"""Seconds between two tries to connect: at first, at most, and by what factor they grow."""


def open_url(url: sa.URL) -> sa.Engine:
    """The engine of a store by its URL.

    Raises:
        ImportError: psycopg is not installed.
    """
    driven = url.set(drivername="postgresql+psycopg")
    return sa.create_engine(driven, pool_pre_ping=True, connect_args=_NOTICED)


class Postgresql:
    """Stores in databases of a server."""

    changes = (
        "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables "
        "WHERE relname IN ('attempts', 'scores')"
    )  # as the server's statistics have them, a few seconds late
    binary = "C"

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
        given = sa.literal(list(values), postgresql.ARRAY(kind))
        within: sa.ColumnElement[bool] = column.in_(sa.select(sa.func.unnest(given).column_valued()))
        return within

    def reclaim(self, engine: sa.Engine) -> None:
        """Nothing to do: the server does it by itself."""

    def faults(self, engine: sa.Engine, most: int) -> Iterator[tuple[str, str, str]]:
        yield from ()

    def reconnect(self, engine: sa.Engine, place: str, seconds: float, say: Say) -> Callable[[], None]:
        return _Reconnection(engine, place, seconds, say).end


class _Reconnection:
    """Makes the connections of an engine, and waits where the server does not answer any more: a restart is outlived.

    A statement that a lost connection did not answer is carried out again by whoever asked for it
    (:func:`ragrounds.evals.store.database.again`).
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
            start, pause, said = time.monotonic(), _FIRST, False
            while True:
                try:
                    connection = connect()
                except fault as now:
                    error = now
                else:
                    if said:
                        self._say(f"The store {self._place} answers again, after {time.monotonic() - start:.0f} s.")
                    return connection
                if self._given_up or time.monotonic() - start >= self._seconds or self._over.is_set():
                    self._given_up = True
                    raise StopRun(
                        f"The store {self._place} has not answered for {time.monotonic() - start:.0f} s: "
                        f"{' '.join(str(error).split())}. What was written before is safe; give the same command again "
                        "to resume."
                    ) from None
                if not said:
                    said = True
                    self._say(f"The store {self._place} does not answer; waiting up to {self._seconds:g} s.")
                self._over.wait(pause)
                pause = min(_LONGEST, pause * _GROWTH)


POSTGRESQL = Postgresql()
