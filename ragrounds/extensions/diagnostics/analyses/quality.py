"""Accuracy of answers against the quality of retrieval, nDCG@k, over runs (R2MED Fig. 5).

R2MED scores the *intermediate* answer, the text that a model writes before the search, and compares it with the search
made with this text. That is a run of ``query_generation[documents=10]``, scored by a judge (``equivalent``): its answer
is the text, and its last search is made with it. In other runs with ``query_generation`` the last search is made with
the text too, because LameR's first search is made with the question. In all other runs the first search counts. Runs of
one agent with one model on several sets are one point, the unweighted mean over the sets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import StatisticsError, correlation

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Gold, Passage, Question
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark, upwards
from ragrounds.evals.analyses.run_data import ScoredRun, first_searches, scored_runs, searches
from ragrounds.evals.compare.figures import Figure, figure
from ragrounds.evals.scorers import described, figure_word
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import FoundPassages


class RunQuality(Struct, frozen=True, kw_only=True):
    """Retrieval quality and accuracy of one run."""

    run: str
    ndcg: float
    """Mean nDCG@k of the search, with each gold document counted once."""
    figure: Figure
    questions: int


class Qualities(Struct, frozen=True, kw_only=True):
    """Answer accuracy against nDCG@k, one point for each run."""

    scorer: str
    k: int
    runs: tuple[RunQuality, ...]
    correlation: float | None
    """Pearson's correlation over systems if there are any, otherwise over runs; ``None`` for fewer than three points or
    without spread."""
    systems: tuple[RunQuality, ...] = ()
    """Points of agents with their models over runs on several sets; empty if each has a single run."""
    intermediate: bool = False
    """True if in all runs the text that was written for the search is scored."""

    @property
    def points(self) -> tuple[RunQuality, ...]:
        """Points that a picture shows."""
        return self.systems or self.runs


def against_ndcg(
    runs: Sequence[tuple[ScoredRun, Mapping[str, FoundPassages]]], k: int = 10, seed: int = 0
) -> Qualities:
    """Return answer accuracy against nDCG@k over runs, on the questions that have gold documents and were searched for.

    Args:
        runs: runs, each with the search that counts, by question id.
        k: number of documents of a ranking that count.
        seed: seed of the intervals.

    Raises:
        UserError: a run has no question with gold documents that was searched for.
    """
    points, systems = [], []
    runs_by_system: dict[str, list[tuple[ScoredRun, Mapping[str, FoundPassages]]]] = {}
    for run, search_by_question in runs:
        points.append(_point(run.run.id, [(run, search_by_question)], k, seed))
        models = run.run.identity.get("models")
        model_names = [str(model) for model in models.values()] if isinstance(models, Mapping) else []
        runs_by_system.setdefault(", ".join([run.run.agent, *model_names]), []).append((run, search_by_question))
    for name, group in runs_by_system.items():
        if len({run.run.identity.get("benchmark") for run, _ in group}) == len(group):  # not one set twice
            systems.append(_point(name, group, k, seed))
    if len(runs_by_system) == len(points) or len(systems) < len(runs_by_system):
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


def _point(name: str, group: Sequence[tuple[ScoredRun, Mapping[str, FoundPassages]]], k: int, seed: int) -> RunQuality:
    """Return runs on different sets as one point: accuracy and nDCG are unweighted means over the sets."""
    questions: list[Question] = []
    values: dict[str, float | None] = {}
    gains: dict[str, list[float]] = {}
    for run, search_by_question in group:
        searched_questions = [
            question
            for question in run.questions
            if run.golds[question.id].documents and question.id in search_by_question
        ]
        if not searched_questions:
            raise UserError(
                f"The run {run.run.id} has no searched question with gold documents. A run of query_generation "
                "searches with documents=10 in its agent's text."
            )
        questions += searched_questions
        values |= run.values
        for question in searched_questions:
            gain = ndcg(search_by_question[question.id].passages, run.golds[question.id], k)
            gains.setdefault(question.benchmark, []).append(gain)
    quality = math.fsum(math.fsum(dataset_gains) / len(dataset_gains) for dataset_gains in gains.values()) / len(gains)
    first = group[0][0]
    accuracy = figure(questions, values, {}, seed, described(first.scorer), first.run.epochs)
    return RunQuality(run=name, ndcg=quality, figure=accuracy, questions=len(questions))


def driven_searches(store: Store, run: ScoredRun) -> dict[str, FoundPassages]:
    """Return the search that counts in each question's first epoch: the one made with a written text, otherwise the
    first."""
    parameters = run.run.identity.get("parameters")
    agent_parameters = parameters if isinstance(parameters, Mapping) else {}
    if agent_parameters.get(_WRITING, "none") == "none":
        return first_searches(store, run)
    if run.run.identity.get("graph") == _WRITING and not agent_parameters.get("documents"):
        return {}  # searches by LameR, or by an agent inside, are not made with the text
    all_searches = searches(store, run.run)
    return {
        question.id: question_searches[-1]
        for question in run.questions
        if (question_searches := all_searches.get((question.id, 0), ()))
    }


def ndcg(passages: Sequence[Passage], gold: Gold, k: int) -> float:
    """Return nDCG@k with binary gains. A document counts at its first passage, and the ranks are ranks of documents."""
    gold_documents = set(gold.documents)
    ranking = list(dict.fromkeys(passage.document for passage in passages))[:k]
    gain = math.fsum(1 / math.log2(rank + 1) for rank, id in enumerate(ranking, start=1) if id in gold_documents)
    best = math.fsum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold_documents), k) + 1))
    return gain / best if best else 0.0


def _pearson(pairs: Sequence[tuple[float, float]]) -> float | None:
    if len(pairs) < 3:
        return None
    try:
        return correlation([x for x, _ in pairs], [y for _, y in pairs])
    except StatisticsError:  # no spread
        return None


def _table(qualities: Qualities, options: AnalysisOptions) -> AnalysisTable:
    answer_kind = "intermediate answers" if qualities.intermediate else "answers"
    unit = "systems" if qualities.systems else "runs"
    note = "" if qualities.correlation is None else f"Pearson's correlation over {unit}: {qualities.correlation:.2f}."
    if qualities.intermediate:
        note = f"What is scored is the text that was written, and the search is made with it. {note}".strip()
    shown_points = [*qualities.systems, *qualities.runs]
    return AnalysisTable(
        title=f"{figure_word(qualities.scorer).capitalize()} of {answer_kind} against nDCG@{qualities.k}",
        columns=("run", f"nDCG@{qualities.k}", f"{figure_word(qualities.scorer)} ({qualities.scorer})", "questions"),
        rows=tuple((point.run, point.ndcg, point.figure, point.questions) for point in shown_points),
        note=note,
    )


def _picture(qualities: Qualities, options: AnalysisOptions) -> Picture:
    kind = " of intermediate answers" if qualities.intermediate else ""
    return Picture(
        title=f"{figure_word(qualities.scorer).capitalize()}{kind} against nDCG@{qualities.k} ({qualities.scorer})",
        x=f"nDCG@{qualities.k}",
        marks=tuple(figure_mark(point.run, point.figure, x=point.ndcg) for point in qualities.points),
        words=upwards(qualities.scorer),
    )


QUALITY = Analysis(
    name="quality",
    summary="accuracy of answers, or of the texts that searches are made with, against nDCG (R2MED Fig. 5)",
    needs="scores, recorded searches, and questions that name gold documents",
    measure=lambda store, runs, options: against_ndcg(
        [(run, driven_searches(store, run)) for run in scored_runs(store, runs, options.scorer)],
        options.k,
        options.seed,
    ),
    table=_table,
    picture=_picture,
)
