"""Bootstrap by clusters and strata, for scores that are not right or wrong, for ratios and for orders of means.

A resample draws, in every dataset (stratum) separately, as many clusters as it has, with replacement (Efron &
Tibshirani 1993, Chapters 8 and 13). A cluster is a set of questions that are not independent. Each end of an interval
is the further of two. The first is the percentile, moved outwards as far as Student's t is beyond the normal
distribution and as the draws vary too little (Hesterberg 2015). The second is the bootstrap-t's, which divides each
replicate by its own standard error (Efron and Tibshirani, Chapter 12.5). For costs and seconds, a few of which make
most of the mean, percentiles alone cover far too seldom: a sample without an expensive question has both a small mean
and a small spread, which only the bootstrap-t takes into account.

Only a cluster's sum and size enter a resample's mean, so clusters with equal sum and size are sampled together, by one
multinomial count. The distribution is the same, and it takes milliseconds.

A bootstrap knows only the observed values. With few clusters, or if nearly all are alike, its interval is too narrow.
:func:`bootstrap_holds` says when it may be shown (simulated in `perf/coverage.md`); otherwise there is no interval.

:func:`joint_means` resamples several means of the same questions together, for ratios and orders of them.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragrounds.evals.stats.intervals import student_quantile

Floats = NDArray[np.float64]

RESAMPLES = 10_000
JOINT_RESAMPLES = 2_000
"""Number of resamples for :func:`joint_means`, enough for 95 % intervals of ratios. Every resample samples all
questions one by one."""
FEWEST = 50
"""Smallest number of clusters, in all datasets together, for which a bootstrap is shown."""
FEWEST_OF_A_STRATUM = 10
"""Smallest number of clusters of each dataset for which a bootstrap is shown."""
FEWEST_EFFECTIVE = 5
"""Smallest effective number of clusters for which a bootstrap is shown; one more for each further dataset."""
FEWEST_UNLIKE = 10
"""Smallest number of clusters whose mean differs from the commonest one for which a bootstrap is shown."""
_ROUNDING = 1e-9
_DRAWN_AT_ONCE = 4_000_000
"""Count of numbers held in memory at a time."""
_WEIGHTS_AT_ONCE = 32_768
"""Number of weights that fit into a processor's cache."""


def bootstrap_holds(strata: Sequence[Floats], fewest: int = FEWEST) -> bool:
    """Return True if a bootstrap of these clusters may be shown: there are enough, and not nearly all are alike.

    Args:
        strata: for each stratum an array of (sum of values, number of values), one row for each cluster.
        fewest: smallest number of clusters in all.
    """
    if not _has_enough_clusters([clusters[:, 1] for clusters in strata], fewest):
        return False
    means: Counter[float] = Counter()
    for clusters in strata:
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = np.where(clusters[:, 1] != 0, clusters[:, 0] / clusters[:, 1], 0.0)
        means.update(np.round(ratios, 9).tolist())
    return sum(map(len, strata)) - means.most_common(1)[0][1] >= FEWEST_UNLIKE


def _has_enough_clusters(sizes: Sequence[Floats], fewest: int) -> bool:
    """Return True if clusters of these sizes, by stratum, are enough for a bootstrap."""
    counts = [len(stratum_sizes) for stratum_sizes in sizes]
    effective = sum(map(effective_clusters, sizes)) - len(sizes) + 1
    return sum(counts) >= fewest and min(counts) >= FEWEST_OF_A_STRATUM and effective >= FEWEST_EFFECTIVE


def effective_clusters(sizes: Floats) -> float:
    """Return the equivalent number of clusters of equal size: (Σ size)² / Σ size² (Kish 1965)."""
    squares = float((sizes**2).sum())
    return float(sizes.sum()) ** 2 / squares if squares else 0.0


def enough_clusters(strata: Sequence[str], clusters: Sequence[str]) -> bool:
    """Return True if there are enough questions for a bootstrap.

    This takes `FEWEST` clusters in all, `FEWEST_OF_A_STRATUM` in each stratum, and not most of the questions in a few
    clusters.

    Args:
        strata: stratum of each question.
        clusters: cluster name of each question. Questions of one stratum with the same name are one cluster; a question
            with an empty name is its own cluster.
    """
    return _has_enough_clusters(cluster_sizes(strata, clusters), FEWEST)


