"""Whether a mean of bounded values lies above a limit, tested after every value: one side of
:mod:`ragrounds.evals.stats.sequential`.

The capital of bets on values above the limit is, where the mean is at the limit or below it, a supermartingale from 1.
So it ever reaches 1 / a with a chance of at most a (Ville 1939), however often one looks. Values are in [0, 1]; the
other direction is the same with 1 - value and 1 - limit.
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
    """What each bet makes of the logarithm of its capital by each value, (…, bets)."""
    made: Floats = np.log1p(np.multiply.outer(np.asarray(values) / max(limit, _EDGE) - 1, BETS))
    return made


def log_mean_exp(grown: Floats) -> Floats:
    """The logarithm of the mean capital of all bets, from that of each."""
    most = grown.max(axis=-1, keepdims=True)
    total: Floats = most[..., 0] + np.log(np.exp(grown - most).mean(axis=-1))
    return total


def lower_end(values: Floats, limit: float) -> float:
    """The smallest mean that the capital has not reached `limit` (a logarithm) against."""
    low, high = 0.0, float(values.mean())
    distinct, counts = np.unique(values.round(12), return_counts=True)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        out = float(log_mean_exp(counts @ bets_on(distinct, middle))) >= limit
        low, high = (middle, high) if out else (low, middle)
    return low


def questions_to(values: Floats, limit: float, reach: float, most: int) -> int | None:
    """How many values like these take the capital against `limit` to `reach`, if they go on alike; ``None``: not
    `most` of them do."""
    distinct, counts = np.unique(values.round(12), return_counts=True)
    share = counts / counts.sum() @ bets_on(distinct, limit)
    if float(log_mean_exp(most * share)) < reach:
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if float(log_mean_exp(middle * share)) >= reach else (middle + 1, high)
    return low


class OneSided:
    """The capital against a mean at or below `limit`, one value after the other."""

    def __init__(self, limit: float) -> None:
        self._limit, self._grown = limit, np.zeros(len(BETS))

    def add(self, value: float) -> float:
        """Bet on the next value; gives the logarithm of the capital."""
        self._grown += bets_on(value, self._limit)
        return float(log_mean_exp(self._grown))


def reach(error: float) -> float:
    """The logarithm of the capital at which a claim is shown with this chance of being wrong."""
    return -math.log(error)
