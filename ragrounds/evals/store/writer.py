"""Group-committing writer: a thread that commits the rows of a few milliseconds together.

A caller waits until its rows are on the disk, so a call is durable before its result is used, and a hundred calls share
one commit.
"""

from __future__ import annotations

import asyncio
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from ragrounds.base.chunks import chunks
from ragrounds.base.errors import StopRun
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import stored_blob
from ragrounds.evals.store.database import again, insert_new, upsert, writing_failed
from ragrounds.evals.store.schema import Row

Prepare = Callable[[], list[Row]]
Grouped = dict[str, tuple[sa.Table, dict[Any, Mapping[str, object]]]]
_GATHER = 0.008
"""Seconds that a commit waits for more rows, unless the last commit had those of one request: short compared with a
call's half second, and about the time of a commit.
"""
_REMEMBERED = 200_000
"""Largest number of texts that are remembered to be in the store."""
_VALUES = re.compile(r"(?<=VALUES )(\([?, ]+\))")
"""Placeholders of one row in an INSERT."""
_VARIABLES = 30_000
"""Largest number of values in one statement; SQLite takes 32,766."""
_TEXTS_REMOVED = f"SELECT value FROM meta WHERE key = '{schema.TEXTS_REMOVED}'"  # noqa: S608 - a constant of ours
_REPLACED = frozenset({"attempts", "scores", "judgements", "votes", "facts", "notes"})
"""Tables whose rows may be written again: an attempt or a judge call that failed and is tried again, a new scoring, a
changed vote.
"""


def group(rows: Iterable[Row], into: Grouped) -> Grouped:
    """Group rows by table, the last of each primary key, because PostgreSQL refuses to change a row twice in one
    statement.
    """
    for table, row in rows:
        into.setdefault(table.name, (table, {}))[1][_key(table)(row)] = row
    return into


@cache
def _key(table: sa.Table) -> itemgetter[Any]:
    """Return a function that returns the primary key of a table's row."""
    return itemgetter(*table.primary_key.columns.keys())


class _Request:
    __slots__ = ("done", "error", "loop", "prepare", "was_recorded")

    def __init__(self, prepare: Prepare, loop: asyncio.AbstractEventLoop, done: asyncio.Future[bool]) -> None:
        self.prepare, self.loop, self.done = prepare, loop, done
        self.error: BaseException | None = None
        self.was_recorded = False


