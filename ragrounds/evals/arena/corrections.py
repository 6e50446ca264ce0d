"""Ratings corrected: by a few human votes, and for the style of the answers.

Votes. Prediction-powered inference (Angelopoulos, Duchi and Zrnic 2023, "PPI++: Efficient prediction-powered
inference"): the human votes alone would give an unbiased but wide estimate; the judge alone a narrow one of the wrong
thing. The estimate solves

    mean over votes of ∇ℓ(θ; vote)  +  λ (mean over unvoted of ∇ℓ(θ; judge) − mean over votes of ∇ℓ(θ; judge))  =  0

with ℓ the Bradley–Terry loss of a match: whatever the judge's bias, it cancels. λ is chosen from the data to make the
variance least; a useless judge gets λ near 0 and changes nothing. The votes must be a random sample of the matches.

Style. As in the LMSYS arena (Li, Angelopoulos, Chiang, August 2024), the logistic regression gets the differences of
the two answers' lengths and formatting beside the systems' strengths, so that the ratings hold with style equal. Errors
are sandwich estimates clustered by question.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from msgspec import Struct

from ragrounds.evals.arena.matches import Floats, Matches
from ragrounds.evals.arena.ratings import POINTS, START, reachable
from ragrounds.evals.stats.intervals import normal_quantile

FEWEST_VOTES = 30
"""Votes below which no correction is given: its error would rest on too few."""
_STEPS = 60
_CLOSE = 1e-12
"""Slope of the mean likelihood that counts as 0."""
_FARTHEST = 15.0
"""A weight beyond this is taken for one that has no maximum."""

COVARIATES = ("length", "headings", "lists", "bold")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s", re.MULTILINE)
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s", re.MULTILINE)
_BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")
_FENCE = re.compile(r"```.*?```", re.DOTALL)
_LEAST_VARIANCE = 1e-12
"""Of a log-odds; what is below comes of rounding, not of matches."""


class CorrectedRatings(Struct, frozen=True, kw_only=True):
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


def correct_by_votes(
    votes: Matches, same: Floats, judged: Matches, *, confidence: float = 0.95
) -> CorrectedRatings | None:
    """Correct a judge's ratings by human votes; ``None``: too few votes, or systems that the votes do not connect.

    Args:
        votes: the human verdicts; clusters are questions.
        same: the judge's scores of the very same matches, (n,).
        judged: the judge's verdicts on matches nobody voted on; clusters are questions.
        confidence: coverage of the intervals.
    """
    if len(votes) < FEWEST_VOTES or len(judged) < 2 or votes.clusters < 2:
        return None
    sample = _VotedSample(votes, same, judged, _design(votes), _design(judged))
    alone = sample.weights(0.0)
    if alone is None:
        return None
    weight = sample.best_weight(alone)
    found = sample.weights(weight)
    if found is None:
        weight, found = 0.0, alone
    covariance = sample.covariance(found, weight)
    error = np.sqrt(np.diag(covariance))
    reach = normal_quantile(confidence)
    ratings = START + POINTS * (_all_strengths(len(found)) @ found)
    return CorrectedRatings(
        systems=votes.systems,
        ratings=tuple(ratings.tolist()),
        low=tuple((ratings - POINTS * reach * error).tolist()),
        high=tuple((ratings + POINTS * reach * error).tolist()),
        weight=weight,
        votes=len(votes),
        judged=len(judged),
        gain=float(np.trace(sample.covariance(alone, 0.0)) / np.trace(covariance)),
    )


@dataclass(frozen=True, eq=False)
class _VotedSample:
    """Matches that people voted on, with the judge's scores of the same, and matches that only the judge decided."""

    votes: Matches
    same: Floats
    judged: Matches
    rows: Floats
    """Design of the votes."""
    others: Floats
    """Design of the other matches."""

    def weights(self, weight: float) -> Floats | None:
        """The solution at this λ; ``None`` where there is none within reach."""
        rows, others = self.rows, self.others
        shares = np.repeat([(1.0 - weight) / len(rows), weight / len(others)], [len(rows), len(others)])
        pull = rows.T @ (self.votes.score - weight * self.same) / len(rows)
        pull = pull + weight * (others.T @ self.judged.score) / len(others)
        return _solution(np.vstack([rows, others]), shares, pull)

    def best_weight(self, weights: Floats) -> float:
        """The λ that makes the trace of the variance least (PPI++, Section 6), kept within 0 and 1."""
        rows, others = self.rows, self.others
        spread = _all_strengths(rows.shape[1]) @ np.linalg.inv(_curve(rows, weights) / len(rows))
        chance = _chance(rows, weights)
        by_vote, by_judge = rows * (self.votes.score - chance)[:, None], rows * (self.same - chance)[:, None]
        by_judge_unvoted = others * (self.judged.score - _chance(others, weights))[:, None]
        mixed = (by_vote - by_vote.mean(axis=0)).T @ (by_judge - by_judge.mean(axis=0)) / len(rows)
        own = np.atleast_2d(np.cov(np.vstack([by_judge, by_judge_unvoted]).T, bias=True))
        upper = np.trace(spread @ (mixed + mixed.T) @ spread.T) / 2
        lower = (1.0 + len(rows) / len(others)) * np.trace(spread @ own @ spread.T)
        return float(np.clip(upper / lower, 0.0, 1.0)) if lower > 0 else 0.0

    def covariance(self, weights: Floats, weight: float) -> Floats:
        """The sandwich estimate of all strengths at this λ, (K, K), with matches of one question going together."""
        rows, others = self.rows, self.others
        curve = (1.0 - weight) * _curve(rows, weights) / len(rows) + weight * _curve(others, weights) / len(others)
        spread = _all_strengths(rows.shape[1]) @ np.linalg.inv(curve)
        chance = _chance(rows, weights)
        near = rows * (self.votes.score - chance - weight * (self.same - chance))[:, None]
        far = others * (self.judged.score - _chance(others, weights))[:, None]
        middle = _variance_of_mean(near, self.votes) + weight**2 * _variance_of_mean(far, self.judged)
        return np.asarray(spread @ middle @ spread.T, dtype=np.float64)


