"""Experts' ratings, read back from the sheet that a pipeline wrote."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec import Struct

from ragrounds.build.sheets import read_sheet
from ragrounds.errors import nearest
from ragrounds.evals.benchmarks.reading import broken, shown

ID = "id"
_RATER = re.compile(r"rating(?:[ _-]?\w+)?", re.IGNORECASE)
"""Columns that are a rater's: ``rating``, ``rating_1``, ``rating anna``."""


class Ratings(Struct, frozen=True, kw_only=True):
    """What experts said."""

    raters: tuple[str, ...]
    items: dict[str, tuple[str | None, ...]]
    """Item → rating of each rater, as it is written; ``None``: an empty cell."""


def rating_columns(raters: int) -> tuple[str, ...]:
    """Names of the columns for so many raters."""
    return ("rating",) if raters == 1 else tuple(f"rating_{number}" for number in range(1, raters + 1))


def read_ratings(path: Path, items: Collection[str], allowed: Sequence[str]) -> Ratings:
    """Read a sheet back: every column named like a rating is a rater's.

    Raises:
        UserError: a broken file, no column of ratings, an item that is not known or stands twice, a rating that is not
            among `allowed`.
    """
    rows = read_sheet(path, (ID,))
    raters = tuple(name for name in (rows[0][1] if rows else {}) if _RATER.fullmatch(name.strip()))
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
    if said not in allowed:
        raise broken(path, f"the rating {shown(said)} is none of {', '.join(allowed)}", place)
    return said