def cluster_sizes(strata: Sequence[str], clusters: Sequence[str]) -> list[Floats]:
    """Return for each stratum the sizes of its clusters, named as for :func:`enough_clusters`."""
    counts = Counter(
        (stratum, cluster or index) for index, (stratum, cluster) in enumerate(zip(strata, clusters, strict=True))
    )
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for (stratum, _), size in counts.items():
        sizes[stratum].append(size)
    return [np.array(stratum_sizes, dtype=np.float64) for stratum_sizes in sizes.values()]


def studentised_interval(
    value: float, error: float, draws: Floats, errors: Floats, level: float, clusters: float, strata: int
) -> tuple[float, float]:
    """Return the ends of an interval from replicates and their standard errors.

    Each end is the further of the percentile's and the bootstrap-t's.

    Args:
        value: figure.
        error: standard error of the figure.
        draws: replicates of the figure.
        errors: standard errors of the replicates, computed like that of the figure.
        level, clusters, strata: see :func:`percentile_interval`.
    """
    low, high = percentile_interval(draws, level, clusters, strata)
    # A replicate of equal clusters has no error: its scaled deviation is as large as possible.
    scaled = (draws - value) / np.maximum(errors, _ROUNDING * error)
    below, above = np.quantile(scaled, [(1 - level) / 2, (1 + level) / 2])
    return min(low, value - float(above) * error), max(high, value - float(below) * error)


def percentile_interval(draws: Floats, level: float, clusters: float, strata: int) -> tuple[float, float]:
    """Return the ends of an interval from replicates.

    Args:
        draws: replicates of the figure.
        level: coverage.
        clusters: total number of resampled clusters; for uneven sizes by :func:`effective_clusters`.
        strata: number of strata of the clusters.
    """
    tail = NormalDist().cdf(-student_reach(clusters, clusters - strata, level))
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)


def student_reach(clusters: float, free: float, level: float) -> float:
    """Return the number of bootstrap standard errors that a deviation is within at this level.

    A bootstrap of few clusters varies too little, and its own spread is uncertain (Student's t; Hesterberg 2015).

    Args:
        clusters: see :func:`percentile_interval`.
        free: degrees of freedom of the clusters.
        level: coverage.
    """
    return math.sqrt(clusters / free) * float(student_quantile(free, level))


class Replicates(NamedTuple):
    """Replicates of a figure, one for each resample."""

    draws: Floats
    errors: Floats
    """Standard errors of the replicates, each from its own clusters."""
    error: float
    """Standard error of the figure itself, computed in the same way."""


def resampled(strata: Sequence[Floats], weights: Floats, resamples: int, seed: int) -> Replicates:
    """Return replicates of Σ weight × mean over strata.

    Args:
        strata: for each stratum an array of (sum of values, number of values), one row for each cluster.
        weights: weight of each stratum.
        resamples: number of resamples.
        seed: equal seeds give equal replicates.
    """
    generator = np.random.default_rng(seed)
    total, variance, figure_variance = np.zeros(resamples), np.zeros(resamples), 0.0
    for clusters, weight in zip(strata, weights, strict=True):
        means, spread = _stratum_means(clusters, resamples, generator)
        total += weight * means
        variance += weight**2 * spread
        figure_variance += float(
            weight**2 * (_influences(clusters[:, 0], clusters[:, 1], clusters.sum(axis=0)) ** 2).sum()
        )
    return Replicates(total, np.sqrt(variance), math.sqrt(figure_variance))


def _influences(sums: Floats, sizes: Floats, stratum_sums: Floats) -> Floats:
    """Return the first-order influence of values with these sums and numbers on the mean of a stratum.

    Args:
        sums, sizes: sums and sizes of clusters, or of resamples.
        stratum_sums: sum and size of the stratum.
    """
    total, number = stratum_sums
    influences: Floats = (sums - sizes * (total / number)) / number
    return influences


