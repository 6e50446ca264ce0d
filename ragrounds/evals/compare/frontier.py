"""Frontier of cost and score, with the cost of a right answer and the price of one more.

Both axes are the same kind of mean: over the questions of a dataset, then unweighted over datasets. So a run's cost is
what a question costs on average, and cost divided by accuracy is what a right answer costs. The same holds for shares
of a right answer, because they add up to right answers. Any other score (ROUGE-L, F1) has no such price. A run whose
cost is not known is not placed; it is named as left out and never put at cost 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragrounds.base.errors import one_of
from ragrounds.base.records import Attempt, Question, Run
from ragrounds.base.spent import Spent
from ragrounds.evals.compare.comparability import ComparisonSet
from ragrounds.evals.compare.figures import Figure, design
from ragrounds.evals.compare.question_values import QuestionValues, Values
from ragrounds.evals.stats.bootstrap import (
    cluster_sizes,
    effective_clusters,
    enough_clusters,
    joint_means,
    studentised_interval,
    variance_columns,
)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
CostMeasure = Literal["cost_uncached", "cost_paid", "tokens", "model_calls", "seconds"]
_QUANTILES = (0.025, 0.975)
_EQUAL_SHARE = 1e-9
"""Replicates nearer to each other than this share of the figure differ only by rounding."""
_LEAST_SHARE = 1e-12
"""Lower bound of the variance of a resample, as a share of the price's variance."""
CLAIMED_COSTS: dict[str, CostMeasure] = {"cost": "cost_uncached", **{name: name for name in get_args(CostMeasure)[1:]}}
"""Name of a cost in a claim → its measure."""
_BILLED: frozenset[CostMeasure] = frozenset({"cost_uncached", "cost_paid", "tokens"})
"""Measures that a provider counts."""
_AUTO_MEASURES: tuple[CostMeasure, ...] = ("cost_uncached", "tokens", "seconds")
"""Measures that `auto` tries, in this order."""


class Range(Struct, frozen=True):
    """Figure with its 95 % interval; an end is ``None`` if it is unknown or without bound."""

    value: float | None
    low: float | None = None
    high: float | None = None
    few: bool = False
    """True if there is no interval: too few questions, or all of the same cost."""


class FrontierPoint(Struct, frozen=True, kw_only=True):
    """Position of a run by cost and score."""

    run: str
    agent: str
    score: Range
    cost: Range
    """Cost of one question in the frontier's measure."""
    is_lower_bound: bool = False
    """True if a provider may bill requests without an answer, which the cost does not include."""
    per_correct: Range | None
    """Cost of one right answer, or of shares that make one. Its value is ``None`` if nothing is right. ``None`` if the
    score is neither an accuracy nor a share."""
    on_frontier: bool
    """True if no other run scores at least as high for at most the cost, one of the two strictly better."""
    share: float | None
    """Share of the bootstrap's resamples in which the run is on the frontier; ``None`` if there are too few questions
    for a bootstrap."""


class Tradeoff(Struct, frozen=True, kw_only=True):
    """Price of one more correct answer between two neighbours on the frontier."""

    cheaper: str
    dearer: str
    price: Range
    """Price of one more correct answer. `high` is ``None`` if the more expensive run may not be more accurate at
    all."""


class Frontier(Struct, frozen=True, kw_only=True):
    """Runs by cost and score under one scorer."""

    measure: CostMeasure
    points: tuple[FrontierPoint, ...]
    """Points sorted by cost, the cheapest first."""
    tradeoffs: tuple[Tradeoff, ...]
    """Prices between neighbours; empty if right answers have no price."""
    left_out: tuple[str, ...] = ()
    """Ids of runs whose cost or score is not known."""

    @property
    def lower_bounds(self) -> Set[str]:
        """Ids of the runs whose cost is at least that of their point."""
        return {point.run for point in self.points if point.is_lower_bound}


