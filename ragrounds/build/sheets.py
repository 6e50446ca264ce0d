"""Sheets for experts: CSV that a spreadsheet opens without running anything in it, and that is read back.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end is a formula to spreadsheets (OWASP, CSV
injection), also behind blanks, quotes or invisible characters, and behind a semicolon or a tab where a program parts
cells there. It gets an apostrophe before it, which reading takes off again. Rows are known by their id, so the others
may be sorted and edited freely. Sheets begin with a byte order mark, without which spreadsheets take UTF-8 for
something else.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ragrounds.errors import nearest
from ragrounds.evals.benchmarks.reading import LONGEST_TEXT, broken, read_text, shown

ID = "id"
RATER = re.compile(r"rating(?:[ _-]?\w+)?", re.IGNORECASE)
"""Columns that are a rater's: ``rating``, ``rating_1``, ``rating anna``."""
_BEFORE = r"[ \u00a0'\"\u200b-\u200f\u2060\ufeff]*"
_FORMULA = re.compile(rf"(^|[;\t])(?={_BEFORE}[=+\-@\t\r\n＝＋－＠])")
_GUARDED = re.compile(rf"(^|[;\t])'(?={_BEFORE}[=+\-@\t\r\n＝＋－＠])")


class Ratings(Struct, frozen=True, kw_only=True):
    """What experts said."""

    raters: tuple[str, ...]
    items: dict[str, tuple[str | None, ...]]
    """Item → rating of each rater, as it is written; ``None``: an empty cell."""


def guarded(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return _FORMULA.sub(r"\1'", cell)


def unguarded(cell: str) -> str:
    """The cell as it was before :func:`guarded`."""
    return _GUARDED.sub(r"\1", cell)


def sheet_lines(
    columns: Sequence[str], rows: Mapping[str, Sequence[str]], raters: int = 1, more: Sequence[str] = ("comment",)
) -> list[bytes]:
    """The sheet as :func:`ragrounds.build.writing.write_built` takes files: `columns` with the cells of `rows` (by
    item), an empty column a rater, and `more` empty ones."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    ratings = ["rating"] if raters == 1 else [f"rating_{number}" for number in range(1, raters + 1)]
    writer.writerow([ID, *columns, *ratings, *more])
    for item, cells in rows.items():
        writer.writerow([*map(guarded, (item, *cells)), *[""] * (len(ratings) + len(more))])
    return [b"\xef\xbb\xbf", text.getvalue().encode()]


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


def read_ratings(path: Path, items: Collection[str], allowed: Sequence[str]) -> Ratings:
    """Read a sheet back: every column named like a rating is a rater's.

    Raises:
        UserError: a broken file, no column of ratings, an item that is not known or stands twice, a rating that is not
            among `allowed`.
    """
    rows = read_sheet(path, (ID,))
    raters = tuple(name for name in (rows[0][1] if rows else {}) if RATER.fullmatch(name.strip()))
    if not raters:
        raise broken(path, "expected rows with one or more columns 'rating', 'rating_1', …", "line 1")
    found: dict[str, tuple[str | None, ...]] = {}
    for place, row in rows:
        item = row[ID].strip()
        if item not in items:
            what = f"there is no item {shown(item)} among those to be rated.{nearest(item, items)}"
            raise broken(path, what.removesuffix("."), place)
        if item in found:
            raise broken(path, f"the item {shown(item)} stands twice", place)
        found[item] = tuple(_rating(row[rater], allowed, path, place) for rater in raters)
    return Ratings(raters=raters, items=found)


def _rating(cell: str, allowed: Sequence[str], path: Path, place: str) -> str | None:
    said = cell.strip().removesuffix(".0").removesuffix(",0")  # as some spreadsheets write whole numbers
    if not said:
        return None
    meant = next((rating for rating in allowed if rating.casefold() == said.casefold()), None)
    if meant is None:
        raise broken(path, f"the rating {shown(said)} is none of {', '.join(allowed)}", place)
    return meant
