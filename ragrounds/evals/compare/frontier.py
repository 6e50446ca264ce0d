"""What a score costs: the frontier of cost and score; of right answers also the cost of one and the price of one more.

Both axes are the same kind of mean: over the questions of a dataset, then unweighted over datasets. So a run's cost is
what a question costs on average, and cost divided by accuracy is what a right answer costs. A score that does not say
which answers are right (ROUGE-L, F1) has no such price. A run whose cost is not
known has no place; it is named, never put at 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragrounds.errors import UserError, nearest
from ragrounds.evals.compare.comparability import ComparisonBasis
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.compare.question_values import QuestionValues, Values
from ragrounds.evals.stats.bootstrap import enough_clusters, joint_means
from ragrounds.records import Attempt, Question, Run

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
CostMeasure = Literal["cost_uncached", "cost_paid", "tokens", "calls", "seconds"]
_ALIKE = 1e-9
"""Replicates nearer to each other than this share of the figure are equal but for rounding."""
_TRIED: tuple[CostMeasure, ...] = ("cost_uncached", "tokens", "seconds")
"""What `auto` looks for, in this order."""


class Range(Struct, frozen=True):
    """A figure with its 95 % interval; ``None``: unknown, or without bound."""

    value: float | None
    low: float | None = None
    high: float | None = None
    few: bool = False
    """Too few questions for an interval, or all of the same cost: there is none."""


class FrontierPoint(Struct, frozen=True, kw_only=True):
    """Where a run stands by cost and score."""

    run: str
    agent: str
    score: Range
    cost: Range
    """Of one question, in the frontier's measure."""
    per_correct: Range | None
    """Cost of one right answer, its value ``None`` where nothing is right; ``None``: the score is no accuracy."""
    on_frontier: bool
    """No other run scores as high or higher for at most the cost."""
    share: float | None
    """Share of the bootstrap's resamples in which that is so; ``None``: too few questions for a bootstrap."""


class Tradeoff(Struct, frozen=True, kw_only=True):
    """Two neighbours on the frontier: what one more correct answer costs with the dearer."""

    cheaper: str
    dearer: str
    price: Range
    """`high` is ``None`` where the dearer run may not be more accurate at all."""


class Frontier(Struct, frozen=True, kw_only=True):
    """Runs by cost and score under one scorer."""

    measure: CostMeasure
    points: tuple[FrontierPoint, ...]
    """By cost, the cheapest first."""
    tradeoffs: tuple[Tradeoff, ...]
    """None where the score is no accuracy."""
    left_out: tuple[str, ...] = ()
    """Runs whose cost or score is not known."""


def cost_measure(name: str) -> CostMeasure | None:
    """A measure by its name; ``None`` for ``auto``.

    Raises:
        UserError: no such measure.
    """
    for known in get_args(CostMeasure):
        if known == name:
            measure: CostMeasure = known
            return measure
    if name == "auto":
        return None
    known_names = ("auto", *get_args(CostMeasure))
    raise UserError(f"--cost {name!r} is unknown.{nearest(name, known_names)} Known: {', '.join(known_names)}.")


def costs_of(run: Run, attempts: Sequence[Attempt], measure: CostMeasure, epochs: int) -> dict[str, float] | None:
    """Question id → mean cost over epochs; an attempt that was not made cost nothing. ``None``: a cost is unknown."""
    if run.origin == "imported" and measure in ("calls", "seconds"):
        return None
    costs: dict[str, float] = {}
    for attempt in attempts:
        if attempt.status == "not_run":
            continue
        cost = _cost(attempt, measure)
        if cost is None:
            return None
        costs[attempt.question_id] = costs.get(attempt.question_id, 0.0) + cost / epochs
    return costs


def _cost(attempt: Attempt, measure: CostMeasure) -> float | None:
    if measure == "tokens":
        return attempt.usage.input + attempt.usage.output if attempt.usage else None
    value: float | None = getattr(attempt, measure)
    return value


class ScoredRuns(Struct, frozen=True):
    """Runs under one scorer."""

    values: Mapping[str, Values]
    """Run id → question id → score."""
    figures: Mapping[str, Figure]
    """Run id → the score as tables show it, with its interval."""
    accuracy: bool
    """Whether the score says which answers are right, so that they have a price."""


