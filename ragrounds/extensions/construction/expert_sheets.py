"""Sheets for experts: an item a row, an empty column a rater, read back when they are filled in.

Rows are known by their id, so that they may be sorted and edited freely, and each holds a digest of its texts: what was
said of a text that is another now does not count.

A benchmark of retrieval has a sheet with a sample of its final labels (CMedTEB, Section 3.2: 5,000 pairs, 93.3 %
agreement). It is blind: it shows a query and a passage, never what the models answered. Read back, the experts'
decisions are compared with the labels.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.files import as_csv, broken, read_sheet, shown
from ragrounds.base.text import safe
from ragrounds.evals.judges.labels import HumanLabels, LabelAgreement, agreement

ID = "id"
DIGEST = "digest"
RATER = re.compile(r"rating(?:[ _-]?\w+)?", re.IGNORECASE)
"""Columns that are a rater's: ``rating``, ``rating_1``, ``rating anna``."""


class SheetRatings(Struct, frozen=True, kw_only=True):
    """What experts said."""

    raters: tuple[str, ...]
    items: dict[str, tuple[str | None, ...]]
    """Item → rating of each rater, as it is written; ``None``: an empty cell."""
    changed: tuple[str, ...] = ()
    """Items whose texts are others than in the sheet; they are not among `items`."""


def sheet_lines(
    columns: Sequence[str], rows: Mapping[str, Sequence[str]], raters: int = 1, more: Sequence[str] = ("comment",)
) -> list[bytes]:
    """The sheet as :func:`ragrounds.extensions.construction.files.write_built` takes files: `columns` with the cells of
    `rows` (by item), an empty column a rater, and `more` empty ones."""
    ratings = ["rating"] if raters == 1 else [f"rating_{number}" for number in range(1, raters + 1)]
    empty = [""] * (len(ratings) + len(more))
    heading = [ID, *columns, *ratings, *more, DIGEST]
    return [as_csv(heading, ([item, *cells, *empty, _digest(cells)] for item, cells in rows.items()))]


def _digest(cells: Iterable[str]) -> str:
    """Sixteen hexadecimal digits of a row's texts."""
    return hashlib.sha256(msgspec.msgpack.encode(list(cells))).hexdigest()[:16]


def sheet_files(folder: Path, lines: list[bytes], instructions: bytes) -> dict[str, list[bytes]]:
    """The sheet, under a name in `folder` under which no other one stands, and what it asks: what experts have written
    is never overwritten."""
    wanted = b"".join(lines)
    names = (f"sheet{'' if number == 1 else f'-{number}'}.csv" for number in count(1))
    name = next(name for name in names if not (folder / name).exists() or (folder / name).read_bytes() == wanted)
    return {name: lines, "instructions.md": [instructions]}


