"""Runs in a grid of corpus and retriever (MIRAGE Table 7), and means over epochs (MRAG: mean ± sd of five runs)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.analyses.run_data import ScoredRun
from ragrounds.evals.compare.figures import Figure, figure, scorer_values

NONE = "none"


class GridCell(Struct, frozen=True, kw_only=True):
    """One run's place in the grid."""

    corpus: str
    retriever: str
    run: str
    overall: Figure
    datasets: dict[str, Figure]


class Grid(Struct, frozen=True, kw_only=True):
    """Accuracy by corpus and retriever; of equal settings the newest run stands."""

    scorer: str
    corpora: tuple[str, ...]
    retrievers: tuple[str, ...]
    cells: tuple[GridCell, ...]


class Epochs(Struct, frozen=True, kw_only=True):
    """Mean and spread of an agent's accuracy over epochs or over equal runs."""

    name: str
    scorer: str
    values: tuple[float, ...]
    """Unweighted mean over datasets, one an epoch."""
    mean: float
    sd: float | None
    """Sample standard deviation; ``None`` for a single epoch."""


def grid(runs: Sequence[ScoredRun], seed: int = 0) -> Grid:
    """Set runs that differ in corpus and retriever side by side; a run without retrieval stands under ``none``."""
    if not runs:
        raise UserError("There is no run for the grid; name two or more.")
    cells: dict[tuple[str, str], GridCell] = {}
    for run in sorted(runs, key=lambda run: run.run.created):
        corpus = str(run.run.identity.get("corpus") or NONE)
        retriever = str(run.run.identity.get("retriever") or NONE)
        datasets: dict[str, list[str]] = {}
        for question in run.questions:
            datasets.setdefault(question.benchmark, []).append(question.id)
        cells[corpus, retriever] = GridCell(
            corpus=corpus,
            retriever=retriever,
            run=run.run.id,
            overall=run.figure(seed=seed),
            datasets={
                name: run.figure([q.id for q in run.questions if q.benchmark == name], seed) for name in datasets
            },
        )
    return Grid(
        scorer=runs[0].scorer,
        corpora=tuple(dict.fromkeys(corpus for corpus, _ in cells)),
        retrievers=tuple(dict.fromkeys(retriever for _, retriever in cells)),
        cells=tuple(cells.values()),
    )


def over_epochs(runs: Sequence[ScoredRun]) -> tuple[Epochs, ...]:
    """Every agent's mean ± sd, over the epochs of its runs: five epochs of one run or five runs of one are the same."""
    values: dict[str, list[float]] = {}
    for run in runs:
        for epoch in range(run.run.epochs):
            scores = [score for score in run.scores if score.epoch == epoch]
            if not scores:
                continue
            found = figure(run.questions, scorer_values(run.questions, scores, 1), {}, 0)
            if found.value is not None:
                values.setdefault(run.run.agent, []).append(found.value)
    return tuple(
        Epochs(
            name=name,
            scorer=runs[0].scorer,
            values=tuple(found),
            mean=fmean(found),
            sd=stdev(found) if len(found) > 1 else None,
        )
        for name, found in values.items()
    )
