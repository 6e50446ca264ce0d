"""Any sheet of labels by several raters, and how far these agree: Fleiss' kappa and what belongs to it.

A sheet is wide (a row an item, a column a rater) or long (a row a label: item, rater, label), as CSV or JSON Lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from msgspec import Struct

from ragrounds.errors import UserError, nearest
from ragrounds.evals.judges.labels import ITEM, MARKS, TEXTS, answer_of
from ragrounds.evals.stats import (
    cohen_kappa,
    constant_raters,
    fleiss_interval,
    fleiss_with_missing,
    krippendorff_alpha,
)
from ragrounds.files import broken, read_sheet, shown
from ragrounds.tools.jsonlines import read_rows

RATER, LABEL = "rater", "label"
"""Columns of a long sheet, beside the item."""
_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst")
Rows = Sequence[tuple[str, Mapping[str, str]]]
"""The rows of a sheet, each with its place in the file."""
LabelsByItem = dict[str, tuple[str | None, ...]]


class RatedItem(Struct, frozen=True):
    """The labels of one item, in the raters' order; ``None``: none was given."""

    item: str
    labels: tuple[str | None, ...]
    cluster: str
    """Items of one cluster are not independent."""


class RatedSheet(Struct, frozen=True, kw_only=True):
    """A sheet of labels."""

    raters: tuple[str, ...]
    items: tuple[RatedItem, ...]


class RaterPair(Struct, frozen=True, kw_only=True):
    """Two raters, on the items that both labelled."""

    one: str
    other: str
    items: int
    same: float
    """Share of equal labels."""
    kappa: float | None
    """Cohen's; ``None``: one of them gave a single label throughout."""


class RaterAgreement(Struct, frozen=True, kw_only=True):
    """How far raters agree among themselves."""

    items: int
    """With two labels or more: the others say nothing."""
    left_out: int
    """With fewer labels."""
    raters: tuple[str, ...]
    labels: dict[str, int]
    """Label → how often it was given, the most frequent first."""
    missing: int
    """Labels that were not given, of these items."""
    kappa: float | None
    """Fleiss' kappa; where labels are missing each item counts by those that it has (Gwet)."""
    low: float | None
    """95 % interval by a bootstrap over clusters of items; ``None``: too few for one."""
    high: float | None
    clusters: int
    whole: int
    """Items that every rater labelled."""
    kappa_whole: float | None
    """Fleiss' kappa of these alone."""
    alpha: float | None
    """Krippendorff's, nominal."""
    pairs: tuple[RaterPair, ...]
    constant: dict[str, str]
    """Raters who gave one label to everything → that label."""


def read_ratings(path: Path, *, item: str = "", raters: Sequence[str] = (), cluster: str = "") -> RatedSheet:
    """Read a sheet. Labels are taken without case and outer spaces.

    Args:
        path: CSV, or JSON Lines by its ending.
        item: the column of items; empty: ``item`` where there is such a column, else every row is an item.
        raters: columns of labels; none: of a sheet with columns ``rater`` and ``label`` (long form) those, else all but
            the item's, the cluster's and the texts of `ragrounds judge sheet`.
        cluster: the column whose equal values are not independent; empty: items ``ID#1``, ``ID#2`` … of one ID.

    Raises:
        UserError: a broken file, a column that is not there, an item or a label that stands twice, one rater alone.
    """
    rows = _rows(path)
    columns = list(dict.fromkeys(name for _, row in rows for name in row))
    for wanted in (*([item] if item else []), *raters, *([cluster] if cluster else [])):
        if wanted not in columns:
            has = ", ".join(shown(name) for name in columns[:20])
            raise broken(path, f"there is no column {shown(wanted)}.{nearest(wanted, columns)} It has {has}", "line 1")
    key = item or (ITEM if ITEM in columns else "")
    if raters or not {RATER, LABEL} <= set(columns):
        names, labels = _wide(path, rows, key, _raters(columns, key, raters, cluster))
    elif key:
        names, labels = _long(path, rows, key)
    else:
        raise broken(path, "its rows hold one label each, and no column says of which item: name it with --item")
    if len(names) < 2:
        raise broken(path, f"agreement is of two raters or more, and it has {shown(names[0]) if names else 'none'}")
    groups = {_item(place, row, key): row.get(cluster, "") for place, row in rows} if cluster else {}
    found = (RatedItem(one, each, groups.get(one) or answer_of(one)) for one, each in labels.items())
    return RatedSheet(raters=tuple(names), items=tuple(one for one in found if any(one.labels)))


