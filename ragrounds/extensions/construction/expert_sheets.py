"""Sheets for experts: one row per item, one empty column per rater, read back when they are filled in.

Rows are identified by their id, so that they may be sorted and edited freely. Each has a digest of its texts: ratings
of a text that has changed do not count.

A benchmark of retrieval has a sheet with a sample of its final labels (CMedTEB, Section 3.2: 5,000 pairs, 93.3 %
agreement). It is blind: it shows a query and a passage, never the models' answers. Read back, the experts'
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
from ragrounds.base.files import as_csv, broken, quote_value, read_sheet
from ragrounds.base.text import safe
from ragrounds.evals.judges.labels import HumanLabels, LabelAgreement, agreement

ID = "id"
DIGEST = "digest"
RATER = re.compile(r"rating(?:[ _-]?\w+)?", re.IGNORECASE)
"""Pattern of the raters' columns: ``rating``, ``rating_1``, ``rating anna``."""


class SheetRatings(Struct, frozen=True, kw_only=True):
    """Ratings of experts."""

    raters: tuple[str, ...]
    items: dict[str, tuple[str | None, ...]]
    """Item → rating of each rater, as written; ``None`` for an empty cell."""
    changed: tuple[str, ...] = ()
    """Items whose texts differ from those in the sheet; they are not in `items`."""


def sheet_lines(columns: Sequence[str], rows: Mapping[str, Sequence[str]], raters: int = 1) -> list[bytes]:
    """Return the lines of the sheet, as :func:`ragrounds.extensions.construction.files.write_built` takes files.

    It has `columns` with the cells of `rows` (by item), an empty column per rater, and one for comments.
    """
    ratings = ["rating"] if raters == 1 else [f"rating_{number}" for number in range(1, raters + 1)]
    empty = [""] * (len(ratings) + 1)
    heading = [ID, *columns, *ratings, "comment", DIGEST]
    return [as_csv(heading, ([item_id, *cells, *empty, _digest(cells)] for item_id, cells in rows.items()))]


def _digest(cells: Iterable[str]) -> str:
    """Return a digest of a row's texts, 16 hexadecimal digits."""
    return hashlib.sha256(msgspec.msgpack.encode(list(cells))).hexdigest()[:16]


def sheet_files(folder: Path, lines: list[bytes], instructions: bytes) -> dict[str, list[bytes]]:
    """Return the sheet, under a name that is not in use in `folder`, and its instructions.

    A different sheet is never overwritten: experts may have filled it in.
    """
    content = b"".join(lines)
    names = (f"sheet{'' if number == 1 else f'-{number}'}.csv" for number in count(1))
    name = next(name for name in names if not (folder / name).exists() or (folder / name).read_bytes() == content)
    return {name: lines, "instructions.md": [instructions]}


