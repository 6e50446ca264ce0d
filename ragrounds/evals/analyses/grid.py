"""Runs in a grid of corpus and retriever (MIRAGE Table 7)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark
from ragrounds.evals.analyses.run_data import ScoredRun, scored_runs
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.store.store import Store
from ragrounds.records import Run

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


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> Grid:
    return grid(scored_runs(store, runs, options.scorer), options.seed)


def _title(made: Grid) -> str:
    return f"Accuracy by corpus and retriever ({made.scorer})"


def _table(made: Grid, options: AnalysisOptions) -> AnalysisTable:
    datasets = tuple(dict.fromkeys(name for cell in made.cells for name in cell.datasets))
    rows = tuple(
        (cell.corpus, cell.retriever, *(cell.datasets.get(name) for name in datasets), cell.overall)
        for cell in made.cells
    )
    return AnalysisTable(title=_title(made), columns=("corpus", "retriever", *datasets, "mean"), rows=rows)


def _picture(made: Grid, options: AnalysisOptions) -> Picture:
    marks = tuple(figure_mark(f"{cell.corpus}, {cell.retriever}", cell.overall) for cell in made.cells)
    return Picture(title=_title(made), marks=marks, bars=True)


GRID = Analysis(
    name="grid",
    summary="corpus and retriever (MIRAGE Table 7)",
    needs="scores of runs that differ in corpus or retriever",
    measure=_measure,
    table=_table,
    picture=_picture,
)
