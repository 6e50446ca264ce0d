"""Strict readers of files from outside: text, JSON, JSON Lines, and tables that spreadsheets open.

A file can be cut off, wrongly encoded, or edited by hand. Every reader here either returns typed values or raises one
:class:`~ragrounds.base.errors.UserError` line that names the file, the record and the fault. Text from a file is shown
escaped and shortened, never as it is.

Tables for people are CSV that a spreadsheet opens without running anything in it, and that can be read back. To
spreadsheets, a cell is a formula if it begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end (OWASP, CSV
injection). The same holds after blanks, quotes or invisible characters, and after a semicolon or a tab if a program
separates cells there. Such a cell gets an apostrophe before it, which reading removes again. Control and invisible
characters, which a terminal interprets without showing them, are written out (:func:`ragrounds.base.text.safe`). Files
begin with a byte order mark, without which spreadsheets misread UTF-8.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import json
import re
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ragrounds.base.contracts import EventCollector
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.text import parse_toml, safe

T = TypeVar("T")

LONGEST_TEXT = 200_000
"""Maximum number of characters of one text field: several times the longest case report of the benchmarks."""
_LARGEST = 1 << 30
"""Maximum number of bytes of a decompressed file that is read into memory."""
_MAX_SHOWN = 60
READ = EventCollector[Path]("ragrounds_read")
"""Reports the path of every file that is read."""


def make_home(home: Path) -> None:
    """Create the data folder with access for its owner only: it holds prompts, replies, perhaps patients' texts.

    An existing folder is left unchanged.

    Raises:
        UserError: the folder cannot be created.
    """
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        home.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot make the folder {home}: {error.strerror}. Set RAGROUNDS_HOME to another.") from error


def quote_value(text: object) -> str:
    """Return a value from a file, quoted, escaped and shortened for a message."""
    quoted = ascii(str(text)) if not str(text).isprintable() else repr(str(text))
    return quoted if len(quoted) <= _MAX_SHOWN else quoted[:_MAX_SHOWN] + "…'"


def broken(path: Path, fault: str, record: str = "") -> UserError:
    """Return the error for a file that cannot be read. `record` is the location; `fault` has no full stop."""
    where = f"{record}: " if record else ""
    name = str(path) if str(path).isprintable() else ascii(str(path))
    return UserError(f"Cannot read {name}: {where}{fault}{'' if fault.endswith('?') else '.'}")


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise a UserError about a file if it cannot be read, or unpacked, in the block."""
    try:
        yield
    except FileNotFoundError:
        raise broken(path, "there is no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise broken(path, f"the archive is damaged or cut off ({error})") from None
    except OSError as error:
        raise broken(path, error.strerror or "it cannot be opened") from None


def read_bytes(path: Path) -> bytes:
    """Read the whole file, decompressed if its name ends in ``.gz``.

    Raises:
        UserError: no such file, not a file, not readable, empty, or a damaged archive.
    """
    try:
        with readable(path):
            if path.is_dir():
                raise broken(path, "it is a folder; expected a file")
            data = path.read_bytes()
            if path.suffix == ".gz":
                with gzip.open(io.BytesIO(data)) as packed:
                    data = packed.read(_LARGEST + 1)
                if len(data) > _LARGEST:
                    raise broken(path, f"it unpacks to more than {_LARGEST >> 30} GiB")
    except ValueError:  # a path with a null character
        raise broken(path, "this is not a path") from None
    if not data.strip():
        raise broken(path, "the file is empty")
    READ.report(path)
    return data


def encoding_of(start: bytes) -> str:
    """Return the encoding of a text file by its first bytes: UTF-16 if they mark it, else UTF-8, whose mark is dropped.

    Every reader of text files asks this function, so that a byte order mark is never part of the first id.
    """
    return "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"


def not_text(start: bytes, problem: UnicodeDecodeError) -> str:
    """Return the fault of a file that is no text in its encoding."""
    if encoding_of(start) == "utf-16":
        return "its first bytes mark it as UTF-16, and it is not; save the file as UTF-8 and try again"
    windows = " (Windows writes cp1252)" if problem.object[problem.start] >= 0x80 else ""
    return f"byte {problem.start:,} is not UTF-8{windows}; save the file as UTF-8 and try again"


_BINARY = {b"PAR1": "a Parquet file", b"PK\x03\x04": "an archive, as spreadsheets are", b"%PDF": "a PDF file"}
"""First bytes of files that people take for text → what they are."""


def read_text(path: Path) -> str:
    """Read the whole file as UTF-8 or marked UTF-16 text, without a byte order mark.

    Raises:
        UserError: as :func:`read_bytes`, or neither.
    """
    data = read_bytes(path)
    if kind := _BINARY.get(data[:4]):
        raise broken(path, f"this is {kind}, not text; save it as CSV or JSON Lines")
    try:
        return data.decode(encoding_of(data))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise broken(path, not_text(data, error), f"line {line}") from None


def read_json(path: Path) -> Any:
    """Read the value of a JSON file. An object with the same key twice is an error.

    Raises:
        UserError: as :func:`read_text`, or not JSON.
    """
    return _parse(read_text(path), path, "")


_ARRAY_LINES = re.compile(r"\][ \t\r]*\n\s*\[")
"""End of an array at which another begins on a later line: no JSON array has this, and lines with arrays have it."""


def read_jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the values of a JSON Lines file, each with its location (``line 3``). Blank lines are skipped.

    Of a file that is one JSON array the members are yielded (``element 3``).

    Raises:
        UserError: as :func:`read_text`, or a line that is not JSON.
    """
    text = read_text(path)
    if text.lstrip().startswith("[") and text.rstrip().endswith("]") and not _ARRAY_LINES.search(text):
        values = _parse(text, path, "")
        yield from ((f"element {number}", value) for number, value in enumerate(values, 1))
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"line {number}", _parse(line, path, f"line {number}")


def convert(value: object, kind: type[T], path: Path, record: str) -> T:
    """Convert a value to a record of `kind`.

    Raises:
        UserError: a field is missing, has another type, is too long, or contains half a surrogate pair.
    """
    record_value = shape(value, kind, path, record)
    # Fast path: if the value can be encoded and is in total no longer than one text may be, all its texts are valid.
    with contextlib.suppress(UnicodeEncodeError, RecursionError):
        if len(msgspec.json.encode(value)) <= LONGEST_TEXT:
            return record_value
    try:
        texts = list(_texts(value))
    except RecursionError:
        raise broken(path, "the JSON is nested too deeply", record) from None
    for name, text in texts:
        if len(text) > LONGEST_TEXT:
            message = f"{name} is {len(text):,} characters long, and at most {LONGEST_TEXT:,} are allowed"
            raise broken(path, message, record)
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise broken(path, f"{name} holds half a surrogate pair, which is not text", record) from None
    return record_value


def shape(value: object, kind: type[T], path: Path, record: str = "") -> T:
    """Convert a value to a record as :func:`convert` does, without checking its texts. For the outer structure of a
    file.

    Raises:
        UserError: a field is missing or has another type.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, location = str(error).partition(" - at ")
        text = text.replace("Object missing required field", "it has no field").replace("Expected", "expected")
        location = location.strip("`").removeprefix("$.").removeprefix("$")
        text = f"{text} at {location}" if location else text
        # An enum's error repeats the value.
        raise broken(path, text if text.isprintable() else ascii(text), record) from None


def toml_record(text: str, kind: type[T], source: str, hint: str = "") -> T:
    """Convert a TOML text to a record of `kind`. `source` begins the error and `hint` ends it.

    Raises:
        UserError: the text is not TOML, or a field is unknown, missing or of another type.
    """
    try:
        return msgspec.convert(parse_toml(text), kind)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UserError(f"{source}: {error}{hint}") from error


def _texts(value: object, name: str = "the record") -> Iterator[tuple[str, str]]:
    """Yield every string of a JSON value with the nearest key above it. Keys are strings too."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield "a field's name", key
            yield from _texts(child, f"the field {quote_value(key)}")
    elif isinstance(value, list):
        for child in value:
            yield from _texts(child, name)


class _DuplicateKey(Exception):
    """Error: a key, in its shown form, occurs twice in one object."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object from its pairs, if no key occurs twice."""
    merged = dict(pairs)
    if len(merged) != len(pairs):
        seen: set[str] = set()
        raise _DuplicateKey(quote_value(next(key for key, _ in pairs if key in seen or seen.add(key))))  # type: ignore[func-returns-value]
    return merged


def _finite(name: str) -> Any:
    """Reject NaN and infinities, which Python's reader accepts."""
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_finite)