def read_ratings(
    path: Path,
    items: Collection[str],
    allowed: Sequence[str],
    spellings: Mapping[str, str] = MappingProxyType({}),
    texts: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> SheetRatings:
    """Read a filled-in sheet. Every column named like a rating is a rater's.

    Args:
        path: the sheet.
        items: items that may be in it.
        allowed: allowed ratings.
        spellings: other ways to write an allowed rating, in lower case.
        texts: item → column → current text. Ratings of other texts are left out.

    Raises:
        UserError: a broken file, no column of ratings, an unknown or repeated item, a rating that is not
            among `allowed`.
    """
    rows = read_sheet(path, (ID,))
    raters = tuple(name for name in (rows[0][1] if rows else {}) if RATER.fullmatch(name.strip()))
    if not raters:
        raise broken(path, "expected rows with one or more columns 'rating', 'rating_1', …", "line 1")
    ratings_by_item: dict[str, tuple[str | None, ...]] = {}
    changed: list[str] = []
    words = {rating.casefold(): rating for rating in allowed} | dict(spellings)
    item_by_text = {safe(item_id).strip(): item_id for item_id in items}
    for location, row in rows:
        item_text = row[ID].strip()
        item_id = item_by_text.get(item_text, "")
        if item_text not in item_by_text:
            problem = (
                f"there is no item {quote_value(item_text)} among those to be rated.{nearest(item_text, item_by_text)}"
            )
            raise broken(path, problem.removesuffix("."), location)
        if item_id in ratings_by_item:
            raise broken(path, f"the item {quote_value(item_id)} is in it twice", location)
        ratings_by_item[item_id] = tuple(_rating(row[rater], words, allowed, path, location) for rater in raters)
        if item_id in texts:
            if not row.get(DIGEST, "").strip():
                raise broken(
                    path, f"it is unknown what was rated: {quote_value(item_id)} has nothing under {DIGEST!r}", location
                )
            if row[DIGEST].strip() != _digest(texts[item_id].values()):
                changed.append(item_id)
    unchanged = {item_id: ratings for item_id, ratings in ratings_by_item.items() if item_id not in changed}
    return SheetRatings(raters=raters, items=unchanged, changed=tuple(changed))


def _rating(cell: str, words: Mapping[str, str], allowed: Sequence[str], path: Path, location: str) -> str | None:
    text = cell.strip().removesuffix(".0").removesuffix(",0")  # as some spreadsheets write whole numbers
    if not text:
        return None
    rating = words.get(text.casefold())
    if rating is None:
        raise broken(path, f"the rating {quote_value(text)} is not one of {', '.join(allowed)}", location)
    return rating


PAIR = ("query", "passage")
"""Columns of a sheet of pairs."""
DECISIONS = ("yes", "no")
"""Allowed decisions whether the passage is relevant to the query."""
SPELLINGS = dict.fromkeys(("y", "1", "true"), "yes") | dict.fromkeys(("n", "0", "false"), "no")
"""Other spellings of the decisions by people and spreadsheets, in any case."""
INSTRUCTIONS = b"""# Judging the passages

Each row of the sheet is a query and a passage. Write into your rating column:

- yes: somebody who asks the query is helped by the passage itself: it answers the query, or holds what the answer rests
  on;
- no: it does not, however close its subject is.

y and n, 1 and 0, true and false say the same.

Leave the cell empty where you cannot judge. Comments are for the authors; they change nothing.
"""


class ExpertReview(Struct, frozen=True, kw_only=True):
    """Request to experts for a review of labels."""

    out: Path
    """Folder of the benchmark, which may contain earlier sheets."""
    sample: int = 100
    """Number of pairs in the sheet, sampled by the seed; 0 for no sheet."""
    experts: int = 1
    sheet: Path | None = None
    """Filled-in sheet to be read."""


class FinalLabel(Struct, frozen=True, kw_only=True):
    """A final label of a pair."""

    query: str
    document: str
    relevant: bool

    @property
    def item(self) -> str:
        """Id of the pair in the sheet, a hash that does not reveal the label."""
        return hashlib.sha256(f"{self.query}\n{self.document}".encode()).hexdigest()[:12]


def sample_labels(labels: Iterable[FinalLabel], limit: int, seed: int) -> tuple[FinalLabel, ...]:
    """Return a random sample of at most `limit` labels, in an order that depends on the seed."""
    return tuple(sorted(labels, key=lambda label: hashlib.sha256(f"{seed}\n{label.item}".encode()).digest())[:limit])


def sample_lines(
    labels: Sequence[FinalLabel], queries: Mapping[str, str], passages: Mapping[str, str], experts: int = 1
) -> list[bytes]:
    """Return the sheet of a sample; `queries` and `passages` are texts by id."""
    rows = {label.item: (queries[label.query], passages[label.document]) for label in labels}
    return sheet_lines(PAIR, rows, experts)


def reviewed(
    expert: ExpertReview,
    labels: Sequence[FinalLabel],
    queries: Mapping[str, str],
    texts: Callable[[Collection[str]], Mapping[str, str]],
    seed: int,
) -> tuple[dict[str, list[bytes]], LabelAgreement | None]:
    """Return the files of a sheet with a sample of the labels, or the experts' agreement if their sheet is given.

    A given sheet is not changed. `queries` are texts by id; `texts` returns those of documents.

    Raises:
        UserError: a sheet that cannot be read, or is not of these labels.
    """
    if expert.sheet is not None:
        return {}, expert_agreement(expert.sheet, labels, queries, texts({label.document for label in labels}))
    sample = sample_labels(labels, expert.sample, seed)
    if not sample:
        return {}, None
    passages = texts({label.document for label in sample})
    return sheet_files(expert.out, sample_lines(sample, queries, passages, expert.experts), INSTRUCTIONS), None


def agreement_note(agreement: LabelAgreement) -> str:
    """Return a note on the agreement for the card."""
    share = agreement.judge.accuracy
    kappa = "not defined" if agreement.judge.kappa is None else f"{agreement.judge.kappa:.3f}"
    changed = (
        f" {len(agreement.changed):,} of their rows have other texts, and are left out." if agreement.changed else ""
    )
    return (
        f"Experts agree with {share.value:.1%} of {share.n:,} labels (95 % interval {share.low or 0:.1%} to "
        f"{1 if share.high is None else share.high:.1%}), Cohen's kappa {kappa}.{changed}"
    )


def expert_agreement(
    path: Path, labels: Iterable[FinalLabel], queries: Mapping[str, str], passages: Mapping[str, str]
) -> LabelAgreement:
    """Compare the final labels with the decisions in a sheet that was filled in, completely or partly.

    `queries` and `passages` are the current texts by id: decisions on other texts are left out.

    Raises:
        UserError: not the sheet of this benchmark, a decision that is neither yes nor no, or no decision at all.
    """
    label_by_item = {label.item: label for label in labels}
    final_labels: dict[str, str | None] = {
        item_id: DECISIONS[0] if label.relevant else DECISIONS[1] for item_id, label in label_by_item.items()
    }
    texts = {
        item_id: dict(zip(PAIR, (queries.get(label.query, ""), passages.get(label.document, "")), strict=True))
        for item_id, label in label_by_item.items()
    }
    ratings = read_ratings(path, list(final_labels), DECISIONS, SPELLINGS, texts)
    people = HumanLabels(raters=ratings.raters, items=ratings.items)
    try:
        return replace(agreement(final_labels, people), changed=ratings.changed)
    except ValueError:
        if ratings.changed:
            raise UserError(
                f"{path}: the texts of {len(ratings.changed):,} of its rows are others now, and no other row has a "
                "decision that more than half of the experts gave."
            ) from None
        raise UserError(
            f"{path}: no item has a decision that more than half of the experts gave; write yes or no."
        ) from None
