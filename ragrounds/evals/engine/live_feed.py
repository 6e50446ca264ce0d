"""What is in flight, told to the other processes of this machine while it happens.

Every process that makes attempts listens on the loopback, and a file of the user's own in ``HOME/live`` says where,
with a token without which nothing is told. Nothing is written to the store, and nothing is made up until somebody
asks: the answer is read from the logs of the attempts. A viewer asks all such processes.

A process that cannot listen makes its attempts all the same: they are seen when they have ended.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.evals.engine.in_flight import IN_FLIGHT, InFlight, LiveAttempt
from ragrounds.evals.store.codec import storable
from ragrounds.processes import this_machine
from ragrounds.records import Event

_LOG = logging.getLogger(__name__)
_TIMEOUT = 2.0
"""Seconds that one question to another process may take."""
_LONGEST_QUESTION = 4_096
_LONGEST_ANSWER = 64_000_000
"""Bytes of an answer that are read at most: an attempt's trace holds less."""
_LISTENERS = 16
"""Viewers that are answered at a time."""
_HEAD = 4
"""Bytes before an answer that say how long it is."""


class _Place(Struct, frozen=True):
    """Where a process tells what is in flight in it."""

    port: int
    token: str
    pid: int
    machine: str


class _Question(Struct, frozen=True, omit_defaults=True):
    """What is asked: all attempts in flight; or, with a run, the events of one of them."""

    token: str
    run: str = ""
    question_id: str = ""
    epoch: int = 0
    after: int = 0


_encode = msgspec.msgpack.Encoder().encode
_places = msgspec.json.Decoder(_Place)
_questions = msgspec.msgpack.Decoder(_Question)
_attempts = msgspec.msgpack.Decoder(tuple[LiveAttempt, ...])
_events: msgspec.msgpack.Decoder[tuple[Event, ...] | None] = msgspec.msgpack.Decoder(tuple[Event, ...] | None)

_open: dict[Path, tuple[_Feed, int]] = {}
_lock = threading.Lock()


@contextlib.contextmanager
def live_feed(home: Path) -> Iterator[None]:
    """Tell what is in flight in this process while the block lasts; blocks may overlap."""
    home = home.resolve()
    with _lock:
        feed, users = _open.get(home) or (None, 0)
        if feed is None:
            try:
                feed = _Feed(home / "live", IN_FLIGHT)
            except OSError as error:
                _LOG.info("attempts cannot be followed while they run: %s", error)
        if feed is not None:
            _open[home] = feed, users + 1
    try:
        yield
    finally:
        with _lock:
            if feed is not None:
                feed, users = _open.pop(home)
                if users > 1:
                    _open[home] = feed, users - 1
                else:
                    feed.close()


