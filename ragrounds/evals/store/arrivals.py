"""Responses on their way into the journal, in a file that outlives the process.

Commits are grouped: between a response's arrival and its commit lie some milliseconds, in which `kill -9` would lose
what was paid for. A write to a file without waiting for the disk costs some microseconds and survives the process (not
the machine: that is what the commit is for). Who asks the same again finds it here.

Each process has a file of its own, which is emptied whenever everything in it is committed. Files of dead processes are
read by whoever opens the journal, and removed as soon as the store holds all that is in them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.models.processes import Process, process


class Arrived(Struct, frozen=True, array_like=True):
    """A response that had arrived, and was perhaps never committed."""

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
    """One process's file, and what the dead have left. `place` names the store that they belong to."""

    def __init__(self, home: Path, place: str) -> None:
        self._folder = home / "arrivals" / hashlib.sha256(place.encode()).hexdigest()[:16]
        self._file: int | None = None
        self._path = Path()
        self._waiting = 0
        self._left: dict[str, Arrived] = {}

    def collect(self, recorded: Callable[[Iterable[str]], set[str]]) -> None:
        """Read what dead processes have left; `recorded` says which keys the store holds."""
        try:
            files = sorted(self._folder.iterdir())
        except OSError:
            return
        for path in files:
            if not _dead(path):
                continue
            found = {arrived.key: arrived for arrived in _read(path)}
            missing = set(found) - recorded(found)
            self._left.update((key, found[key]) for key in missing)
            if not missing:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def take(self, key: str) -> Arrived | None:
        """The response under this key that a dead process had received and not committed."""
        return self._left.pop(key, None)

    def note(self, key: str, payer: bytes, at: float, seconds: float, response: Struct) -> None:
        """A response is there; before anything is done with it."""
        self._waiting += 1
        body = _encoder.encode((key, payer, at, seconds, response))
        # Where this cannot be written, the commit that follows cannot either, or it is all that is needed.
        with contextlib.suppress(OSError):
            os.write(self._opened(), len(body).to_bytes(_SIZE, "big") + body)

    def settled(self) -> None:
        """A noted response is committed, or never will be."""
        self._waiting -= 1
        if not self._waiting and self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Remove this process's file, where nothing in it waits."""
        if self._file is None:
            return
        os.close(self._file)
        self._file = None
        if not self._waiting:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _opened(self) -> int:
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            own = process(os.getpid())
            name = f"{os.getpid()}-{(own.started if own else '').encode().hex()}-{id(self):x}"
            self._path = self._folder / f"{name}@{_host()}"
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return self._file


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
    """What a file holds, up to a record that was not written whole."""
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
        except msgspec.MsgspecError:
            return
        start = end
