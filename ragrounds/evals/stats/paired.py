"""Tests of two agents on the same questions, and corrections for many such pairs at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

_COUNTS = 100
"""Largest number of counts of differing questions that a power is summed over; of more, evenly spaced ones are used."""
_HALVINGS = 18


def binomial_p(first_only: int, second_only: int) -> float:
    """Return McNemar's exact two-sided p value.

    The null hypothesis is that a question which only one side has right is equally likely to be either side's.
    """
    n, smaller = first_only + second_only, min(first_only, second_only)
    # Whole numbers keep the binomial tail exact however many questions differ.
    tail = term = 1
    for k in range(1, smaller + 1):
        term = term * (n - k + 1) // k
        tail += term
    return float(min(1.0, 2 * tail / 2**n))


def holm(p_values: Sequence[float], among: int | None = None) -> list[float]:
    """Return p values adjusted for multiple tests by Holm's step-down procedure (1979), in the given order.

    Args:
        p_values: p values of the tests that were made.
        among: number of possible tests, if these were picked by their data; ``None`` if these are all. With it, the
            adjusted values are at least as large as with any p values of the other tests.
    """
    count = max(len(p_values), among or 0)
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


@lru_cache(maxsize=4096)
def minimum_detectable_effect(n: int, differing: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Return the smallest true difference in accuracy that :func:`binomial_p` detects on `n` pairs with this power.

    The power is that of the exact test, over all numbers of questions that may differ. The usual approximation (Connor
    1987) ignores that the exact test is conservative: its differences are found in 75 to 79 of 100 samples, not in 80.

    Args:
        n: number of questions.
        differing: share of questions where exactly one of the two is right, from a pilot or an earlier run.
        alpha: two-sided level of the test.
        power: probability of detecting the difference.

    Returns:
        A difference of accuracies, 0 to 1; ``None`` if the differing questions are too few: even if all of them went
        one way, the power would be lower.
    """
    if n < 1 or not 0 < differing <= 1:
        raise ValueError(f"expected n ≥ 1 and a share of differing questions above 0 up to 1, got {n} and {differing}")
    from scipy.special import bdtr, bdtrik, gammaln, xlog1py

    reach = 4.5 * math.sqrt(n * differing * (1 - differing)) + 1
    counts = np.arange(max(1, math.floor(n * differing - reach)), min(n, math.ceil(n * differing + reach)) + 1.0)
    counts = counts[:: 1 + len(counts) // _COUNTS]
    log_combinations = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    chances = np.exp(log_combinations + counts * math.log(differing) + xlog1py(n - counts, -differing))
    chances /= chances.sum() + (1 - differing) ** n
    can_be_significant = 2 * 0.5**counts <= alpha
    counts, chances = counts[can_be_significant].astype(np.int64), chances[can_be_significant]
    # The largest number of questions that the losing side may win while the test still finds a difference.
    critical = np.floor(bdtrik(alpha / 2, counts, 0.5))
    critical -= 2 * bdtr(critical, counts, 0.5) > alpha

    def power_at(effect: float) -> float:
        return float(chances @ bdtr(critical, counts, (1 - effect / differing) / 2))

    if power_at(differing) < power:
        return None
    low, high = 0.0, differing
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if power_at(middle) >= power else (middle, high)
    return high
