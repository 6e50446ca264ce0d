"""The journal: every call to a model or a tool, recorded before its result is used.

It makes three things one: resuming after a crash, sharing equal calls between strategies, and replay without a network.

Commits are grouped: some milliseconds lie between the arrival of a response and its commit, in which `kill -9` would
lose a response that was paid for. So each response is first appended to a file (:class:`Arrivals`), which takes
microseconds and survives the process, though not the machine: that is what the commit is for.

A call carries the mark of who paid for it first (`attempt_payer` and its like), so that what a killed process paid is
found again by whoever resumes its work.
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

from ragrounds.base.contracts import Entry
from ragrounds.base.errors import NotReplayed, UserError
from ragrounds.base.processes import Process, process
from ragrounds.base.records import Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import blob_rows, check_call, compress, decompress, pack, storable, unpack
from ragrounds.evals.store.database import ARRIVALS, again, autocommit, chunks
from ragrounds.evals.store.row_sums import summed, summed_columns
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store, now


def attempt_payer(run: Run, question_id: str, epoch: int) -> bytes:
    """Eight bytes that name an attempt. A run that was removed and made again has others, so that it pays for its own
    calls."""
    return _payer(run.id, run.created, question_id, epoch)


def judging_payer(run: Run) -> bytes:
    """Eight bytes that name the judging of a run's answers."""
    return _payer(run.id, run.created, "judging")


def arena_payer(fingerprint: str) -> bytes:
    """Eight bytes that name the judging of an arena's matches."""
    return _payer(fingerprint, "playing")


def _payer(*named: object) -> bytes:
    return hashlib.sha256(msgspec.msgpack.encode(named)).digest()[:8]


class Arrived(Struct, frozen=True, array_like=True):
    """A response that a process has received, and perhaps never committed."""

    key: str
    payer: bytes
    at: float
    seconds: float
    response: msgspec.Raw


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Arrived)
_SIZE = 4
"""Bytes before each record that say its length."""


class Arrivals:
    """The file of this process's uncommitted responses, and those that dead processes have left.

    A process's file is emptied whenever everything in it is committed. Files of dead processes are read by whoever
    opens the journal, and removed as soon as the store holds all that is in them. `place` names the store that the
    files belong to, which lie in the folder `home`.
    """

    def __init__(self, home: Path, place: str) -> None:
        self._folder = home / ARRIVALS / hashlib.sha256(place.encode()).hexdigest()[:16]
        self._file: int | None = None
        self._path = Path()
        self._uncommitted = 0
        self._found: dict[str, Arrived] = {}

    def collect(self, recorded: Callable[[Iterable[str]], set[str]]) -> None:
        """Read what dead processes have left. `recorded` returns those of some keys that the store holds."""
        try:
            files = sorted(self._folder.iterdir())
        except OSError:
            return
        for path in files:
            if not _dead(path):
                continue
            found = {arrived.key: arrived for arrived in _read(path)}
            missing = set(found) - recorded(found)
            self._found.update((key, found[key]) for key in missing)
            if not missing:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def take(self, key: str) -> Arrived | None:
        """The response under this key that a dead process received and did not commit; the next call finds none."""
        return self._found.pop(key, None)

    def note(self, key: str, payer: bytes, at: float, seconds: float, response: Struct) -> None:
        """Append a response to the file, before anything else is done with it."""
        self._uncommitted += 1
        body = _encoder.encode((key, payer, at, seconds, response))
        # Where this cannot be written, the commit that follows cannot either, or it is all that is needed.
        with contextlib.suppress(OSError):
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                own = process(os.getpid())
                name = f"{os.getpid()}-{(own.started if own else '').encode().hex()}-{id(self):x}"
                self._path = self._folder / f"{name}@{_host()}"
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(self._file, len(body).to_bytes(_SIZE, "big") + body)

    def committed(self) -> None:
        """One noted response is committed; the file is emptied when all are."""
        self._uncommitted -= 1
        if not self._uncommitted and self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Close this process's file, and remove it where all that is in it is committed. What the store could not take
        is left as if the process were dead: it may resume the run itself."""
        if self._file is None:
            return
        os.close(self._file)
        self._file = None
        with contextlib.suppress(OSError):
            if self._uncommitted:
                left = f"0-{str(os.getpid()).encode().hex()}-{time.time_ns():x}@{_host()}"
                self._path.rename(self._path.with_name(left))
            else:
                self._path.unlink(missing_ok=True)


def copy_arrivals(home: Path, place: str, store: Store) -> None:
    """Copy what processes have left beside a store (in the folder `home`, and named by `place`) to another one.

    Raises:
        UserError: there is some, and it cannot be copied.
    """
    left = Arrivals(home, place)._folder
    try:
        if left.is_dir():
            shutil.copytree(left, Arrivals(store.home, store.place)._folder)
    except OSError as error:
        raise UserError(f"Cannot copy the answers in {left}: {error}.") from error


def leave_arrivals(store: Store, responses: Iterable[Arrived]) -> None:
    """Leave responses beside a store as a process would that is gone: whoever opens the journal next answers from them,
    and writes each with what was asked when it is asked for.

    Raises:
        UserError: the folder cannot be written.
    """
    bodies = [_encoder.encode(one) for one in responses]
    whole = b"".join(len(body).to_bytes(_SIZE, "big") + body for body in bodies)
    if not whole:
        return
    folder = Arrivals(store.home, store.place)._folder
    path = folder / f"0-{b'file'.hex()}-{hashlib.sha256(whole).hexdigest()[:16]}@{_host()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.write_bytes(whole)
        beside.replace(path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error


def _host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:12]


def _dead(path: Path) -> bool:
    """Whether a file's process is of this machine, and gone."""
    name, _, host = path.name.partition("@")
    parts = name.split("-")
    if host != _host() or len(parts) != 3:
        return False
    try:
        return not Process(int(parts[0]), bytes.fromhex(parts[1]).decode()).alive
    except ValueError:
        return False


