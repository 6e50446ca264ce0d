"""Frames on a socket between us and a host: a header of JSON, and bytes beside it. No objects are sent.

A frame is two lengths (4 bytes each, of header and bytes), the header, the bytes. What a header holds is said in
:mod:`host`; whoever reads frames checks them, since the other side may be anything.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

LONGEST_HEADER = 64 << 20
"""Bytes of a header: what a node of a graph wrote, or the passages of a search, as JSON."""
LONGEST_BODY = 129 << 20
"""Bytes beside it: a request, or an answer of vectors, the longest that is read (128 MB)."""
_LENGTHS = struct.Struct("!II")
_READ = 1 << 18
"""Bytes that are read at once at least."""


class BadFrame(Exception):
    """What came is no frame, or one that is longer than any may be."""


class RawFrame(NamedTuple):
    """What came, still to be read."""

    header: bytes
    body: bytes

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.header) + len(self.body)


_ENCODER = json.JSONEncoder(default=str)


def packed(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A frame. What is no JSON becomes its text.

    Raises:
        BadFrame: it is too long.
    """
    try:
        text = _ENCODER.encode(header)
    except (TypeError, ValueError, RecursionError):  # keys that are no texts, lists that hold themselves
        text = json.dumps({key: _plain(value) for key, value in header.items()})
    return framed(text.encode(), body)


def framed(header: bytes, body: bytes) -> bytes:
    """A frame of a header that is JSON already.

    Raises:
        BadFrame: it is too long.
    """
    if len(header) > LONGEST_HEADER or len(body) > LONGEST_BODY:
        raise BadFrame(f"{len(header) + len(body):,} bytes are more than can be sent")
    return _LENGTHS.pack(len(header), len(body)) + header + body


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, (str, bool, int)) else repr(value)


class Reader:
    """Reads frames from a socket."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source
        self._held = bytearray()

    def next(self) -> list[RawFrame]:
        """The frames that have come, at least one; none: the other side has closed the socket.

        Raises:
            BadFrame: one is too long.
        """
        found: list[RawFrame] = []
        while True:
            whole = self._whole()
            if whole is not None:
                found.append(whole)
            elif found:
                return found
            elif not self._more():
                return []

    def _whole(self) -> RawFrame | None:
        """The next frame, where it is there whole."""
        held = self._held
        if len(held) < _LENGTHS.size:
            return None
        header, body = _LENGTHS.unpack_from(held)
        if header > LONGEST_HEADER or body > LONGEST_BODY:
            raise BadFrame(f"a frame of {header + body:,} bytes is more than any may have")
        middle, end = _LENGTHS.size + header, _LENGTHS.size + header + body
        if len(held) < end:
            return None
        with memoryview(held) as view:
            frame = RawFrame(bytes(view[_LENGTHS.size : middle]), bytes(view[middle:end]))
        del held[:end]
        return frame

    def _more(self) -> bool:
        """Read what has come."""
        try:
            part = self._source.recv(_READ)
        except OSError:  # closed here, or gone there
            return False
        self._held += part
        return bool(part)


class Sender:
    """Sends frames to a socket, from any thread, in the order in which they are given."""

    def __init__(self, sink: socket.socket) -> None:
        self._sink = sink
        self._lock = threading.Lock()
        self._held: list[bytes] = []

    def hold(self, frame: bytes) -> None:
        """Keep a frame until :meth:`send`: frames that are sent together cost as much as one."""
        with self._lock:
            self._held.append(frame)

    def send(self) -> None:
        """Send what is held.

        Raises:
            OSError: the other side is gone.
        """
        with self._lock:
            held, self._held = self._held, []
            if held:
                self._sink.sendall(b"".join(held))
