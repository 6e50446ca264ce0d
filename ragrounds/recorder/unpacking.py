"""Decompression of response bodies in small steps, so that memory never exceeds the allowed size."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_STEP = 1 << 18
"""Number of bytes that are decompressed between two checks of the limit."""


class BadReply(Exception):
    """Error of a reply that is not read.

    `kind` is ``too_large``, or ``malformed`` if its compression was not requested or is damaged.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Unpacker:
    """Decompresses a body part by part, never more than `size` bytes in total."""

    def __init__(self, encoding: str, size: int) -> None:
        names = map(str.strip, encoding.lower().split(","))
        self._names = [name for name in names if name not in ("", "identity")]
        self._size = size
        self._received = self._unpacked = 0
        self._inflate: zlib._Decompress | _Done | None = None
        if len(self._names) > 1 or not set(self._names) <= _WINDOWS.keys():
            raise BadReply("malformed", f"packed as {encoding[:60]!a}, which was not asked for")

    def feed(self, part: bytes) -> Iterator[bytes]:
        """Yield the next part, decompressed, in pieces.

        Raises:
            BadReply: it is too large, or damaged.
        """
        self._received += len(part)
        if self._received > self._size:
            raise too_large(self._size, "received")
        if not self._names:
            yield part
            return
        while part:
            if self._inflate is None:
                # Half of all servers send "deflate" without the required header.
                is_bare = self._names[0] == "deflate" and part[0] & 15 != 8
                self._inflate = zlib.decompressobj(-15 if is_bare else _WINDOWS[self._names[0]])
            try:
                piece = self._inflate.decompress(part, _STEP)
            except zlib.error as error:
                raise BadReply("malformed", f"its packing is damaged ({error})") from None
            self._unpacked += len(piece)
            if self._unpacked > self._size:
                raise too_large(self._size, "unpacked")
            yield piece
            part = self._inflate.unconsumed_tail
            if self._inflate.eof:
                # Several compressed parts may follow each other. Any other bytes after one are padding.
                part = self._inflate.unused_data if self._inflate.unused_data[:2] == b"\x1f\x8b" else b""
                self._inflate = None if part else _Done()

    def finish(self) -> None:
        """Check that the body is complete.

        Raises:
            BadReply: something is missing.
        """
        if self._inflate is not None and not self._inflate.eof:
            raise BadReply("malformed", "its packing ends too soon")


class _Done:
    """Placeholder for a compressed part that has ended."""

    eof, unused_data, unconsumed_tail = True, b"", b""

    def decompress(self, part: bytes, size: int) -> bytes:
        """Return nothing, because the part has ended."""
        return b""


_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def too_large(size: int, how: str) -> BadReply:
    """Return the error for a reply that has more than `size` bytes."""
    return BadReply("too_large", f"the reply has more than {size:,} bytes {how}; the rest was not read")
