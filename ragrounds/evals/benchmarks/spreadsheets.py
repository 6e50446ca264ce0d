"""Tables for people: CSV that a spreadsheet opens without running anything in it, and that is read back.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end is a formula to spreadsheets (OWASP, CSV
injection), also behind blanks, quotes or invisible characters, and behind a semicolon or a tab where a program parts
cells there. It gets an apostrophe before it, which reading takes off again. Control and invisible characters, which
a terminal carries out and nobody sees, are written out (:func:`ragrounds.text.safe`). Files begin with a byte order
mark, without which spreadsheets take UTF-8 for something else.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ragrounds.errors import nearest
from ragrounds.evals.benchmarks.reading import LONGEST_TEXT, broken, read_text, shown
from ragrounds.text import safe

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
            raise broken(path, f"the column {shown(twice)} stands twice; each needs a name of its own", "line 1")
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
