"""One-sided test of whether a mean of bounded values is above a limit, valid after every value.

It is one side of :mod:`ragrounds.evals.stats.sequential`. If the mean is at the limit or below, the capital of bets on
values above the limit is a supermartingale from 1. So the chance that it ever reaches 1 / a is at most a (Ville 1939),
however often one looks. Values are in [0, 1], or in [0, weight] for a cluster of questions; the other direction is the
same with weight - value and 1 - limit. The capital after all values does not depend on their order, so it is also a
test that is carried out once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ragrounds.evals.stats.sequential import BETS, bets_on, log_mean_exp

Floats = NDArray[np.float64]
_HALVINGS = 50


def lower_end(values: Floats, limit: float, weights: Floats | float = 1.0) -> float:
    """Return the smallest mean against which the capital has not reached `limit` (a logarithm)."""
    draws, counts = _distinct(values, weights)
    low, high = 0.0, float(counts @ draws[:, 0] / (counts @ draws[:, 1]))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_excluded = float(log_mean_exp(counts @ bets_on(draws[:, 0], middle, draws[:, 1]))) >= limit
        low, high = (middle, high) if is_excluded else (low, middle)
    return low


def questions_to(values: Floats, limit: float, reach: float, maximum: int, weights: Floats | float = 1.0) -> int | None:
    """Return the number of values like these with which the capital against `limit` reaches `reach`; ``None`` if more
    than `maximum`."""
    draws, counts = _distinct(values, weights)
    share = counts / counts.sum() @ bets_on(draws[:, 0], limit, draws[:, 1])
    if float(log_mean_exp(maximum * share)) < reach:
        return None
    low, high = 1, maximum
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if float(log_mean_exp(middle * share)) >= reach else (middle + 1, high)
    return low


def _distinct(values: Floats, weights: Floats | float) -> tuple[Floats, Floats]:
    """Return the distinct pairs of value and weight, (pairs, 2), and how often each occurs."""
    pairs = np.column_stack(np.broadcast_arrays(values, weights)).round(12)
    draws, counts = np.unique(pairs, axis=0, return_counts=True)
    return draws, counts.astype(np.float64)


class OneSided:
    """Capital against a mean at or below `limit`, one value after the other."""

    def __init__(self, limit: float) -> None:
        self._limit, self._log_capitals = limit, np.zeros(len(BETS))

    def add(self, value: float, weight: float = 1.0) -> float:
        """Bet on the next value and return the logarithm of the capital."""
        self._log_capitals += bets_on(value, self._limit, weight)
        return float(log_mean_exp(self._log_capitals))


def reach(error: float) -> float:
    """Return the logarithm of the capital at which a claim is shown with this chance of being wrong."""
    return -math.log(error)
