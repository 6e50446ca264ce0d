"""Busy time of a server of one's own, shared out among its calls, so that GPU hours can be charged to calls.

The server is busy while at least one call is in flight. While n are, each bears one n-th of the time, so a call is
charged with the integral of 1/n(t) over its duration and all charges add up to the busy time exactly, whatever
overlaps. One running sum is enough: V(t), the integral of 1/n from the beginning; a call's charge is V at its end less
V at its begin.

The sum is in a small memory-mapped file that all processes of a user on this machine share, so that several workers
that ask one server do not each pay for the whole of it. Calls that a killed process left there are taken out as soon as
another one notices.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

_SLOTS = 256
"""Processes that may share a server."""
_HEAD = struct.Struct("=ddq")
"""V, the monotonic time of the last change (that clock is the same in all processes), and the calls in flight."""
_SLOT = struct.Struct("=qq")
"""A process and its calls in flight."""
_SIZE = _HEAD.size + _SLOTS * _SLOT.size
_LOOK = 1.0
"""Seconds between looks for processes that are gone."""


class BusyCharge:
    """The seconds that a call is charged with, all its tries together, once it has ended."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


class BusyMeter:
    """Busy time of one server. Without a `path`, of this process's calls alone."""

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._file: BinaryIO | None = None
        self._memory: bytearray | mmap.mmap = bytearray(_SIZE)
        self._pid, self._place = 0, 0
        self._looked = 0.0

    @contextlib.contextmanager
    def call(self, charge: BusyCharge) -> Iterator[None]:
        """A call in flight while the block lasts; its seconds are added to `charge` at the end."""
        begun = self._change(+1)
        try:
            yield
        finally:
            charge.seconds += self._change(-1) - begun

    def _change(self, by: int) -> float:
        if self._pid != os.getpid():
            self._open()
        with self._locked():
            memory, now = self._memory, self._clock()
            if now - self._looked >= _LOOK:
                self._looked = now
                self._clear_dead()
            total, last, flying = _HEAD.unpack_from(memory, 0)
            if flying > 0 and now > last:
                total += (now - last) / flying
            _HEAD.pack_into(memory, 0, total, now, flying + by)
            _SLOT.pack_into(memory, self._place, self._pid, _SLOT.unpack_from(memory, self._place)[1] + by)
            return float(total)

    def _open(self) -> None:
        """At the first call, and again after a fork: a lock taken on a file that was inherited keeps nobody out."""
        self._pid = os.getpid()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._memory = self._shared(self._path)
        with self._locked():
            self._looked = self._clock()
            self._clear_dead()
            pids = [pid for pid, _ in self._slots()]
            known = pids.index(self._pid) if self._pid in pids else pids.index(0) if 0 in pids else _SLOTS - 1
            self._place = _HEAD.size + known * _SLOT.size

    def _slots(self) -> Iterator[tuple[int, int]]:
        yield from _SLOT.iter_unpack(self._memory[_HEAD.size :])

    def _clear_dead(self) -> None:
        left = 0
        for number, (pid, count) in enumerate(self._slots()):
            if pid and pid != self._pid and not _alive(pid):
                _SLOT.pack_into(self._memory, _HEAD.size + number * _SLOT.size, 0, 0)
                left += count
        if left:
            total, last, flying = _HEAD.unpack_from(self._memory, 0)
            _HEAD.pack_into(self._memory, 0, total, last, max(0, flying - left))

    def _shared(self, path: Path) -> mmap.mmap:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.parent.stat().st_uid != os.getuid():
            raise PermissionError
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        self._file = os.fdopen(descriptor, "r+b")
        with self._locked():
            if os.fstat(descriptor).st_size < _SIZE:
                os.ftruncate(descriptor, _SIZE)
            return mmap.mmap(descriptor, _SIZE)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        if self._file is None:
            yield
            return
        import fcntl

        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


@functools.lru_cache(maxsize=64)
def meter_here(url: str) -> BusyMeter:
    """The meter of the server at this address for the calls of this process alone."""
    return BusyMeter()


@functools.lru_cache(maxsize=64)
def meter_of(url: str) -> BusyMeter:
    """The meter of the server at this address, shared by all models and processes that ask it."""
    return BusyMeter(_place(url))


def forget(url: str) -> None:
    """Remove the shared file of a server that has ended."""
    path = _place(url)
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _place(url: str) -> Path | None:
    if os.name != "posix":
        return None
    import warnings

    import platformdirs

    name = hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:24]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where there is no such folder, it takes one for temporary files
        folder = platformdirs.user_runtime_path("ragrounds", appauthor=False)
    return folder / f"busy-{name}"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