def cost_measure(name: str) -> CostMeasure | None:
    """Return the cost measure with this name; ``None`` for ``auto``.

    Raises:
        UserError: the measure is unknown.
    """
    known_name = one_of("--cost", name, ("auto", *get_args(CostMeasure)))
    return None if known_name == "auto" else cast(CostMeasure, known_name)


def costs_of(run: Run, attempts: Sequence[Attempt], measure: CostMeasure, epochs: int) -> dict[str, float] | None:
    """Return question id → mean cost over epochs; ``None`` if some cost is unknown, or if there is no answer and no
    cost. An attempt that was not made costs 0, as its score is 0."""
    costs: dict[str, float] = {}
    for attempt in attempts:
        if attempt.status == "not_run":
            continue
        cost = attempt_cost(run, attempt, measure)
        if cost is None:
            return None
        costs[attempt.question_id] = costs.get(attempt.question_id, 0.0) + cost / epochs
    if measure in _BILLED and not any(costs.values()):
        return costs if any(attempt.status == "completed" for attempt in attempts) else None
    return costs


def attempt_cost(run: Run, attempt: Attempt, measure: CostMeasure) -> float | None:
    """Return the cost of an attempt; ``None`` if it is unknown, as are calls and seconds of an import."""
    if run.origin == "imported" and measure in ("model_calls", "seconds"):
        return None
    if measure == "tokens":
        return attempt.spent.tokens
    value: float | None = getattr(attempt, measure)
    return value


class ScoredRuns(Struct, frozen=True):
    """Scores of runs under one scorer."""

    values: Mapping[str, Values]
    """Run id → question id → score."""
    figures: Mapping[str, Figure]
    """Run id → score with its interval, as tables show it."""
    priced: bool
    """True if scores add up to right answers, or to shares of them, so that they have a price."""


def frontiers(
    basis: ComparisonSet,
    runs: Sequence[Run],
    questions: Sequence[Question],
    scored: Mapping[str, ScoredRuns],
    *,
    measure: CostMeasure | None = None,
    seed: int = 0,
) -> dict[str, Frontier]:
    """Return the frontier of these runs under each scorer; empty if `measure` is not set and no measure is known and
    above 0.

    All scorers share one bootstrap, so the same questions are sampled for all.

    Args:
        basis: questions and attempts that the runs are compared on.
        runs: runs to place.
        questions: questions that each of the scorers scores.
        scored: scorer → scores of the runs.
        measure: cost measure; by default uncached dollars, else tokens, else seconds: the first that is known for all
            runs, or the one that is known for most.
        seed: seed of the bootstrap.
    """
    ids = {question.id for question in questions}
    attempts = {run.id: [attempt for attempt in basis.summaries[run.id] if attempt.question_id in ids] for run in runs}
    measures = (measure,) if measure else _AUTO_MEASURES
    costs = {name: {run.id: costs_of(run, attempts[run.id], name, basis.epochs) for run in runs} for name in measures}
    resampled = {name: _Sample.from_runs(scores, runs, questions, costs, measure) for name, scores in scored.items()}
    known_samples = {name: sample for name, sample in resampled.items() if sample is not None}
    if not known_samples:
        return {}
    strata_clusters, samples = design(questions), list(known_samples.values())
    variance_lists = [
        [column.tolist() for column in variance_columns(sample.moves(), *strata_clusters)] for sample in samples
    ]
    widths = [*(len(sample.columns) for sample in samples), *map(len, variance_lists)]
    means, draws = joint_means(
        [*(column for sample in samples for column in sample.columns), *itertools.chain(*variance_lists)],
        *strata_clusters,
        seed=seed,
        sizes=[
            *(column_sizes for sample in samples for column_sizes in sample.sizes),
            *(None for sample in variance_lists for _ in sample),
        ],
        groups=widths,
    )
    ends, by_scorer = np.cumsum(widths)[:-1], dict[str, Frontier]()
    variances, replicates = np.split(means, ends)[len(samples) :], np.split(draws, ends, axis=1)
    clusters, enough = (
        effective_clusters(np.concatenate(cluster_sizes(*strata_clusters))),
        enough_clusters(*strata_clusters),
    )
    for sample_index, (name, sample) in enumerate(known_samples.items()):
        frontier_place = _FrontierSample(
            sample=sample,
            variances=variances[sample_index],
            draws=replicates[sample_index],
            spreads=replicates[sample_index + len(samples)],
            clusters=clusters,
            strata=len(set(strata_clusters[0])),
            enough=enough,
        )
        by_scorer[name] = Frontier(
            measure=sample.measure,
            points=tuple(
                frontier_place.point(i, scored[name].figures[sample.runs[i].id], attempts[sample.runs[i].id])
                for i in sample.order
            ),
            tradeoffs=frontier_place.tradeoffs(),
            left_out=tuple(run.id for run in runs if run not in sample.runs),
        )
    return by_scorer


