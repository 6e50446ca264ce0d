"""JSON Lines, plain or packed: as bytes, or as typed rows with the number of the line in every error."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
import zstandard

from ragrounds.base.errors import UserError
from ragrounds.base.files import encoding_of
from ragrounds.base.text import fault

T = TypeVar("T")
ENDINGS = ("", ".gz", ".zst")
_LONGEST = 256 << 20
"""Bytes of a line that are read into memory. A packed file of some kilobytes may unpack to any number."""


def read_rows(path: Path, kind: type[T], expected: str = "") -> Iterator[tuple[int, T]]:
    """Read the rows of a file with their line numbers, from 1. Blank lines are skipped.

    Args:
        path: the file; its name may end in ``.gz`` or ``.zst``.
        kind: type of each line, as msgspec converts it.
        expected: the form in words, for the error.

    Raises:
        UserError: the file cannot be read, or a line is not of that kind.
    """
    decode = msgspec.json.Decoder(kind).decode
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            try:
                row = decode(line)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
                raise bad_line(path, number, fault(problem), expected) from None
            yield number, row


def bad_line(path: Path, number: int, reason: str, expected: str = "") -> UserError:
    """Return the error for a line that cannot be used."""
    return UserError(f"Cannot read line {number} of {path}: {reason}.{f' Expected {expected}.' if expected else ''}")


def read_lines(file: Path) -> Iterator[bytes]:
    """Yield a file's lines, unpacked if its ending is ``.gz`` or ``.zst``.

    Raises:
        UserError: it cannot be read, or does not fit its ending.
    """
    opener = _OPENERS.get(file.suffix, _plain)
    try:
        with opener(file) as stream:
            head = stream.peek(3) if isinstance(stream, io.BufferedReader) else b""
            if head.startswith(codecs.BOM_UTF8):
                stream.read(3)
            elif encoding_of(head) == "utf-16":
                raise OSError("it is UTF-16; expected UTF-8")
            while line := stream.readline(_LONGEST):
                if len(line) == _LONGEST and not line.endswith(b"\n"):
                    raise OSError(f"a line has more than {_LONGEST >> 20} MiB")
                yield line
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as problem:
        raise UserError(f"Cannot read {str(file)!r}: {problem}.") from None


def _plain(file: Path) -> BinaryIO:
    return file.open("rb")


def _gzip(file: Path) -> BinaryIO:
    return io.BufferedReader(gzip.open(file, "rb"))


def _zstd(file: Path) -> BinaryIO:
    stream = zstandard.ZstdDecompressor().stream_reader(file.open("rb"), closefd=True, read_across_frames=True)
    return io.BufferedReader(stream)


_OPENERS: dict[str, Callable[[Path], BinaryIO]] = {".gz": _gzip, ".zst": _zstd}