def _design(matches: Matches) -> Floats:
    """One row a match, (n, K - 1): 1 for its first system, -1 for its second. The last strength is minus the sum of the
    others, so that their mean is 0."""
    contrasts = np.zeros((len(matches), len(matches.systems)))
    rows = np.arange(len(matches))
    contrasts[rows, matches.first] += 1.0
    contrasts[rows, matches.second] -= 1.0
    return contrasts @ _all_strengths(len(matches.systems) - 1)


def _all_strengths(free: int) -> Floats:
    """What makes all strengths of those that are free, (K, K - 1)."""
    return np.vstack([np.eye(free), -np.ones((1, free))])


def _solution(design: Floats, shares: Floats, pull: Floats) -> Floats | None:
    """The weights at which the mean chances of the rows, by their shares, are what pulls at them: a weighted logistic
    regression, by Newton's method. ``None`` where there is no maximum within reach."""
    weights = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        slope = pull - design.T @ (shares * _chance(design, weights))
        if np.abs(slope).max() < _CLOSE:
            return weights
        curve = _curve(design, weights, shares)
        if np.linalg.matrix_rank(curve, tol=1e-9) < len(weights):
            return None
        step = np.linalg.solve(curve, slope)
        weights = weights + step * min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        if np.abs(weights).max() > _FARTHEST:
            return None  # wins and losses are separated: no maximum
    return None


def _chance(design: Floats, weights: Floats) -> Floats:
    chance: Floats = 1.0 / (1.0 + np.exp(-(design @ weights)))
    return chance


