"""Records from other systems' files, one at a time, in bounded memory: JSON Lines, JSON arrays, JSON objects, CSV.

Nothing in a file is trusted: a line, a record and the contents of an archive have a maximum size. A record that cannot
be read is a :class:`BadRow` with its number and the reason, and the next record is read. A file is in memory as a whole
only if it is one JSON object.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from ragrounds.base.files import READ, broken, encoding_of, readable
from ragrounds.base.text import wellformed_all
from ragrounds.extensions.exchange.importers.importer import BadRow, ImportFile, too_deep

LARGEST_RECORD = 1 << 26
"""Largest number of characters of one record, and of a file that is one object."""
_LARGEST = 1 << 33
"""Largest number of bytes that an archive may unpack to."""
_START = 1 << 16
_PIECE = 1 << 18
NOT_UTF_8 = "not UTF-8 (if Windows wrote it, its encoding is cp1252: save it as UTF-8)"
Record: TypeAlias = "tuple[str, dict[str, Any]] | BadRow"


class _Bounded(io.RawIOBase):
    """Stream of an archive's contents that fails above the largest size."""

    def __init__(self, path: Path, inner: IO[bytes]) -> None:
        self._path, self._inner, self._seen = path, inner, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._inner.read(len(buffer))
        self._seen += len(block)
        if self._seen > _LARGEST:
            raise broken(self._path, f"it unpacks to more than {_LARGEST >> 30} GiB")
        buffer[: len(block)] = block
        return len(block)


def opened(path: Path) -> IO[bytes]:
    """Open a file, decompressed if it is gzip.

    Raises:
        UserError: it cannot be opened.
    """
    try:
        file = path.open("rb")
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
    except (OSError, ValueError) as error:
        raise broken(path, getattr(error, "strerror", None) or "it cannot be opened") from None
    READ.report(path)
    return io.BufferedReader(_Bounded(path, cast("IO[bytes]", gzip.GzipFile(fileobj=file) if packed else file)))