def frontiers(
    basis: ComparisonBasis,
    runs: Sequence[Run],
    questions: Sequence[Question],
    scored: Mapping[str, ScoredRuns],
    *,
    measure: CostMeasure | None = None,
    seed: int = 0,
) -> dict[str, Frontier]:
    """The frontier of these runs under each scorer; none where `measure` is not named and none is known and above 0.
    The same questions are drawn for all, once.

    Args:
        basis: what the runs are compared on.
        runs: those to place.
        questions: those that each of the scorers scores.
        scored: by scorer.
        measure: what cost is counted in; by default dollars uncached, else tokens, else seconds: the first that is
            known of all runs, or of most.
        seed: of the bootstrap.
    """
    asked = {question.id for question in questions}
    made = {run.id: [one for one in basis.summaries[run.id] if one.question_id in asked] for run in runs}
    measures = (measure,) if measure else _TRIED
    known = {name: {run.id: costs_of(run, made[run.id], name, basis.epochs) for run in runs} for name in measures}
    drawn = {name: _Drawn.of(one, runs, questions, known, measure) for name, one in scored.items()}
    placed = {name: one for name, one in drawn.items() if one is not None}
    if not placed:
        return {}
    strata, clusters = [question.benchmark for question in questions], [question.cluster for question in questions]
    widths = [len(one.columns) for one in placed.values()]
    means, draws = joint_means(
        [column for one in placed.values() for column in one.columns],
        strata,
        clusters,
        seed=seed,
        sizes=[sizes for one in placed.values() for sizes in one.sizes],
        groups=widths,
    )
    enough, ends, found = enough_clusters(strata, clusters), np.cumsum(widths)[:-1], dict[str, Frontier]()
    parts = zip(placed.items(), np.split(means, ends), np.split(draws, ends, axis=1), strict=True)
    for (name, one), mean, replicates in parts:
        size, accuracy, figures = len(one.runs), scored[name].accuracy, scored[name].figures
        right, cost = mean[:size], mean[size:]
        place = _Place(one.runs, right, cost, replicates[:, :size], replicates[:, size:], enough, accuracy)
        order = sorted(range(size), key=lambda i: (cost[i], -right[i]))
        found[name] = Frontier(
            measure=one.measure,
            points=tuple(place.point(i, figures[one.runs[i].id]) for i in order),
            tradeoffs=place.tradeoffs(order) if accuracy else (),
            left_out=tuple(run.id for run in runs if run not in one.runs),
        )
    return found


class _Drawn(Struct, frozen=True):
    """What is resampled for one scorer: scores, then costs, a column a run."""

    measure: CostMeasure
    runs: list[Run]
    columns: list[Sequence[float | None]]
    sizes: list[list[float] | None]

    @classmethod
    def of(
        cls,
        scored: ScoredRuns,
        runs: Sequence[Run],
        questions: Sequence[Question],
        known: Mapping[CostMeasure, Mapping[str, dict[str, float] | None]],
        measure: CostMeasure | None,
    ) -> _Drawn | None:
        """Of the runs whose score and cost are known; ``None``: no measure is."""
        scoring = [run.id for run in runs if scored.figures[run.id].value is not None]
        by_measure = {
            name: {run: cost for run in scoring if (cost := costs[run]) is not None} for name, costs in known.items()
        }
        chosen = measure or _most_known(by_measure, len(runs))
        if chosen is None or not (costs := by_measure[chosen]):
            return None
        placed = [run for run in runs if run.id in costs]
        scores = [_score_column(scored.values[run.id], questions) for run in placed]
        paid = [[costs[run.id].get(question.id, 0.0) for question in questions] for run in placed]
        sizes = [*(sizes for _, sizes in scores), *(None for _ in placed)]
        return cls(chosen, placed, [*(column for column, _ in scores), *paid], sizes)


