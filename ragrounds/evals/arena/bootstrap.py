"""Resampling questions with replacement: matches about one question are not independent, so they go together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ragrounds.evals.arena.matches import Floats, Matches

_AT_ONCE = 4_000_000
"""Numbers held at once: replicates × clusters."""


def resampled(matches: Matches, *, replicates: int = 1000, seed: int = 0) -> Floats:
    """(B, K, K) tables of points (a tie is half a point each), one for every resample of the clusters."""
    size, count = len(matches.systems), matches.clusters
    draw = np.random.default_rng(seed)
    tables = np.zeros((replicates, size * size))
    if count == 0:
        return tables.reshape(replicates, size, size)
    points = _by_cluster(matches)
    at_once = max(1, _AT_ONCE // count)
    for start in range(0, replicates, at_once):
        stop = min(replicates, start + at_once)
        # Counting draws is several times quicker than a multinomial over as many classes as there are questions.
        times = np.stack([np.bincount(draw.integers(0, count, count), minlength=count) for _ in range(start, stop)])
        tables[start:stop] = (points.T @ times.T.astype(np.float64)).T
    return tables.reshape(replicates, size, size)


def _by_cluster(matches: Matches) -> Any:
    """(C, K²) points of each cluster, sparse: most questions are played by few pairs."""
    from scipy import sparse

    size, count = len(matches.systems), matches.clusters
    rows = np.concatenate([matches.cluster, matches.cluster])
    columns = np.concatenate([matches.first * size + matches.second, matches.second * size + matches.first])
    values = np.concatenate([matches.score, 1.0 - matches.score])
    return sparse.coo_array((values, (rows, columns)), shape=(count, size * size)).tocsr()
