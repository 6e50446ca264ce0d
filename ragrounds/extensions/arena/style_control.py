"""Ratings with the style of the answers held equal.

As in the LMSYS arena (Li, Angelopoulos, Chiang, August 2024), the logistic regression gets the differences of the two
answers' lengths and formatting in addition to the systems' strengths. Errors are sandwich estimates clustered by
question.
"""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct

from ragrounds.extensions.arena.matches import Floats, Matches
from ragrounds.extensions.arena.ratings import POINTS, START, reachable

_STEPS = 60
_CLOSE = 1e-12
"""Slope of the mean likelihood that counts as 0."""
_FARTHEST = 15.0
"""Absolute weight from which the likelihood is taken to have no maximum."""

COVARIATES = ("length", "headings", "lists", "bold")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s", re.MULTILINE)
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s", re.MULTILINE)
_BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")
_FENCE = re.compile(r"```.*?```", re.DOTALL)
_LEAST_VARIANCE = 1e-12
"""Smallest variance of a log-odds that is not taken for rounding error."""


def _design(matches: Matches) -> Floats:
    """Return the design matrix (n, K - 1), one row per match: 1 for its first system, -1 for its second.

    The last strength is minus the sum of the others, so that their mean is 0.
    """
    contrasts = np.zeros((len(matches), len(matches.systems)))
    rows = np.arange(len(matches))
    contrasts[rows, matches.first] += 1.0
    contrasts[rows, matches.second] -= 1.0
    return contrasts @ _all_strengths(len(matches.systems) - 1)


def _all_strengths(free: int) -> Floats:
    """Return the matrix that maps the free strengths to all strengths, (K, K - 1)."""
    return np.vstack([np.eye(free), -np.ones((1, free))])


def _solution(design: Floats, score: Floats) -> Floats | None:
    """Fit the weights of a logistic regression by Newton's method; ``None`` if there is no maximum within reach."""
    weights = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        slope = design.T @ (score - _chance(design, weights)) / len(score)
        if np.abs(slope).max() < _CLOSE:
            return weights
        curve = _curve(design, weights) / len(score)
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


def _curve(design: Floats, weights: Floats) -> Floats:
    chance = _chance(design, weights)
    curve: Floats = (design * (chance * (1.0 - chance))[:, None]).T @ design
    return curve


def _variance_of_mean(gradients: Floats, matches: Matches) -> Floats:
    """Return the variance of the mean of `gradients`, one row per match, clustered by question.

    It has the usual correction for few questions, C / (C - 1).
    """
    count, size = matches.clusters, gradients.shape[1]
    sums = np.zeros((count, size))
    np.add.at(sums, matches.cluster, gradients - gradients.mean(axis=0))
    variance: Floats = (
        sums.T @ sums * count / (count - 1) / len(gradients) ** 2 if count > 1 else np.zeros((size, size))
    )
    return variance


class StyleControlledRatings(Struct, frozen=True, kw_only=True):
    """Ratings with style held equal, and the effect of style on the judge."""

    systems: tuple[str, ...]
    ratings: tuple[float, ...]
    """On Elo's scale, mean 1000."""
    errors: tuple[float, ...]
    """Standard errors in points, clustered by question."""
    effects: tuple[tuple[str, float, float], ...]
    """(covariate, log-odds for one standard deviation of the difference, its standard error)."""


def style_features(text: str) -> tuple[float, float, float, float]:
    """Return the style of a text: length in characters, and numbers of Markdown headings, list items and bold phrases
    outside code.
    """
    plain = _FENCE.sub("", text)
    counts = (len(pattern.findall(plain)) for pattern in (_HEADING, _ITEM, _BOLD))
    return (float(len(text)), *(float(count) for count in counts))  # type: ignore[return-value]


def style_differences(first: Floats, second: Floats) -> Floats:
    """Return differences of style (N, 4), each (a − b) / (a + b), scaled to standard deviation 1; 0 if both have
    none."""
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
        ``None`` if strengths have no maximum, style is determined by the system, or the questions are too few for
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
    weights = _solution(design, matches.score)
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
