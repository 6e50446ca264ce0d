"""Whether missing verdicts could overturn a ranking: then no ranking is shown, and the report says so."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ragrounds.evals.arena.bradley_terry import POINTS, fit, information
from ragrounds.evals.arena.matches import Floats, Matches
from ragrounds.evals.arena.rating import Ratings

_ROUNDS = 3


class Gate(Struct, frozen=True):
    """The pairs (upper, lower of the ranking) whose order the missing matches could overturn; none: it stands."""

    missing: int
    overturned: tuple[tuple[str, str], ...] = ()

    @property
    def open(self) -> bool:
        return not self.overturned


def check(matches: Matches, missing: Floats, ratings: Ratings) -> Gate:
    """Fill the missing matches in the way that is worst for each pair, and see what is left of the ranking.

    `missing` (K, K), symmetric, counts matches without a verdict. A pair called separated is overturned where the worst
    filling takes its lead away; a pair called tied, where it would be separated the other way round. Winning is
    monotone in Bradley–Terry: a system's own missing matches hurt it most when lost, and a rival's when won; matches
    between others are filled by the sign of their influence.
    """
    names = matches.systems
    count = int(np.rint(missing.sum() / 2))
    if not count:
        return Gate(0)
    place = {name: index for index, name in enumerate(names)}
    order = [place[name] for name in ratings.order]
    overturned = []
    for upper in range(len(order)):
        for lower in range(upper + 1, len(order)):
            i, j = order[upper], order[lower]
            gap = _worst_gap(matches.totals(), missing, i, j)
            margin = ratings.margins[upper][lower]
            if gap <= margin if ratings.separated[upper][lower] else gap < -margin or not margin:
                overturned.append((names[i], names[j]))
    return Gate(count, tuple(overturned))


def _worst_gap(points: Floats, missing: Floats, i: int, j: int) -> float:
    """Points by which i leads j when the missing matches fall as badly for it as they can."""
    size = len(points)
    worst = _filled(points, missing, i, j, np.zeros((size, size)))
    strengths = fit(worst, prior=True).strengths
    for _ in range(_ROUNDS):
        curve = information(worst + worst.T, strengths) + 0.25 * np.eye(size)
        influence = np.linalg.solve(curve, np.eye(size)[i] - np.eye(size)[j])
        # How much i's lead over j grows where the row's system beats the column's.
        worst = _filled(points, missing, i, j, influence[:, None] - influence[None, :])
        strengths = fit(worst, prior=True).strengths
    return float(POINTS * (strengths[i] - strengths[j]))


def _filled(points: Floats, missing: Floats, i: int, j: int, influence: Floats) -> Floats:
    """The table with every missing match given to the side that hurts i against j; undecided ones are ties."""
    share = np.where(influence > 1e-12, 0.0, np.where(influence < -1e-12, 1.0, 0.5))
    share[i, :], share[:, i] = 0.0, 1.0
    share[j, :], share[:, j] = 1.0, 0.0
    share[i, j], share[j, i] = 0.0, 1.0
    filled: Floats = points + missing * share
    return filled
