"""What a score costs: the frontier of cost and score; of right answers also the cost of one and the price of one more.

Both axes are the same kind of mean: over the questions of a dataset, then unweighted over datasets. So a run's cost is
what a question costs on average, and cost divided by accuracy is what a right answer costs. So of shares of
what a right answer holds, which add up to right answers. Any other score (ROUGE-L, F1) has no such price. A run whose
cost is not known has no place; it is named, never put at 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Attempt, Question, Run
from ragrounds.evals.compare.comparability import ComparisonBasis
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
_ENDS = (0.025, 0.975)
_ALIKE = 1e-9
"""Replicates nearer to each other than this share of the figure are equal but for rounding."""
_LEAST = 1e-12
"""Smallest share of a price's variance that a resample's is taken to be."""
CLAIMED_COSTS: dict[str, CostMeasure] = {"cost": "cost_uncached", **{name: name for name in get_args(CostMeasure)[1:]}}
"""What a claim calls a cost → its measure."""
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
    """Cost of one right answer, or of shares that make one; its value ``None`` where nothing is right; ``None``: the
    score is neither an accuracy nor a share."""
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
    """None where right answers have no price."""
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
    costs: dict[str, float] = {}
    for attempt in attempts:
        if attempt.status == "not_run":
            continue
        cost = attempt_cost(run, attempt, measure)
        if cost is None:
            return None
        costs[attempt.question_id] = costs.get(attempt.question_id, 0.0) + cost / epochs
    return costs


def attempt_cost(run: Run, attempt: Attempt, measure: CostMeasure) -> float | None:
    """What an attempt cost; ``None``: it is unknown, as are calls and seconds of an import."""
    if run.origin == "imported" and measure in ("model_calls", "seconds"):
        return None
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
    priced: bool
    """Whether scores add up to right answers, or to shares of such, so that they have a price."""


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
    of, parts = design(questions), list(placed.values())
    spreads = [[column.tolist() for column in variance_columns(one.moves(), *of)] for one in parts]
    widths = [*(len(one.columns) for one in parts), *map(len, spreads)]
    means, draws = joint_means(
        [*(column for one in parts for column in one.columns), *itertools.chain(*spreads)],
        *of,
        seed=seed,
        sizes=[*(sizes for one in parts for sizes in one.sizes), *(None for one in spreads for _ in one)],
        groups=widths,
    )
    ends, found = np.cumsum(widths)[:-1], dict[str, Frontier]()
    variances, replicates = np.split(means, ends)[len(parts) :], np.split(draws, ends, axis=1)
    clusters, enough = effective_clusters(np.concatenate(cluster_sizes(*of))), enough_clusters(*of)
    for number, (name, one) in enumerate(placed.items()):
        place = _Place(
            drawn=one,
            variances=variances[number],
            draws=replicates[number],
            spreads=replicates[number + len(parts)],
            clusters=clusters,
            strata=len(set(of[0])),
            enough=enough,
        )
        found[name] = Frontier(
            measure=one.measure,
            points=tuple(place.point(i, scored[name].figures[one.runs[i].id]) for i in one.order),
            tradeoffs=place.tradeoffs(),
            left_out=tuple(run.id for run in runs if run not in one.runs),
        )
    return found


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What is resampled for one scorer: scores, then costs, a column a run; with their means."""

    measure: CostMeasure
    runs: list[Run]
    columns: list[Sequence[float | None]]
    sizes: list[list[float] | None]
    means: Floats
    """Of scores and costs, (2 R,)."""
    priced: bool
    """See :class:`ScoredRuns`."""

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
        columns: list[Sequence[float | None]] = [*(column for column, _ in scores), *paid]
        means, _ = joint_means(columns, *design(questions), resamples=0, sizes=sizes)
        return cls(chosen, placed, columns, sizes, means, scored.priced)

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
        """The runs' places by cost, the cheapest first."""
        return sorted(range(len(self.runs)), key=lambda i: (self.cost[i], -self.right[i]))

    @cached_property
    def best(self) -> Flags:
        """Which runs are on the frontier, (R,)."""
        best: Flags = _undominated(self.right[None, :], self.cost[None, :])[0]
        return best

    @cached_property
    def bought(self) -> list[tuple[int, int | None]]:
        """What has a price: the right answers of a run that has any, and those that a run on the frontier has more than
        the one before it, by their places."""
        if not self.priced:
            return []
        neighbours = itertools.pairwise(i for i in self.order if self.best[i])
        more = [(j, i) for i, j in neighbours if self.right[j] > self.right[i]]
        return [*((i, None) for i in range(len(self.runs)) if self.right[i] > 0), *more]

    def moves(self) -> list[Floats]:
        """How each question moves each price, and each run's cost."""
        table = np.array([[np.nan if value is None else value for value in column] for column in self.columns])
        scores, costs = np.split(table.T, 2, axis=1)
        return [*(_contrast(costs, one) - self.price(one) * _contrast(scores, one) for one in self.bought), *costs.T]

    def price(self, one: tuple[int, int | None]) -> float:
        """What a right answer costs: how a question moves it is its cost less its right answers at this price."""
        return float(_contrast(self.cost, one)) / float(_contrast(self.right, one))


