"""Intervals of scores: means over datasets, differences of two agents, ratios. One function chooses the method.

The headline of a benchmark with several datasets is the unweighted mean of the datasets' means. A stratum is a dataset;
a cluster is a set of questions that are not independent (duplicates).

Right-or-wrong scores, and their means over epochs, have an adjusted Wald interval by strata, which is valid from the
first question on (:mod:`ragrounds.evals.stats.intervals`). Other scores have a stratified bootstrap of clusters if
there are enough clusters (:mod:`ragrounds.evals.stats.bootstrap`), and otherwise no interval. A figure of a whole
corpus that is not a mean (a micro-F1) is a ratio of sums in each stratum: :func:`combined_ratio`, with the same
bootstrap.
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
"""Total number of pseudo-observations as multiples of z², for shares and for differences."""


class MeanOptions(TypedDict, total=False):
    """Keyword options of :func:`combined_mean`."""

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
    """Return a constant plus the unweighted mean over strata of the mean of Σ factor × column, with its interval.

    One column with the factor 1 is a run's score; two with 1 and -1 are a difference on the same questions.

    Args:
        columns: columns of values, one for each question in the same order; the caller leaves missing scores out.
        factors: factor of each column.
        strata: dataset of each question. The same name throughout gives a plain mean.
        clusters: cluster name of each question. Questions of one stratum with the same name are not independent; a
            question with an empty name is its own cluster.
        constant: constant to add.
        attempts: number of epochs that each value is a mean over.
        bounded: True if values are between 0 (wrong) and 1 (right) by nature; costs are not.
        weights: weights of the strata in the order of their first questions; by default 1 / number of strata.
        resamples: number of resamples, if the bootstrap is used; 0 for no interval.
        level: coverage of the interval.
        seed: equal seeds give equal intervals.

    Raises:
        ValueError: there are no values; lengths differ; a value is not finite.
    """
    table = _checked_table(columns, strata, clusters)
    stratum, cluster = _group_indices(strata, clusters)
    numbers, scaled = table @ np.asarray(factors, dtype=np.float64), np.asarray(factors, dtype=np.float64)
    count = int(stratum.max()) + 1
    stratum_weights = np.full(count, 1 / count) if weights is None else np.asarray(weights, dtype=np.float64)
    sizes = np.bincount(stratum, minlength=count)
    value = constant + float(stratum_weights @ (np.bincount(stratum, numbers, count) / sizes))
    if not resamples:
        return Estimate(value=value, n=len(numbers), low=None, high=None, level=level, method="too few")
    if bounded and right_or_wrong(table, attempts):
        outcomes, lowest, highest, scale = _outcomes(table, scaled)
        squares = _squares(outcomes, lowest, highest, attempts)
        tallies = _tallies(outcomes * attempts, np.full(len(outcomes), float(attempts)), squares, stratum, cluster)
        pseudo = _OF_SHARES if lowest >= 0 or highest <= 0 else _OF_DIFFERENCES
        bounds = [
            float(end) * scale + constant
            for end in adjusted_interval(tallies, lowest, highest, stratum_weights, pseudo, level)
        ]
        low, high = min(*bounds, value), max(*bounds, value)
        return Estimate(value=value, n=len(numbers), low=low, high=high, level=level, method="adjusted Wald")
    # For every stratum an array of (sum of values, number of values), one row for each cluster.
    n_clusters = int(cluster.max()) + 1
    stratum_of_cluster = np.zeros(n_clusters, dtype=np.intp)
    stratum_of_cluster[cluster] = stratum
    rows = np.column_stack([_sum_by_index(cluster, part, n_clusters) for part in (numbers, np.ones(len(numbers)))])
    sums = [rows[stratum_of_cluster == stratum_index] for stratum_index in range(int(stratum.max()) + 1)]
    if not bootstrap_holds(sums):
        return Estimate(value=value, n=len(numbers), low=None, high=None, level=level, method="too few")
    replicates = resampled(sums, stratum_weights, resamples, seed)
    effective = sum(effective_clusters(clusters[:, 1]) for clusters in sums)
    below, above = studentised_interval(
        value - constant, replicates.error, replicates.draws, replicates.errors, level, effective, count
    )
    lowest, highest = _bounds(scaled, float(table.min()), 1.0 if bounded and table.max() <= 1 else math.inf)
    low, high = min(max(below, lowest) + constant, value), max(min(above, highest) + constant, value)
    return Estimate(value=value, n=len(numbers), low=low, high=high, level=level, method="bootstrap")


def stratified_mean(
    values: Sequence[float],
    strata: Sequence[str] | None = None,
    clusters: Sequence[str] | None = None,
    **options: Unpack[MeanOptions],
) -> Estimate:
    """Return the unweighted mean over strata (datasets; by default a single one) of the mean value in each.

    See :func:`combined_mean`.
    """
    names = [""] * len(values) if strata is None else strata
    return combined_mean([values], [1.0], names, clusters, **options)


def paired_difference(
    first: Sequence[float],
    second: Sequence[float],
    strata: Sequence[str] | None = None,
    clusters: Sequence[str] | None = None,
    **options: Unpack[MeanOptions],
) -> Estimate:
    """Return the difference `second` minus `first` on the same questions in the same order. See :func:`combined_mean`.

    Raises:
        ValueError: the sides have different lengths; or as :func:`combined_mean`.
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
    """Return the mean of `second` minus that of `first`, for two sets of different questions.

    Right-or-wrong values: Agresti and Caffo 2000. See :func:`combined_mean`.
    """
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
    """Return a constant plus the mean over strata of Σ factor × (Σ numerators / Σ denominators), with its interval.

    A micro-F1 is Σ 2 TP / Σ (2 TP + FP + FN): one column with the factor 1. Its mean over epochs has a column for each
    epoch, with the factor 1/epochs. A difference of two runs has the columns of both, on the same questions. A mean is
    the ratio whose denominators are 1. Strata in which all denominators of a column are 0 are left out.

    Args:
        numerators: column of each ratio, with one value for each question in the same order.
        denominators: denominators of the same columns.
        factors: factor of each column.
        strata: dataset of each question.
        clusters: cluster name of each question. Questions of one stratum with the same name are sampled together; a
            question with an empty name is its own cluster.
        constant: constant to add.
        weights: weights of the strata in the order of their first questions; by default equal.
        resamples, level, seed: see :func:`combined_mean`; with 0 resamples there is no interval.

    Returns:
        The estimate. It has no interval (``too few``) below 50 clusters, below 10 in a stratum, or if fewer than 10
        clusters influence the figure. ``None`` if there is nothing to count in any stratum.

    Raises:
        ValueError: as :func:`combined_mean`.
    """
    numerator_table, denominator_table = (
        _checked_table(numerators, strata, clusters),
        _checked_table(denominators, strata, clusters),
    )
    if numerator_table.shape != denominator_table.shape or numerator_table.shape[1] != len(factors):
        raise ValueError("numerators, denominators and factors must be of the same columns")
    stratum, cluster = _group_indices(strata, clusters)
    scale, count = np.asarray(factors, dtype=np.float64), int(stratum.max()) + 1
    share = [1.0] * count if weights is None else list(weights)
    values, tables, influences, numbers, shares = [], [], [], [], []
    for stratum_index in range(count):
        in_stratum = stratum == stratum_index
        _, cluster_index = np.unique(cluster[in_stratum], return_inverse=True)
        size = int(cluster_index.max()) + 1
        sums = np.column_stack(
            [
                _sum_by_index(cluster_index, column, size)
                for column in (*numerator_table[in_stratum].T, *denominator_table[in_stratum].T)
            ]
        )
        top, bottom = np.split(sums.sum(axis=0), 2)
        if not bottom.all():
            continue
        values.append(float(scale @ (top / bottom)))
        tables.append(sums)
        shares.append(share[stratum_index])
        numbers.append(_sum_by_index(cluster_index, np.ones(len(cluster_index)), size))
        # First-order influence of each cluster on the figure of its stratum.
        influences.append((sums[:, : len(scale)] - sums[:, len(scale) :] * (top / bottom)) / bottom @ scale)
    if not values or not sum(shares):
        return None
    stratum_weights = [stratum_weight / sum(shares) for stratum_weight in shares]
    value, n = (
        constant + sum(weight * stratum_value for weight, stratum_value in zip(stratum_weights, values, strict=True)),
        len(strata),
    )
    if not resamples or not bootstrap_holds(
        [np.column_stack(columns) for columns in zip(influences, numbers, strict=True)]
    ):
        return Estimate(value=value, n=n, low=None, high=None, level=level, method="too few")
    generator = np.random.default_rng(seed)
    draws, spread, error = np.full(resamples, float(constant)), np.zeros(resamples), 0.0
    for weight, sums, influence in zip(stratum_weights, tables, influences, strict=True):
        replicates = resampled_sums(np.column_stack([sums, influence, influence**2]), resamples, generator)
        top, bottom = np.split(replicates[:, :-2], 2, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            draws += weight * ((top / bottom) @ scale)
        spread += weight**2 * np.maximum(replicates[:, -1] - replicates[:, -2] ** 2 / len(sums), 0.0)
        error += float(weight**2 * (influence**2).sum())
    is_defined = np.isfinite(draws)
    effective = sum(map(effective_clusters, numbers))
    low, high = studentised_interval(
        value, math.sqrt(error), draws[is_defined], np.sqrt(spread[is_defined]), level, effective, len(tables)
    )
    lowest, highest = _bounds(
        scale, float(numerator_table.min()), 1.0 if (numerator_table <= denominator_table).all() else math.inf
    )
    low, high = max(low, lowest + constant), min(high, highest + constant)
    return Estimate(value=value, n=n, low=min(low, value), high=max(high, value), level=level, method="bootstrap")


def _checked_table(columns: Sequence[Sequence[float]], strata: Sequence[str], clusters: Sequence[str] | None) -> Floats:
    """Return the columns as a table, (questions, columns)."""
    lengths = {len(strata), *map(len, columns), *([len(clusters)] if clusters is not None else [])}
    if len(lengths) != 1 or lengths == {0} or not columns:
        raise ValueError("values, strata and clusters must have one entry a value, and one value or more")
    table = np.array(columns, dtype=np.float64).T
    if not np.isfinite(table).all():
        raise ValueError("a value is not finite; leave missing scores out and count them")
    return table


def _group_indices(strata: Sequence[str], clusters: Sequence[str] | None) -> tuple[Places, Places]:
    """Return the index of each value's stratum and cluster, numbered by their first values.

    A cluster belongs to one stratum.
    """
    names = clusters if clusters is not None else [""] * len(strata)
    stratum_indices: dict[str, int] = {}
    cluster_indices: dict[tuple[int, str | int], int] = {}
    stratum = [stratum_indices.setdefault(name, len(stratum_indices)) for name in strata]
    cluster = (
        range(len(names))
        if not any(names)
        else [
            cluster_indices.setdefault((stratum_index, name or index), len(cluster_indices))
            for index, (stratum_index, name) in enumerate(zip(stratum, names, strict=True))
        ]
    )
    return np.array(stratum, dtype=np.intp), np.array(cluster, dtype=np.intp)


def right_or_wrong(table: Floats, attempts: int) -> bool:
    """Return True if every value is a mean of this number of right-or-wrong outcomes."""
    counts = table * attempts
    is_whole = np.abs(counts - np.round(counts)) < _CLOSE * attempts
    return bool(is_whole.all() and (table > -_CLOSE).all() and (table < 1 + _CLOSE).all())


def _outcomes(table: Floats, factors: Floats) -> tuple[Floats, float, float, float]:
    """Return combined outcomes, their lowest and highest possible values, and the scale that they are multiplied by."""
    if table.shape[1] == 1:
        return table[:, 0], 0.0, 1.0, float(factors[0])
    if table.shape[1] == 2 and factors[0] == -factors[1]:
        return table[:, 1] - table[:, 0], -1.0, 1.0, float(factors[1])
    return table @ factors, float(np.minimum(factors, 0.0).sum()), float(np.maximum(factors, 0.0).sum()), 1.0


def _bounds(factors: Floats, lowest: float, highest: float) -> tuple[float, float]:
    """Return the bounds of Σ factor × mean: no cost is below 0, no share above 1.

    Args:
        factors: factor of each column.
        lowest: lowest value of all columns; if it is below 0, the bounds are unknown.
        highest: highest value that a column can reach.
    """
    nonzero = [float(factor) for factor in factors if factor]
    if lowest < 0:
        return -math.inf, math.inf
    return sum(factor * highest for factor in nonzero if factor < 0), sum(
        factor * highest for factor in nonzero if factor > 0
    )


def _squares(outcomes: Floats, lowest: float, highest: float, attempts: int) -> Floats:
    """Return the sum of an outcome's squares over its attempts.

    It is exact for one attempt and for right or wrong, otherwise the lowest possible sum.
    """
    if (lowest, highest) in ((0.0, 1.0), (-1.0, 1.0)):
        return np.abs(outcomes) * attempts
    squares: Floats = outcomes**2 * attempts
    return squares


def _tallies(sums: Floats, sizes: Floats, squares: Floats, stratum: Places, cluster: Places) -> Tallies:
    count = int(cluster.max()) + 1
    strata = int(stratum.max()) + 1
    stratum_of_cluster = np.zeros(count, dtype=np.intp)
    stratum_of_cluster[cluster] = stratum
    total, size = _sum_by_index(cluster, sums, count), _sum_by_index(cluster, sizes, count)
    n, stratum_total = _sum_by_index(stratum_of_cluster, size, strata), _sum_by_index(stratum_of_cluster, total, strata)
    return Tallies(
        observations=n,
        total=stratum_total,
        squares=_sum_by_index(stratum, squares, strata),
        within=_sum_by_index(stratum, squares, strata) - _sum_by_index(stratum_of_cluster, total**2 / size, strata),
        pairs=_sum_by_index(stratum_of_cluster, np.maximum(size * (size - 1), 0.0), strata),
        clusters=_sum_by_index(stratum_of_cluster, np.ones(count), strata),
    )


def _sum_by_index(indices: Places, numbers: Floats, count: int) -> Floats:
    """Return the sum of the numbers for each index."""
    return np.bincount(indices, numbers, count).astype(np.float64)
