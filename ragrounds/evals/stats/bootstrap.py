"""Means over datasets and differences between two agents, by a bootstrap stratified by dataset.

The headline of a benchmark with several datasets is the unweighted mean of the datasets' means. A resample draws, in
every dataset by itself, as many clusters as it has, with replacement (Efron & Tibshirani 1993, Chapters 8 and 13;
percentile interval). A cluster is a set of questions that are not independent: duplicates, epochs of one question.

Only a cluster's sum and size enter a resample's mean, so clusters with equal sum and size are drawn together, by one
multinomial count: this is the same distribution, and with right/wrong values 10,000 resamples of MIRAGE's 7,663
questions take milliseconds.

A bootstrap knows only what it has seen: where every answer of a dataset is right, or where it has a single cluster, its
share of the interval has no width. Look at the Wilson interval there.

:func:`joint_means` resamples several means of the same questions together, for ratios and orders of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragrounds.evals.stats.intervals import Estimate

Floats = NDArray[np.float64]

RESAMPLES = 10_000
JOINT_RESAMPLES = 2_000
"""Enough for 95 % intervals of ratios; every resample draws all questions one by one."""
_DRAWN_AT_ONCE = 4_000_000
"""Counts or clusters held in memory at a time."""


def stratified_mean(
    values: Sequence[float],
    strata: Sequence[str],
    clusters: Sequence[str] | None = None,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """The unweighted mean over strata (datasets) of the mean value in each, with a bootstrap interval.

    Args:
        values: one number a question and epoch; missing scores are left out by the caller.
        strata: the dataset of each value. One name throughout gives a plain mean.
        clusters: values of one dataset with the same name are drawn together; empty names stand alone.
        resamples: number of bootstrap resamples.
        level: coverage of the interval.
        seed: equal seeds give equal intervals.

    Raises:
        ValueError: no values, lengths that differ, or a value that is not finite.
    """
    sums = _by_cluster(values, strata, clusters)
    draws = _resampled(sums, resamples, seed)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    value = float(np.mean([stratum[:, 0].sum() / stratum[:, 1].sum() for stratum in sums]))
    error = float(draws.std(ddof=1)) if resamples > 1 else 0.0
    return Estimate(value=value, n=len(values), error=error, low=float(low), high=float(high), level=level)


def paired_difference(
    first: Sequence[float],
    second: Sequence[float],
    strata: Sequence[str],
    clusters: Sequence[str] | None = None,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """`second` minus `first` on the same questions in the same order: unweighted mean over strata, with the interval of
    :func:`stratified_mean`. Both answers to a question are drawn together."""
    if len(first) != len(second):
        raise ValueError(
            f"a paired difference needs the same questions on both sides, got {len(first)} and {len(second)}"
        )
    difference = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    return stratified_mean(difference.tolist(), strata, clusters, resamples=resamples, level=level, seed=seed)


def ratio_of_sums(
    numerators: Sequence[float],
    denominators: Sequence[float],
    clusters: Sequence[str] | None = None,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """Σ numerators / Σ denominators over questions, with a percentile interval by drawing clusters of them.

    Resamples whose denominators add up to 0 have no ratio and are left out: where there are many, the interval says
    little.

    Raises:
        ValueError: lengths that differ, a value that is not finite, or denominators that add up to 0.
    """
    if not len(numerators) or len(numerators) != len(denominators):
        raise ValueError("numerators and denominators must have one entry a question, and one question or more")
    pairs = np.column_stack([np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)])
    total = pairs.sum(axis=0)
    if not np.isfinite(pairs).all() or total[1] == 0:
        raise ValueError("every value must be finite, and the denominators must not add up to 0")
    names = [name or f"\0{index}" for index, name in enumerate(clusters or [""] * len(pairs))]
    _, places = np.unique(np.asarray(names, dtype=object).astype(str), return_inverse=True)
    sums = np.zeros((int(places.max()) + 1, 2))
    np.add.at(sums, places, pairs)
    generator, drawn = np.random.default_rng(seed), np.empty((resamples, 2))
    at_once = max(1, _DRAWN_AT_ONCE // len(sums))
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        drawn[start : start + size] = sums[generator.integers(0, len(sums), size=(size, len(sums)))].sum(axis=1)
    some = drawn[drawn[:, 1] != 0]
    ratios = some[:, 0] / some[:, 1]
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    error = float(ratios.std(ddof=1)) if len(ratios) > 1 else 0.0
    value = float(total[0] / total[1])
    return Estimate(value=value, n=len(pairs), error=error, low=float(low), high=float(high), level=level)


def macro_error(errors: Sequence[float]) -> float:
    """The standard error of an unweighted mean of independent figures from theirs: sqrt(Σ error²) / number."""
    if not errors:
        raise ValueError("expected one error or more")
    return float(np.sqrt(np.square(errors).sum())) / len(errors)


def _by_cluster(values: Sequence[float], strata: Sequence[str], clusters: Sequence[str] | None) -> list[Floats]:
    """For every stratum an array of (sum of values, number of values), one row a cluster."""
    if not len(values) or len(values) != len(strata) or (clusters is not None and len(clusters) != len(values)):
        raise ValueError("values, strata and clusters must have one entry a value, and one value or more")
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("a value is not finite; leave missing scores out and count them")
    names = clusters if clusters is not None else [""] * len(values)
    keys = [(stratum, name or f"\0{index}") for index, (stratum, name) in enumerate(zip(strata, names, strict=True))]
    order: dict[str, dict[tuple[str, str], int]] = {}
    for key in keys:
        inside = order.setdefault(key[0], {})
        inside.setdefault(key, len(inside))
    tables = {stratum: np.zeros((len(inside), 2)) for stratum, inside in order.items()}
    for key, number in zip(keys, numbers, strict=True):
        row = tables[key[0]][order[key[0]][key]]
        row[0] += number
        row[1] += 1
    return list(tables.values())


def _resampled(strata: list[Floats], resamples: int, seed: int) -> Floats:
    """Bootstrap replicates of the unweighted mean over strata."""
    generator = np.random.default_rng(seed)
    total = np.zeros(resamples)
    for stratum in strata:
        kinds, counts = np.unique(stratum, axis=0, return_counts=True)
        total += _stratum_means(kinds, counts, resamples, generator)
    return total / len(strata)


def _stratum_means(kinds: Floats, counts: NDArray[Any], resamples: int, generator: np.random.Generator) -> Floats:
    """Replicates of one stratum's mean. Both ways of drawing have the same distribution; a multinomial count costs
    about four times as much as one drawn cluster, so many different clusters are drawn one by one."""
    drawn = int(counts.sum())
    one_by_one = len(kinds) * 4 > drawn
    at_once = max(1, _DRAWN_AT_ONCE // (drawn if one_by_one else len(kinds)))
    chances, clusters = counts / drawn, np.repeat(kinds, counts, axis=0)
    means = np.empty(resamples)
    for start in range(0, resamples, at_once):
        part = slice(start, min(start + at_once, resamples))
        size = part.stop - part.start
        if one_by_one:
            places = generator.integers(0, drawn, size=(size, drawn), dtype=np.int32)
            totals = clusters[:, 0].take(places).sum(axis=1)
            same = bool((kinds[:, 1] == kinds[0, 1]).all())
            means[part] = totals / (drawn * kinds[0, 1] if same else clusters[:, 1].take(places).sum(axis=1))
        else:
            often = generator.multinomial(drawn, chances, size=size)
            means[part] = (often @ kinds[:, 0]) / (often @ kinds[:, 1])
    return means


def joint_means(
    columns: Sequence[Sequence[float | None]],
    strata: Sequence[str],
    clusters: Sequence[str],
    *,
    resamples: int = JOINT_RESAMPLES,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """The unweighted mean over strata of each column's mean, and its bootstrap replicates.

    Args:
        columns: each with one value a question, in the same order; ``None`` is missing and in no mean.
        strata: the dataset of each question.
        clusters: questions of one dataset with the same name are drawn together; an empty name stands alone.
        resamples: number of bootstrap resamples.
        seed: equal seeds give equal replicates.

    Returns:
        The means, one a column; and the replicates, resamples × columns. NaN where a column has no value.

    Raises:
        ValueError: no columns, or columns, strata and clusters of different lengths.
    """
    if not columns or not strata or any(len(one) != len(strata) for one in (*columns, clusters)):
        raise ValueError("columns, strata and clusters must have one entry a question, and one question or more")
    table = np.array([[np.nan if value is None else value for value in column] for column in columns]).T
    generator = np.random.default_rng(seed)
    values, draws = [], []
    for stratum in dict.fromkeys(strata):
        rows = [index for index, name in enumerate(strata) if name == stratum]
        sums, counts = _columns_by_cluster(table[rows], [clusters[index] for index in rows])
        with np.errstate(invalid="ignore"):
            values.append(sums.sum(axis=0) / counts.sum(axis=0))
            draws.append(_resampled_columns(sums, counts, resamples, generator))
    return _mean_of_known(np.array(values)), _mean_of_known(np.array(draws))


def _columns_by_cluster(table: Floats, names: Sequence[str]) -> tuple[Floats, Floats]:
    keys = [name or f"\0{index}" for index, name in enumerate(names)]
    _, place = np.unique(np.array(keys), return_inverse=True)
    size = int(place.max()) + 1
    sums, counts = np.zeros((size, table.shape[1])), np.zeros((size, table.shape[1]))
    np.add.at(sums, place, np.nan_to_num(table))
    np.add.at(counts, place, ~np.isnan(table))
    return sums, counts


def _resampled_columns(sums: Floats, counts: Floats, resamples: int, generator: np.random.Generator) -> Floats:
    size, both = len(sums), np.concatenate([sums, counts], axis=1)
    drawn = np.empty((resamples, both.shape[1]))
    for number in range(resamples):
        weights = np.bincount(generator.integers(0, size, size), minlength=size)
        drawn[number] = weights.astype(np.float64) @ both
    columns = sums.shape[1]
    replicates: Floats = drawn[:, :columns] / drawn[:, columns:]
    return replicates


def _mean_of_known(values: Floats) -> Floats:
    """Mean over the first axis, of what is there."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: Floats = np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0)
    return mean