def _parse(text: str, path: Path, record: str) -> Any:
    try:
        return _DECODER.decode(text)
    except _DuplicateKey as key:
        raise broken(path, f"{key} is twice in one object", record) from None
    except json.JSONDecodeError as error:
        where = record or f"line {error.lineno}, column {error.colno}"
        is_cut_off = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        message = "the file is cut off in the middle" if is_cut_off else f"this is not JSON ({error.msg.lower()})"
        if record:
            message = message.replace("the file", "the line")
        raise broken(path, message, where) from None
    except RecursionError:
        raise broken(path, "the JSON is nested too deeply", record) from None
    except ValueError as error:
        raise broken(path, f"this is not JSON ({str(error)[:_MAX_SHOWN]})", record) from None


_IGNORED_PREFIX = r"[ \u00a0'\"\u200b-\u200f\u2060\ufeff]*"
_FORMULA = re.compile(rf"(^|[;\t])(?={_IGNORED_PREFIX}[=+\-@\t\r\n＝＋－＠])")
_GUARDED = re.compile(rf"(^|[;\t])'(?={_IGNORED_PREFIX}[=+\-@\t\r\n＝＋－＠])")


def guarded(cell: str) -> str:
    """Protect a cell from being interpreted as a formula by a spreadsheet."""
    return _FORMULA.sub(r"\1'", cell)


