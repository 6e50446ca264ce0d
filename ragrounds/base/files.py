"""Files of other people, read strictly: text, JSON, JSON Lines, and tables that spreadsheets open.

A file can be cut off, wrongly encoded, or edited by hand. Every reader here either gives typed values or raises one
:class:`~ragrounds.base.errors.UserError` line that names the file, the record and the fault. Text out of a file is
shown escaped and shortened, never as it is.

Tables for people are CSV that a spreadsheet opens without running anything in it, and that is read back. A cell that
begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end is a formula to spreadsheets (OWASP, CSV injection), also
behind blanks, quotes or invisible characters, and behind a semicolon or a tab where a program parts cells there. It
gets an apostrophe before it, which reading takes off again. Control and invisible characters, which a terminal carries
out and nobody sees, are written out (:func:`ragrounds.base.text.safe`). Files begin with a byte order mark, without
which spreadsheets take UTF-8 for something else.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ragrounds.base.contracts import EventCollector
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.text import safe

T = TypeVar("T")

LONGEST_TEXT = 200_000
"""Characters of one text field; several times the longest case report of any benchmark here."""
_LARGEST = 1 << 30
"""Bytes of an unpacked file that are taken into memory."""
_LONGEST_SHOWN = 60
READ = EventCollector[Path]("ragrounds_read")
"""The files that are read."""


def make_home(home: Path) -> None:
    """Make the folder that things are kept in, for its owner alone: it holds prompts, replies, perhaps patients' texts.
    One that is there already stays as it is.

    Raises:
        UserError: it cannot be made.
    """
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        home.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot make the folder {home}: {error.strerror}. Set RAGROUNDS_HOME to another.") from error


def shown(text: object) -> str:
    """A value out of a file, quoted, escaped and shortened for a message."""
    quoted = ascii(str(text)) if not str(text).isprintable() else repr(str(text))
    return quoted if len(quoted) <= _LONGEST_SHOWN else quoted[:_LONGEST_SHOWN] + "…'"


def broken(path: Path, what: str, record: str = "") -> UserError:
    """The error for a file that cannot be read: `record` is where, `what` is the fault (no full stop)."""
    where = f"{record}: " if record else ""
    name = str(path) if str(path).isprintable() else ascii(str(path))
    return UserError(f"Cannot read {name}: {where}{what}{'' if what.endswith('?') else '.'}")


def read_bytes(path: Path) -> bytes:
    """The whole file, unpacked where its name ends in ``.gz``.

    Raises:
        UserError: no such file, not a file, not readable, empty, or a damaged archive.
    """
    try:
        if path.is_dir():
            raise broken(path, "it is a folder; expected a file")
        data = path.read_bytes()
        if path.suffix == ".gz":
            with gzip.open(io.BytesIO(data)) as packed:
                data = packed.read(_LARGEST + 1)
            if len(data) > _LARGEST:
                raise broken(path, f"it unpacks to more than {_LARGEST >> 30} GiB")
    except FileNotFoundError:
        raise broken(path, "there is no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise broken(path, f"the archive is damaged or cut off ({error})") from None
    except OSError as error:
        raise broken(path, error.strerror or "it cannot be opened") from None
    except ValueError:  # a path with a null character
        raise broken(path, "this is not a path") from None
    if not data.strip():
        raise broken(path, "the file is empty")
    READ.report(path)
    return data


def read_text(path: Path) -> str:
    """The whole file as UTF-8 text, without a byte order mark.

    Raises:
        UserError: as :func:`read_bytes`, or not UTF-8.
    """
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise broken(
            path, f"byte {error.start:,} is not UTF-8; save the file as UTF-8 and try again", f"line {line}"
        ) from None


def read_json(path: Path) -> Any:
    """The value of a JSON file; an object with the same key twice is an error.

    Raises:
        UserError: as :func:`read_text`, or not JSON.
    """
    return _parse(read_text(path), path, "")


def read_jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    """The values of a JSON Lines file, each with its place (``line 3``); blank lines are skipped.

    Raises:
        UserError: as :func:`read_text`, or a line that is not JSON.
    """
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield f"line {number}", _parse(line, path, f"line {number}")


def convert(value: object, kind: type[T], path: Path, record: str) -> T:
    """The value as a record of `kind`.

    Raises:
        UserError: a field is missing, has another type, is too long, or holds half a character.
    """
    made = shape(value, kind, path, record)
    # What can be written, and is no longer in all than one text may be, holds no text that could not be taken.
    with contextlib.suppress(UnicodeEncodeError, RecursionError):
        if len(msgspec.json.encode(value)) <= LONGEST_TEXT:
            return made
    try:
        found = list(_texts(value))
    except RecursionError:
        raise broken(path, "the JSON is nested too deeply", record) from None
    for name, text in found:
        if len(text) > LONGEST_TEXT:
            what = f"{name} is {len(text):,} characters long, and at most {LONGEST_TEXT:,} are allowed"
            raise broken(path, what, record)
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise broken(path, f"{name} holds half a surrogate pair, which is not text", record) from None
    return made


def shape(value: object, kind: type[T], path: Path, record: str = "") -> T:
    """As :func:`convert`, without a look at the texts inside: for the outer form of a file.

    Raises:
        UserError: a field is missing or has another type.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise broken(path, _plain(str(error)), record) from None


