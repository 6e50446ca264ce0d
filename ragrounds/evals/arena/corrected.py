"""Ratings by many judge verdicts, corrected by a few human ones: prediction-powered inference.

Angelopoulos, Duchi and Zrnic 2023, "PPI++: Efficient prediction-powered inference". The human votes alone would give an
unbiased but wide estimate; the judge alone a narrow one of the wrong thing. The estimate solves

    mean over votes of ∇ℓ(θ; vote)  +  λ (mean over unvoted of ∇ℓ(θ; judge) − mean over votes of ∇ℓ(θ; judge))  =  0

with ℓ the Bradley–Terry loss of a match: whatever the judge's bias, it cancels. λ is chosen from the data to make the
variance least; a useless judge gets λ near 0 and changes nothing. The votes must be a random sample of the matches.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ragrounds.evals.arena.bradley_terry import POINTS
from ragrounds.evals.arena.elo import START
from ragrounds.evals.arena.matches import Floats, Matches

LEAST = 30
"""Votes below which no correction is given: its error would rest on too few."""
_STEPS = 60


class Corrected(Struct, frozen=True, kw_only=True):
    """Ratings as people would give them, by system."""

    systems: tuple[str, ...]
    ratings: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    weight: float
    """λ: 0 people alone, 1 the judge's full weight."""
    votes: int
    judged: int
    """Matches with a judge's verdict and no vote."""
    gain: float
    """Variance of the votes' own estimate over this one's: 2 is worth twice the votes."""


def correct(votes: Matches, same: Floats, judged: Matches, *, confidence: float = 0.95) -> Corrected | None:
    """Correct a judge by votes.

    `votes` are the human verdicts, `same` (n) the judge's scores of the very same matches, `judged` the judge's
    verdicts on matches nobody voted on; clusters of both are questions. ``None``: too few votes, or systems that the
    votes do not connect.
    """
    if len(votes) < LEAST or len(judged) < 2 or votes.clusters < 2:
        return None
    rows, others = _design(votes), _design(judged)
    alone = _solve(rows, votes.score, same, others, judged.score, 0.0)
    if alone is None:
        return None
    weight = _weight(alone, rows, votes.score, same, others, judged.score)
    found = _solve(rows, votes.score, same, others, judged.score, weight)
    if found is None:
        weight, found = 0.0, alone
    covariance = _covariance(found, rows, votes, same, others, judged, weight)
    by_votes = _covariance(alone, rows, votes, same, others, judged, 0.0)
    error = np.sqrt(np.diag(covariance))
    reach = float(_quantile(0.5 + confidence / 2))
    ratings = START + POINTS * found
    return Corrected(
        systems=votes.systems,
        ratings=tuple(ratings.tolist()),
        low=tuple((ratings - POINTS * reach * error).tolist()),
        high=tuple((ratings + POINTS * reach * error).tolist()),
        weight=weight,
        votes=len(votes),
        judged=len(judged),
        gain=float(np.trace(by_votes) / np.trace(covariance)),
    )


def _design(matches: Matches) -> Floats:
    design = np.zeros((len(matches), len(matches.systems)))
    rows = np.arange(len(matches))
    design[rows, matches.first] += 1.0
    design[rows, matches.second] -= 1.0
    return design


def _chance(design: Floats, strengths: Floats) -> Floats:
    chance: Floats = 1.0 / (1.0 + np.exp(-(design @ strengths)))
    return chance


def _curve(design: Floats, strengths: Floats) -> Floats:
    chance = _chance(design, strengths)
    curve: Floats = (design * (chance * (1.0 - chance))[:, None]).T @ design / len(design)
    return curve


def _solve(rows: Floats, voted: Floats, same: Floats, others: Floats, judged: Floats, weight: float) -> Floats | None:
    """Strengths of mean 0; ``None`` where there is no solution within reach."""
    size = rows.shape[1]
    anchor = np.full((size, size), 1.0 / size)
    pull = rows.T @ (voted - weight * same) / len(rows) + weight * (others.T @ judged) / len(others)
    strengths = np.zeros(size)
    for _step in range(_STEPS):
        push = (1.0 - weight) * (rows.T @ _chance(rows, strengths)) / len(rows)
        push = push + weight * (others.T @ _chance(others, strengths)) / len(others)
        slope = pull - push
        if np.abs(slope).max() < 1e-10:
            centred: Floats = strengths - strengths.mean()
            return centred
        curve = (1.0 - weight) * _curve(rows, strengths) + weight * _curve(others, strengths)
        if np.linalg.matrix_rank(curve + anchor, tol=1e-9) < size:
            return None
        step = np.linalg.solve(curve + anchor, slope)
        strengths = strengths + step * min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        if np.abs(strengths).max() > 15:
            return None
    return None


def _weight(strengths: Floats, rows: Floats, voted: Floats, same: Floats, others: Floats, judged: Floats) -> float:
    """λ that makes the trace of the variance least (PPI++, Section 6), kept within 0 and 1."""
    size = rows.shape[1]
    inverse = np.linalg.inv(_curve(rows, strengths) + np.full((size, size), 1.0 / size))
    chance = _chance(rows, strengths)
    by_vote, by_judge = rows * (voted - chance)[:, None], rows * (same - chance)[:, None]
    by_judge_elsewhere = others * (judged - _chance(others, strengths))[:, None]
    mixed = (by_vote - by_vote.mean(axis=0)).T @ (by_judge - by_judge.mean(axis=0)) / len(rows)
    together = np.vstack([by_judge, by_judge_elsewhere])
    own = np.cov(together.T, bias=True)
    upper = np.trace(inverse @ (mixed + mixed.T) @ inverse) / 2
    lower = (1.0 + len(rows) / len(others)) * np.trace(inverse @ own @ inverse)
    return float(np.clip(upper / lower, 0.0, 1.0)) if lower > 0 else 0.0


def _covariance(
    strengths: Floats, rows: Floats, votes: Matches, same: Floats, others: Floats, judged: Matches, weight: float
) -> Floats:
    """Sandwich, with matches of one question going together."""
    size = rows.shape[1]
    curve = (1.0 - weight) * _curve(rows, strengths) + weight * _curve(others, strengths)
    inverse = np.linalg.inv(curve + np.full((size, size), 1.0 / size))
    chance = _chance(rows, strengths)
    near = rows * (votes.score - chance - weight * (same - chance))[:, None]
    far = others * (judged.score - _chance(others, strengths))[:, None]
    middle = _clustered(near, votes) + weight**2 * _clustered(far, judged)
    covariance: Floats = inverse @ middle @ inverse
    return covariance


def _clustered(gradients: Floats, matches: Matches) -> Floats:
    """Variance of the mean of `gradients`."""
    count, size = matches.clusters, gradients.shape[1]
    sums = np.zeros((count, size))
    np.add.at(sums, matches.cluster, gradients - gradients.mean(axis=0))
    variance: Floats = (
        sums.T @ sums * count / (count - 1) / len(gradients) ** 2 if count > 1 else np.zeros((size, size))
    )
    return variance


def _quantile(level: float) -> float:
    from scipy import special

    return float(special.ndtri(level))