class _Feed:
    """The listening end: a thread that answers, and the file that says where."""

    def __init__(self, folder: Path, told: InFlight) -> None:
        self._told = told
        self._token = secrets.token_hex(16)
        self._answering = threading.Semaphore(_LISTENERS)
        self._socket = socket.create_server(("127.0.0.1", 0))
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._file = folder / f"{os.getpid()}-{secrets.token_hex(4)}.json"
            place = _Place(self._socket.getsockname()[1], self._token, os.getpid(), this_machine())
            # Readable by its owner from its first moment on.
            with os.fdopen(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(msgspec.json.encode(place))
        except BaseException:
            self._socket.close()
            raise
        threading.Thread(target=self._listen, name="ragrounds-live", daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        with contextlib.suppress(OSError):
            self._file.unlink()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for the next
        self._socket.close()

    def _listen(self) -> None:
        while True:
            try:
                asking, _ = self._socket.accept()
            except OSError:
                return
            if self._answering.acquire(blocking=False):
                threading.Thread(target=self._answer, args=(asking,), name="ragrounds-live-answer", daemon=True).start()
            else:
                asking.close()

    def _answer_to(self, question: _Question) -> bytes:
        if not question.run:
            return _encode(tuple(storable(one) for one in self._told.attempts()))
        events = self._told.events(question.run, question.question_id, question.epoch, max(0, question.after))
        return _encode(None if events is None else tuple(storable(event) for event in events))

    def _answer(self, asking: socket.socket) -> None:
        try:
            with asking:
                asking.settimeout(_TIMEOUT)
                question = _questions.decode(_received(asking, _LONGEST_QUESTION))
                if not secrets.compare_digest(question.token.encode(), self._token.encode()):
                    return
                said = self._answer_to(question)
                asking.sendall(len(said).to_bytes(_HEAD, "big") + said)
        except (OSError, ValueError, msgspec.MsgspecError):
            pass  # whoever asks goes away, or is no viewer of ours
        finally:
            self._answering.release()


class LiveWatcher:
    """Asks all processes of this machine that make attempts in a home what is in flight. One that does not answer is
    left out; a file that a dead one has left behind is removed.

    Args:
        home: of the settings.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home.resolve() / "live"
        self._where: dict[tuple[str, str, int], _Place] = {}

    def attempts(self) -> tuple[LiveAttempt, ...]:
        """The attempts in flight, in the order in which they began."""
        found: list[LiveAttempt] = []
        where: dict[tuple[str, str, int], _Place] = {}
        for file, place in self._places():
            try:
                told = _attempts.decode(_asked(place, _Question(place.token)))
            except ConnectionRefusedError:
                _forget(file, place)
                continue
            except (OSError, ValueError, msgspec.MsgspecError):
                continue
            found += told
            where |= {(one.run, one.question_id, one.epoch): place for one in told}
        self._where = where
        return tuple(sorted(found, key=lambda one: one.at))

    def events(self, run: str, question_id: str, epoch: int, after: int = 0) -> tuple[Event, ...] | None:
        """The events of an attempt in flight from number `after` on; ``None``: it is not in flight (any more), or was
        not when :meth:`attempts` looked."""
        place = self._where.get((run, question_id, epoch))
        if place is None:
            return None
        try:
            asked = _Question(place.token, run=run, question_id=question_id, epoch=epoch, after=after)
            return _events.decode(_asked(place, asked))
        except (OSError, ValueError, msgspec.MsgspecError):
            return None

    def _places(self) -> Iterator[tuple[Path, _Place]]:
        try:
            files = sorted(self._folder.glob("*.json"))
        except OSError:
            return
        for file in files:
            try:
                with file.open("rb") as opened:
                    place = _places.decode(opened.read(_LONGEST_QUESTION))
            except (OSError, ValueError, msgspec.MsgspecError):
                continue
            if place.machine == this_machine():
                yield file, place


def _forget(file: Path, place: _Place) -> None:
    """Remove the file of a process that is no more. One just begun may have its file and not listen yet."""
    with contextlib.suppress(OSError):
        if time.time() - file.stat().st_mtime > _TIMEOUT:
            file.unlink()


def _asked(place: _Place, question: _Question) -> bytes:
    with socket.create_connection(("127.0.0.1", place.port), timeout=_TIMEOUT) as asking:
        said = _encode(question)
        asking.sendall(len(said).to_bytes(_HEAD, "big") + said)
        return _received(asking, _LONGEST_ANSWER)


def _received(connection: socket.socket, longest: int) -> bytes:
    """What was sent, after its length.

    Raises:
        ValueError: it is longer, or ends before its time.
    """
    size = int.from_bytes(_exactly(connection, _HEAD), "big")
    if size > longest:
        raise ValueError(f"{size:,} bytes are told, at most {longest:,} are read")
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    got = bytearray()
    ends = time.monotonic() + _TIMEOUT
    while len(got) < size:
        part = connection.recv(min(size - len(got), 1 << 20))
        if not part or time.monotonic() > ends:
            raise ValueError("the other end fell silent")
        got += part
    return bytes(got)
