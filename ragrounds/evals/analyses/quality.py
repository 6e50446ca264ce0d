"""Accuracy of answers against the quality of retrieval, nDCG@k, over runs (R2MED Fig. 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Points, Series, figure_marks, upwards
from ragrounds.evals.analyses.run_data import ScoredRun, first_searches, scored_runs
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.scorers import figure_word
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import FoundPassages
from ragrounds.records import Gold, Passage, Run


class RunQuality(Struct, frozen=True, kw_only=True):
    """One run's retrieval quality and its accuracy."""

    run: str
    ndcg: float
    """Mean nDCG@k of the first search, each gold document counting once."""
    figure: Figure
    questions: int


class Qualities(Struct, frozen=True, kw_only=True):
    """Answer accuracy against nDCG@k, one point a run."""

    scorer: str
    k: int
    runs: tuple[RunQuality, ...]
    correlation: float | None
    """Pearson's, over runs; ``None`` for fewer than three or without spread."""


def against_ndcg(
    runs: Sequence[tuple[ScoredRun, Mapping[str, FoundPassages]]], k: int = 10, seed: int = 0
) -> Qualities:
    """Answer accuracy against nDCG@k over runs, on the questions that have gold documents and were searched for."""
    points = []
    for run, found in runs:
        ids = [q.id for q in run.questions if run.golds[q.id].documents and q.id in found]
        if not ids:
            raise UserError(f"The run {run.run.id} has no searched question with gold documents.")
        quality = math.fsum(ndcg(found[id].passages, run.golds[id], k) for id in ids) / len(ids)
        points.append(RunQuality(run=run.run.id, ndcg=quality, figure=run.figure(ids, seed), questions=len(ids)))
    pairs = [(point.ndcg, point.figure.value) for point in points if point.figure.value is not None]
    return Qualities(scorer=runs[0][0].scorer, k=k, runs=tuple(points), correlation=_pearson(pairs))


def ndcg(passages: Sequence[Passage], gold: Gold, k: int) -> float:
    """nDCG@k with binary gains; a document counts at its first passage, and the ranks are those of documents."""
    wanted = set(gold.documents)
    ranking = list(dict.fromkeys(passage.document for passage in passages))[:k]
    gain = math.fsum(1 / math.log2(rank + 1) for rank, id in enumerate(ranking, start=1) if id in wanted)
    best = math.fsum(1 / math.log2(rank + 1) for rank in range(1, min(len(wanted), k) + 1))
    return gain / best if best else 0.0


def _pearson(pairs: Sequence[tuple[float, float]]) -> float | None:
    if len(pairs) < 3:
        return None
    from statistics import StatisticsError, correlation

    try:
        return correlation([x for x, _ in pairs], [y for _, y in pairs])
    except StatisticsError:  # no spread
        return None


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> Qualities:
    scored = scored_runs(store, runs, options.scorer)
    return against_ndcg([(run, first_searches(store, run)) for run in scored], options.k, options.seed)


def _table(made: Qualities, options: AnalysisOptions) -> AnalysisTable:
    return AnalysisTable(
        title=f"{figure_word(made.scorer).capitalize()} against nDCG@{made.k}",
        columns=("run", f"nDCG@{made.k}", f"{figure_word(made.scorer)} ({made.scorer})", "questions"),
        rows=tuple((point.run, point.ndcg, point.figure, point.questions) for point in made.runs),
        note="" if made.correlation is None else f"Pearson's correlation over runs: {made.correlation:.2f}.",
    )


def _picture(made: Qualities, options: AnalysisOptions) -> Points:
    lines = tuple(Series(name=run.run, marks=figure_marks([(run.ndcg, run.figure)])) for run in made.runs)
    return Points(
        title=f"{figure_word(made.scorer).capitalize()} against nDCG@{made.k} ({made.scorer})",
        x=f"nDCG@{made.k}",
        lines=lines,
        up=upwards(made.scorer),
    )


QUALITY = Analysis(
    name="quality",
    summary="accuracy against nDCG (R2MED Fig. 5)",
    needs="scores, recorded searches, and questions that name gold documents",
    measure=_measure,
    table=_table,
    picture=_picture,
)
