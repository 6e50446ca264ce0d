"""A sheet for people to label judged answers in: blind to the verdict, drawn by seed, read back by
:func:`ragrounds.evals.judges.labels.read_labels`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.benchmarks.benchmark import lot
from ragrounds.evals.benchmarks.spreadsheets import as_csv
from ragrounds.evals.judges.kinds import Kind, verdicts
from ragrounds.evals.judges.labels import ITEM, TEXTS
from ragrounds.evals.store.store import Store
from ragrounds.records import Run

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
    kind: Kind,
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
    judged = {item for item, verdict in verdicts(store, run, kind, epoch).items() if verdict is not None}
    questions, golds = store.questions(run)
    asked = {
        item: (question, text)
        for question in questions
        for item, text in kind.beside(golds[question.id]).items()
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
        (item, question.text, text, answers[question.id], ALLOWED.join(kind.labels), *[""] * len(raters))
        for item, (question, text) in ((item, asked[item]) for item in drawn)
    )
    return LabelSheet(heading=heading, rows=rows, of=len(asked))
