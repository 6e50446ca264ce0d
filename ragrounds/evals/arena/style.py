"""Length and formatting as covariates: what the ratings are when style is held equal.

Style control as in the LMSYS arena (Li, Angelopoulos, Chiang, August 2024): beside the systems' strengths, the logistic
regression gets the differences of the two answers' styles. Errors are sandwich estimates clustered by question.
"""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct

from ragrounds.evals.arena.bradley_terry import POINTS, reachable
from ragrounds.evals.arena.elo import START
from ragrounds.evals.arena.matches import Floats, Ints, Matches

COVARIATES = ("length", "headings", "lists", "bold")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s", re.MULTILINE)
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s", re.MULTILINE)
_BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")
_FENCE = re.compile(r"```.*?```", re.DOTALL)
_STEPS = 50


class Controlled(Struct, frozen=True, kw_only=True):
    """Ratings with style held equal, and what style itself is worth."""

    systems: tuple[str, ...]
    ratings: tuple[float, ...]
    """On Elo's scale, mean 1000."""
    errors: tuple[float, ...]
    """Standard errors in points, clustered by question."""
    effects: tuple[tuple[str, float, float], ...]
    """(covariate, log-odds for one standard deviation of the difference, its standard error)."""


def features(text: str) -> tuple[float, float, float, float]:
    """Length in characters, and numbers of Markdown headings, list items and bold phrases outside of code."""
    plain = _FENCE.sub("", text)
    counts = (len(pattern.findall(plain)) for pattern in (_HEADING, _ITEM, _BOLD))
    return (float(len(text)), *(float(count) for count in counts))  # type: ignore[return-value]


def differences(first: Floats, second: Floats) -> Floats:
    """(N, 4) style differences, each (a − b) / (a + b) and scaled to standard deviation 1; 0 where both have none."""
    total = first + second
    raw = np.divide(first - second, total, out=np.zeros_like(total), where=total > 0)
    scale = raw.std(axis=0)
    scaled: Floats = raw / np.where(scale > 1e-9, scale, 1.0)
    return scaled


def control(matches: Matches, style: Floats) -> Controlled | None:
    """Fit strengths and style together; `style` is (N, covariates), the first answer's minus the second's.

    ``None`` where that cannot be: strengths without a maximum, or style that goes wholly with the system.
    """
    varied = np.flatnonzero(style.std(axis=0) > 1e-9) if len(style) else np.array([], dtype=np.int64)
    size = len(matches.systems)
    if size < 2 or matches.clusters < 2 or not reachable(matches.totals()).all():
        return None
    design = np.zeros((len(matches), size))
    rows = np.arange(len(matches))
    design[rows, matches.first] += 1.0
    design[rows, matches.second] -= 1.0
    # The last strength is minus the sum of the others, so that their mean is 0.
    design = np.hstack([design[:, :-1] - design[:, -1:], style[:, varied]])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    found = _logistic(design, matches.score)
    if found is None:
        return None
    weights, curve = found
    covariance = _sandwich(design, matches.score, weights, curve, matches.cluster)
    spread = np.vstack([np.eye(size - 1), -np.ones((1, size - 1))])
    strengths = spread @ weights[: size - 1]
    errors = np.sqrt(np.diag(spread @ covariance[: size - 1, : size - 1] @ spread.T))
    effect_errors = np.sqrt(np.diag(covariance))[size - 1 :]
    return Controlled(
        systems=matches.systems,
        ratings=tuple((START + POINTS * strengths).tolist()),
        errors=tuple((POINTS * errors).tolist()),
        effects=tuple(
            (COVARIATES[column], float(effect), float(error))
            for column, effect, error in zip(varied, weights[size - 1 :], effect_errors, strict=True)
        ),
    )


def _logistic(design: Floats, score: Floats) -> tuple[Floats, Floats] | None:
    """Weights and information at the maximum of the likelihood; ``None`` where it is not reached."""
    weights = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        chance = 1.0 / (1.0 + np.exp(-(design @ weights)))
        slope = design.T @ (score - chance)
        curve: Floats = (design * (chance * (1.0 - chance))[:, None]).T @ design
        if np.abs(slope).max() < 1e-9 * max(1, len(score)):
            return weights, curve
        try:
            step = np.linalg.solve(curve, slope)
        except np.linalg.LinAlgError:
            return None
        weights = weights + step * min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        if np.abs(weights).max() > 30:
            return None  # style tells wins from losses wholly: no maximum
    return None


def _sandwich(design: Floats, score: Floats, weights: Floats, curve: Floats, cluster: Ints) -> Floats:
    """Covariance clustered by question, with the usual correction for few clusters, C / (C − 1)."""
    count = int(cluster.max()) + 1
    chance = 1.0 / (1.0 + np.exp(-(design @ weights)))
    scores = np.zeros((count, design.shape[1]))
    np.add.at(scores, cluster, design * (score - chance)[:, None])
    bread = np.linalg.inv(curve)
    covariance: Floats = bread @ (scores.T @ scores) @ bread * count / (count - 1)
    return covariance
