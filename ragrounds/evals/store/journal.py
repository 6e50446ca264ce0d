"""Journal: every call to a model or a tool, recorded before its result is used.

It serves three purposes: resuming after a crash, sharing equal calls between strategies, and replay without a network.

Commits are grouped: some milliseconds lie between the arrival of a response and its commit, in which `kill -9` would
lose a response that was paid for. So each response is first appended to a file (:class:`Arrivals`), which takes
microseconds and survives the process, though not the machine; the commit protects against that.

A call carries the mark of its first payer (`attempt_payer` and similar), so that the process that resumes a killed
process's work finds the calls that were paid for.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import platform
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.chunks import chunks
from ragrounds.base.contracts import Entry, EventCollector
from ragrounds.base.errors import NotReplayed, UserError
from ragrounds.base.processes import Process, process
from ragrounds.base.records import Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import blob_rows, check_call, compress, decompress, pack, storable, unpack
from ragrounds.evals.store.database import ARRIVALS, again, autocommit, fetch_rows
from ragrounds.evals.store.row_sums import summed, summed_columns
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store, now


def attempt_payer(run: Run, question_id: str, epoch: int) -> bytes:
    """Return eight bytes that identify an attempt.

    If a run is removed and made again, the bytes differ, so that it pays for its own calls.
    """
    return _payer(run.id, run.created, question_id, epoch)


def judging_payer(run: Run) -> bytes:
    """Return eight bytes that identify the judging of a run's answers."""
    return _payer(run.id, run.created, "judging")


def arena_payer(fingerprint: str) -> bytes:
    """Return eight bytes that identify the judging of an arena's matches."""
    return _payer(fingerprint, "playing")


def _payer(*parts: object) -> bytes:
    return hashlib.sha256(msgspec.msgpack.encode(parts)).digest()[:8]


class Arrived(Struct, frozen=True, array_like=True):
    """Response that a process has received, and perhaps never committed."""

    key: str
    payer: bytes
    at: float
    seconds: float
    response: msgspec.Raw


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Arrived)
_SIZE = 4
"""Number of bytes before each record that contain its length."""