def frontier_so_far(
    figures: Mapping[str, Figure], spent: Mapping[str, Spent], attempts: Mapping[str, int]
) -> Frontier | None:
    """Return the frontier of unfinished runs by their mean costs so far; ``None`` if it has fewer than two points.

    Costs have no intervals, and the measure is the first that is known for every run with a score.

    Args:
        figures: run id → score so far.
        spent: run id → what its attempts took.
        attempts: run id → number of these attempts.
    """
    placed = [run for run, figure in figures.items() if figure.value is not None and attempts[run]]
    known = {name: [getattr(spent[run], name) for run in placed] for name in _AUTO_MEASURES}
    measure = next((name for name, costs in known.items() if None not in costs and any(costs)), None)
    if measure is None or len(placed) < 2:
        return None
    costs = [total / attempts[run] for run, total in zip(placed, known[measure], strict=True)]
    undominated = _undominated(np.array([[figures[run].value for run in placed]]), np.array([costs]))[0]
    points = [
        FrontierPoint(
            run=run,
            agent="",
            score=Range(figures[run].value, figures[run].low, figures[run].high),
            cost=Range(cost, few=True),
            is_lower_bound=measure in _BILLED and spent[run].unanswered > 0,
            per_correct=None,
            on_frontier=bool(on_frontier),
            share=None,
        )
        for run, cost, on_frontier in zip(placed, costs, undominated, strict=True)
    ]
    return Frontier(
        measure=measure, points=tuple(sorted(points, key=lambda point: point.cost.value or 0.0)), tradeoffs=()
    )


