"""Sheets for experts: an item a row, an empty column a rater, read back when they are filled in.

Rows are known by their id, so the others may be sorted and edited freely.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from ragrounds.errors import nearest
from ragrounds.files import as_csv, broken, read_sheet, shown
from ragrounds.text import safe

ID = "id"
RATER = re.compile(r"rating(?:[ _-]?\w+)?", re.IGNORECASE)
"""Columns that are a rater's: ``rating``, ``rating_1``, ``rating anna``."""


class Ratings(Struct, frozen=True, kw_only=True):
    """What experts said."""

    raters: tuple[str, ...]
    items: dict[str, tuple[str | None, ...]]
    """Item → rating of each rater, as it is written; ``None``: an empty cell."""


def sheet_lines(
    columns: Sequence[str], rows: Mapping[str, Sequence[str]], raters: int = 1, more: Sequence[str] = ("comment",)
) -> list[bytes]:
    """The sheet as :func:`ragrounds.build.writing.write_built` takes files: `columns` with the cells of `rows` (by
    item), an empty column a rater, and `more` empty ones."""
    ratings = ["rating"] if raters == 1 else [f"rating_{number}" for number in range(1, raters + 1)]
    empty = [""] * (len(ratings) + len(more))
    heading = [ID, *columns, *ratings, *more]
    return [as_csv(heading, ([item, *cells, *empty] for item, cells in rows.items()))]


def free_name(folder: Path, stem: str, lines: Sequence[bytes]) -> str:
    """A name in `folder` under which no other sheet stands: what experts have written is never overwritten."""
    wanted = b"".join(lines)
    names = (f"{stem}{'' if number == 1 else f'-{number}'}.csv" for number in count(1))
    return next(name for name in names if not (folder / name).exists() or (folder / name).read_bytes() == wanted)


def read_ratings(
    path: Path,
    items: Collection[str],
    allowed: Sequence[str],
    spellings: Mapping[str, str] = MappingProxyType({}),
) -> Ratings:
    """Read a sheet back: every column named like a rating is a rater's. `spellings` are other ways to write an allowed
    rating, in lower case.

    Raises:
        UserError: a broken file, no column of ratings, an item that is not known or stands twice, a rating that is not
            among `allowed`.
    """
    rows = read_sheet(path, (ID,))
    raters = tuple(name for name in (rows[0][1] if rows else {}) if RATER.fullmatch(name.strip()))
    if not raters:
        raise broken(path, "expected rows with one or more columns 'rating', 'rating_1', …", "line 1")
    found: dict[str, tuple[str | None, ...]] = {}
    words = {rating.casefold(): rating for rating in allowed} | dict(spellings)
    written = {safe(item).strip(): item for item in items}
    for place, row in rows:
        given = row[ID].strip()
        item = written.get(given, "")
        if given not in written:
            what = f"there is no item {shown(given)} among those to be rated.{nearest(given, written)}"
            raise broken(path, what.removesuffix("."), place)
        if item in found:
            raise broken(path, f"the item {shown(item)} stands twice", place)
        found[item] = tuple(_rating(row[rater], words, allowed, path, place) for rater in raters)
    return Ratings(raters=raters, items=found)


def _rating(cell: str, words: Mapping[str, str], allowed: Sequence[str], path: Path, place: str) -> str | None:
    said = cell.strip().removesuffix(".0").removesuffix(",0")  # as some spreadsheets write whole numbers
    if not said:
        return None
    meant = words.get(said.casefold())
    if meant is None:
        raise broken(path, f"the rating {shown(said)} is none of {', '.join(allowed)}", place)
    return meant