def _score_column(values: Values, questions: Sequence[Question]) -> tuple[list[float | None], list[float] | None]:
    """Each question's score; of a ratio its own, with the denominator by which it counts (epochs together)."""
    column = [values.get(question.id) for question in questions]
    if not isinstance(values, QuestionValues) or not values.parts:
        return column, None
    parts = [values.parts.get(question.id, ()) for question in questions]
    above = [sum(numerator for numerator, _ in one) for one in parts]
    below = [sum(denominator for _, denominator in one) for one in parts]
    own = [
        None if known is None else top / bottom if bottom else 0.0
        for known, top, bottom in zip(column, above, below, strict=True)
    ]
    return own, below


@dataclass(frozen=True, eq=False)
class _Place:
    """Where runs stand: their mean scores and costs, and the bootstrap replicates of both."""

    runs: Sequence[Run]
    right: Floats
    """Mean scores, (R,)."""
    cost: Floats
    drawn_right: Floats
    """Their replicates, (B, R)."""
    drawn_cost: Floats
    enough: bool
    """Whether there are questions enough for intervals from replicates."""
    accuracy: bool
    """Whether right answers have a price."""

    @cached_property
    def best(self) -> Flags:
        """Which runs are on the frontier, (R,)."""
        best: Flags = _undominated(self.right[None, :], self.cost[None, :])[0]
        return best

    @cached_property
    def often(self) -> Floats:
        """In which share of the resamples each run is, (R,)."""
        often: Floats = _undominated(self.drawn_right, self.drawn_cost).mean(axis=0)
        return often

    def point(self, i: int, score: Figure) -> FrontierPoint:
        """Where the run at place `i` stands."""
        cost, right = self.drawn_cost[:, i], self.drawn_right[:, i]
        return FrontierPoint(
            run=self.runs[i].id,
            agent=self.runs[i].agent,
            score=Range(score.value, score.low, score.high, few=score.low is None),
            cost=_range(self.cost[i], cost, self.enough),
            per_correct=_ratio(self.cost[i], self.right[i], cost, right, self.enough) if self.accuracy else None,
            on_frontier=bool(self.best[i]),
            share=float(self.often[i]) if self.enough else None,
        )

    def tradeoffs(self, order: Sequence[int]) -> tuple[Tradeoff, ...]:
        """The prices between neighbours on the frontier."""
        return tuple(
            Tradeoff(
                cheaper=self.runs[i].id,
                dearer=self.runs[j].id,
                price=_ratio(
                    self.cost[j] - self.cost[i],
                    self.right[j] - self.right[i],
                    self.drawn_cost[:, j] - self.drawn_cost[:, i],
                    self.drawn_right[:, j] - self.drawn_right[:, i],
                    self.enough,
                ),
            )
            for i, j in itertools.pairwise(i for i in order if self.best[i])
            if self.right[j] > self.right[i]
        )


def _most_known(by_measure: Mapping[CostMeasure, Mapping[str, Mapping[str, float]]], count: int) -> CostMeasure | None:
    useful = {
        name: len(runs)
        for name, runs in by_measure.items()
        if any(cost > 0 for costs in runs.values() for cost in costs.values())
    }
    for name, known in useful.items():
        if known == count:
            return name
    return max(useful, key=lambda name: useful[name], default=None)


def _undominated(right: Floats, cost: Floats) -> Flags:
    """Which columns no other column of the same row beats: as right or more, as dear or less, one of them truly."""
    kept = np.ones(right.shape, dtype=bool)
    for place in range(right.shape[1]):
        its_right, its_cost = right[:, place, None], cost[:, place, None]
        as_good = (its_right >= right) & (its_cost <= cost)
        kept &= ~(as_good & ((its_right > right) | (its_cost < cost)))
    return kept


def _range(value: float, draws: Floats, enough: bool) -> Range:
    if not enough or not np.ptp(draws) > _ALIKE * abs(value):
        return Range(float(value), few=True)
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return Range(float(value), float(low), float(high))


def _ratio(above: float, below: float, above_draws: Floats, below_draws: Floats, enough: bool) -> Range:
    """A price: a resample in which nothing is won has no finite price."""
    if not below > 0:
        return Range(None)
    if not enough:
        return Range(float(above / below), few=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = np.where(below_draws > 0, above_draws / below_draws, np.inf)
    low, high = np.quantile(draws, [0.025, 0.975], method="inverted_cdf")
    return Range(
        float(above / below), float(low) if np.isfinite(low) else None, float(high) if np.isfinite(high) else None
    )