def _curve(design: Floats, weights: Floats, shares: Floats | float = 1.0) -> Floats:
    chance = _chance(design, weights)
    curve: Floats = (design * (shares * chance * (1.0 - chance))[:, None]).T @ design
    return curve


def _variance_of_mean(gradients: Floats, matches: Matches) -> Floats:
    """The variance of the mean of `gradients`, one a match, with matches of one question going together, and the usual
    correction for few questions, C / (C - 1)."""
    count, size = matches.clusters, gradients.shape[1]
    sums = np.zeros((count, size))
    np.add.at(sums, matches.cluster, gradients - gradients.mean(axis=0))
    variance: Floats = (
        sums.T @ sums * count / (count - 1) / len(gradients) ** 2 if count > 1 else np.zeros((size, size))
    )
    return variance


class StyleControlledRatings(Struct, frozen=True, kw_only=True):
    """Ratings with style held equal, and what style itself is worth to the judge."""

    systems: tuple[str, ...]
    ratings: tuple[float, ...]
    """On Elo's scale, mean 1000."""
    errors: tuple[float, ...]
    """Standard errors in points, clustered by question."""
    effects: tuple[tuple[str, float, float], ...]
    """(covariate, log-odds for one standard deviation of the difference, its standard error)."""


def style_features(text: str) -> tuple[float, float, float, float]:
    """The style of a text: its length in characters, and its numbers of Markdown headings, list items and bold phrases
    outside of code."""
    plain = _FENCE.sub("", text)
    counts = (len(pattern.findall(plain)) for pattern in (_HEADING, _ITEM, _BOLD))
    return (float(len(text)), *(float(count) for count in counts))  # type: ignore[return-value]


def style_differences(first: Floats, second: Floats) -> Floats:
    """Differences of style (N, 4), each (a − b) / (a + b), scaled to standard deviation 1; 0 where both have none."""
    total = first + second
    raw = np.divide(first - second, total, out=np.zeros_like(total), where=total > 0)
    scale = raw.std(axis=0)
    scaled: Floats = raw / np.where(scale > 1e-9, scale, 1.0)
    return scaled


def control_style(matches: Matches, style: Floats) -> StyleControlledRatings | None:
    """Fit strengths and style together.

    Args:
        matches: N finished matches.
        style: the first answer's style minus the second's, (N, covariates).

    Returns:
        ``None`` where strengths have no maximum, style goes wholly with the system, or the questions are too few for
        standard errors.
    """
    varied = np.flatnonzero(style.std(axis=0) > 1e-9) if len(style) else np.array([], dtype=np.int64)
    size = len(matches.systems)
    if size < 2 or matches.clusters < 2 or not reachable(matches.totals()).all():
        return None
    design = np.hstack([_design(matches), style[:, varied]])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    count = len(matches)
    weights = _solution(design, np.full(count, 1.0 / count), design.T @ matches.score / count)
    if weights is None:
        return None
    bread = np.linalg.inv(_curve(design, weights) / count)
    gradients = design * (matches.score - _chance(design, weights))[:, None]
    covariance = bread @ _variance_of_mean(gradients, matches) @ bread
    from_free = _all_strengths(size - 1)
    strengths = from_free @ weights[: size - 1]
    variances = np.diag(from_free @ covariance[: size - 1, : size - 1] @ from_free.T)
    if not (np.append(variances, np.diag(covariance)) > _LEAST_VARIANCE).all():
        return None  # also where it is not a number
    errors = np.sqrt(variances)
    effect_errors = np.sqrt(np.diag(covariance))[size - 1 :]
    return StyleControlledRatings(
        systems=matches.systems,
        ratings=tuple((START + POINTS * strengths).tolist()),
        errors=tuple((POINTS * errors).tolist()),
        effects=tuple(
            (COVARIATES[column], float(effect), float(error))
            for column, effect, error in zip(varied, weights[size - 1 :], effect_errors, strict=True)
        ),
    )
