"""A rubric's score by the tags of questions and of criteria, such as theme and axis, and the worst of k answers to the
same question, which says how reliable a system is (HealthBench: worst-at-k)."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark
from ragrounds.evals.analyses.run_data import ScoredRun, scored_runs
from ragrounds.evals.benchmarks.benchmark import RUBRIC
from ragrounds.evals.compare.figures import Figure, figure
from ragrounds.evals.scorers import described
from ragrounds.evals.scorers.rubric import part_scores
from ragrounds.evals.store.store import Store

_TITLE = "By tags of questions and criteria"


class RubricPart(Struct, frozen=True, kw_only=True):
    """One run's score on a part of its rubric."""

    run: str
    part: str
    """``all``; ``worst of k``, the least score that is expected of k answers; or a tag."""
    figure: Figure


def worst_of(values: Sequence[float], k: int) -> float:
    """The least of k values that is expected where k of these, at least as many, are drawn without replacement: an
    unbiased estimate for k answers to the same question."""
    ordered, ways = sorted(values), comb(len(values), k)
    return sum(value * comb(len(values) - place, k - 1) for place, value in enumerate(ordered, 1)) / ways


def rubric_parts(run: ScoredRun, seed: int = 0) -> tuple[RubricPart, ...]:
    """Every part of a run's scores, the whole first. A question counts where all its epochs have a score."""
    tags = {
        question.id: [f"{key}:{text}".removesuffix(":") for key, said in about.items() for text in said.split(", ")]
        for question in run.questions
        if (about := dict(question.metadata)).pop("facts", "") == RUBRIC
    }
    parts: dict[str, dict[str, list[float | None]]] = {}
    for score in run.scores:
        of = part_scores(score, tags.get(score.question_id, ()))
        for part, value in ({"all": None} | of | {"all": score.value}).items():  # whatever a tag is called
            parts.setdefault(part, {}).setdefault(score.question_id, []).append(value)
    epochs, scorer, made = run.run.epochs, described(run.scorer), []
    for part, found in parts.items():
        asked = [question for question in run.questions if question.id in found]
        known = {id: [one for one in each if one is not None] for id, each in found.items()}
        for k in range(1, epochs + 1 if part == "all" else 2):
            least = {id: worst_of(each, k) for id, each in known.items() if len(each) == epochs}
            name = part if k == 1 else f"worst of {k}"
            made.append(RubricPart(run=run.run.id, part=name, figure=figure(asked, least, {}, seed, scorer)))
    return tuple(made)


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[RubricPart, ...]:
    if options.scorer.partition("[")[0] != RUBRIC:
        raise UserError(f"{options.scorer} is no rubric's scorer; name one: --scorer 'rubric[…]', as tables do.")
    return tuple(part for run in scored_runs(store, runs, options.scorer) for part in rubric_parts(run, options.seed))


def _table(made: tuple[RubricPart, ...], options: AnalysisOptions) -> AnalysisTable:
    rows = tuple((one.run, one.part, one.figure, one.figure.n) for one in made)
    return AnalysisTable(title=_TITLE, columns=("run", "part", options.scorer, "questions"), rows=rows)


def _picture(made: tuple[RubricPart, ...], options: AnalysisOptions) -> Picture:
    marks = tuple(figure_mark(one.part, one.figure, group=one.run) for one in made)
    return Picture(title=f"{_TITLE} ({options.scorer})", marks=marks)


ANALYSIS = Analysis(
    name="rubric",
    summary="a rubric's score by theme, axis and other tags, and the worst of k answers (HealthBench)",
    needs="scores by a rubric; epochs for the worst of k",
    measure=_measure,
    table=_table,
    picture=_picture,
)
