"""Bradley–Terry strengths by maximum likelihood, for one table of points or a thousand at once.

The chance that i beats j is σ(θi − θj); a tie counts as half a win for each (as in the LMSYS arena). The likelihood is
concave, so Newton's method finds its maximum in a few steps. All tables of a bootstrap are fitted together: that is
what the fit here has over `evalica.bradley_terry`, which is its reference in the tests.

Ford (1957): a maximum exists exactly when every system can be reached from every other by a chain of "took a point
from". Where it does not (a system that never loses, two groups that never met), every system gets one tie with an
imaginary average system, which keeps all strengths finite; the fit says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragrounds.evals.arena.elo import SCALE, START
from ragrounds.evals.arena.matches import Floats

POINTS = SCALE / np.log(10.0)
"""Elo points of one unit of θ."""
_STEPS = 60
_AT_ONCE = 2_000_000
"""Numbers in the tables that are fitted at once."""
_LONGEST = 2.0
"""Largest change of a strength in one step: far from the maximum a whole Newton step can overshoot."""


@dataclass(frozen=True, eq=False)
class Fit:
    """`strengths` (…, K) have mean 0; `exists` (…): the maximum exists, so no imaginary tie was added."""

    strengths: Floats
    exists: npt.NDArray[np.bool_]

    @property
    def ratings(self) -> Floats:
        """Strengths on Elo's scale, mean 1000."""
        ratings: Floats = START + POINTS * self.strengths
        return ratings


def fit(points: Floats, *, prior: bool = False) -> Fit:
    """Fit tables of points (…, K, K): ``points[i, j]`` of i against j, a tie as half a point each.

    Points may be weighted, so they need not be whole; none may be negative. `prior` adds the imaginary ties everywhere.
    """
    tables = points.reshape(-1, *points.shape[-2:])
    exists = np.asarray(reachable(tables).all(axis=(-1, -2)))
    strengths = np.empty(tables.shape[:-1])
    plain = exists & (not prior)
    for mask, ties in ((plain, 0.0), (~plain, 1.0)):
        chosen = np.flatnonzero(mask)
        at_once = max(1, _AT_ONCE // tables.shape[-1] ** 2)
        for start in range(0, len(chosen), at_once):
            part = chosen[start : start + at_once]
            strengths[part] = _newton(tables[part], ties)
    return Fit(strengths.reshape(points.shape[:-1]), exists.reshape(points.shape[:-2]))


def information(games: Floats, strengths: Floats) -> Floats:
    """(…, K, K) Fisher information of strengths from numbers of games (…, K, K): a weighted graph Laplacian."""
    chance = expected(strengths)
    weight = games * chance * (1.0 - chance)
    laplacian = -weight
    index = np.arange(games.shape[-1])
    laplacian[..., index, index] += weight.sum(axis=-1)
    return laplacian


def expected(strengths: Floats) -> Floats:
    """(…, K, K): the chance that the row's system beats the column's."""
    gaps = strengths[..., :, None] - strengths[..., None, :]
    chance: Floats = 1.0 / (1.0 + np.exp(-gaps))
    return chance


def _newton(points: Floats, ties: float) -> Floats:
    games = points + np.swapaxes(points, -1, -2)
    size = points.shape[-1]
    index = np.arange(size)
    # Strengths are known up to a constant; this term fixes their mean at 0 and changes nothing else. With the
    # imaginary ties they are known without it.
    anchor = 0.0 if ties else 1.0 / size
    strengths = np.zeros(points.shape[:-1])
    close = 1e-9 * np.maximum(1.0, games.sum(axis=(-1, -2)))
    for _ in range(_STEPS):
        level = 1.0 / (1.0 + np.exp(-strengths))
        slope = (points - games * expected(strengths)).sum(axis=-1) + ties * (0.5 - level)
        if (np.abs(slope).max(axis=-1) <= close).all():
            break
        curve = information(games, strengths) + anchor
        curve[..., index, index] += ties * level * (1.0 - level)
        step = np.linalg.solve(curve, slope[..., None])[..., 0]
        longest = np.abs(step).max(axis=-1, keepdims=True)
        strengths = strengths + step * np.minimum(1.0, _LONGEST / np.maximum(longest, 1e-12))
    centred: Floats = strengths - strengths.mean(axis=-1, keepdims=True)
    return centred


def reachable(points: Floats) -> npt.NDArray[np.bool_]:
    """(…, K, K): there is a chain "took a point from" from the row's system to the column's."""
    size = points.shape[-1]
    reach = (points > 0) | np.eye(size, dtype=bool)
    length = 1
    while length < size:
        steps = reach.astype(np.float32)
        reach = np.matmul(steps, steps) > 0
        length *= 2
    return reach