def _rows(path: Path) -> Rows:
    if not path.name.endswith(_LINES):
        return read_sheet(path, ())
    expected = 'an object with an item and labels, such as {"item": "q1", "anna": "yes", "ben": null}'
    read = read_rows(path, dict[str, str | int | float | bool | None], expected)
    return [
        (f"line {number}", {name: "" if value is None else str(value) for name, value in row.items()})
        for number, row in read
    ]


def _raters(columns: Sequence[str], key: str, raters: Sequence[str], cluster: str) -> list[str]:
    apart = {key, cluster, *TEXTS, *MARKS}
    return list(raters) or [name for name in columns if name.strip() and name not in apart]


def _item(place: str, row: Mapping[str, str], key: str) -> str:
    return row.get(key, "").strip() if key else place


def _wide(path: Path, rows: Rows, key: str, raters: list[str]) -> tuple[list[str], LabelsByItem]:
    labels: LabelsByItem = {}
    for place, row in rows:
        name = _item(place, row, key)
        if name in labels:
            raise broken(path, f"the item {shown(name)} stands twice", place)
        labels[name] = tuple(row.get(rater, "").strip().casefold() or None for rater in raters)
    return raters, labels


def _long(path: Path, rows: Rows, key: str) -> tuple[list[str], LabelsByItem]:
    given: dict[str, dict[str, str]] = {}
    names: dict[str, None] = {}
    for place, row in rows:
        name, rater = _item(place, row, key), row.get(RATER, "").strip()
        if not rater:
            raise broken(path, "a label has no rater", place)
        if rater in given.setdefault(name, {}):
            raise broken(path, f"{shown(rater)} labels the item {shown(name)} twice", place)
        given[name][rater] = row.get(LABEL, "").strip().casefold()
        names[rater] = None
    return list(names), {name: tuple(said.get(rater) or None for rater in names) for name, said in given.items()}


def rater_agreement(sheet: RatedSheet, *, seed: int = 0) -> RaterAgreement:
    """How far the raters of a sheet agree.

    Raises:
        UserError: no item has two labels.
    """
    rated = [one for one in sheet.items if sum(label is not None for label in one.labels) > 1]
    if not rated:
        raise UserError("No item has labels of two raters: there is no agreement to tell.")
    ratings = [one.labels for one in rated]
    whole = [labels for labels in ratings if None not in labels]
    interval = fleiss_interval(ratings, [one.cluster for one in rated], seed=seed)
    return RaterAgreement(
        items=len(rated),
        left_out=len(sheet.items) - len(rated),
        raters=sheet.raters,
        labels=dict(Counter(label for labels in ratings for label in labels if label is not None).most_common()),
        missing=sum(labels.count(None) for labels in ratings),
        kappa=fleiss_with_missing(ratings),
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        clusters=len({one.cluster for one in rated}),
        whole=len(whole),
        kappa_whole=fleiss_with_missing(whole) if whole else None,
        alpha=krippendorff_alpha(ratings),
        pairs=tuple(_pairs(sheet.raters, ratings)),
        constant={sheet.raters[place]: label for place, label in constant_raters(ratings).items()},
    )


def _pairs(raters: Sequence[str], ratings: Sequence[tuple[str | None, ...]]) -> Iterator[RaterPair]:
    for one, other in combinations(range(len(raters)), 2):
        both = [(first, second) for each in ratings if (first := each[one]) and (second := each[other])]
        if both:
            left, right = zip(*both, strict=True)
            yield RaterPair(
                one=raters[one],
                other=raters[other],
                items=len(both),
                same=sum(first == second for first, second in both) / len(both),
                kappa=None if constant_raters(both) else cohen_kappa(left, right),
            )
