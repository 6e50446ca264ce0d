"""Choosing the next pairs where they shrink the ranking's uncertainty most.

With strengths θ and covariance Σ from the matches so far, a pair is misordered with a chance of about
Φ(−|gap| / error). One more match of a pair changes the error of every gap, by how much is known before it is played.
The pair is chosen that most reduces the relative error variances of all gaps, each weighted by the square of its chance
of being misordered; then Σ is updated as if the match had been played, and the next pair of the batch is chosen. (The
square spares what is nearly certain; weights of power 1 and ½, and the slope of Φ, needed more matches when simulated.)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ragrounds.evals.arena.bradley_terry import fit, information
from ragrounds.evals.arena.matches import Floats, Ints
from ragrounds.evals.arena.pairs import all_pairs

_MOST = 400
"""Pairs that are weighed against each other: all of them up to 28 systems, the most doubtful ones beyond."""
_PRIOR = 0.25
"""Information of the imaginary tie that each system is given, so that there is a choice before the first match."""


def choose(points: Floats, open_pairs: npt.NDArray[np.bool_], count: int) -> Ints:
    """(S, n) numbers of pairs to play next, for S arenas at once, each with A axes.

    `points` (S, A, K, K) are points taken, a tie as half a point each; `open_pairs` (S, P) says which pairs may still
    play. A pair may be chosen several times; −1 stands where nothing is open.
    """
    size = points.shape[-1]
    first, second = all_pairs(size)
    fitted = fit(points, prior=True).strengths
    games = points + np.swapaxes(points, -1, -2)
    covariance = np.asarray(np.linalg.inv(information(games, fitted) + _PRIOR * np.eye(size)), dtype=np.float64)
    pairs = _doubtful(fitted, covariance, open_pairs)  # (S, M)
    contrasts = np.eye(size)[first[pairs]] - np.eye(size)[second[pairs]]  # (S, M, K)
    rows = contrasts[:, None]
    gaps_covariance = rows @ covariance @ np.swapaxes(rows, -1, -2)  # (S, A, M, M)
    gaps = np.abs((rows @ fitted[..., None])[..., 0])
    open_pairs = np.take_along_axis(open_pairs, pairs, axis=1)
    chance = 1.0 / (1.0 + np.exp(gaps))
    weight = chance * (1.0 - chance)
    index = np.arange(len(points))
    chosen = np.empty((len(points), count), dtype=np.int64)
    for number in range(count):
        variance = np.diagonal(gaps_covariance, axis1=-2, axis2=-1)
        doubt = misordered(gaps, variance) ** 2 / variance
        shrunk = np.einsum("sap,sapq->saq", doubt, gaps_covariance**2)
        gain = (shrunk * weight / (1.0 + weight * variance)).sum(axis=1)
        gain = np.where(open_pairs, gain, -np.inf)
        pick = gain.argmax(axis=-1)
        chosen[:, number] = np.where(np.isfinite(gain[index, pick]), pairs[index, pick], -1)
        column = gaps_covariance[index, :, :, pick]
        factor = weight[index, :, pick] / (1.0 + weight[index, :, pick] * variance[index, :, pick])
        gaps_covariance = gaps_covariance - factor[..., None, None] * column[..., :, None] * column[..., None, :]
    return chosen


def _doubtful(fitted: Floats, covariance: Floats, open_pairs: npt.NDArray[np.bool_]) -> Ints:
    """(S, M) the open pairs whose order is least sure on some axis; all pairs, where they are not too many."""
    size = fitted.shape[-1]
    first, second = all_pairs(size)
    if len(first) <= _MOST:
        return np.broadcast_to(np.arange(len(first)), (len(fitted), len(first)))
    own = np.diagonal(covariance, axis1=-2, axis2=-1)
    variance = own[..., first] + own[..., second] - 2.0 * covariance[..., first, second]
    doubt = misordered(np.abs(fitted[..., first] - fitted[..., second]), variance).max(axis=1)
    order: Ints = np.argsort(np.where(open_pairs, -doubt, 1.0), axis=-1, kind="stable")[:, :_MOST]
    return order


def misordered(gaps: Floats, variance: Floats) -> Floats:
    """The chance that a gap has the wrong sign, by the normal approximation."""
    from scipy import special

    chance: Floats = special.ndtr(-gaps / np.sqrt(np.maximum(variance, 1e-12)))
    return chance