class Arrivals:
    """File of this process's uncommitted responses, and the responses that dead processes have left.

    A process's file is emptied whenever everything in it is committed. Files of dead processes are read by the next
    process that opens the journal, and removed as soon as the store has all their responses. `store_location` names the
    store of the files, which are in the folder `home`.
    """

    def __init__(self, home: Path, store_location: str) -> None:
        self._folder = home / ARRIVALS / hashlib.sha256(store_location.encode()).hexdigest()[:16]
        self._file: int | None = None
        self._path = Path()
        self._uncommitted = 0
        self._arrived: dict[str, Arrived] = {}

    def collect(self, recorded: Callable[[Iterable[str]], set[str]]) -> None:
        """Read the responses that dead processes have left. `recorded` returns the given keys that the store has."""
        try:
            files = sorted(self._folder.iterdir())
        except OSError:
            return
        for path in files:
            if not _is_dead(path):
                continue
            responses = {arrived.key: arrived for arrived in _read(path)}
            missing = set(responses) - recorded(responses)
            self._arrived.update((key, responses[key]) for key in missing)
            if not missing:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def take(self, key: str) -> Arrived | None:
        """Return the response under this key that a dead process received and did not commit; the next call returns
        ``None``.
        """
        return self._arrived.pop(key, None)

    def note(self, key: str, payer: bytes, received_at: float, seconds: float, response: Struct) -> None:
        """Append a response to the file, before anything else is done with it."""
        self._uncommitted += 1
        body = _encoder.encode((key, payer, received_at, seconds, response))
        # If this cannot be written, either the commit that follows fails too, or the commit alone is enough.
        with contextlib.suppress(OSError):
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                own_process = process(os.getpid())
                name = f"{os.getpid()}-{(own_process.started if own_process else '').encode().hex()}-{id(self):x}"
                self._path = self._folder / f"{name}@{_host()}"
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(self._file, len(body).to_bytes(_SIZE, "big") + body)

    def committed(self) -> None:
        """Count one noted response as committed; the file is emptied when all are."""
        self._uncommitted -= 1
        if not self._uncommitted and self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Close this process's file, and remove it if all its responses are committed.

        Responses that the store could not take are left as if the process were dead, because it may resume the run
        itself.
        """
        if self._file is None:
            return
        os.close(self._file)
        self._file = None
        with contextlib.suppress(OSError):
            if self._uncommitted:
                new_name = f"0-{str(os.getpid()).encode().hex()}-{time.time_ns():x}@{_host()}"
                self._path.rename(self._path.with_name(new_name))
            else:
                self._path.unlink(missing_ok=True)


def copy_arrivals(home: Path, location: str, store: Store) -> None:
    """Copy the responses that processes have left next to a store (in the folder `home`, and named by `location`) to
    another one.

    Raises:
        UserError: there are some, and they cannot be copied.
    """
    folder = Arrivals(home, location)._folder
    try:
        if folder.is_dir():
            shutil.copytree(folder, Arrivals(store.home, store.location)._folder)
    except OSError as error:
        raise UserError(f"Cannot copy the answers in {folder}: {error}.") from error


def leave_arrivals(store: Store, responses: Iterable[Arrived]) -> None:
    """Leave responses next to a store like a process that has ended.

    The next process that opens the journal answers calls from them, and writes each with its request when that call is
    made.

    Raises:
        UserError: the folder cannot be written.
    """
    bodies = [_encoder.encode(response) for response in responses]
    content = b"".join(len(body).to_bytes(_SIZE, "big") + body for body in bodies)
    if not content:
        return
    folder = Arrivals(store.home, store.location)._folder
    path = folder / f"0-{b'file'.hex()}-{hashlib.sha256(content).hexdigest()[:16]}@{_host()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error


def _host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:12]


def _is_dead(path: Path) -> bool:
    """Return True if a file's process ran on this machine, and has ended."""
    name, _, host = path.name.partition("@")
    parts = name.split("-")
    if host != _host() or len(parts) != 3:
        return False
    try:
        return not Process(int(parts[0]), bytes.fromhex(parts[1]).decode()).alive
    except ValueError:
        return False


def _read(path: Path) -> Iterator[Arrived]:
    """Yield the responses in a file, up to one that was not completely written."""
    try:
        data = path.read_bytes()
    except OSError:
        return
    start = 0
    while start + _SIZE <= len(data):
        end = start + _SIZE + int.from_bytes(data[start : start + _SIZE], "big")
        if end > len(data):
            return
        try:
            yield _decoder.decode(data[start + _SIZE : end])
        except (msgspec.MsgspecError, RecursionError):
            return
        start = end


T = TypeVar("T", bound=Struct)
Times = tuple[float, float]
"""Start of a recorded call, in seconds since the epoch, and its duration in seconds."""
RECORDED_TIMES: EventCollector[Times] = EventCollector("recorded_times")
"""Times of the calls that a journal makes or answers, as it records them."""
Mode = Literal["reuse", "replay", "fresh"]
"""Use of recorded calls: reuse, replay only (a missing call is an error, nothing is sent), or repeat them."""