def looked_at(path: Path, **attributes: Any) -> ImportFile:
    """Return a file as importers see it before they read it: its first bytes, and its first record.

    Raises:
        UserError: it cannot be opened, or unpacked.
    """
    with _readable(path), opened(path) as file:
        start = file.read(_START)
    if b"\0" in start[:1000] and encoding_of(start) != "utf-16":
        return ImportFile(path=path, start=start, **attributes)  # a binary file
    first = next((record[1] for record in read_records(path) if not isinstance(record, BadRow)), {})
    return ImportFile(path=path, start=start, first=first, **attributes)


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file of JSON Lines, a JSON array or object, or CSV. The first is ``row 1``.

    Raises:
        UserError: it cannot be opened, or unpacked.
    """
    with _readable(path), opened(path) as file:
        encoding = encoding_of(cast("io.BufferedReader", file).peek(4)[:4])
        # Bytes that are not text in this encoding become lone surrogates, which mark their row.
        text = io.TextIOWrapper(
            file, encoding, errors="surrogateescape" if encoding != "utf-16" else "replace", newline=""
        )
        head = text.read(_START)
        sign = head.lstrip()[:1]
        if sign == "[":
            yield from _array(text, head)
        elif sign == "{":
            yield from _lines(text, head)
        elif sign:
            yield from _table(text, head)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        with readable(path):
            yield
    except UnicodeError:
        raise broken(path, "it is no text in the encoding that its first bytes say") from None


def parsed(text: str, location: str) -> Record:
    """Return a JSON object, or a :class:`BadRow` with the reason why the text is none."""
    try:
        value = json.loads(text)
    except RecursionError:
        return BadRow(location, "nested too deeply")
    except ValueError as error:
        return BadRow(location, NOT_UTF_8 if _not_text(text) else f"no JSON: {error}"[:120])
    return checked(value, text, location)


def checked(value: object, text: str, location: str) -> Record:
    """Return a record that is an object of texts, or a :class:`BadRow` with the reason why it is none."""
    if _not_text(text):
        return BadRow(location, NOT_UTF_8)
    if not isinstance(value, dict):
        return BadRow(location, f"a JSON object was expected, and it is {type(value).__name__}")
    return BadRow(location, "nested too deeply") if too_deep(value) else (location, wellformed_all(value))


def _not_text(text: str) -> bool:
    return not text.isascii() and any("\udc80" <= letter <= "\udcff" for letter in text)


def _all_lines(text: IO[str], head: str) -> Iterator[str]:
    """Yield lines. A line that is too long is cut, and its rest is skipped."""
    rest = head
    while True:
        ends = rest.find("\n")
        if ends >= 0:
            yield rest[: ends + 1]
            rest = rest[ends + 1 :]
            continue
        more = text.readline(LARGEST_RECORD)
        line, rest = rest + more, ""
        if not line:
            return
        yield line
        while more and not more.endswith("\n") and len(more) == LARGEST_RECORD:
            more = text.readline(LARGEST_RECORD)


def _lines(text: IO[str], head: str) -> Iterator[Record]:
    """Yield the objects of JSON Lines, or one object over several lines if the first line is none."""
    lines, row = _all_lines(text, head), 0
    for line in lines:
        if not line.strip():
            continue
        row += 1
        location = f"row {row}"
        if len(line) >= LARGEST_RECORD:
            yield BadRow(location, f"longer than {LARGEST_RECORD:,} characters")
            continue
        record = parsed(line, location)
        if row == 1 and isinstance(record, BadRow) and "deep" not in record.reason and line.rstrip()[-1:] in "{[,":
            yield _whole(line, lines)
            return
        yield record


def _whole(line: str, lines: Iterator[str]) -> Record:
    parts, size = [line], len(line)
    for more in lines:
        parts.append(more)
        size += len(more)
        if size > LARGEST_RECORD:
            return BadRow("the file", f"one JSON object of more than {LARGEST_RECORD:,} characters")
    return parsed("".join(parts), "row 1")


def _array(text: IO[str], head: str) -> Iterator[Record]:
    """Yield the members of a JSON array, each decoded when it is complete."""
    decoder, row, at_end = json.JSONDecoder(), 0, False
    buffer, read_size = head.lstrip()[1:], _PIECE
    while True:
        buffer = buffer.lstrip().removeprefix(",").lstrip()
        if buffer.startswith("]"):
            return
        location = f"row {row + 1}"
        try:
            value, stop = decoder.raw_decode(buffer) if buffer else (None, 0)
            is_complete = bool(buffer) and (at_end or stop < len(buffer))
        except RecursionError:
            yield BadRow(location, "nested too deeply; what follows was not read")
            return
        except ValueError as error:
            value, stop, is_complete = str(error), 0, False
        if is_complete:
            row += 1
            yield checked(value, buffer[:stop], location)
            buffer, read_size = buffer[stop:], _PIECE
        elif at_end:
            if buffer:
                yield BadRow(location, "the array is cut off, or no JSON; what follows was not read")
            return
        elif len(buffer) > LARGEST_RECORD:
            yield BadRow(location, f"longer than {LARGEST_RECORD:,} characters, or no JSON; what follows was not read")
            return
        else:
            more = text.read(read_size)
            buffer, read_size, at_end = buffer + more, read_size * 2, not more


def _names_fault(names: list[str]) -> str:
    """Return why a first line is no row of column names; empty if it is one."""
    if any(map(_not_text, names)):
        return NOT_UTF_8
    if twice := next((name for name in names if names.count(name) > 1), None):
        return f"its first line has two columns with the name {twice!r}"
    return "its first line is no row of column names" if len(names) < 2 else ""


def _table(text: IO[str], head: str) -> Iterator[Record]:
    """Yield rows of CSV under the names of the first line, separated by comma, semicolon, tab or vertical bar."""
    first = head.partition("\n")[0]
    delimiter = max(",;\t|", key=first.count)
    csv.field_size_limit(LARGEST_RECORD)
    reader = csv.reader((line.replace("\0", "\ufffd") for line in _all_lines(text, head)), delimiter=delimiter)
    names: list[str] = []
    row = 0
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row += 1
            if "new-line" in str(error) and "\r" in head and "\n" not in head:
                yield BadRow("the file", "its lines end as on old Macs (CR alone): save it with line ends of today")
                return
            yield BadRow(f"row {row}", f"no CSV: {error}")
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if not names:
            names = [cell.strip() for cell in cells]
            if fault := _names_fault(names):
                yield BadRow("the file", fault)
                return
            continue
        row += 1
        if any(map(_not_text, cells)):
            yield BadRow(f"row {row}", NOT_UTF_8)
        elif len(cells) > len(names):
            yield BadRow(f"row {row}", f"{len(cells)} cells under {len(names)} names")
        else:
            yield f"row {row}", dict(zip(names, cells, strict=False))