def read_ratings(
    path: Path,
    items: Collection[str],
    allowed: Sequence[str],
    spellings: Mapping[str, str] = MappingProxyType({}),
    texts: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> SheetRatings:
    """Read a sheet back: every column named like a rating is a rater's.

    Args:
        path: the sheet.
        items: those that may be in it.
        allowed: ratings.
        spellings: other ways to write an allowed rating, in lower case.
        texts: item → column → its text as it is now. Ratings of other texts are left out.

    Raises:
        UserError: a broken file, no column of ratings, an item that is not known or stands twice, a rating that is not
            among `allowed`.
    """
    rows = read_sheet(path, (ID,))
    raters = tuple(name for name in (rows[0][1] if rows else {}) if RATER.fullmatch(name.strip()))
    if not raters:
        raise broken(path, "expected rows with one or more columns 'rating', 'rating_1', …", "line 1")
    found: dict[str, tuple[str | None, ...]] = {}
    changed: list[str] = []
    words = {rating.casefold(): rating for rating in allowed} | dict(spellings)
    written = {safe(item).strip(): item for item in items}
    for place, row in rows:
        given = row[ID].strip()
        item = written.get(given, "")
        if given not in written:
            what = f"there is no item {shown(given)} among those to be rated.{nearest(given, written)}"
            raise broken(path, what.removesuffix("."), place)
        if item in found:
            raise broken(path, f"the item {shown(item)} is in it twice", place)
        found[item] = tuple(_rating(row[rater], words, allowed, path, place) for rater in raters)
        if item in texts:
            if not row.get(DIGEST, "").strip():
                raise broken(path, f"it is unknown what was rated: {shown(item)} has nothing under {DIGEST!r}", place)
            if row[DIGEST].strip() != _digest(texts[item].values()):
                changed.append(item)
    left = {item: ratings for item, ratings in found.items() if item not in changed}
    return SheetRatings(raters=raters, items=left, changed=tuple(changed))


def _rating(cell: str, words: Mapping[str, str], allowed: Sequence[str], path: Path, place: str) -> str | None:
    said = cell.strip().removesuffix(".0").removesuffix(",0")  # as some spreadsheets write whole numbers
    if not said:
        return None
    meant = words.get(said.casefold())
    if meant is None:
        raise broken(path, f"the rating {shown(said)} is not one of {', '.join(allowed)}", place)
    return meant


PAIR = ("query", "passage")
"""Columns of a sheet of pairs."""
DECISIONS = ("yes", "no")
"""Whether the passage is relevant to the query."""
SPELLINGS = dict.fromkeys(("y", "1", "true"), "yes") | dict.fromkeys(("n", "0", "false"), "no")
"""As people and spreadsheets also write it, in any case."""
INSTRUCTIONS = b"""# Judging the passages

Each row of the sheet is a query and a passage. Write into your rating column:

- yes: somebody who asks the query is helped by the passage itself: it answers the query, or holds what the answer rests
  on;
- no: it does not, however close its subject is.

y and n, 1 and 0, true and false say the same.

Leave the cell empty where you cannot judge. Comments are for the authors; they change nothing.
"""


class ExpertReview(Struct, frozen=True, kw_only=True):
    """What is asked of experts."""

    out: Path
    """The benchmark's folder, where earlier sheets may stand."""
    sample: int = 100
    """Pairs in the sheet, drawn by the seed; 0: no sheet."""
    experts: int = 1
    sheet: Path | None = None
    """A sheet that was filled in, to be read back."""


class FinalLabel(Struct, frozen=True, kw_only=True):
    """A final label of a pair."""

    query: str
    document: str
    relevant: bool

    @property
    def item(self) -> str:
        """The pair's id in the sheet, a hash that does not reveal the label."""
        return hashlib.sha256(f"{self.query}\n{self.document}".encode()).hexdigest()[:12]


def sample_labels(labels: Iterable[FinalLabel], most: int, seed: int) -> tuple[FinalLabel, ...]:
    """`most` of the labels, each with the same chance, in an order that the seed gives."""
    return tuple(sorted(labels, key=lambda label: hashlib.sha256(f"{seed}\n{label.item}".encode()).digest())[:most])


def sample_lines(
    labels: Sequence[FinalLabel], queries: Mapping[str, str], passages: Mapping[str, str], experts: int = 1
) -> list[bytes]:
    """The sheet of a sample; `queries` and `passages` are texts by id."""
    rows = {label.item: (queries[label.query], passages[label.document]) for label in labels}
    return sheet_lines(PAIR, rows, experts)


def reviewed(
    expert: ExpertReview,
    labels: Sequence[FinalLabel],
    queries: Mapping[str, str],
    texts: Callable[[Collection[str]], Mapping[str, str]],
    seed: int,
) -> tuple[dict[str, list[bytes]], LabelAgreement | None]:
    """The files of a sheet with a sample of the labels, or how far the experts agree where their sheet is read back,
    which is then left as it is. `queries` are texts by id; `texts` gives those of documents.

    Raises:
        UserError: a sheet that cannot be read, or is not of these labels.
    """
    if expert.sheet is not None:
        return {}, expert_agreement(expert.sheet, labels, queries, texts({label.document for label in labels}))
    drawn = sample_labels(labels, expert.sample, seed)
    if not drawn:
        return {}, None
    passages = texts({label.document for label in drawn})
    return sheet_files(expert.out, sample_lines(drawn, queries, passages, expert.experts), INSTRUCTIONS), None


def agreement_note(found: LabelAgreement) -> str:
    """One line for the card."""
    share = found.judge.accuracy
    kappa = "not defined" if found.judge.kappa is None else f"{found.judge.kappa:.3f}"
    changed = f" {len(found.changed):,} of their rows have other texts, and are left out." if found.changed else ""
    return (
        f"Experts agree with {share.value:.1%} of {share.n:,} labels (95 % interval {share.low or 0:.1%} to "
        f"{1 if share.high is None else share.high:.1%}), Cohen's kappa {kappa}.{changed}"
    )


def expert_agreement(
    path: Path, labels: Iterable[FinalLabel], queries: Mapping[str, str], passages: Mapping[str, str]
) -> LabelAgreement:
    """The final labels against the decisions in a sheet that was filled in, in whole or in part. `queries` and
    `passages` are the texts of today by id: what was decided on others is left out.

    Raises:
        UserError: not the sheet of this benchmark, a decision that is neither yes nor no, or no decision at all.
    """
    known = {label.item: label for label in labels}
    said: dict[str, str | None] = {item: DECISIONS[0] if one.relevant else DECISIONS[1] for item, one in known.items()}
    texts = {
        item: dict(zip(PAIR, (queries.get(one.query, ""), passages.get(one.document, "")), strict=True))
        for item, one in known.items()
    }
    ratings = read_ratings(path, list(said), DECISIONS, SPELLINGS, texts)
    people = HumanLabels(raters=ratings.raters, items=ratings.items)
    try:
        return replace(agreement(said, people), changed=ratings.changed)
    except ValueError:
        if ratings.changed:
            raise UserError(
                f"{path}: the texts of {len(ratings.changed):,} of its rows are others now, and no other row has a "
                "decision that more than half of the experts gave."
            ) from None
        raise UserError(
            f"{path}: no item has a decision that more than half of the experts gave; write yes or no."
        ) from None
