"""Bootstrap by clusters and strata, for scores that are not right or wrong, for ratios and for orders of means.

A resample draws, in every dataset (stratum) by itself, as many clusters as it has, with replacement (Efron & Tibshirani
1993, Chapters 8 and 13). A cluster is a set of questions that are not independent. Each end is the further of two: the
percentile, taken as far out as Student's t is beyond the normal distribution and as the draws vary too little
(Hesterberg 2015); and the bootstrap-t's, which divides each replicate by its own standard error (Efron and Tibshirani,
Chapter 12.5). Of costs and seconds, a few of which make most of the mean, percentiles alone hold far too seldom: a
sample without a dear question has a small mean and a small spread at once, which only the second sees.

Only a cluster's sum and size enter a resample's mean, so clusters with equal sum and size are drawn together, by one
multinomial count: this is the same distribution, and takes milliseconds.

A bootstrap knows only what it has seen. Of few clusters, or where nearly all are alike, its interval is too narrow:
:func:`bootstrap_holds` says from where on it may be shown (simulated in `perf/coverage.md`). Below that there is none.

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
"""Enough for 95 % intervals of ratios; every resample draws all questions one by one."""
FEWEST = 50
"""Clusters, in all datasets together, from which a bootstrap is shown."""
FEWEST_OF_A_STRATUM = 10
"""Clusters of each dataset, likewise."""
FEWEST_EFFECTIVE = 5
"""Clusters of one size that they are worth, likewise; one more for each further dataset."""
FEWEST_UNLIKE = 10
"""Clusters whose mean is not the commonest one, likewise."""
_ROUNDING = 1e-9
_DRAWN_AT_ONCE = 4_000_000
"""Counts or clusters held in memory at a time."""


def bootstrap_holds(strata: Sequence[Floats], fewest: int = FEWEST) -> bool:
    """Whether a bootstrap of these clusters may be shown: they are many enough, and not nearly all alike.

    Args:
        strata: of each an array of (sum of values, number of values), one row a cluster.
        fewest: clusters in all.
    """
    if not _many([clusters[:, 1] for clusters in strata], fewest):
        return False
    means: Counter[float] = Counter()
    for clusters in strata:
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = np.where(clusters[:, 1] != 0, clusters[:, 0] / clusters[:, 1], 0.0)
        means.update(np.round(ratios, 9).tolist())
    return sum(map(len, strata)) - means.most_common(1)[0][1] >= FEWEST_UNLIKE


def _many(sizes: Sequence[Floats], fewest: int) -> bool:
    """Whether clusters of these sizes, by stratum, are enough for a bootstrap."""
    counts = [len(each) for each in sizes]
    worth = sum(map(effective_clusters, sizes)) - len(sizes) + 1
    return sum(counts) >= fewest and min(counts) >= FEWEST_OF_A_STRATUM and worth >= FEWEST_EFFECTIVE


def effective_clusters(sizes: Floats) -> float:
    """How many clusters of one size clusters of these sizes are worth: (Σ size)² / Σ size² (Kish 1965)."""
    squares = float((sizes**2).sum())
    return float(sizes.sum()) ** 2 / squares if squares else 0.0


def enough_clusters(strata: Sequence[str], clusters: Sequence[str]) -> bool:
    """Whether questions are enough for a bootstrap: `FEWEST` clusters in all, `FEWEST_OF_A_STRATUM` in each stratum,
    and not most of them in a few.

    Args:
        strata: of each question.
        clusters: questions of one stratum with the same name are one; an empty name stands alone.
    """
    return _many(cluster_sizes(strata, clusters), FEWEST)


def cluster_sizes(strata: Sequence[str], clusters: Sequence[str]) -> list[Floats]:
    """Of each stratum the sizes of its clusters, named as for :func:`enough_clusters`."""
    names = Counter((one, other or place) for place, (one, other) in enumerate(zip(strata, clusters, strict=True)))
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for (stratum, _), size in names.items():
        sizes[stratum].append(size)
    return [np.array(each, dtype=np.float64) for each in sizes.values()]


def studentised_interval(
    value: float, error: float, draws: Floats, errors: Floats, level: float, clusters: float, strata: int
) -> tuple[float, float]:
    """The ends of an interval by its replicates and their standard errors: each the further of the percentile's and the
    bootstrap-t's.

    Args:
        value: the figure.
        error: its standard error.
        draws: the replicates.
        errors: their standard errors, made as that of the figure.
        level, clusters, strata: as of :func:`percentile_interval`.
    """
    low, high = percentile_interval(draws, level, clusters, strata)
    # A replicate of clusters that are all alike has no error: it is as far off as can be.
    scaled = (draws - value) / np.maximum(errors, _ROUNDING * error)
    below, above = np.quantile(scaled, [(1 - level) / 2, (1 + level) / 2])
    return min(low, value - float(above) * error), max(high, value - float(below) * error)


def percentile_interval(draws: Floats, level: float, clusters: float, strata: int) -> tuple[float, float]:
    """The ends of an interval by its replicates.

    Args:
        draws: the replicates.
        level: coverage.
        clusters: that were drawn from, in all; of uneven sizes by :func:`effective_clusters`.
        strata: that they were drawn in.
    """
    tail = NormalDist().cdf(-student_reach(clusters, clusters - strata, level))
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)


def student_reach(clusters: float, free: float, level: float) -> float:
    """How many of a bootstrap's standard errors a deviation is within at this level: a bootstrap of few clusters varies
    too little, and does not know by how much (Student's t; Hesterberg 2015).

    Args:
        clusters: as of :func:`percentile_interval`.
        free: their degrees of freedom.
        level: coverage.
    """
    return math.sqrt(clusters / free) * float(student_quantile(free, level))


class Replicates(NamedTuple):
    """What a figure is in each resample."""

    draws: Floats
    errors: Floats
    """Their standard errors, each by its own clusters."""
    error: float
    """Of the figure itself, made in the same way."""


def resampled(strata: Sequence[Floats], weights: Floats, resamples: int, seed: int) -> Replicates:
    """Replicates of Σ weight × mean over strata.

    Args:
        strata: of each an array of (sum of values, number of values), one row a cluster.
        weights: one a stratum.
        resamples: how many.
        seed: equal seeds give equal replicates.
    """
    generator = np.random.default_rng(seed)
    total, variance, own = np.zeros(resamples), np.zeros(resamples), 0.0
    for clusters, weight in zip(strata, weights, strict=True):
        means, spread = _stratum_means(clusters, resamples, generator)
        total += weight * means
        variance += weight**2 * spread
        own += float(weight**2 * (_moves(clusters[:, 0], clusters[:, 1], clusters.sum(axis=0)) ** 2).sum())
    return Replicates(total, np.sqrt(variance), math.sqrt(own))


def _moves(sums: Floats, sizes: Floats, whole: Floats) -> Floats:
    """How far values of this sum and number move the mean of a stratum, to first order.

    Args:
        sums, sizes: of clusters, or of resamples.
        whole: both of the stratum.
    """
    total, number = whole
    moves: Floats = (sums - sizes * (total / number)) / number
    return moves


def resampled_sums(clusters: Floats, resamples: int, seed: int | np.random.Generator) -> Floats:
    """Replicates of the sum of every column, (resamples, columns): all columns of a replicate are of the same drawn
    clusters, so that ratios and differences of them can be made.

    Args:
        clusters: one row a cluster, (clusters, columns).
        resamples: how many.
        seed: equal seeds give equal replicates.
    """
    generator = np.random.default_rng(seed)
    size = len(clusters)
    sums, at_once = np.empty((resamples, clusters.shape[1])), max(1, _DRAWN_AT_ONCE // size)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        places = generator.integers(0, size, size=(rows, size)) + size * np.arange(rows)[:, None]
        often = np.bincount(places.ravel(), minlength=rows * size).reshape(rows, size)
        sums[start : start + rows] = often.astype(np.float64) @ clusters
    return sums


def _stratum_means(clusters: Floats, resamples: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Replicates of one stratum's mean, and their variances. Both ways of drawing have the same distribution; a
    multinomial count costs about four times as much as one drawn cluster, so many different clusters are drawn one by
    one."""
    kinds, counts = np.unique(clusters, axis=0, return_counts=True)
    drawn, whole = len(clusters), clusters.sum(axis=0)
    one_by_one = len(kinds) * 4 > drawn
    pool = np.repeat(kinds, counts, axis=0) if one_by_one else kinds
    squares = _moves(pool[:, 0], pool[:, 1], whole) ** 2
    same = bool((kinds[:, 1] == kinds[0, 1]).all())
    at_once = max(1, _DRAWN_AT_ONCE // len(pool))
    totals, sizes, spread = np.empty(resamples), np.full(resamples, whole[1]), np.empty(resamples)
    for start in range(0, resamples, at_once):
        part = slice(start, min(start + at_once, resamples))
        if one_by_one:
            places = generator.integers(0, drawn, size=(part.stop - part.start, drawn), dtype=np.int32)
            totals[part], spread[part] = pool[:, 0].take(places).sum(axis=1), squares.take(places).sum(axis=1)
            if not same:
                sizes[part] = pool[:, 1].take(places).sum(axis=1)
        else:
            often = generator.multinomial(drawn, counts / drawn, size=part.stop - part.start)
            totals[part], sizes[part], spread[part] = often @ pool[:, 0], often @ pool[:, 1], often @ squares
    with np.errstate(invalid="ignore", divide="ignore"):
        return totals / sizes, np.maximum(spread - _moves(totals, sizes, whole) ** 2 / drawn, 0.0)


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
    """The unweighted mean over strata of each column's mean, and its bootstrap replicates.

    Args:
        columns: each with one value a question, in the same order; ``None`` is missing and in no mean.
        strata: the dataset of each question.
        clusters: questions of one dataset with the same name are drawn together; an empty name stands alone.
        resamples: number of bootstrap resamples.
        seed: equal seeds give equal replicates.
        sizes: of each column the denominators by which its values were divided, where it is a ratio of sums; ``None``
            of a column: it is a mean.
        groups: how many columns that follow each other are multiplied at once; by default all. The last digit of a
            replicate depends on what is beside it there.

    Returns:
        The means, one a column; and the replicates, resamples × columns. NaN where a column has no value.

    Raises:
        ValueError: no columns, or columns, strata and clusters of different lengths.
    """
    if not columns or not strata or any(len(one) != len(strata) for one in (*columns, clusters)):
        raise ValueError("columns, strata and clusters must have one entry a question, and one question or more")
    table = np.array([[np.nan if value is None else value for value in column] for column in columns]).T
    ones = [1.0] * len(strata)
    given = np.array([ones if one is None else list(one) for one in sizes or [None] * len(columns)]).T
    generator = np.random.default_rng(seed)
    values, draws = [], []
    for stratum in dict.fromkeys(strata):
        rows = [index for index, name in enumerate(strata) if name == stratum]
        sums, counts = _columns_by_cluster(table[rows], given[rows], [clusters[index] for index in rows])
        with np.errstate(invalid="ignore", divide="ignore"):
            values.append(sums.sum(axis=0) / counts.sum(axis=0))
            draws.append(_resampled_columns(sums, counts, resamples, generator, groups or [len(columns)]))
    return _mean_of_known(np.array(values)), _mean_of_known(np.array(draws))


def variance_columns(columns: Sequence[Floats], strata: Sequence[str], clusters: Sequence[str]) -> list[Floats]:
    """For each column another, whose mean by :func:`joint_means` is the variance of that mean, in each resample, too.

    Args:
        columns: of values, one a question; one that is missing (NaN) counts as the mean of its stratum.
        strata, clusters: as of :func:`joint_means`.
    """
    made, names = [np.zeros(len(strata)) for _ in columns], list(dict.fromkeys(strata))
    for stratum in names:
        rows = np.array([index for index, name in enumerate(strata) if name == stratum])
        _, place = np.unique(np.array([clusters[index] or f"\0{index}" for index in rows]), return_inverse=True)
        for values, column in zip(columns, made, strict=True):
            apart = np.nan_to_num(values[rows] - _mean_of_known(values[rows]))
            column[rows] = (np.bincount(place, apart) ** 2 / np.bincount(place))[place] / (len(names) * len(rows))
    return made


def _columns_by_cluster(table: Floats, given: Floats, names: Sequence[str]) -> tuple[Floats, Floats]:
    keys = [name or f"\0{index}" for index, name in enumerate(names)]
    _, place = np.unique(np.array(keys), return_inverse=True)
    size = int(place.max()) + 1
    sums, counts = np.zeros((size, table.shape[1])), np.zeros((size, table.shape[1]))
    np.add.at(sums, place, np.nan_to_num(table) * given)
    np.add.at(counts, place, ~np.isnan(table) * given)
    return sums, counts


def _resampled_columns(
    sums: Floats, counts: Floats, resamples: int, generator: np.random.Generator, groups: Sequence[int]
) -> Floats:
    size, ends = len(sums), np.cumsum(groups)[:-1]
    tables = [np.hstack(both) for both in zip(np.split(sums, ends, 1), np.split(counts, ends, 1), strict=True)]
    # Sums of whole numbers have no last digit that goes by their order: columns that are equal are multiplied once.
    whole = [bool((table == np.rint(table)).all()) for table in tables]
    together = [np.empty((size, 0)), *itertools.compress(tables, whole)]
    kinds, places = np.unique(np.hstack(together), axis=1, return_inverse=True)
    multiplied = [kinds, *(table for table, one in zip(tables, whole, strict=True) if not one)]
    drawn = [np.empty((resamples, table.shape[1])) for table in multiplied]
    for number in range(resamples):
        weights = np.bincount(generator.integers(0, size, size), minlength=size).astype(np.float64)
        for table, made in zip(multiplied, drawn, strict=True):
            made[number] = weights @ table
    alike = iter(np.split(drawn[0][:, places], np.cumsum([table.shape[1] for table in together])[:-1], axis=1)[1:])
    others = iter(drawn[1:])
    halves = [np.hsplit(next(alike if one else others), 2) for one in whole]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.hstack([above / below for above, below in halves])


def _mean_of_known(values: Floats) -> Floats:
    """Mean over the first axis, of what is there."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: Floats = np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0)
    return mean