def resampled_sums(clusters: Floats, resamples: int, seed: int | np.random.Generator) -> Floats:
    """Return replicates of the sum of every column, (resamples, columns).

    All columns of a replicate are from the same sampled clusters, so that ratios and differences of them can be
    computed.

    Args:
        clusters: one row for each cluster, (clusters, columns).
        resamples: number of resamples.
        seed: equal seeds give equal replicates.
    """
    generator = np.random.default_rng(seed)
    size = len(clusters)
    sums, batch_size = np.empty((resamples, clusters.shape[1])), max(1, _DRAWN_AT_ONCE // size)
    for start in range(0, resamples, batch_size):
        rows = min(batch_size, resamples - start)
        offsets = generator.integers(0, size, size=(rows, size)) + size * np.arange(rows)[:, None]
        draw_counts = np.bincount(offsets.ravel(), minlength=rows * size).reshape(rows, size)
        sums[start : start + rows] = draw_counts.astype(np.float64) @ clusters
    return sums


def _stratum_means(clusters: Floats, resamples: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Return replicates of one stratum's mean and their variances.

    Both ways of sampling have the same distribution. A multinomial count costs about four times as much as one sampled
    cluster, so many different clusters are sampled one by one.
    """
    distinct, counts = np.unique(clusters, axis=0, return_counts=True)
    cluster_count, stratum_sums = len(clusters), clusters.sum(axis=0)
    one_by_one = len(distinct) * 4 > cluster_count
    pool = np.repeat(distinct, counts, axis=0) if one_by_one else distinct
    squares = _influences(pool[:, 0], pool[:, 1], stratum_sums) ** 2
    has_equal_sizes = bool((distinct[:, 1] == distinct[0, 1]).all())
    batch_size = max(1, _DRAWN_AT_ONCE // len(pool))
    totals, sizes, spread = np.empty(resamples), np.full(resamples, stratum_sums[1]), np.empty(resamples)
    for start in range(0, resamples, batch_size):
        batch = slice(start, min(start + batch_size, resamples))
        if one_by_one:
            indices = generator.integers(
                0, cluster_count, size=(batch.stop - batch.start, cluster_count), dtype=np.int32
            )
            totals[batch], spread[batch] = pool[:, 0].take(indices).sum(axis=1), squares.take(indices).sum(axis=1)
            if not has_equal_sizes:
                sizes[batch] = pool[:, 1].take(indices).sum(axis=1)
        else:
            draw_counts = generator.multinomial(cluster_count, counts / cluster_count, size=batch.stop - batch.start)
            totals[batch], sizes[batch], spread[batch] = (
                draw_counts @ pool[:, 0],
                draw_counts @ pool[:, 1],
                draw_counts @ squares,
            )
    with np.errstate(invalid="ignore", divide="ignore"):
        return totals / sizes, np.maximum(spread - _influences(totals, sizes, stratum_sums) ** 2 / cluster_count, 0.0)


def joint_means(
    columns: Sequence[Sequence[float | None]],
    strata: Sequence[str],
    clusters: Sequence[str],
    *,
    resamples: int = JOINT_RESAMPLES,
    seed: int = 0,
    sizes: Sequence[Sequence[float] | None] | None = None,
    groups: Sequence[int] | None = None,
) -> tuple[Floats, Floats]:
    """Return the unweighted mean over strata of each column's mean, and its bootstrap replicates.

    Args:
        columns: columns of values, one for each question in the same order; ``None`` is missing and in no mean.
        strata: dataset of each question.
        clusters: cluster name of each question. Questions of one dataset with the same name are sampled together; a
            question with an empty name is its own cluster.
        resamples: number of bootstrap resamples.
        seed: equal seeds give equal replicates.
        sizes: for each column that is a ratio of sums, the denominators by which its values were divided; ``None`` for
            a column that is a mean.
        groups: numbers of consecutive columns that are multiplied at once; by default all. The last digit of a
            replicate depends on the columns that are multiplied with it.

    Returns:
        The means, one for each column, and the replicates, resamples × columns. NaN if a column has no value.

    Raises:
        ValueError: there are no columns, or columns, strata and clusters have different lengths.
    """
    if not columns or not strata or any(len(column) != len(strata) for column in (*columns, clusters)):
        raise ValueError("columns, strata and clusters must have one entry a question, and one question or more")
    table = np.array([[np.nan if value is None else value for value in column] for column in columns]).T
    unit_sizes = [1.0] * len(strata)
    denominators = np.array(
        [unit_sizes if column_sizes is None else list(column_sizes) for column_sizes in sizes or [None] * len(columns)]
    ).T
    generator = np.random.default_rng(seed)
    values, draws = [], []
    for stratum in dict.fromkeys(strata):
        rows = [index for index, name in enumerate(strata) if name == stratum]
        sums, counts = _columns_by_cluster(table[rows], denominators[rows], [clusters[index] for index in rows])
        with np.errstate(invalid="ignore", divide="ignore"):
            values.append(sums.sum(axis=0) / counts.sum(axis=0))
            draws.append(_resampled_columns(sums, counts, resamples, generator, groups or [len(columns)]))
    return _mean_of_known(np.array(values)), _mean_of_known(np.array(draws))


def variance_columns(columns: Sequence[Floats], strata: Sequence[str], clusters: Sequence[str]) -> list[Floats]:
    """Return for each column another column whose mean by :func:`joint_means` is the variance of the first one's mean.

    This holds in each resample, too.

    Args:
        columns: columns of values, one for each question; a missing value (NaN) counts as the mean of its stratum.
        strata, clusters: see :func:`joint_means`.
    """
    variances, names = [np.zeros(len(strata)) for _ in columns], list(dict.fromkeys(strata))
    for stratum in names:
        rows = np.array([index for index, name in enumerate(strata) if name == stratum])
        _, cluster_index = np.unique(np.array([clusters[index] or f"\0{index}" for index in rows]), return_inverse=True)
        for values, column in zip(columns, variances, strict=True):
            deviations = np.nan_to_num(values[rows] - _mean_of_known(values[rows]))
            column[rows] = (np.bincount(cluster_index, deviations) ** 2 / np.bincount(cluster_index))[cluster_index] / (
                len(names) * len(rows)
            )
    return variances


def _columns_by_cluster(table: Floats, denominators: Floats, names: Sequence[str]) -> tuple[Floats, Floats]:
    keys = [name or f"\0{index}" for index, name in enumerate(names)]
    _, cluster_index = np.unique(np.array(keys), return_inverse=True)
    size = int(cluster_index.max()) + 1
    sums, counts = np.zeros((size, table.shape[1])), np.zeros((size, table.shape[1]))
    np.add.at(sums, cluster_index, np.nan_to_num(table) * denominators)
    np.add.at(counts, cluster_index, ~np.isnan(table) * denominators)
    return sums, counts


def _resampled_columns(
    sums: Floats, counts: Floats, resamples: int, generator: np.random.Generator, groups: Sequence[int]
) -> Floats:
    size, ends = len(sums), np.cumsum(groups)[:-1]
    tables = [
        np.hstack(sums_and_counts)
        for sums_and_counts in zip(np.split(sums, ends, 1), np.split(counts, ends, 1), strict=True)
    ]
    # The order of summation does not change sums of whole numbers, so equal columns of them are multiplied only once.
    is_whole = [bool((table == np.rint(table)).all()) for table in tables]
    whole_columns = [np.empty((size, 0)), *itertools.compress(tables, is_whole)]
    distinct_columns, distinct_index = np.unique(np.hstack(whole_columns), axis=1, return_inverse=True)
    other_columns = [table for table, has_whole_numbers in zip(tables, is_whole, strict=True) if not has_whole_numbers]
    whole_sums = np.empty((resamples, distinct_columns.shape[1]))
    other_sums = [np.empty((resamples, table.shape[1])) for table in other_columns]
    at_once = max(1, _WEIGHTS_AT_ONCE // size)
    for start in range(0, resamples, at_once):
        count = min(at_once, resamples - start)
        cells = generator.integers(0, size, (count, size)) + size * np.arange(count)[:, None]
        weights = np.bincount(cells.ravel(), minlength=count * size).reshape(count, size).astype(np.float64)
        whole_sums[start : start + count] = weights @ distinct_columns
        for table, resampled in zip(other_columns, other_sums, strict=True):
            # A product for each row: one for all rows would change last digits.
            resampled[start : start + count] = (weights[:, None, :] @ table)[:, 0]
    ends_of_whole = np.cumsum([table.shape[1] for table in whole_columns])[:-1]
    whole_tables = iter(np.split(whole_sums[:, distinct_index], ends_of_whole, axis=1)[1:])
    other_tables = iter(other_sums)
    halves = [np.hsplit(next(whole_tables if has_whole_numbers else other_tables), 2) for has_whole_numbers in is_whole]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.hstack([numerators / denominators for numerators, denominators in halves])


def _mean_of_known(values: Floats) -> Floats:
    """Return the mean of the known values over the first axis."""
    is_known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: Floats = np.where(is_known, values, 0.0).sum(axis=0) / is_known.sum(axis=0)
    return mean
