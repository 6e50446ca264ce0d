"""Every interval of a score: means over datasets, differences of two agents, ratios. One function decides how.

The headline of a benchmark with several datasets is the unweighted mean of the datasets' means. A stratum is a dataset;
a cluster is a set of questions that are not independent (duplicates).

Right-or-wrong scores, and their means over epochs, have an adjusted Wald interval by strata, which holds from the first
question on (:mod:`ragrounds.evals.stats.intervals`). Other scores have a stratified bootstrap of clusters from where on
that holds (:mod:`ragrounds.evals.stats.bootstrap`), and below it no interval at all. A figure of a whole corpus that is
no mean (a micro-F1) is a ratio of sums in each stratum: :func:`combined_ratio`, with the same bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from ragrounds.evals.stats.bootstrap import (
    RESAMPLES,
    bootstrap_holds,
    effective_clusters,
    resampled,
    resampled_sums,
    studentised_interval,
)
from ragrounds.evals.stats.intervals import Estimate, Tallies, adjusted_interval

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
_CLOSE = 1e-9
_OF_SHARES, _OF_DIFFERENCES = 1.0, 0.5
"""Pseudo-observations in all, as multiples of z²."""


class MeanOptions(TypedDict, total=False):
    """What :func:`combined_mean` takes by name."""

    attempts: int
    bounded: bool
    resamples: int
    level: float
    seed: int


def combined_mean(
    columns: Sequence[Sequence[float]],
    factors: Sequence[float],
    strata: Sequence[str],
    clusters: Sequence[str] | None = None,
    *,
    constant: float = 0.0,
    attempts: int = 1,
    bounded: bool = True,
    weights: Sequence[float] | None = None,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """A constant plus the unweighted mean over strata of the mean of Σ factor × column in each, with its interval.

    One column with the factor 1 is a run's score; two with 1 and -1 are a difference on the same questions.

    Args:
        columns: each with one value a question, in the same order; missing scores are left out by the caller.
        factors: one a column.
        strata: the dataset of each question. One name throughout gives a plain mean.
        clusters: questions of one stratum with the same name are not independent; empty names stand alone.
        constant: added.
        attempts: epochs that each value is a mean over.
        bounded: whether values lie between 0 and 1 by nature, so that 0 and 1 are wrong and right; costs do not.
        weights: of the strata in the order of their first questions, in place of one by their number each.
        resamples: of the bootstrap, where there is one.
        level: coverage of the interval.
        seed: equal seeds give equal intervals.

    Raises:
        ValueError: no values, lengths that differ, or a value that is not finite.
    """
    table = _checked(columns, strata, clusters)
    stratum, cluster = _places(strata, clusters)
    numbers, scaled = table @ np.asarray(factors, dtype=np.float64), np.asarray(factors, dtype=np.float64)
    count = int(stratum.max()) + 1
    share = np.full(count, 1 / count) if weights is None else np.asarray(weights, dtype=np.float64)
    sizes = np.bincount(stratum, minlength=count)
    value = constant + float(share @ (np.bincount(stratum, numbers, count) / sizes))
    if bounded and _right_or_wrong(table, attempts):
        outcomes, least, most, scale = _outcomes(table, scaled)
        squares = _squares(outcomes, least, most, attempts)
        tallies = _tallies(outcomes * attempts, np.full(len(outcomes), float(attempts)), squares, stratum, cluster)
        pseudo = _OF_SHARES if least >= 0 or most <= 0 else _OF_DIFFERENCES
        ends = [float(end) * scale + constant for end in adjusted_interval(tallies, least, most, share, pseudo, level)]
        low, high = min(*ends, value), max(*ends, value)
        return Estimate(value=value, n=len(numbers), low=low, high=high, level=level, method="adjusted Wald")
    sums = _by_stratum(numbers, np.ones(len(numbers)), stratum, cluster)
    if not bootstrap_holds(sums):
        return Estimate(value=value, n=len(numbers), low=None, high=None, level=level, method="too few")
    made = resampled(sums, share, resamples, seed)
    worth = sum(effective_clusters(clusters[:, 1]) for clusters in sums)
    below, above = studentised_interval(value - constant, made.error, made.draws, made.errors, level, worth, count)
    least, most = _bounds(scaled, float(table.min()), 1.0 if bounded and table.max() <= 1 else math.inf)
    low, high = min(max(below, least) + constant, value), max(min(above, most) + constant, value)
    return Estimate(value=value, n=len(numbers), low=low, high=high, level=level, method="bootstrap")


def stratified_mean(
    values: Sequence[float],
    strata: Sequence[str] | None = None,
    clusters: Sequence[str] | None = None,
    **options: Unpack[MeanOptions],
) -> Estimate:
    """The unweighted mean over strata (datasets; by default one) of the mean value in each. See
    :func:`combined_mean`."""
    names = [""] * len(values) if strata is None else strata
    return combined_mean([values], [1.0], names, clusters, **options)


def paired_difference(
    first: Sequence[float],
    second: Sequence[float],
    strata: Sequence[str] | None = None,
    clusters: Sequence[str] | None = None,
    **options: Unpack[MeanOptions],
) -> Estimate:
    """`second` minus `first` on the same questions in the same order. See :func:`combined_mean`.

    Raises:
        ValueError: sides of different length, or as :func:`combined_mean`.
    """
    if len(first) != len(second):
        raise ValueError(
            f"a paired difference needs the same questions on both sides, got {len(first)} and {len(second)}"
        )
    names = [""] * len(first) if strata is None else strata
    return combined_mean([first, second], [-1.0, 1.0], names, clusters, **options)


def group_difference(
    first: Sequence[float],
    second: Sequence[float],
    first_clusters: Sequence[str] | None = None,
    second_clusters: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """The mean of `second` minus that of `first`, two sets of different questions (right or wrong: Agresti and Caffo
    2000). See :func:`combined_mean`."""
    clusters = [*(first_clusters or [""] * len(first)), *(second_clusters or [""] * len(second))]
    strata = ["first"] * len(first) + ["second"] * len(second)
    if not len(first) or not len(second):
        raise ValueError("a difference of two groups needs a value or more in each")
    return combined_mean([[*first, *second]], [1.0], strata, clusters, weights=[-1.0, 1.0], level=level, seed=seed)


def combined_ratio(
    numerators: Sequence[Sequence[float]],
    denominators: Sequence[Sequence[float]],
    factors: Sequence[float],
    strata: Sequence[str],
    clusters: Sequence[str] | None = None,
    *,
    constant: float = 0.0,
    weights: Sequence[float] | None = None,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate | None:
    """A constant plus the mean over strata of Σ factor × (Σ numerators / Σ denominators), with its interval.

    A micro-F1 is Σ 2 TP / Σ (2 TP + FP + FN): one column with the factor 1. Its mean over epochs has a column an epoch,
    each with the factor 1/epochs; a difference of two runs has those of both, on the same questions. A mean is the
    ratio whose denominators are 1. Strata without anything to count (all denominators of a column are 0) are left out.

    Args:
        numerators: one column a ratio, each with one value a question, in the same order.
        denominators: of the same columns.
        factors: one a column.
        strata: the dataset of each question.
        clusters: questions of one stratum with the same name are drawn together; empty names stand alone.
        constant: added.
        weights: of the strata in the order of their first questions; by default all weigh the same.
        resamples, level, seed: as of :func:`combined_mean`; of 0 resamples there is no interval.

    Returns:
        The estimate: without an interval (``too few``) below 50 clusters, below 10 of a stratum, or where fewer than 10
        clusters move the figure. ``None``: there is nothing to count in any stratum.

    Raises:
        ValueError: as :func:`combined_mean`.
    """
    above, below = _checked(numerators, strata, clusters), _checked(denominators, strata, clusters)
    if above.shape != below.shape or above.shape[1] != len(factors):
        raise ValueError("numerators, denominators and factors must be of the same columns")
    stratum, cluster = _places(strata, clusters)
    scale, count = np.asarray(factors, dtype=np.float64), int(stratum.max()) + 1
    share = [1.0] * count if weights is None else list(weights)
    values, tables, moves, numbers, shares = [], [], [], [], []
    for place in range(count):
        inside = stratum == place
        _, own = np.unique(cluster[inside], return_inverse=True)
        size = int(own.max()) + 1
        sums = np.column_stack([_added(own, column, size) for column in (*above[inside].T, *below[inside].T)])
        top, bottom = np.split(sums.sum(axis=0), 2)
        if not bottom.all():
            continue
        values.append(float(scale @ (top / bottom)))
        tables.append(sums)
        shares.append(share[place])
        numbers.append(_added(own, np.ones(len(own)), size))
        # How far each cluster moves the figure of its stratum, to first order.
        moves.append((sums[:, : len(scale)] - sums[:, len(scale) :] * (top / bottom)) / bottom @ scale)
    if not values or not sum(shares):
        return None
    parts = [one / sum(shares) for one in shares]
    value, n = constant + sum(part * one for part, one in zip(parts, values, strict=True)), len(strata)
    if not resamples or not bootstrap_holds([np.column_stack(each) for each in zip(moves, numbers, strict=True)]):
        return Estimate(value=value, n=n, low=None, high=None, level=level, method="too few")
    generator = np.random.default_rng(seed)
    draws, spread, error = np.full(resamples, constant), np.zeros(resamples), 0.0
    for part, sums, moved in zip(parts, tables, moves, strict=True):
        found = resampled_sums(np.column_stack([sums, moved, moved**2]), resamples, generator)
        top, bottom = np.split(found[:, :-2], 2, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            draws += part * ((top / bottom) @ scale)
        spread += part**2 * np.maximum(found[:, -1] - found[:, -2] ** 2 / len(sums), 0.0)
        error += float(part**2 * (moved**2).sum())
    kept = np.isfinite(draws)
    worth = sum(map(effective_clusters, numbers))
    low, high = studentised_interval(
        value, math.sqrt(error), draws[kept], np.sqrt(spread[kept]), level, worth, len(tables)
    )
    least, most = _bounds(scale, float(above.min()), 1.0 if (above <= below).all() else math.inf)
    low, high = max(low, least + constant), min(high, most + constant)
    return Estimate(value=value, n=n, low=min(low, value), high=max(high, value), level=level, method="bootstrap")


def _checked(columns: Sequence[Sequence[float]], strata: Sequence[str], clusters: Sequence[str] | None) -> Floats:
    """The columns side by side, (questions, columns)."""
    lengths = {len(strata), *map(len, columns), *([len(clusters)] if clusters is not None else [])}
    if len(lengths) != 1 or lengths == {0} or not columns:
        raise ValueError("values, strata and clusters must have one entry a value, and one value or more")
    table = np.array(columns, dtype=np.float64).T
    if not np.isfinite(table).all():
        raise ValueError("a value is not finite; leave missing scores out and count them")
    return table


def _places(strata: Sequence[str], clusters: Sequence[str] | None) -> tuple[Places, Places]:
    """The number of each value's stratum and of its cluster, both by their first values. A cluster is of one
    stratum."""
    names = clusters if clusters is not None else [""] * len(strata)
    known: dict[str, int] = {}
    found: dict[tuple[int, str | int], int] = {}
    stratum = [known.setdefault(name, len(known)) for name in strata]
    cluster = (
        range(len(names))
        if not any(names)
        else [
            found.setdefault((place, name or index), len(found))
            for index, (place, name) in enumerate(zip(stratum, names, strict=True))
        ]
    )
    return np.array(stratum, dtype=np.intp), np.array(cluster, dtype=np.intp)


def _right_or_wrong(table: Floats, attempts: int) -> bool:
    """Whether every value is a mean of so many outcomes that are right or wrong."""
    counts = table * attempts
    whole = np.abs(counts - np.round(counts)) < _CLOSE * attempts
    return bool(whole.all() and (table > -_CLOSE).all() and (table < 1 + _CLOSE).all())


def _outcomes(table: Floats, factors: Floats) -> tuple[Floats, float, float, float]:
    """Combined outcomes with the least and the most there can be, and what they are to be multiplied by."""
    if table.shape[1] == 1:
        return table[:, 0], 0.0, 1.0, float(factors[0])
    if table.shape[1] == 2 and factors[0] == -factors[1]:
        return table[:, 1] - table[:, 0], -1.0, 1.0, float(factors[1])
    return table @ factors, float(np.minimum(factors, 0.0).sum()), float(np.maximum(factors, 0.0).sum()), 1.0


def _bounds(factors: Floats, least: float, most: float) -> tuple[float, float]:
    """Between what values Σ factor × mean lies: no cost is below 0, no share above 1.

    Args:
        factors: one a column.
        least: of all columns; below 0: they have no bounds that are known.
        most: that a column can reach.
    """
    known = [float(factor) for factor in factors if factor]
    if least < 0:
        return -math.inf, math.inf
    return sum(one * most for one in known if one < 0), sum(one * most for one in known if one > 0)


def _squares(outcomes: Floats, least: float, most: float, attempts: int) -> Floats:
    """The sum of an outcome's squares over its attempts: exact for one attempt and for right or wrong, else the least
    that it can be."""
    if (least, most) in ((0.0, 1.0), (-1.0, 1.0)):
        return np.abs(outcomes) * attempts
    made: Floats = outcomes**2 * attempts
    return made


def _tallies(sums: Floats, sizes: Floats, squares: Floats, stratum: Places, cluster: Places) -> Tallies:
    count = int(cluster.max()) + 1
    strata = int(stratum.max()) + 1
    home = np.zeros(count, dtype=np.intp)
    home[cluster] = stratum
    total, size = _added(cluster, sums, count), _added(cluster, sizes, count)
    n, whole = _added(home, size, strata), _added(home, total, strata)
    return Tallies(
        observations=n,
        total=whole,
        squares=_added(stratum, squares, strata),
        within=_added(stratum, squares, strata) - _added(home, total**2 / size, strata),
        pairs=_added(home, np.maximum(size * (size - 1), 0.0), strata),
        clusters=_added(home, np.ones(count), strata),
    )


def _added(places: Places, numbers: Floats, count: int) -> Floats:
    """The sum of the numbers at each place."""
    return np.bincount(places, numbers, count).astype(np.float64)


def _by_stratum(numbers: Floats, sizes: Floats, stratum: Places, cluster: Places) -> list[Floats]:
    """For every stratum an array of (sum of values, number of values), one row a cluster."""
    count = int(cluster.max()) + 1
    home = np.zeros(count, dtype=np.intp)
    home[cluster] = stratum
    rows = np.column_stack([_added(cluster, numbers, count), _added(cluster, sizes, count)])
    return [rows[home == place] for place in range(int(stratum.max()) + 1)]
