"""People's labels, to set a judge against: the sheet that they fill in, read back, and the agreement.

A sheet (CSV) has one row an item and one column a rater. It is blind to the judge's verdict, and its items are drawn by
seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.benchmarks.benchmark import lot
from ragrounds.evals.judges.methods import verdicts
from ragrounds.evals.scorers.judged import LabelMethod
from ragrounds.evals.stats.agreement import (
    Agreement,
    compare_with_human,
    fleiss_kappa,
    krippendorff_alpha,
    majority,
)
from ragrounds.evals.store.store import Store
from ragrounds.files import as_csv, broken, read_sheet, shown
from ragrounds.records import Run

ITEM = "item"
TEXTS = ("question", "beside", "answer", "allowed")
"""Columns of a sheet for labelling that are there to be read: the answer, and the text it is to be set against."""


class HumanLabels(Struct, frozen=True, kw_only=True):
    """Labels of one or several people."""

    raters: tuple[str, ...]
    items: dict[str, tuple[str | None, ...]]
    """Item → label of each rater; ``None``: no label."""

    @property
    def gold(self) -> dict[str, str]:
        """Item → the label that more than half of its raters gave; items without one are left out."""
        chosen = {item: majority(labels) for item, labels in self.items.items()}
        return {item: label for item, label in chosen.items() if label is not None}

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha of the people; ``None`` for a single one."""
        return krippendorff_alpha(list(self.items.values())) if len(self.raters) > 1 else None

    @property
    def kappa(self) -> float | None:
        """Fleiss' kappa of the people; ``None`` for a single one, or where labels are missing."""
        whole = len(self.raters) > 1 and all(None not in labels for labels in self.items.values())
        return fleiss_kappa(list(self.items.values())) if whole else None


class LabelAgreement(Struct, frozen=True, kw_only=True):
    """A judge against the majority of people."""

    judge: Agreement
    unmatched: int
    """Items labelled by people that the judge has no verdict on; they are in no figure."""
    undecided: int
    """Items without a majority among people."""
    human_kappa: float | None
    human_alpha: float | None


def read_labels(path: Path, *, item: str = ITEM, raters: Sequence[str] = ()) -> HumanLabels:
    """Read labels; by default every column is a rater's, but `item` and the texts of a sheet for labelling. Labels are
    taken without case and outer spaces; rows without any are left out.

    Raises:
        UserError: a broken file, a column that is not there, an item that stands twice.
    """
    rows = read_sheet(path, (item, *raters))
    columns = list(rows[0][1]) if rows else []
    chosen = tuple(raters) or tuple(name for name in columns if name != item and name not in TEXTS)
    if rows and not chosen:
        raise broken(path, "there is no column with labels beside the items", "line 1")
    items: dict[str, tuple[str | None, ...]] = {}
    for place, row in rows:
        name = row[item]
        if name in items:
            raise broken(path, f"the item {shown(name)} stands twice", place)
        items[name] = tuple(row[rater].strip().casefold() or None for rater in chosen)
    items = {name: labels for name, labels in items.items() if any(labels)}
    if not items:
        raise broken(path, "it holds no labels")
    return HumanLabels(raters=chosen, items=items)


def answer_of(item: str) -> str:
    """The question whose answer an item is of: statements of one answer are not independent."""
    question, mark, number = item.rpartition("#")
    return question if mark and number.isdigit() else item


def agreement(verdicts: Mapping[str, str | None], labels: HumanLabels) -> LabelAgreement:
    """Set a judge's verdicts (item → label, ``None`` where it gave none) against the majority of people.

    Raises:
        ValueError: no item has both.
    """
    gold = labels.gold
    items = [item for item in gold if item in verdicts]
    given = [None if (verdict := verdicts[item]) is None else verdict.strip().casefold() for item in items]
    return LabelAgreement(
        judge=compare_with_human(given, [gold[item] for item in items], [answer_of(item) for item in items]),
        unmatched=len(gold) - len(items),
        undecided=len(labels.items) - len(gold),
        human_kappa=labels.kappa,
        human_alpha=labels.alpha,
    )


ALLOWED = " | "


class LabelSheet(Struct, frozen=True, kw_only=True):
    """What people are given."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    of: int
    """Items that the judge has a verdict on, of which these were drawn."""

    def csv(self) -> bytes:
        """As a file; no cell is a formula."""
        return as_csv(self.heading, self.rows)


def label_sheet(
    store: Store,
    run: Run,
    method: LabelMethod,
    *,
    epoch: int = 0,
    limit: int | None = None,
    seed: int = 0,
    raters: Sequence[str] = ("label",),
) -> LabelSheet:
    """The items that have a verdict, in an order drawn by `seed`, without it; an empty column for each rater.

    Raises:
        UserError: the run was not judged in this way, or a rater's name is a column's already.
    """
    heading = (ITEM, *TEXTS, *raters)
    double = [name for name in raters if heading.count(name) > 1 or not name.strip()]
    if double:
        raise UserError(f"The rater {double[0]!r} cannot have a column: it is empty, there twice, or a text's column.")
    judged = {item for item, verdict in verdicts(store, run, method, epoch).items() if verdict is not None}
    questions, golds = store.questions(run)
    asked = {
        item: (question, text)
        for question in questions
        for item, text in method.items(golds[question.id]).items()
        if item in judged
    }
    drawn = sorted(asked, key=lambda item: lot(seed, item))[:limit]
    wanted = {asked[item][0].id for item in drawn}
    answers = {
        attempt.question_id: attempt.text
        for attempt in store.attempts(run)
        if attempt.epoch == epoch and attempt.question_id in wanted
    }
    rows = tuple(
        (item, question.text, text, answers[question.id], ALLOWED.join(method.labels), *[""] * len(raters))
        for item, (question, text) in ((item, asked[item]) for item in drawn)
    )
    return LabelSheet(heading=heading, rows=rows, of=len(asked))
