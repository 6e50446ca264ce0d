"""One proportion or one mean: the figure, its error as papers print it, its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from msgspec import Struct


class Estimate(Struct, frozen=True, kw_only=True):
    """A figure with its uncertainty. Everything is on the scale of the values (accuracy: 0 to 1)."""

    value: float
    n: int
    """Questions behind the figure."""
    error: float
    """Standard error: what papers print after ±."""
    low: float
    high: float
    level: float = 0.95
    """Coverage of the interval from `low` to `high`."""


def normal_quantile(level: float) -> float:
    """The z of a two-sided interval with this coverage: 1.96 for 0.95."""
    return NormalDist().inv_cdf((1 + level) / 2)


def proportion(values: Sequence[float], level: float = 0.95) -> Estimate:
    """The mean of values that are right or wrong (1.0, 0.0), with ± sqrt(p(1-p)/n) as MIRAGE prints it, and the Wilson
    interval.

    Raises:
        ValueError: no values, or one outside of 0 to 1. A missing score is not a value: leave it out and count it.
    """
    n = len(values)
    if not n or not all(0.0 <= value <= 1.0 for value in values):
        raise ValueError(f"expected one value or more between 0 and 1, got {n} values")
    p = math.fsum(values) / n
    low, high = wilson(p * n, n, level)
    return Estimate(value=p, n=n, error=binomial_error(p, n), low=low, high=high, level=level)


def binomial_error(p: float, n: int) -> float:
    """sqrt(p(1-p)/n), the ± of MIRAGE's tables. 0 for p of 0 or 1, which no interval should be built on."""
    return math.sqrt(max(p * (1 - p), 0.0) / n)


def wilson(right: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for `right` of `n` (Wilson 1927): close to its coverage for small n and near 0 and 1.

    Raises:
        ValueError: `n` below 1, or `right` outside of 0 to `n`.
    """
    if n < 1 or not 0 <= right <= n:
        raise ValueError(f"expected 0 to n right answers of n ≥ 1, got {right} of {n}")
    z2 = normal_quantile(level) ** 2
    p = right / n
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    low = 0.0 if right == 0 else max(0.0, middle - half)
    high = 1.0 if right == n else min(1.0, middle + half)
    return low, high