def _read(path: Path) -> Iterator[Arrived]:
    """The responses in a file, up to one that was not written whole."""
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
Mode = Literal["reuse", "replay", "fresh"]


class StoreJournal:
    """The journal of a store (contract: :class:`ragrounds.base.contracts.Journal`).

    Mode ``reuse`` returns what is recorded where it can. ``replay`` never calls anything: a call that is not recorded
    is an error. ``fresh`` calls anew and leaves what was recorded as it is; what it was answered is kept for who paid,
    so that work that was broken off is not paid for twice.
    """

    def __init__(self, store: Store, mode: Mode = "reuse", taken: set[str] | None = None) -> None:
        self.store = store
        """Where it is."""
        self.mode = mode
        self._taken = set[str]() if taken is None else taken
        """Keys of what was drawn here."""
        self._in_flight: dict[str, asyncio.Future[Any]] = {}
        self._committing: dict[str, asyncio.Future[bool]] = {}
        self._reading: sa.Connection | None = None
        self._lost = False
        """The reading connection is lost, and not made again yet."""
        self._reconnecting = asyncio.Lock()
        self._lookup = ("", False)
        self._arrivals = Arrivals(store.home, store.place)
        self.collect()
        self._broken_off = self._recalled_payers()
        """Whose work may have been broken off under `fresh`."""
        self.made = 0
        """Calls of models that were made."""
        self.reused = 0
        """Calls of models that were answered from what is recorded."""
        self.searches = 0
        """Searches and uses of other tools that were made."""
        self._closing: list[Callable[[], None]] = []

    def another(self) -> StoreJournal:
        """A journal of the same store and mode, for another thread."""
        return StoreJournal(self.store, self.mode, self._taken)

    def count(self, other: StoreJournal) -> None:
        """Count what another has counted until now as this one's."""
        for name in ("made", "reused", "searches"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
            setattr(other, name, 0)

    def begins_again(self, payer: bytes) -> None:
        """Have who pays, and was broken off here, be given what it was answered before."""
        self._broken_off.add(payer)

    def on_close(self, close: Callable[[], None]) -> None:
        """Have something closed together with this journal."""
        self._closing.append(close)

    def collect(self) -> None:
        """Find what processes of this machine that are dead had received and did not commit."""
        if self.mode != "fresh":
            self._arrivals.collect(self._recorded)

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """The response to a call, recorded or made with `make`, and whether `entry.payer` gets it for nothing.

        Equal calls at the same time are made once; the others wait for the first.

        Raises:
            StopRun: the store cannot be written, or `replay` does not find the call.
        """
        while True:
            if (in_flight := self._in_flight.get(entry.key)) is not None:
                try:
                    response: T = await asyncio.shield(in_flight)
                except asyncio.CancelledError:
                    if not in_flight.cancelled():
                        raise
                    continue  # the one who made the call was cancelled: somebody else makes it
                self.reused += entry.kind == "model"
                return response, True
            if (committing := self._committing.get(entry.key)) is not None:
                await asyncio.shield(committing)  # who made the call was cancelled when its response was there
                continue  # and several may have waited for that
            # First what the same payer was answered before its work was broken off: under `fresh` the journal's own
            # response is of another time, and must not be taken for it.
            if entry.payer in self._broken_off and (recalled := self._recall(entry, kind)) is not None:
                self.reused += entry.kind == "model"
                return recalled, False
            if self.mode != "fresh":
                try:
                    found = self._find(entry.key, kind)
                except _ConnectionLost:
                    await self._reconnect()
                    continue  # and somebody else may have asked meanwhile
                if found is not None:
                    self.reused += entry.kind == "model"
                    return found[0], not found[1] or found[1] != entry.payer
                if (arrived := self._arrivals.take(entry.key)) is not None:
                    self.reused += entry.kind == "model"
                    left = await self._get_once(entry, partial(self._adopt, entry, arrived, kind))
                    return left, not arrived.payer or arrived.payer != entry.payer
                if self.mode == "replay":
                    raise NotReplayed(f"Replay: this call is not in the journal: {_description(entry)}")
            return await self._get_once(entry, partial(self._make, entry, make)), False

    def keep(self, entry: Entry, response: Struct) -> None:
        """Record what nobody pays for and nobody asks for again: what was seen of a search. It is on the disk before
        whatever is written after it."""
        kept = self.store.writer.put(lambda: _rows(entry, storable(response), now(), 0.0, b""))
        kept.add_done_callback(lambda done: done.cancelled() or done.exception())  # the attempt's own row says it too

    async def drawn(self, entry: Entry, kind: type[T]) -> tuple[T, bytes, float] | None:
        """What was drawn under a key, by whom and when; ``None``: nothing is recorded there."""
        while True:
            try:
                found = self._find(entry.key, kind)
            except _ConnectionLost:
                await self._reconnect()
                continue
            if found is not None:
                return found[0], found[1] or b"", found[2]
            arrived = self._arrivals.take(entry.key)
            if arrived is None:
                return None
            return await self._adopt(entry, arrived, kind), arrived.payer, arrived.at

    def draw(self, entry: Entry, response: Struct) -> bool:
        """Record what later calls rest on, unless there is something under its key. It survives the process from here
        on, and is on the disk before whatever is written after it."""
        try:
            known = entry.key in self._taken or self._find(entry.key, type(response)) is not None
        except _ConnectionLost:  # the writer adds what is not there
            known = False
        if known:
            return False
        self._taken.add(entry.key)
        at = now()
        self._arrivals.note(entry.key, entry.payer, at, 0.0, response)
        kept = self.store.writer.put(lambda: _rows(entry, response, at, 0.0, entry.payer))
        kept.add_done_callback(self._committed)
        return True

    def _committed(self, commit: asyncio.Future[bool]) -> None:
        """A response that was noted is committed, or was not."""
        if not commit.exception():
            self._arrivals.committed()

    async def _get_once(self, entry: Entry, get: Callable[[], Awaitable[T]]) -> T:
        """Get a response while others that ask the same wait for it."""
        in_flight: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._in_flight[entry.key] = in_flight
        try:
            response = await get()
            in_flight.set_result(response)
            return response
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                in_flight.cancel()
            else:
                in_flight.set_exception(error)
                in_flight.exception()  # somebody may be waiting for it, or nobody: then it is not an error of its own
            raise
        finally:
            del self._in_flight[entry.key]

    async def _make(self, entry: Entry, make: Callable[[], Awaitable[T]]) -> T:
        """Make a call, and hand its response to the writer: it survives the process from then on, and is given back
        once it is on the disk."""
        at, start = now(), time.perf_counter()
        response = storable(await make())
        seconds = round(time.perf_counter() - start, 4)
        self.made += entry.kind == "model"  # also where nobody waits for its commit any more
        self.searches += entry.kind != "model"

        def _prepare() -> list[Row]:
            rows = _rows(entry, response, at, seconds, entry.payer)
            if self.mode == "fresh" and entry.payer:
                body = compress(msgspec.msgpack.encode(response))
                key = {"key": bytes.fromhex(entry.key), "payer": entry.payer}
                rows.append((schema.recalls, {**key, "response": body}))
            return rows

        if entry.kind == "search" and not getattr(response, "used", None):  # nobody pays for it
            committing = self.store.writer.put(_prepare)
        else:
            self._arrivals.note(entry.key, entry.payer, at, seconds, response)
            committing = self._committing[entry.key] = self.store.writer.put(_prepare)

            def _settle(commit: asyncio.Future[bool]) -> None:
                del self._committing[entry.key]
                self._committed(commit)

            committing.add_done_callback(_settle)
        known = await asyncio.shield(committing)  # whether another process had recorded it before
        while known and self.mode == "reuse":
            try:
                found = self._find(entry.key, type(response))
            except _ConnectionLost:
                await self._reconnect()
                continue
            # Another process was quicker: the trace names this key, and what it says counts.
            return response if found is None else found[0]
        return response

    async def _adopt(self, entry: Entry, arrived: Arrived, kind: type[T]) -> T:
        """Commit a response that a dead process had received."""
        left = msgspec.msgpack.decode(arrived.response, type=kind)
        await self.store.writer.write(lambda: _rows(entry, left, arrived.at, arrived.seconds, arrived.payer))
        return left

    def _recalled_payers(self) -> set[bytes]:
        with self.store.engine.connect() as connection:
            found = connection.execute(sa.select(schema.recalls.c.payer).distinct())
            return {bytes(row.payer) for row in found}

    def _recall(self, entry: Entry, kind: type[T]) -> T | None:
        """What `fresh` was answered for the same payer, whose work was broken off."""
        table = schema.recalls
        wanted = sa.select(table.c.response).where(
            table.c.key == bytes.fromhex(entry.key), table.c.payer == entry.payer
        )

        def read() -> bytes | None:
            with self.store.engine.connect() as connection:
                found: bytes | None = connection.execute(wanted).scalar()
            return found

        found = again(read)
        return None if found is None else msgspec.msgpack.decode(decompress(found), type=kind)

    def _recorded(self, keys: Iterable[str]) -> set[str]:
        """Those of some keys that the store holds."""
        left, column = [bytes.fromhex(key) for key in keys], schema.calls.c.key

        def read() -> set[str]:
            found: set[str] = set()
            with self.store.engine.connect() as connection:
                for chunk in chunks(left):
                    wanted = sa.select(column).where(column.in_(chunk))
                    found |= {bytes(row.key).hex() for row in connection.execute(wanted)}
            return found

        return again(read)

    async def _reconnect(self) -> None:
        """Wait, beside the event loop, until the store is there again.

        Raises:
            StopRun: it did not come back in time.
        """
        async with self._reconnecting:
            if self._lost:
                self._reading = await asyncio.to_thread(again, partial(autocommit, self.store.engine))
                self._lost = False

    def _find(self, key: str, kind: type[T]) -> tuple[T, bytes | None, float] | None:
        if self._lost:
            raise _ConnectionLost
        if not self._lookup[0]:
            self._reading = autocommit(self.store.engine)
            compiled = _FIND.compile(dialect=self.store.engine.dialect)
            self._lookup = str(compiled), compiled.positiontup is not None
        text, positional = self._lookup
        # The driver is asked itself: every call has a look-up, and what SQLAlchemy does around it costs more than it.
        asked: Any = (bytes.fromhex(key),) if positional else {"key": bytes.fromhex(key)}
        assert self._reading is not None
        driver: Any = self._reading.connection.driver_connection
        try:
            row = driver.execute(text, asked).fetchone()
        except Exception as error:
            if not getattr(driver, "closed", False):  # PostgreSQL's says so where it is lost; SQLite's never is
                raise
            self._reading.invalidate()
            self._reading, self._lost = None, True
            raise _ConnectionLost from error
        if row is None:
            return None
        check_call(row[1:])
        return unpack(row[0], kind, self.store.texts), row[_PAYER], row[_AT]

    def close(self) -> None:
        """Close the reading connection and the file of uncommitted responses."""
        while self._closing:
            self._closing.pop()()
        self._arrivals.close()
        if self._reading is not None:
            self._reading.close()
            self._reading, self._lookup = None, ("", False)


class _ConnectionLost(Exception):
    """The journal's reading connection was lost; what was asked may be asked again on another."""


_COLUMNS = summed_columns(schema.calls)
_FIND = sa.select(schema.calls.c.response, *_COLUMNS).where(schema.calls.c.key == sa.bindparam("key"))
_PAYER, _AT = (1 + _COLUMNS.index(column) for column in (schema.calls.c.payer, schema.calls.c.at))


def _rows(entry: Entry, response: Struct, at: float, seconds: float, payer: bytes) -> list[Row]:
    request, apart = pack(entry.request)
    answer, more = pack(response)
    row = {
        "key": bytes.fromhex(entry.key),
        "kind": entry.kind,
        "actor": entry.actor,
        "at": at,
        "seconds": seconds,
        "request": request,
        "response": answer,
        "payer": payer or None,
    }
    return [*blob_rows(apart | more), (schema.calls, summed(schema.calls, row))]


def _description(entry: Entry) -> str:
    messages = getattr(entry.request, "messages", None)
    text = messages[-1].content if messages else getattr(entry.request, "query", repr(entry.request))
    flat = " ".join(str(text).split())
    return f"{entry.kind} by {entry.actor}: {flat if len(flat) <= 400 else '…' + flat[-400:]}"