@dataclass(frozen=True, eq=False)
class _Sample:
    """Values that are resampled for one scorer, with their means: scores, then costs, a column for each run."""

    measure: CostMeasure
    runs: list[Run]
    columns: list[Sequence[float | None]]
    sizes: list[list[float] | None]
    means: Floats
    """Means of scores and costs, (2 R,)."""
    priced: bool
    """See :class:`ScoredRuns`."""

    @classmethod
    def from_runs(
        cls,
        scored: ScoredRuns,
        runs: Sequence[Run],
        questions: Sequence[Question],
        known_costs: Mapping[CostMeasure, Mapping[str, dict[str, float] | None]],
        measure: CostMeasure | None,
    ) -> _Sample | None:
        """Return the sample of the runs whose score and cost are known; ``None`` if no measure is known."""
        scoring = [run.id for run in runs if scored.figures[run.id].value is not None]
        by_measure = {
            name: {run: cost for run in scoring if (cost := costs[run]) is not None}
            for name, costs in known_costs.items()
        }
        chosen_measure = measure or _most_known(by_measure, len(runs))
        if chosen_measure is None or not (costs := by_measure[chosen_measure]):
            return None
        placed = [run for run in runs if run.id in costs]
        scores = [_score_column(scored.values[run.id], questions) for run in placed]
        paid = [[costs[run.id].get(question.id, 0.0) for question in questions] for run in placed]
        sizes = [*(sizes for _, sizes in scores), *(None for _ in placed)]
        columns: list[Sequence[float | None]] = [*(column for column, _ in scores), *paid]
        means, _ = joint_means(columns, *design(questions), resamples=0, sizes=sizes)
        return cls(chosen_measure, placed, columns, sizes, means, scored.priced)

    @property
    def right(self) -> Floats:
        """Mean scores, (R,)."""
        return self.means[: len(self.runs)]

    @property
    def cost(self) -> Floats:
        """Mean costs, (R,)."""
        return self.means[len(self.runs) :]

    @cached_property
    def order(self) -> list[int]:
        """Indices of the runs by cost, the cheapest first."""
        return sorted(range(len(self.runs)), key=lambda i: (self.cost[i], -self.right[i]))

    @cached_property
    def on_frontier(self) -> Flags:
        """Flags of the runs on the frontier, (R,)."""
        flags: Flags = _undominated(self.right[None, :], self.cost[None, :])[0]
        return flags

    @cached_property
    def bought(self) -> list[tuple[int, int | None]]:
        """Return everything that has a price, as (run index, index of the run compared with or ``None``).

        These are the right answers of each run that has any, and those that a run on the frontier has more than the run
        before it.
        """
        if not self.priced:
            return []
        neighbours = itertools.pairwise(i for i in self.order if self.on_frontier[i])
        more = [(j, i) for i, j in neighbours if self.right[j] > self.right[i]]
        return [*((i, None) for i in range(len(self.runs)) if self.right[i] > 0), *more]

    def moves(self) -> list[Floats]:
        """Return each question's influence on each price and on each run's cost."""
        table = np.array([[np.nan if value is None else value for value in column] for column in self.columns])
        scores, costs = np.split(table.T, 2, axis=1)
        return [
            *(_contrast(costs, priced) - self.price(priced) * _contrast(scores, priced) for priced in self.bought),
            *costs.T,
        ]

    def price(self, pair: tuple[int, int | None]) -> float:
        """Return the price of a right answer.

        A question's influence on it is the question's cost minus its right answers at this price.
        """
        return float(_contrast(self.cost, pair)) / float(_contrast(self.right, pair))


def _contrast(columns: Floats, pair: tuple[int, int | None]) -> Floats:
    """Return a run's column minus that of the run that it is compared with."""
    first, baseline = pair
    difference: Floats = columns[..., first] - (0.0 if baseline is None else columns[..., baseline])
    return difference


def _score_column(values: Values, questions: Sequence[Question]) -> tuple[list[float | None], list[float] | None]:
    """Return each question's score and, for a ratio, the denominators by which they count (epochs together)."""
    column = [values.get(question.id) for question in questions]
    if not isinstance(values, QuestionValues) or not values.parts:
        return column, None
    parts = [values.parts.get(question.id, ()) for question in questions]
    numerators = [sum(numerator for numerator, _ in epoch_parts) for epoch_parts in parts]
    denominators = [sum(denominator for _, denominator in epoch_parts) for epoch_parts in parts]
    ratios = [
        None if score is None else top / bottom if bottom else 0.0
        for score, top, bottom in zip(column, numerators, denominators, strict=True)
    ]
    return ratios, denominators