def _texts(value: object, name: str = "the record") -> Iterator[tuple[str, str]]:
    """Every string of a JSON value with the nearest key above it; keys are strings too."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, below in value.items():
            yield "a field's name", key
            yield from _texts(below, f"the field {shown(key)}")
    elif isinstance(value, list):
        for below in value:
            yield from _texts(below, name)


class _Twice(Exception):
    """A key, as it is shown, that stands twice in one object."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys stand in it once."""
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        raise _Twice(shown(next(key for key, _ in pairs if key in seen or seen.add(key))))  # type: ignore[func-returns-value]
    return made


def _finite(name: str) -> Any:
    """Refuse NaN and infinities, which Python's reader lets pass."""
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_finite)


def _parse(text: str, path: Path, record: str) -> Any:
    try:
        return _DECODER.decode(text)
    except _Twice as key:
        raise broken(path, f"{key} is twice in one object", record) from None
    except json.JSONDecodeError as error:
        where = record or f"line {error.lineno}, column {error.colno}"
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        what = "the file is cut off in the middle" if cut else f"this is not JSON ({error.msg.lower()})"
        if record:
            what = what.replace("the file", "the line")
        raise broken(path, what, where) from None
    except RecursionError:
        raise broken(path, "the JSON is nested too deeply", record) from None
    except ValueError as error:
        raise broken(path, f"this is not JSON ({str(error)[:_LONGEST_SHOWN]})", record) from None


def _plain(message: str) -> str:
    """A message of msgspec in the words of these errors."""
    text, _, place = message.partition(" - at ")
    text = text.replace("Object missing required field", "it has no field").replace("Expected", "expected")
    place = place.strip("`").removeprefix("$.").removeprefix("$")
    said = f"{text} at {place}" if place else text
    return said if said.isprintable() else ascii(said)  # an enum's error repeats the value


_BEFORE = r"[ \u00a0'\"\u200b-\u200f\u2060\ufeff]*"
_FORMULA = re.compile(rf"(^|[;\t])(?={_BEFORE}[=+\-@\t\r\n＝＋－＠])")
_GUARDED = re.compile(rf"(^|[;\t])'(?={_BEFORE}[=+\-@\t\r\n＝＋－＠])")


def guarded(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return _FORMULA.sub(r"\1'", cell)


def unguarded(cell: str) -> str:
    """The cell as it was before :func:`guarded`."""
    return _GUARDED.sub(r"\1", cell)


def as_csv(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """A whole file; every cell is guarded and safe to show."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows([guarded(safe(cell)) for cell in row] for row in rows)
    return b"\xef\xbb\xbf" + text.getvalue().encode()


def read_sheet(path: Path, needs: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Read a sheet back: each row with its place; blank rows are passed over. Commas, semicolons or tabs separate,
    as spreadsheets of different countries write them.

    Raises:
        UserError: a broken file, a column of `needs` that is not there or any that stands twice, a row of another
            length than the heading.
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
            raise broken(path, f"two columns have the name {shown(twice)}", "line 1")
        for wanted in needs:
            if wanted not in columns:
                has = ", ".join(shown(name) for name in columns[:20])
                raise broken(
                    path, f"there is no column {shown(wanted)}.{nearest(wanted, columns)} It has {has}", "line 1"
                )
        for row in reader:
            place = f"line {reader.line_num}"
            if not any(cell.strip() for cell in row.values() if isinstance(cell, str)):
                continue
            if None in row or None in row.values():
                raise broken(path, "it and the heading have different numbers of fields", place)
            rows.append((place, {column: unguarded(cell) for column, cell in row.items()}))
    except csv.Error as error:
        raise broken(path, f"this is not CSV ({error})", f"line {reader.line_num}") from None
    return rows
