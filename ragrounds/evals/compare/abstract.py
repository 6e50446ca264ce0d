"""The abstract of a comparison, as data: who answered what, when, with which models, what is missing, what can be
concluded. Report and leaderboard say it in the same words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ragrounds.base.records import Run
from ragrounds.evals.benchmarks.cards import card_of
from ragrounds.evals.compare.comparison import Comparison, RunTotals, ScorerTable
from ragrounds.evals.compare.findings import ScorerFinding, finding
from ragrounds.evals.scorers import described
from ragrounds.evals.store.store import Store

LackKind = Literal["not_run", "not_given", "failed", "paused", "unjudged", "unscored"]


class AbstractSystem(Struct, frozen=True, kw_only=True):
    """One that answered."""

    run: str
    agent: str
    models: tuple[str, ...]
    """That it asked, each once, without parameters; empty: not known."""
    imported: bool
    began: float
    """Seconds since the epoch."""
    ended: float
    """When its last attempt was made; where that is not known, when it began."""


class Lack(Struct, frozen=True, kw_only=True):
    """What is missing of a run."""

    run: str
    kind: LackKind
    count: int
    of: int
    scorer: str = ""
    """``unjudged``, ``unscored``: by which questions have no score."""
    right: int = 0
    """``failed``: of these, those with a text that the first headline's scorer yet reads as right."""


class Abstract(Struct, frozen=True, kw_only=True):
    """What stands before everything else."""

    benchmark: str
    title: str
    """The benchmark's, by its card; empty: it has none."""
    datasets: tuple[str, ...]
    questions: int
    epochs: int
    systems: tuple[AbstractSystem, ...]
    findings: tuple[ScorerFinding, ...]
    """One for each headline that has a figure."""
    lacks: tuple[Lack, ...]


def abstract(store: Store, runs: Sequence[Run], comparison: Comparison, scorers: Sequence[str] = ()) -> Abstract:
    """The abstract of a comparison.

    Args:
        store: where the runs are.
        runs: those of the comparison.
        comparison: their figures.
        scorers: those that are shown; none: the headlines.
    """
    tables = [table for table, _ in comparison.shown(scorers)]
    card = card_of(comparison.benchmark)
    rows = {row.run: row for row in comparison.rows}
    return Abstract(
        benchmark=comparison.benchmark,
        title=card.title if card else "",
        datasets=tuple(dict.fromkeys(name for table in tables for name in table.lines[0].datasets)),
        questions=comparison.questions,
        epochs=comparison.epochs,
        systems=tuple(_system(store, run, rows[run.id]) for run in runs),
        findings=tuple(found for table in tables if (found := finding(table)) is not None),
        lacks=tuple(_lacks(store, runs, comparison, tables)),
    )


def _system(store: Store, run: Run, row: RunTotals) -> AbstractSystem:
    models = [text.partition("[")[0] for text in row.models.values()] or list(row.answered_by)
    if not models and run.identity.get("model"):
        models = [str(run.identity["model"])]
    last = max((attempt.at for attempt in store.summaries(run)), default=0.0)
    return AbstractSystem(
        run=run.id,
        agent=run.agent,
        models=tuple(dict.fromkeys(models)),
        imported=run.origin == "imported",
        began=run.created,
        ended=max(run.created, last),
    )


def _lacks(store: Store, runs: Sequence[Run], comparison: Comparison, tables: Sequence[ScorerTable]) -> Iterator[Lack]:
    for run, row in zip(runs, comparison.rows, strict=True):
        asked = row.questions * row.epochs
        left_out = row.statuses.get("not_run", 0) if row.left_out else 0
        for status in ("not_run", "failed", "paused"):
            if count := row.statuses.get(status, 0):
                kind: LackKind = "not_given" if status == "not_run" and left_out else status
                right = _right(store, run, status, tables[0].scorer) if status == "failed" and tables else 0
                yield Lack(run=row.run, kind=kind, count=count, of=asked, right=min(count, right))
        for table in tables:
            missing = next((line.overall for line in table.lines if line.run == row.run), None)
            if missing is not None and missing.missing > left_out:
                kind = "unjudged" if described(table.scorer).needs_judge else "unscored"
                of = missing.n + missing.missing
                yield Lack(run=row.run, kind=kind, count=missing.missing - left_out, of=of, scorer=table.scorer)


def _right(store: Store, run: Run, status: str, scorer: str) -> int:
    """Attempts of a status whose text a scorer reads as right."""
    ended = {(one.question_id, one.epoch) for one in store.summaries(run) if one.status == status}
    return sum(bool(one.value) and (one.question_id, one.epoch) in ended for one in store.scores(run, scorer))


def selection_words(run: Run) -> str:
    """Which part of its benchmark a run was asked; empty: the whole."""
    drawn = run.identity.get("selection")
    if not isinstance(drawn, Mapping):
        return ""
    of, each = drawn.get("of"), drawn.get("per_dataset")
    whole = f" of {of:,}" if isinstance(of, int) and of else ""
    parts = f", {each:,} of each dataset" if isinstance(each, int) else ""
    named = ", named by their ids" if isinstance(drawn.get("ids"), Sequence) and drawn.get("ids") else ""
    return f"{run.count:,}{whole}{parts}{named}, drawn with seed {drawn.get('seed', 0)}"
