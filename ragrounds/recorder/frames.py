"""Frames on a socket between ragrounds and a host: a JSON header, and a body of bytes. No objects are sent.

A frame consists of two lengths (4 bytes each, of header and body), the header, and the body. The contents of headers
are described in :mod:`host`. Readers check the frames, since the other side is not trusted.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from .redaction import redactor

LONGEST_HEADER = 64 << 20
"""Maximum number of bytes of a header: changes by a graph's node, or the passages of a search, as JSON."""
LONGEST_BODY = 129 << 20
"""Maximum number of bytes of a body: a request, or the longest accepted response of vectors (128 MB)."""
_LENGTHS = struct.Struct("!II")
_READ = 1 << 18
"""Number of bytes of one read."""


class BadFrame(Exception):
    """Error: received bytes are not a frame, or a frame is too long."""


class RawFrame(NamedTuple):
    """A received frame, not yet parsed."""

    header: bytes
    body: bytes

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return len(self.header) + len(self.body)


_ENCODER = json.JSONEncoder(default=str)


def packed(header: Mapping[str, Any], body: bytes = b"", *, redact: bool = True) -> bytes:
    """Return a frame, whose header has no keys of this process if `redact`. Values that are not JSON become texts.

    Raises:
        BadFrame: the frame is too long.
    """
    try:
        text = _ENCODER.encode(header)
    except (TypeError, ValueError, RecursionError):  # keys that are not texts, lists that contain themselves
        plain = (type(None), str, bool, int)
        text = json.dumps({key: value if isinstance(value, plain) else repr(value) for key, value in header.items()})
    return framed((redactor().without_keys(text) if redact else text).encode(), body)


def framed(header: bytes, body: bytes) -> bytes:
    """Return a frame with a header that is already JSON.

    Raises:
        BadFrame: the frame is too long.
    """
    if len(header) > LONGEST_HEADER or len(body) > LONGEST_BODY:
        raise BadFrame(f"{len(header) + len(body):,} bytes are more than can be sent")
    return _LENGTHS.pack(len(header), len(body)) + header + body


class Reader:
    """Reads frames from a socket."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source
        self._buffer = bytearray()

    def next(self) -> list[RawFrame]:
        """Return the received frames, at least one. Empty if the other side has closed the socket.

        Raises:
            BadFrame: a frame is too long.
        """
        frames: list[RawFrame] = []
        while True:
            frame = self._next_frame()
            if frame is not None:
                frames.append(frame)
            elif frames:
                return frames
            elif not self._receive():
                return []

    def _next_frame(self) -> RawFrame | None:
        """Return the next frame, if it is complete."""
        pending = self._buffer
        if len(pending) < _LENGTHS.size:
            return None
        header, body = _LENGTHS.unpack_from(pending)
        if header > LONGEST_HEADER or body > LONGEST_BODY:
            raise BadFrame(f"a frame of {header + body:,} bytes is more than any may have")
        middle, end = _LENGTHS.size + header, _LENGTHS.size + header + body
        if len(pending) < end:
            return None
        with memoryview(pending) as view:
            frame = RawFrame(bytes(view[_LENGTHS.size : middle]), bytes(view[middle:end]))
        del pending[:end]
        return frame

    def _receive(self) -> bool:
        """Receive more bytes. Return False if the connection has ended."""
        try:
            part = self._source.recv(_READ)
        except OSError:  # closed on this side, or gone on the other
            return False
        self._buffer += part
        return bool(part)


class Sender:
    """Sends frames to a socket, from any thread, in the order of their arrival."""

    def __init__(self, sink: socket.socket) -> None:
        self._sink = sink
        # A signal handler or a finalizer of the system may send in the middle of a sending by the same thread.
        self._lock = threading.RLock()
        self._sends = False
        self._buffer: deque[bytes] = deque()

    def hold(self, frame: bytes) -> None:
        """Keep a frame until :meth:`send`. Frames that are sent together cost as much as one."""
        self._buffer.append(frame)

    def send(self) -> None:
        """Send the held frames.

        Raises:
            OSError: the other side is gone.
        """
        with self._lock:
            if self._sends:  # the interrupted sending sends these frames after its own
                return
            self._sends = True
            try:
                while self._buffer:
                    self._sink.sendall(b"".join(self._buffer.popleft() for _ in range(len(self._buffer))))
            finally:
                self._sends = False
