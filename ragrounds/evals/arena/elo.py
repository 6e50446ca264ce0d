"""Elo ratings: exactly as MRAG-Bench plays them, and averaged over the order, which is arbitrary.

An online rating depends on the order of the matches. MRAG-Bench (its LFQA arena) starts every system at 1000 and moves
40 points at most a match; at that speed, order alone moves a rating by about ±50.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ragrounds.evals.arena.matches import Floats, Ints, Matches

START, K, BASE, SCALE = 1000.0, 40.0, 10.0, 400.0
_RATE = float(np.log(BASE)) / SCALE
_BLOCK = 4096
"""Matches whose places are looked up at once."""


class Shuffled(Struct, frozen=True):
    """Elo over random orders of the same matches, by system."""

    mean: tuple[float, ...]
    spread: tuple[float, ...]
    """Standard deviation over the orders: what order alone does to the rating."""
    shuffles: int


def online(matches: Matches) -> Floats:
    """(K,) ratings after all matches in their order."""
    order = np.arange(len(matches), dtype=np.int64)[None, :]
    ratings: Floats = _play(matches, order)[0]
    return ratings


def shuffled(matches: Matches, *, shuffles: int = 100, seed: int = 0) -> Shuffled:
    """Ratings averaged over `shuffles` random orders."""
    draw = np.random.default_rng(seed)
    order = np.stack([draw.permutation(len(matches)) for _ in range(shuffles)])
    ratings = _play(matches, order)
    spread = ratings.std(axis=0, ddof=1) if shuffles > 1 else np.zeros(len(matches.systems))
    return Shuffled(tuple(ratings.mean(axis=0).tolist()), tuple(spread.tolist()), shuffles)


def _play(matches: Matches, orders: Ints) -> Floats:
    """(S, K) ratings after each of S orders (S, N): all orders advance one match at a time, together."""
    count, size = len(orders), len(matches.systems)
    ratings = np.full(count * size, START)
    rows = np.arange(count) * size
    for start in range(0, orders.shape[1], _BLOCK):
        block = orders[:, start : start + _BLOCK].T
        places = zip(rows + matches.first[block], rows + matches.second[block], matches.score[block], strict=True)
        for one, other, score in places:
            here, there = ratings[one], ratings[other]
            change = K * (score - 1.0 / (1.0 + np.exp((there - here) * _RATE)))
            ratings[one] = here + change
            ratings[other] = there - change
    return ratings.reshape(count, size)