def unguarded(cell: str) -> str:
    """Return the cell as it was before :func:`guarded`."""
    return _GUARDED.sub(r"\1", cell)


def as_csv(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """Return a whole CSV file. Every cell is guarded and safe to show."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows([guarded(safe(cell)) for cell in row] for row in rows)
    return b"\xef\xbb\xbf" + text.getvalue().encode()


def read_sheet(path: Path, needs: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Read rows from a spreadsheet file, each with its location. Blank rows are skipped.

    Commas, semicolons or tabs separate, because spreadsheets of different countries write different ones.

    Raises:
        UserError: a broken file, a missing column of `needs`, a duplicate column, or a row whose length differs from
            that of the heading.
    """
    csv.field_size_limit(100 * LONGEST_TEXT)
    text = read_text(path)
    heading = text.partition("\n")[0]
    delimiter = max((",", ";", "\t"), key=heading.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[tuple[str, dict[str, str]]] = []
    try:
        columns = list(reader.fieldnames or ())
        names = [name.strip() for name in columns]
        twice = next((name for name in names if name and names.count(name) > 1), None)
        if twice is not None:
            raise broken(path, f"two columns have the name {quote_value(twice)}", "line 1")
        for column_name in needs:
            if column_name not in columns:
                existing = ", ".join(quote_value(name) for name in columns[:20])
                raise broken(
                    path,
                    f"there is no column {quote_value(column_name)}.{nearest(column_name, columns)} It has {existing}",
                    "line 1",
                )
        for row in reader:
            location = f"line {reader.line_num}"
            if not any(cell.strip() for cell in row.values() if isinstance(cell, str)):
                continue
            if None in row or None in row.values():
                raise broken(path, "it and the heading have different numbers of fields", location)
            rows.append((location, {column: unguarded(cell) for column, cell in row.items()}))
    except csv.Error as error:
        raise broken(path, f"this is not CSV ({error})", f"line {reader.line_num}") from None
    return rows
