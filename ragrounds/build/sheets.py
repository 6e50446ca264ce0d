"""Sheets for experts: CSV that a spreadsheet opens without running anything in it, and that is read back.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end is a formula to spreadsheets (OWASP, CSV
injection): it gets an apostrophe before it, which reading takes off again. Sheets begin with a byte order mark, without
which spreadsheets take UTF-8 for something else.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ragrounds.errors import UserError, nearest
from ragrounds.evals.benchmarks.reading import LONGEST_TEXT, broken, read_text, shown

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def guarded(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA) else cell


def unguarded(cell: str) -> str:
    """The cell as it was before :func:`guarded`."""
    return cell[1:] if cell.startswith("'") and cell[1:].lstrip(" ").startswith(_FORMULA) else cell


def sheet_lines(columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> list[bytes]:
    """The sheet, as :func:`ragrounds.build.writing.write_built` takes files; a column that a row does not have is
    empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([guarded(column) for column in columns])
    for row in rows:
        writer.writerow([guarded(row.get(column, "")) for column in columns])
    return [b"\xef\xbb\xbf", text.getvalue().encode()]


def write_sheet(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    """Write the sheet to a file of its own.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        path.write_bytes(b"".join(sheet_lines(columns, rows)))
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from None


def read_sheet(path: Path, needs: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Read a sheet back: each row with its place; blank rows are passed over. Commas, semicolons or tabs separate,
    as spreadsheets of different countries write them.

    Raises:
        UserError: a broken file, a column of `needs` that is not there, a row of another length than the heading.
    """
    csv.field_size_limit(100 * LONGEST_TEXT)
    text = read_text(path)
    heading = text.partition("\n")[0]
    delimiter = max((",", ";", "\t"), key=heading.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[tuple[str, dict[str, str]]] = []
    try:
        columns = list(reader.fieldnames or ())
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
                raise broken(path, "it has another number of fields than the heading", place)
            rows.append((place, {column: unguarded(cell) for column, cell in row.items()}))
    except csv.Error as error:
        raise broken(path, f"this is not CSV ({error})", f"line {reader.line_num}") from None
    return rows