class StoreJournal:
    """Journal of a store (contract: :class:`ragrounds.base.contracts.Journal`).

    Mode ``reuse`` returns recorded responses if possible. ``replay`` never calls anything: a call that is not recorded
    is an error. ``fresh`` makes all calls again and leaves recorded ones unchanged; the new responses are stored for
    their payer, so that interrupted work is not paid for twice.
    """

    def __init__(self, store: Store, mode: Mode = "reuse", taken: set[str] | None = None) -> None:
        self.store = store
        """Store of the journal."""
        self.mode = mode
        self._drawn_keys = set[str]() if taken is None else taken
        """Keys of the clock and random values that were recorded here."""
        self._in_flight: dict[str, asyncio.Future[tuple[Any, Times]]] = {}
        self._committing: dict[str, asyncio.Future[bool]] = {}
        self._reading: sa.Connection | None = None
        self._lost = False
        """True if the reading connection is lost, and not opened again yet."""
        self._reconnecting = asyncio.Lock()
        self._lookup = ("", False)
        self._arrivals = Arrivals(store.home, store.location)
        self.collect()
        payers = fetch_rows(store.engine, sa.select(schema.recalls.c.payer).distinct())
        self._interrupted_payers = {bytes(payer) for (payer,) in payers}
        """Payers whose work may have been interrupted under `fresh`."""
        self.calls_made = 0
        """Number of model calls that were made."""
        self.reused = 0
        """Number of model calls that were answered from the journal."""
        self.searches = 0
        """Number of searches that were made."""
        self.tool_calls = 0
        """Number of other tool calls that were made."""
        self._closing: list[Callable[[], None]] = []

    def another(self) -> StoreJournal:
        """Return a journal of the same store and mode, for another thread."""
        return StoreJournal(self.store, self.mode, self._drawn_keys)

    def count(self, other: StoreJournal) -> None:
        """Add the counts of another journal to this one's, and reset the other's."""
        for name in ("calls_made", "reused", "searches", "tool_calls"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
            setattr(other, name, 0)

    def begins_again(self, payer: bytes) -> None:
        """Let a payer whose work was interrupted here receive its earlier responses."""
        self._interrupted_payers.add(payer)

    def on_close(self, close: Callable[[], None]) -> None:
        """Call a function when this journal is closed."""
        self._closing.append(close)

    def collect(self) -> None:
        """Find the responses that dead processes of this machine had received and did not commit."""
        if self.mode != "fresh":
            self._arrivals.collect(self._recorded)

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """Return the response to a call, recorded or made with `make`, and True if `entry.payer` does not pay for it.

        Equal calls at the same time are made once; the others wait for the first. The times of the call are reported to
        `RECORDED_TIMES`.

        Raises:
            StopRun: the store cannot be written, or `replay` does not find the call.
        """
        while True:
            if (in_flight := self._in_flight.get(entry.key)) is not None:
                try:
                    response, times = await asyncio.shield(in_flight)
                except asyncio.CancelledError:
                    if not in_flight.cancelled():
                        raise
                    continue  # the task that made the call was cancelled: another one makes it
                self.reused += entry.kind == "model"
                RECORDED_TIMES.report(times)
                return response, True
            if (committing := self._committing.get(entry.key)) is not None:
                # The task that made the call was cancelled after its response had arrived.
                await asyncio.shield(committing)
                await asyncio.sleep(0)  # a commit that has just ended is removed by a callback, which comes after this
                continue  # several tasks may have waited for that
            # The earlier response of the same payer comes first: under `fresh` the journal's own response is from
            # another time, and must not be used instead.
            if entry.payer in self._interrupted_payers and (recalled := self._recall(entry, kind)) is not None:
                self.reused += entry.kind == "model"
                return recalled, False
            if self.mode != "fresh":
                try:
                    recorded = self._find(entry.key, kind)
                except _ConnectionLost:
                    await self._reconnect()
                    continue  # and another task may have made the call meanwhile
                if recorded is not None:
                    self.reused += entry.kind == "model"
                    RECORDED_TIMES.report(recorded[2])
                    return recorded[0], not recorded[1] or recorded[1] != entry.payer
                if (arrived := self._arrivals.take(entry.key)) is not None:
                    self.reused += entry.kind == "model"
                    adopted, times = await self._get_once(entry, partial(self._adopt, entry, arrived, kind))
                    RECORDED_TIMES.report(times)
                    return adopted, not arrived.payer or arrived.payer != entry.payer
                if self.mode == "replay":
                    messages = getattr(entry.request, "messages", None)
                    text = messages[-1].content if messages else getattr(entry.request, "query", repr(entry.request))
                    text = " ".join(str(text).split())
                    text = text if len(text) <= 400 else "…" + text[-400:]
                    raise NotReplayed(f"Replay: this call is not in the journal: {entry.kind} by {entry.actor}: {text}")
            made, times = await self._get_once(entry, partial(self._make, entry, make))
            RECORDED_TIMES.report(times)  # without the commit, so that a replay has the same
            return made, False

    def keep(self, entry: Entry, response: Struct) -> None:
        """Record a search that was seen, which is never paid for and never looked up again. It is on the disk before
        anything that is written after it.
        """
        commit = self.store.writer.put(lambda: call_rows(entry, storable(response), now(), 0.0, b""))
        # The exception is taken here, because the attempt's own row fails with the same error.
        commit.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def recorded_values(self, entry: Entry, kind: type[T]) -> tuple[T, bytes, float] | None:
        """Return the recorded values of clock and chance under a key, their payer and time; ``None`` if nothing is
        recorded.
        """
        while True:
            try:
                recorded = self._find(entry.key, kind)
            except _ConnectionLost:
                await self._reconnect()
                continue
            if recorded is not None:
                return recorded[0], recorded[1] or b"", recorded[2][0]
            arrived = self._arrivals.take(entry.key)
            if arrived is None:
                return None
            return (await self._adopt(entry, arrived, kind))[0], arrived.payer, arrived.at

    def draw(self, entry: Entry, response: Struct) -> bool:
        """Record values on which later calls depend, unless there is a record under its key.

        They survive the process from here on, and are on the disk before anything that is written after them.
        """
        try:
            is_recorded = entry.key in self._drawn_keys or self._find(entry.key, type(response)) is not None
        except _ConnectionLost:  # the writer adds only missing rows
            is_recorded = False
        if is_recorded:
            return False
        self._drawn_keys.add(entry.key)
        recorded_at = now()
        self._arrivals.note(entry.key, entry.payer, recorded_at, 0.0, response)
        commit = self.store.writer.put(lambda: call_rows(entry, response, recorded_at, 0.0, entry.payer))
        commit.add_done_callback(partial(self._committed, entry.key))
        return True

    def _committed(self, key: str, commit: asyncio.Future[bool]) -> None:
        """Handle the end of the commit of a noted response."""
        self._committing.pop(key, None)
        if not commit.exception():
            self._arrivals.committed()

    async def _get_once(self, entry: Entry, get: Callable[[], Awaitable[tuple[T, Times]]]) -> tuple[T, Times]:
        """Get a response and its times while other tasks with the same call wait for them."""
        in_flight: asyncio.Future[tuple[T, Times]] = asyncio.get_running_loop().create_future()
        self._in_flight[entry.key] = in_flight
        try:
            answered = await get()
            in_flight.set_result(answered)
            return answered
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                in_flight.cancel()
            else:
                in_flight.set_exception(error)
                in_flight.exception()  # if no task waits for it, asyncio must not report it as unhandled
            raise
        finally:
            del self._in_flight[entry.key]

    async def _make(self, entry: Entry, make: Callable[[], Awaitable[T]]) -> tuple[T, Times]:
        """Make a call, and pass its response to the writer. The response survives the process from then on, and is
        returned once it is on the disk.
        """
        started_at, start = now(), time.perf_counter()
        response = storable(await make())
        seconds = round(time.perf_counter() - start, 4)
        self.calls_made += entry.kind == "model"  # also if no task waits for its commit any more
        self.searches += entry.kind == "search"
        self.tool_calls += entry.kind == "tool"

        def _prepare() -> list[Row]:
            rows = call_rows(entry, response, started_at, seconds, entry.payer)
            if self.mode == "fresh" and entry.payer:
                body = compress(msgspec.msgpack.encode(response))
                key = {"key": bytes.fromhex(entry.key), "payer": entry.payer}
                rows.append((schema.recalls, {**key, "response": body}))
            return rows

        if entry.kind == "search" and not getattr(response, "used", None):  # it costs nothing
            committing = self.store.writer.put(_prepare)
        else:
            self._arrivals.note(entry.key, entry.payer, started_at, seconds, response)
            committing = self._committing[entry.key] = self.store.writer.put(_prepare)

            committing.add_done_callback(partial(self._committed, entry.key))
        was_recorded = await asyncio.shield(committing)  # True if another process had recorded it before
        while was_recorded and self.mode == "reuse":
            try:
                recorded = self._find(entry.key, type(response))
            except _ConnectionLost:
                await self._reconnect()
                continue
            # Another process was quicker: the trace names this key, so the response recorded under it counts.
            return (response, (started_at, seconds)) if recorded is None else (recorded[0], recorded[2])
        return response, (started_at, seconds)

    async def _adopt(self, entry: Entry, arrived: Arrived, kind: type[T]) -> tuple[T, Times]:
        """Commit a response that a dead process had received."""
        response = msgspec.msgpack.decode(arrived.response, type=kind)
        await self.store.writer.write(lambda: call_rows(entry, response, arrived.at, arrived.seconds, arrived.payer))
        return response, (arrived.at, arrived.seconds)

    def _recall(self, entry: Entry, kind: type[T]) -> T | None:
        """Return the response under `fresh` for the same payer, whose work was interrupted."""
        table = schema.recalls
        statement = sa.select(table.c.response).where(
            table.c.key == bytes.fromhex(entry.key), table.c.payer == entry.payer
        )
        responses = fetch_rows(self.store.engine, statement)
        return msgspec.msgpack.decode(decompress(responses[0].response), type=kind) if responses else None

    def _recorded(self, keys: Iterable[str]) -> set[str]:
        """Return the keys, among some, that the store has."""
        column = schema.calls.c.key
        return {
            bytes(row.key).hex()
            for chunk in chunks([bytes.fromhex(key) for key in keys])
            for row in fetch_rows(self.store.engine, sa.select(column).where(column.in_(chunk)))
        }

    async def _reconnect(self) -> None:
        """Wait in a thread, outside the event loop, until the store can be reached again.

        Raises:
            StopRun: it did not come back in time.
        """
        async with self._reconnecting:
            if self._lost:
                self._reading = await asyncio.to_thread(again, partial(autocommit, self.store.engine))
                self._lost = False

    def _find(self, key: str, kind: type[T]) -> tuple[T, bytes | None, Times] | None:
        if self._lost:
            raise _ConnectionLost
        if not self._lookup[0]:
            self._reading = autocommit(self.store.engine)
            compiled = _FIND.compile(dialect=self.store.engine.dialect)
            self._lookup = str(compiled), compiled.positiontup is not None
        text, positional = self._lookup
        # The driver is called directly: every call has a look-up, and SQLAlchemy's work around it costs more than the
        # look-up itself.
        arguments: Any = (bytes.fromhex(key),) if positional else {"key": bytes.fromhex(key)}
        assert self._reading is not None
        driver: Any = self._reading.connection.driver_connection
        try:
            row = driver.execute(text, arguments).fetchone()
        except Exception as error:
            # PostgreSQL's driver sets `closed` if the connection is lost; SQLite's connections are never lost.
            if not getattr(driver, "closed", False):
                raise
            self._reading.invalidate()
            self._reading, self._lost = None, True
            raise _ConnectionLost from error
        if row is None:
            return None
        check_call(row[1:])
        return unpack(row[0], kind, self.store.texts), row[_PAYER], (row[_AT], row[_SECONDS])

    def close(self) -> None:
        """Close the reading connection and the file of uncommitted responses."""
        while self._closing:
            self._closing.pop()()
        self._arrivals.close()
        if self._reading is not None:
            self._reading.close()
            self._reading, self._lookup = None, ("", False)


class _ConnectionLost(Exception):
    """Loss of the journal's reading connection; the query may be repeated on another."""


_COLUMNS = summed_columns(schema.calls)
_FIND = sa.select(schema.calls.c.response, *_COLUMNS).where(schema.calls.c.key == sa.bindparam("key"))
_PAYER, _AT, _SECONDS = (1 + _COLUMNS.index(schema.calls.c[name]) for name in ("payer", "at", "seconds"))


def call_rows(entry: Entry, response: Struct, called_at: float, seconds: float, payer: bytes) -> list[Row]:
    """Return the rows of a recorded call."""
    request, request_texts = pack(storable(entry.request))
    answer, response_texts = pack(response)
    row = {
        "key": bytes.fromhex(entry.key),
        "kind": entry.kind,
        "actor": entry.actor,
        "at": called_at,
        "seconds": seconds,
        "request": request,
        "response": answer,
        "payer": payer or None,
    }
    return [*blob_rows(request_texts | response_texts), (schema.calls, summed(schema.calls, row))]