@dataclass(frozen=True, eq=False)
class _FrontierSample:
    """Mean scores and costs of runs with the bootstrap replicates of both."""

    sample: _Sample
    variances: Floats
    """Variances of prices (of the cost minus the right answers at the mean price) and of costs, (B + R,)."""
    draws: Floats
    """Replicates of scores and costs, (resamples, 2 R)."""
    spreads: Floats
    """Replicates of the variances, (resamples, B + R)."""
    clusters: float
    """Effective number of resampled clusters: fewer if their sizes are uneven."""
    strata: int
    enough: bool
    """True if there are enough questions for intervals from replicates."""

    @cached_property
    def often(self) -> Floats:
        """Share of the resamples in which each run is on the frontier, (R,)."""
        share: Floats = _undominated(*np.split(self.draws, 2, axis=1)).mean(axis=0)
        return share

    def point(self, i: int, score: Figure, attempts: Sequence[Attempt]) -> FrontierPoint:
        """Return the frontier point of the run at index `i`, which made these attempts."""
        run = self.sample.runs[i]
        return FrontierPoint(
            run=run.id,
            agent=run.agent,
            score=Range(score.value, score.low, score.high, few=score.low is None),
            cost=self.mean_cost(i),
            is_lower_bound=self.sample.measure in _BILLED and any(attempt.unanswered for attempt in attempts),
            per_correct=self.price((i, None)) if self.sample.priced else None,
            on_frontier=bool(self.sample.on_frontier[i]),
            share=float(self.often[i]) if self.enough else None,
        )

    def tradeoffs(self) -> tuple[Tradeoff, ...]:
        """Return the prices between neighbours on the frontier."""
        runs = self.sample.runs
        return tuple(
            Tradeoff(cheaper=runs[i].id, dearer=runs[j].id, price=self.price((j, i)))
            for j, i in self.sample.bought
            if i is not None
        )

    def mean_cost(self, i: int) -> Range:
        """Return the mean cost of a question, with the same interval as in a claim about it."""
        value, index = float(self.sample.cost[i]), len(self.sample.bought) + i
        draws = self.draws[:, len(self.sample.runs) + i]
        if not self.enough or not np.ptp(draws) > _EQUAL_SHARE * abs(value):
            return Range(value, few=True)
        errors = self.errors(index, draws - value)
        low, high = studentised_interval(
            value, math.sqrt(self.variances[index]), draws, errors, 0.95, self.clusters, self.strata
        )
        return Range(value, max(low, 0.0), high)

    def errors(self, index: int, moved: Floats) -> Floats:
        """Return the standard error in each resample of the figure at index `index`, whose change in it is `moved`."""
        # The spread is about the mean of all questions; the subtraction moves it to the mean of the resample.
        variances = self.spreads[:, index] - moved**2 / self.clusters
        errors: Floats = np.sqrt(np.maximum(variances, _LEAST_SHARE * self.variances[index] + _LEAST_SHARE**2))
        return errors

    def price(self, pair: tuple[int, int | None]) -> Range:
        """Return the price of a right answer.

        Each end is the further of the percentile's and the bootstrap-t's (:mod:`ragrounds.evals.stats.bootstrap`). A
        resample in which no right answer is gained has no finite price.
        """
        if pair not in self.sample.bought:
            return Range(None)
        value, index = self.sample.price(pair), self.sample.bought.index(pair)
        if not self.enough:
            return Range(value, few=True)
        right_answers, costs = (_contrast(half, pair) for half in np.split(self.draws, 2, axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            draws = np.where(right_answers > 0, costs / right_answers, np.inf)
            moved = costs - value * right_answers
            scaled = moved / self.errors(index, moved)
        low, high = np.quantile(draws, _QUANTILES, method="inverted_cdf")
        extra_right = float(_contrast(self.sample.right, pair))
        lowest, highest = value - np.quantile(scaled, _QUANTILES)[::-1] * math.sqrt(self.variances[index]) / extra_right
        low = max(min(low, lowest), 0.0 if pair[1] is None else -math.inf)
        high = max(high, highest)
        return Range(value, float(low) if np.isfinite(low) else None, float(high) if np.isfinite(high) else None)


def _most_known(by_measure: Mapping[CostMeasure, Mapping[str, Mapping[str, float]]], count: int) -> CostMeasure | None:
    useful = {
        name: len(runs)
        for name, runs in by_measure.items()
        if any(cost > 0 for costs in runs.values() for cost in costs.values())
    }
    for name, run_count in useful.items():
        if run_count == count:
            return name
    return max(useful, key=lambda name: useful[name], default=None)


def _undominated(right: Floats, cost: Floats) -> Flags:
    """Return the columns that no other column of the same row beats: at least as right for at most the cost, and
    strictly better in one of them."""
    undominated = np.ones(right.shape, dtype=bool)
    for column in range(right.shape[1]):
        its_right, its_cost = right[:, column, None], cost[:, column, None]
        as_good = (its_right >= right) & (its_cost <= cost)
        undominated &= ~(as_good & ((its_right > right) | (its_cost < cost)))
    return undominated
