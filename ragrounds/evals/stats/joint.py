"""Several means of the same questions, resampled together: for ratios and orders that a single interval cannot give."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 2_000
"""Enough for 95 % intervals of ratios; every resample draws all questions one by one."""


def joint_means(
    columns: Sequence[Sequence[float | None]],
    strata: Sequence[str],
    clusters: Sequence[str],
    *,
    resamples: int = RESAMPLES,
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
        sums, counts = _by_cluster(table[rows], [clusters[index] for index in rows])
        with np.errstate(invalid="ignore"):
            values.append(sums.sum(axis=0) / counts.sum(axis=0))
            draws.append(_resampled(sums, counts, resamples, generator))
    return _mean(np.array(values)), _mean(np.array(draws))


def _by_cluster(table: Floats, names: Sequence[str]) -> tuple[Floats, Floats]:
    keys = [name or f"\0{index}" for index, name in enumerate(names)]
    _, place = np.unique(np.array(keys), return_inverse=True)
    size = int(place.max()) + 1
    sums, counts = np.zeros((size, table.shape[1])), np.zeros((size, table.shape[1]))
    np.add.at(sums, place, np.nan_to_num(table))
    np.add.at(counts, place, ~np.isnan(table))
    return sums, counts


def _resampled(sums: Floats, counts: Floats, resamples: int, generator: np.random.Generator) -> Floats:
    size, both = len(sums), np.concatenate([sums, counts], axis=1)
    drawn = np.empty((resamples, both.shape[1]))
    for number in range(resamples):
        weights = np.bincount(generator.integers(0, size, size), minlength=size)
        drawn[number] = weights.astype(np.float64) @ both
    columns = sums.shape[1]
    replicates: Floats = drawn[:, :columns] / drawn[:, columns:]
    return replicates


def _mean(values: Floats) -> Floats:
    """Mean over the first axis, of what is there."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: Floats = np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0)
    return mean