class Writer:
    """Writer of rows in the order given. After a failed commit every further write fails with the same reason."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._texts = _StoredTexts()
        self._queue: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._broken: Exception | None = None
        self._connection: sa.Connection | None = None
        self._waits = False
        """True if the last commit had the rows of several requests: then more may follow the next one."""
        self._thread = threading.Thread(target=self._work, name="ragrounds-writer", daemon=True)
        self._thread.start()

    async def write(self, prepare: Prepare) -> bool:
        """Wait until the rows of `prepare()` are committed, like :meth:`put`; a cancelled wait does not stop the
        commit.
        """
        return await asyncio.shield(self.put(prepare))

    def put(self, prepare: Prepare) -> asyncio.Future[bool]:
        """Queue the rows of `prepare()` for a commit. `prepare` runs in the writer's thread.

        Returns:
            Future that is True if some call of the same commit, not necessarily of these rows, was in the journal
            already,
            because another process had recorded it meanwhile.

        Raises:
            StopRun: the store cannot be written (disk full, folder gone).
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()
        self._queue.put(_Request(prepare, loop, done))
        return done

    def close(self) -> None:
        """Commit the queued rows and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        try:
            while True:
                request: _Request | None = None
                try:
                    if (request := self._queue.get()) is None:
                        return
                    if self._waits and self._queue.empty():
                        time.sleep(_GATHER)
                    if self._commit(request):
                        return
                except BaseException as error:  # SystemExit, too: callers must not wait for a thread that has ended
                    self._broken = self._broken or writing_failed(self._engine, error)
                    if request is not None:
                        request.error = self._broken
                        _report([request])
        finally:
            if self._connection is not None:
                self._connection.close()

    def _commit(self, first: _Request) -> bool:
        """Commit `first` and the requests after it in the queue, and return True if the queue has ended.

        A batch is bounded by the time that its rows take to prepare. After a longer batch all requests that arrived
        meanwhile would be answered together, and the next ones would arrive together: in step, they would wait for most
        of every round.
        """
        rows: Grouped = {}
        batch, request, ended, was_recorded = [], first, False, False
        until = time.monotonic() + _GATHER
        while True:
            batch.append(request)
            try:
                group(request.prepare(), rows)
            except Exception as error:
                request.error = error
            except BaseException as error:
                request.error = self._broken = writing_failed(self._engine, error)
            if time.monotonic() >= until or self._queue.empty():
                break
            following = self._queue.get()
            if following is None:
                ended = True
                break
            request = following
        self._waits = len(batch) > 1
        # After a failure nothing more is written, because later rows may depend on missing ones.
        try:
            if self._broken is None:
                # After a lost connection it is unknown whether the commit succeeded; rows that are written twice exist
                # only once.
                was_recorded = again(partial(self._write, rows))
        except StopRun as error:
            self._broken = error
        except BaseException as error:  # no memory, a defect, or the end of the thread: callers must not wait for it
            self._broken = writing_failed(self._engine, error)
        # Callers are notified only after the commit, so that a result that is used is on the disk.
        for request in batch:
            request.was_recorded = was_recorded
            request.error = self._broken or request.error
        _report(batch)
        return ended

    def _write(self, rows: Grouped) -> bool:
        """Commit rows, and return True if some call among them was recorded already."""
        if self._connection is None:
            self._connection = self._engine.connect()
        connection, was_recorded = self._connection, False
        try:
            # In one order everywhere, texts last: on PostgreSQL, two writers whose batches hold equal texts or
            # calls in different orders would wait for each other in a circle.
            for name, (table, keyed) in sorted(rows.items(), key=lambda entry: (entry[0] == "blobs", entry[0])):
                keys = sorted(keyed)
                if name == "blobs":
                    keys = self._texts.missing(connection, keys, first=len(rows) == 1)
                if keys:
                    new_rows = [stored_blob(keyed[key]) if name == "blobs" else keyed[key] for key in keys]
                    count = self._insert(connection, table, new_rows)
                    was_recorded |= name == "calls" and count < len(keyed)
            connection.commit()
        except Exception:
            with suppress(sa.exc.SQLAlchemyError):
                connection.rollback()
                connection.close()
            self._connection = None
            raise
        self._texts.committed()
        return was_recorded

    def _insert(self, connection: sa.Connection, table: sa.Table, rows: list[Mapping[str, object]]) -> int:
        # The statement is passed to the driver directly: SQLAlchemy's processing of every row's parameters costs more
        # than the insert. All rows of a table have the same columns, and their values need no conversion.
        statement = (upsert if table.name in _REPLACED else insert_new)(self._engine, table)
        text, order = _compiled(statement, self._engine.dialect, tuple(rows[0]))
        if order is None:
            return connection.exec_driver_sql(text, [dict(row) for row in rows]).rowcount
        # SQLite's driver releases the interpreter lock and takes it again for every row of an executemany, and a busy
        # event loop lets it wait each time: so all rows are one statement.
        head, values, tail = _VALUES.split(text, maxsplit=1)
        count, at_once = 0, _VARIABLES // len(order)
        for part in chunks(rows, at_once):
            parameters = tuple([row[key] for row in part for key in order])
            count += connection.exec_driver_sql(head + ", ".join([values] * len(part)) + tail, parameters).rowcount
        return count


@lru_cache(maxsize=64)
def _compiled(statement: sa.Insert, dialect: sa.Dialect, columns: tuple[str, ...]) -> tuple[str, list[str] | None]:
    """Return a statement's text, and the order of its parameters if they have no names."""
    compiled = statement.compile(dialect=dialect, column_keys=list(columns))
    return str(compiled), compiled.positiontup


class _StoredTexts:
    """Texts that this writer has committed and that still exist: they are not written again. The same passages recur
    often, and each would need a look-up in the index.

    Texts are removed only by ``runs gc``, which changes a value in `meta` in the same transaction.
    """

    def __init__(self) -> None:
        self._removal: str | None = None
        self._there: set[bytes] = set()
        self._uncommitted: list[bytes] = []

    def missing(self, connection: sa.Connection, keys: Iterable[bytes], first: bool) -> list[bytes]:
        """Return the keys that are to be written, in order.

        Args:
            connection: in the transaction that writes them: after its first write no other process removes anything.
            keys: hashes.
            first: True if nothing was written in this transaction so far: then all keys are returned.
        """
        removal = connection.exec_driver_sql(_TEXTS_REMOVED).scalar()
        if first or removal != self._removal or len(self._there) > _REMEMBERED:
            self._removal, self._there = removal, set()
        self._uncommitted = sorted(set(keys) - self._there)
        return self._uncommitted

    def committed(self) -> None:
        """Remember the texts that were missing: they are committed."""
        self._there.update(self._uncommitted)
        self._uncommitted = []


def _report(batch: Sequence[_Request]) -> None:
    """Notify the callers, once for each event loop."""
    waiting: dict[asyncio.AbstractEventLoop, list[_Request]] = {}
    for request in batch:
        waiting.setdefault(request.loop, []).append(request)
    for loop, requests in waiting.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, requests)


def _settle(items: list[_Request]) -> None:
    for item in items:
        if item.done.done():
            continue
        if item.error is None:
            item.done.set_result(item.was_recorded)
        else:
            item.done.set_exception(item.error)
