"""Summary of a comparison as data: systems, dates, models, missing results and conclusions.

The report and the leaderboard word it in the same way.
"""

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

MissingKind = Literal["not_run", "not_given", "failed", "paused", "unjudged", "withheld", "unscored"]


class ComparedSystem(Struct, frozen=True, kw_only=True):
    """System whose answers are compared."""

    run: str
    agent: str
    models: tuple[str, ...]
    """Models that the agent called, each once, without parameters; empty if unknown."""
    imported: bool
    began: float
    """Seconds since the epoch."""
    ended: float
    """Time of the last attempt; the start time if that is not known."""


class MissingResults(Struct, frozen=True, kw_only=True):
    """Kind and number of results that a run is missing."""

    run: str
    kind: MissingKind
    count: int
    of: int
    scorer: str = ""
    """Scorer under which questions have no score; set for ``unjudged``, ``withheld`` and ``unscored``."""
    right: int = 0
    """Number of ``failed`` attempts whose text the first headline's scorer still reads as right."""


class Abstract(Struct, frozen=True, kw_only=True):
    """Summary at the top of a report."""

    benchmark: str
    title: str
    """Title on the benchmark's card; empty if it has no card."""
    datasets: tuple[str, ...]
    questions: int
    epochs: int
    systems: tuple[ComparedSystem, ...]
    findings: tuple[ScorerFinding, ...]
    """Findings, one for each headline that has a figure."""
    missing_results: tuple[MissingResults, ...]


def abstract(store: Store, runs: Sequence[Run], comparison: Comparison, scorers: Sequence[str] = ()) -> Abstract:
    """Return the abstract of a comparison.

    Args:
        store: store of the runs.
        runs: compared runs.
        comparison: figures of these runs.
        scorers: scorers to show; if empty, the headlines.
    """
    tables = comparison.headline_tables(scorers)
    card = card_of(comparison.benchmark)
    rows = {row.run: row for row in comparison.rows}
    return Abstract(
        benchmark=comparison.benchmark,
        title=card.title if card else "",
        datasets=tuple(dict.fromkeys(name for table in tables for name in table.lines[0].datasets)),
        questions=comparison.questions,
        epochs=comparison.epochs,
        systems=tuple(_system(store, run, rows[run.id]) for run in runs),
        findings=tuple(scorer_finding for table in tables if (scorer_finding := finding(table)) is not None),
        missing_results=tuple(_missing_results(store, runs, comparison, tables)),
    )


def _system(store: Store, run: Run, row: RunTotals) -> ComparedSystem:
    models = [spec.partition("[")[0] for spec in row.models.values()] or list(row.answered_by)
    if not models and run.identity.get("model"):
        models = [str(run.identity["model"])]
    last_attempt = max((attempt.at for attempt in store.summaries(run)), default=0.0)
    return ComparedSystem(
        run=run.id,
        agent=run.agent,
        models=tuple(dict.fromkeys(models)),
        imported=run.origin == "imported",
        began=run.created,
        ended=max(run.created, last_attempt),
    )


def _missing_results(
    store: Store, runs: Sequence[Run], comparison: Comparison, tables: Sequence[ScorerTable]
) -> Iterator[MissingResults]:
    for run, row in zip(runs, comparison.rows, strict=True):
        attempt_count = row.questions * row.epochs
        not_given = row.statuses.get("not_run", 0) if row.left_out else 0
        for status in ("not_run", "failed", "paused"):
            if count := row.statuses.get(status, 0):
                kind: MissingKind = "not_given" if status == "not_run" and not_given else status
                right = _right(store, run, status, tables[0].scorer) if status == "failed" and tables else 0
                yield MissingResults(run=row.run, kind=kind, count=count, of=attempt_count, right=min(count, right))
        for table in tables:
            line = next((line for line in table.lines if line.run == row.run), None)
            if line is not None and line.overall.missing > not_given:
                figure, kind = line.overall, "unscored"
                count = figure.missing - not_given
                if described(table.scorer).needs_judge:
                    kind = "withheld" if line.withheld else "unjudged"
                yield MissingResults(
                    run=row.run, kind=kind, count=count, of=figure.n + figure.missing, scorer=table.scorer
                )


def _right(store: Store, run: Run, status: str, scorer: str) -> int:
    """Count the attempts of a status whose text a scorer reads as right."""
    attempts_with_status = {attempt.key for attempt in store.summaries(run) if attempt.status == status}
    return sum(bool(score.value) and score.key in attempts_with_status for score in store.scores(run, scorer))


def selection_words(run: Run) -> str:
    """Describe which part of its benchmark a run was asked; empty if it was asked all questions."""
    selection = run.identity.get("selection")
    if not isinstance(selection, Mapping):
        return ""
    total, per_dataset = selection.get("of"), selection.get("per_dataset")
    of_total = f" of {total:,}" if isinstance(total, int) and total else ""
    of_each = f", {per_dataset:,} of each dataset" if isinstance(per_dataset, int) else ""
    by_ids = ", named by their ids" if isinstance(selection.get("ids"), Sequence) and selection.get("ids") else ""
    return f"{run.count:,}{of_total}{of_each}{by_ids}, sampled with seed {selection.get('seed', 0)}"
