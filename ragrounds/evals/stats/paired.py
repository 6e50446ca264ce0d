"""Tests of two agents on the same questions, and of many such pairs at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

_COUNTS = 100
"""Numbers of differing questions that a power is summed over; of more, evenly many are left out."""
_HALVINGS = 18


def binomial_p(first_only: int, second_only: int) -> float:
    """McNemar's exact two-sided p that a question which one side alone has right might as well be the other's."""
    n, least = first_only + second_only, min(first_only, second_only)
    # Whole numbers: the binomial tail is exact however many questions differ.
    tail = term = 1
    for k in range(1, least + 1):
        term = term * (n - k + 1) // k
        tail += term
    return float(min(1.0, 2 * tail / 2**n))


def holm(p_values: Sequence[float], among: int | None = None) -> list[float]:
    """p values adjusted for being many, by Holm's step-down procedure (1979), in the order given.

    Args:
        p_values: of the tests that were made.
        among: how many tests there could have been, where these were picked by their data; ``None``: these are all.
            The adjusted values are then as large as any others could make them, or larger.
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
    """The smallest true difference in accuracy that :func:`binomial_p` shows on `n` paired questions with this power.

    It is that of the exact test, over all numbers of questions that may differ: the usual approximation (Connor 1987)
    is of a test without its caution, and promises differences that it finds in 75 to 79 of 100 samples, not in 80.

    Args:
        n: questions.
        differing: share of questions where exactly one of the two is right, from a pilot or an earlier run.
        alpha: two-sided level of the test.
        power: chance to see the difference.

    Returns:
        A difference of accuracies, 0 to 1; ``None`` where the differing questions are too few: even if all of them went
        one way, it would be seen less often than that.
    """
    if n < 1 or not 0 < differing <= 1:
        raise ValueError(f"expected n ≥ 1 and a share of differing questions above 0 up to 1, got {n} and {differing}")
    from scipy.special import bdtr, bdtrik, gammaln, xlog1py

    reach = 4.5 * math.sqrt(n * differing * (1 - differing)) + 1
    counts = np.arange(max(1, math.floor(n * differing - reach)), min(n, math.ceil(n * differing + reach)) + 1.0)
    counts = counts[:: 1 + len(counts) // _COUNTS]
    ways = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    chances = np.exp(ways + counts * math.log(differing) + xlog1py(n - counts, -differing))
    chances /= chances.sum() + (1 - differing) ** n
    some = 2 * 0.5**counts <= alpha
    counts, chances = counts[some].astype(np.int64), chances[some]
    # The most questions that the losing side may win, where the test still finds a difference.
    most = np.floor(bdtrik(alpha / 2, counts, 0.5))
    most -= 2 * bdtr(most, counts, 0.5) > alpha

    def shown(effect: float) -> float:
        return float(chances @ bdtr(most, counts, (1 - effect / differing) / 2))

    if shown(differing) < power:
        return None
    low, high = 0.0, differing
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle) >= power else (middle, high)
    return high
