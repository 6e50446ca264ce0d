"""Analysis of a rubric's score by the tags of questions and of criteria, such as theme and axis, and the worst of k
answers.

The worst of k answers to the same question shows how reliable a system is (HealthBench: worst-at-k).
"""

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
    """Score of one run on a part of its rubric."""

    run: str
    part: str
    """Name of the part: ``all``; ``worst of k``, the lowest score expected of k answers; or a tag."""
    figure: Figure


def worst_of(values: Sequence[float], k: int) -> float:
    """Return the expected lowest of k values sampled from these without replacement.

    It is an unbiased estimate for k answers to the same question. There must be at least k values.
    """
    ordered, combinations = sorted(values), comb(len(values), k)
    return sum(value * comb(len(values) - rank, k - 1) for rank, value in enumerate(ordered, 1)) / combinations


def rubric_parts(run: ScoredRun, seed: int = 0) -> tuple[RubricPart, ...]:
    """Return every part of a run's scores, the total first. A question counts if all its epochs have a score."""
    tags = {
        question.id: [
            f"{key}:{text}".removesuffix(":")
            for key, metadata_text in metadata.items()
            for text in metadata_text.split(", ")
        ]
        for question in run.questions
        if (metadata := dict(question.metadata)).pop("facts", "") == RUBRIC
    }
    parts: dict[str, dict[str, list[float | None]]] = {}
    for score in run.scores:
        value_by_tag = part_scores(score, tags.get(score.question_id, ()))
        # `all` is always the total, even if a tag has this name, and always the first.
        for part, value in ({"all": None} | value_by_tag | {"all": score.value}).items():
            parts.setdefault(part, {}).setdefault(score.question_id, []).append(value)
    epochs, scorer, all_parts = run.run.epochs, described(run.scorer), []
    for part, values_by_question in parts.items():
        questions = [question for question in run.questions if question.id in values_by_question]
        known_values = {
            id: [value for value in question_values if value is not None]
            for id, question_values in values_by_question.items()
        }
        for k in range(1, epochs + 1 if part == "all" else 2):
            lowest = {
                id: worst_of(question_values, k)
                for id, question_values in known_values.items()
                if len(question_values) == epochs
            }
            name = part if k == 1 else f"worst of {k}"
            all_parts.append(RubricPart(run=run.run.id, part=name, figure=figure(questions, lowest, {}, seed, scorer)))
    return tuple(all_parts)


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[RubricPart, ...]:
    if options.scorer.partition("[")[0] != RUBRIC:
        raise UserError(f"{options.scorer} is no rubric's scorer; name one: --scorer 'rubric[…]', as tables do.")
    return tuple(part for run in scored_runs(store, runs, options.scorer) for part in rubric_parts(run, options.seed))


ANALYSIS = Analysis(
    name="rubric",
    summary="a rubric's score by theme, axis and other tags, and the worst of k answers (HealthBench)",
    needs="scores by a rubric; epochs for the worst of k",
    measure=_measure,
    table=lambda parts, options: AnalysisTable(
        title=_TITLE,
        columns=("run", "part", options.scorer, "questions"),
        rows=tuple((part.run, part.part, part.figure, part.figure.n) for part in parts),
    ),
    picture=lambda parts, options: Picture(
        title=f"{_TITLE} ({options.scorer})",
        marks=tuple(figure_mark(part.part, part.figure, group=part.run) for part in parts),
    ),
)
