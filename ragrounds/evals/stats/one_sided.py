"""One-sided test of whether a mean of bounded values is above a limit, valid after every value.

It is one side of :mod:`ragrounds.evals.stats.sequential`. If the mean is at the limit or below, the capital of bets on
values above the limit is a supermartingale from 1. So the chance that it ever reaches 1 / a is at most a (Ville 1939),
however often one looks. Values are in [0, 1]; the other direction is the same with 1 - value and 1 - limit.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ragrounds.evals.stats.sequential import BETS

Floats = NDArray[np.float64]
_EDGE = 1e-12
_HALVINGS = 50


def bets_on(values: Floats | float, limit: float) -> Floats:
    """Return the change of each bet's log capital by each value, (…, bets)."""
    log_factors: Floats = np.log1p(np.multiply.outer(np.asarray(values) / max(limit, _EDGE) - 1, BETS))
    return log_factors


def log_mean_exp(grown: Floats) -> Floats:
    """Return the logarithm of the mean capital of all bets from the log capital of each."""
    largest = grown.max(axis=-1, keepdims=True)
    total: Floats = largest[..., 0] + np.log(np.exp(grown - largest).mean(axis=-1))
    return total


def lower_end(values: Floats, limit: float) -> float:
    """Return the smallest mean against which the capital has not reached `limit` (a logarithm)."""
    low, high = 0.0, float(values.mean())
    distinct, counts = np.unique(values.round(12), return_counts=True)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_excluded = float(log_mean_exp(counts @ bets_on(distinct, middle))) >= limit
        low, high = (middle, high) if is_excluded else (low, middle)
    return low


def questions_to(values: Floats, limit: float, reach: float, maximum: int) -> int | None:
    """Return the number of values like these with which the capital against `limit` reaches `reach`; ``None`` if more
    than `maximum`."""
    distinct, counts = np.unique(values.round(12), return_counts=True)
    share = counts / counts.sum() @ bets_on(distinct, limit)
    if float(log_mean_exp(maximum * share)) < reach:
        return None
    low, high = 1, maximum
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if float(log_mean_exp(middle * share)) >= reach else (middle + 1, high)
    return low


class OneSided:
    """Capital against a mean at or below `limit`, one value after the other."""

    def __init__(self, limit: float) -> None:
        self._limit, self._log_capitals = limit, np.zeros(len(BETS))

    def add(self, value: float) -> float:
        """Bet on the next value and return the logarithm of the capital."""
        self._log_capitals += bets_on(value, self._limit)
        return float(log_mean_exp(self._log_capitals))


def reach(error: float) -> float:
    """Return the logarithm of the capital at which a claim is shown with this chance of being wrong."""
    return -math.log(error)
