"""Accuracy of answers against the quality of retrieval, nDCG@k, over runs (R2MED Fig. 5).

R2MED marks the *intermediate* answer, the text that a model writes before the search, and sets it beside the search
that this text drives. That is a run of ``query_generation[documents=10]``, scored by a judge (``equivalent``): its
answer is the text, and its last search is made with it. Of other runs with ``query_generation`` too it is the last
search that the text drives, LameR's first one being made with the question; of all others the first search counts.
Runs of one agent with one model on several sets are one point, the unweighted mean over the sets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import StatisticsError, correlation

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Gold, Passage, Question, Run
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark, upwards
from ragrounds.evals.analyses.run_data import ScoredRun, first_searches, scored_runs, searches
from ragrounds.evals.compare.figures import Figure, figure
from ragrounds.evals.scorers import described, figure_word
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import FoundPassages


class RunQuality(Struct, frozen=True, kw_only=True):
    """One run's retrieval quality and its accuracy."""

    run: str
    ndcg: float
    """Mean nDCG@k of the search, each gold document counting once."""
    figure: Figure
    questions: int


class Qualities(Struct, frozen=True, kw_only=True):
    """Answer accuracy against nDCG@k, one point a run."""

    scorer: str
    k: int
    runs: tuple[RunQuality, ...]
    correlation: float | None
    """Pearson's, over systems where there are some, else over runs; ``None`` for fewer than three or without spread."""
    systems: tuple[RunQuality, ...] = ()
    """An agent with its model, over its runs on several sets; empty where each has one run."""
    intermediate: bool = False
    """What is scored is the text that was written for the search, in all runs."""

    @property
    def points(self) -> tuple[RunQuality, ...]:
        """What a picture shows."""
        return self.systems or self.runs


def against_ndcg(
    runs: Sequence[tuple[ScoredRun, Mapping[str, FoundPassages]]], k: int = 10, seed: int = 0
) -> Qualities:
    """Answer accuracy against nDCG@k over runs, on the questions that have gold documents and were searched for.

    Args:
        runs: each with the search that counts, by question id.
        k: how deep rankings are looked at.
        seed: of the intervals.

    Raises:
        UserError: a run has no such question.
    """
    points, systems = [], []
    together: dict[str, list[tuple[ScoredRun, Mapping[str, FoundPassages]]]] = {}
    for run, found in runs:
        points.append(_point(run.run.id, [(run, found)], k, seed))
        together.setdefault(_system(run.run), []).append((run, found))
    for name, group in together.items():
        if len({run.run.identity.get("benchmark") for run, _ in group}) == len(group):  # not one set twice
            systems.append(_point(name, group, k, seed))
    if len(together) == len(points) or len(systems) < len(together):
        systems = []
    pairs = [(point.ndcg, point.figure.value) for point in systems or points if point.figure.value is not None]
    return Qualities(
        scorer=runs[0][0].scorer,
        k=k,
        runs=tuple(points),
        correlation=_pearson(pairs),
        systems=tuple(systems),
        intermediate=all(run.run.identity.get("graph") == _WRITING for run, _ in runs),
    )


_WRITING = "query_generation"


def _system(run: Run) -> str:
    models = run.identity.get("models")
    named = ", ".join(str(model) for model in models.values()) if isinstance(models, Mapping) else ""
    return f"{run.agent}, {named}" if named else run.agent


def _point(name: str, group: Sequence[tuple[ScoredRun, Mapping[str, FoundPassages]]], k: int, seed: int) -> RunQuality:
    """Runs on different sets as one point: accuracy and nDCG are unweighted means over the sets."""
    questions: list[Question] = []
    values: dict[str, float | None] = {}
    gains: dict[str, list[float]] = {}
    for run, found in group:
        kept = [question for question in run.questions if run.golds[question.id].documents and question.id in found]
        if not kept:
            raise UserError(
                f"The run {run.run.id} has no searched question with gold documents. A run of query_generation "
                "searches with documents=10 in its agent's text."
            )
        questions += kept
        values |= run.values
        for question in kept:
            gain = ndcg(found[question.id].passages, run.golds[question.id], k)
            gains.setdefault(question.benchmark, []).append(gain)
    quality = math.fsum(math.fsum(each) / len(each) for each in gains.values()) / len(gains)
    first = group[0][0]
    made = figure(questions, values, {}, seed, described(first.scorer), first.run.epochs)
    return RunQuality(run=name, ndcg=quality, figure=made, questions=len(questions))


def driven_searches(store: Store, run: ScoredRun) -> dict[str, FoundPassages]:
    """The search of each question's first epoch that counts: the one that a written text drives, else the first."""
    parameters = run.run.identity.get("parameters")
    given = parameters if isinstance(parameters, Mapping) else {}
    if given.get(_WRITING, "none") == "none":
        return first_searches(store, run)
    if run.run.identity.get("graph") == _WRITING and not given.get("documents"):
        return {}  # what LameR, or an agent inside, searched for is not what the text finds
    made = searches(store, run.run)
    return {question.id: each[-1] for question in run.questions if (each := made.get((question.id, 0), ()))}


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
    try:
        return correlation([x for x, _ in pairs], [y for _, y in pairs])
    except StatisticsError:  # no spread
        return None


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> Qualities:
    scored = scored_runs(store, runs, options.scorer)
    return against_ndcg([(run, driven_searches(store, run)) for run in scored], options.k, options.seed)


def _table(made: Qualities, options: AnalysisOptions) -> AnalysisTable:
    judged = "intermediate answers" if made.intermediate else "answers"
    over = "systems" if made.systems else "runs"
    said = "" if made.correlation is None else f"Pearson's correlation over {over}: {made.correlation:.2f}."
    if made.intermediate:
        said = f"What is scored is the text that was written, and the search is made with it. {said}".strip()
    shown = [*made.systems, *made.runs]
    return AnalysisTable(
        title=f"{figure_word(made.scorer).capitalize()} of {judged} against nDCG@{made.k}",
        columns=("run", f"nDCG@{made.k}", f"{figure_word(made.scorer)} ({made.scorer})", "questions"),
        rows=tuple((point.run, point.ndcg, point.figure, point.questions) for point in shown),
        note=said,
    )


def _picture(made: Qualities, options: AnalysisOptions) -> Picture:
    judged = " of intermediate answers" if made.intermediate else ""
    return Picture(
        title=f"{figure_word(made.scorer).capitalize()}{judged} against nDCG@{made.k} ({made.scorer})",
        x=f"nDCG@{made.k}",
        marks=tuple(figure_mark(point.run, point.figure, x=point.ndcg) for point in made.points),
        words=upwards(made.scorer),
    )


QUALITY = Analysis(
    name="quality",
    summary="accuracy of answers, or of the texts that searches are made with, against nDCG (R2MED Fig. 5)",
    needs="scores, recorded searches, and questions that name gold documents",
    measure=_measure,
    table=_table,
    picture=_picture,
)