def _contrast(columns: Floats, one: tuple[int, int | None]) -> Floats:
    """A run's column, less that of the run that it is set against."""
    first, other = one
    made: Floats = columns[..., first] - (0.0 if other is None else columns[..., other])
    return made


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

    drawn: _Drawn
    variances: Floats
    """Of what was bought (its cost less its right answers at the mean price), and of costs, (B + R,)."""
    draws: Floats
    """Replicates of scores and costs, (resamples, 2 R)."""
    spreads: Floats
    """Replicates of the variances, (resamples, B + R)."""
    clusters: float
    """That were drawn from; of uneven sizes fewer."""
    strata: int
    enough: bool
    """Whether there are questions enough for intervals from replicates."""

    @cached_property
    def often(self) -> Floats:
        """In which share of the resamples each run is on the frontier, (R,)."""
        often: Floats = _undominated(*np.split(self.draws, 2, axis=1)).mean(axis=0)
        return often

    def point(self, i: int, score: Figure) -> FrontierPoint:
        """Where the run at place `i` stands."""
        run = self.drawn.runs[i]
        return FrontierPoint(
            run=run.id,
            agent=run.agent,
            score=Range(score.value, score.low, score.high, few=score.low is None),
            cost=self.mean_cost(i),
            per_correct=self.price((i, None)) if self.drawn.priced else None,
            on_frontier=bool(self.drawn.best[i]),
            share=float(self.often[i]) if self.enough else None,
        )

    def tradeoffs(self) -> tuple[Tradeoff, ...]:
        """The prices between neighbours on the frontier."""
        runs = self.drawn.runs
        return tuple(
            Tradeoff(cheaper=runs[i].id, dearer=runs[j].id, price=self.price((j, i)))
            for j, i in self.drawn.bought
            if i is not None
        )

    def mean_cost(self, i: int) -> Range:
        """What a question costs, with the interval that a claim about it has."""
        value, place = float(self.drawn.cost[i]), len(self.drawn.bought) + i
        draws = self.draws[:, len(self.drawn.runs) + i]
        if not self.enough or not np.ptp(draws) > _ALIKE * abs(value):
            return Range(value, few=True)
        errors = self.errors(place, draws - value)
        low, high = studentised_interval(
            value, math.sqrt(self.variances[place]), draws, errors, 0.95, self.clusters, self.strata
        )
        return Range(value, max(low, 0.0), high)

    def errors(self, place: int, moved: Floats) -> Floats:
        """The standard error in each resample of what has its variance at this place, by how far it moved there."""
        variances = self.spreads[:, place] - moved**2 / self.clusters
        errors: Floats = np.sqrt(np.maximum(variances, _LEAST * self.variances[place] + _LEAST**2))
        return errors

    def price(self, one: tuple[int, int | None]) -> Range:
        """What a right answer costs, each end the further of the percentile's and the bootstrap-t's
        (:mod:`ragrounds.evals.stats.bootstrap`). A resample in which nothing is won has no finite price."""
        if one not in self.drawn.bought:
            return Range(None)
        value, place = self.drawn.price(one), self.drawn.bought.index(one)
        if not self.enough:
            return Range(value, few=True)
        right, costs = (_contrast(each, one) for each in np.split(self.draws, 2, axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            draws = np.where(right > 0, costs / right, np.inf)
            moved = costs - value * right
            scaled = moved / self.errors(place, moved)
        low, high = np.quantile(draws, _ENDS, method="inverted_cdf")
        won = float(_contrast(self.drawn.right, one))
        least, most = value - np.quantile(scaled, _ENDS)[::-1] * math.sqrt(self.variances[place]) / won
        low = max(min(low, least), 0.0 if one[1] is None else -math.inf)
        high = max(high, most)
        return Range(value, float(low) if np.isfinite(low) else None, float(high) if np.isfinite(high) else None)


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
