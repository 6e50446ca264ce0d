"""Prints of a host's systems, kept for the traces of the attempts that made them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any

_MAX_KEPT = 2000
"""Maximum number of bytes of an attempt's prints that are kept: the last ones."""


class Prints:
    """The last bytes that an attempt has printed."""

    def __init__(self) -> None:
        self._count, self._last = 0, b""

    def add(self, data: bytes) -> None:
        """Add printed bytes."""
        self._count += len(data)
        self._last = (self._last + data[-_MAX_KEPT:])[-_MAX_KEPT:]

    def words(self) -> str:
        """Return the last lines, with the number of bytes if some are left out. Empty if nothing was printed."""
        text = self._last.decode("utf-8", "replace").strip()
        return f"{self._count:,} bytes, which end: {text}" if self._count > len(self._last) else text


class _Stream(io.RawIOBase):
    """Standard output or error, whose bytes are also passed to the attempt that prints them."""

    def __init__(self, number: int, prints_here: Callable[[], Prints | None]) -> None:
        self._number, self._prints_here = number, prints_here

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the number of the stream's descriptor."""
        return self._number

    def write(self, data: Any) -> int:
        """Write bytes, and return their number."""
        written = os.write(self._number, data)
        if (prints := self._prints_here()) is not None:
            prints.add(bytes(data[:written]))
        return written


def keep_prints(prints_here: Callable[[], Prints | None]) -> None:
    """Pass what this process prints to the result of `prints_here` too, a line at a time."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        before = getattr(sys, name)
        if before is not None:
            raw = io.BufferedWriter(_Stream(number, prints_here))
            stream = io.TextIOWrapper(raw, before.encoding, before.errors, line_buffering=True)
            setattr(sys, name, stream)
