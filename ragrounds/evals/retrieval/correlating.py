"""Pearson's and Spearman's correlation with bootstrap intervals, and paired differences of several.

A resample draws clusters of pairs with replacement (Efron & Tibshirani 1993; percentile interval): pairs that share a
sentence are not independent. Ranks are made anew in every resample, with midranks for ties.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MEASURES = ("Pearson", "Spearman")
RESAMPLES = 10_000
_AT_ONCE = 4_000_000
_UNDEFINED = 0.05
"""Share of resamples without spread from which there is no interval."""


class Correlation(msgspec.Struct, frozen=True, kw_only=True):
    """One correlation with its 95 % interval; no interval where too few resamples have a correlation."""

    value: float
    low: float | None
    high: float | None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """`first` minus `second`, on the same resamples."""

    first: str
    second: str
    measure: str
    difference: float
    low: float | None
    high: float | None


def correlations(
    given: Mapping[str, Sequence[float]],
    wanted: Sequence[float],
    clusters: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[dict[str, dict[str, Correlation]], list[Difference]]:
    """Correlate each of several rows of numbers with the wanted ones.

    Args:
        given: name → one number a pair.
        wanted: one number a pair, not all the same.
        clusters: pairs with the same name are drawn together.
        resamples: of the bootstrap.
        seed: equal seeds give equal intervals.

    Returns:
        Name → measure → correlation, and the paired differences. A row without spread has no correlation: it is left
        out of its measures.
    """
    y = np.asarray(wanted, dtype=np.float64)
    rows = {name: np.asarray(numbers, dtype=np.float64) for name, numbers in given.items()}
    whole = np.ones((1, len(y)))
    points = {(name, measure): float(_of(measure, x, y, whole)[0]) for name, x in rows.items() for measure in MEASURES}
    drawn: dict[tuple[str, str], list[Floats]] = {key: [] for key in points}
    for counts in _counts(clusters, resamples, seed):
        for name, measure in points:
            drawn[name, measure].append(_of(measure, rows[name], y, counts))
    draws = {key: np.concatenate(parts) for key, parts in drawn.items()}
    found: dict[str, dict[str, Correlation]] = {name: {} for name in rows}
    for (name, measure), value in points.items():
        if np.isfinite(value):
            low, high = _interval(draws[name, measure])
            found[name][measure] = Correlation(value=value, low=low, high=high)
    differences = []
    for first, second in combinations(rows, 2):
        for measure in MEASURES:
            apart = points[first, measure] - points[second, measure]
            if np.isfinite(apart):
                low, high = _interval(draws[first, measure] - draws[second, measure])
                differences.append(
                    Difference(first=first, second=second, measure=measure, difference=apart, low=low, high=high)
                )
    return found, differences


def _counts(clusters: Sequence[str], resamples: int, seed: int) -> Iterator[Floats]:
    """How often each pair is in each resample, some resamples at a time."""
    places: dict[str, int] = {}
    index = np.array([places.setdefault(name, len(places)) for name in clusters])
    generator = np.random.default_rng(seed)
    at_once = max(1, _AT_ONCE // len(index))
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        often = generator.multinomial(len(places), np.full(len(places), 1 / len(places)), size=size)
        yield often[:, index].astype(np.float64)


def _of(measure: str, x: Floats, y: Floats, counts: Floats) -> Floats:
    if measure == "Pearson":
        return _pearson(x[None, :], y[None, :], counts)
    return _pearson(_midranks(x, counts), _midranks(y, counts), counts)


def _pearson(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Pearson's correlation with weights, a row a resample; NaN where one side has no spread."""
    total = counts.sum(axis=1, keepdims=True)
    x = x - (counts * x).sum(axis=1, keepdims=True) / total
    y = y - (counts * y).sum(axis=1, keepdims=True) / total
    spread = (counts * x * x).sum(axis=1) * (counts * y * y).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        made: Floats = np.where(spread > 1e-24, (counts * x * y).sum(axis=1) / np.sqrt(spread), np.nan)
    return made


def _midranks(values: Floats, counts: Floats) -> Floats:
    """The rank of each value in each resample, equal values sharing the mean of theirs."""
    _, inverse = np.unique(values, return_inverse=True)
    order: NDArray[Any] = np.argsort(inverse, kind="stable")
    starts = np.flatnonzero(np.diff(inverse[order], prepend=-1))
    groups = np.add.reduceat(counts[:, order], starts, axis=1)
    ranks: Floats = (np.cumsum(groups, axis=1) - groups + (groups + 1) / 2)[:, inverse]
    return ranks


def _interval(draws: Floats, level: float = 0.95) -> tuple[float | None, float | None]:
    defined = draws[np.isfinite(draws)]
    if len(defined) < (1 - _UNDEFINED) * len(draws):
        return None, None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
