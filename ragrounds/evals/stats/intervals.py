"""The interval of a mean of right-or-wrong scores that holds for few questions, many datasets and few clusters.

Adjusted Wald by strata: to each of K strata z² / K pseudo-observations are added, half of them right, and the interval
is Wald's from what is then there (Agresti and Coull 1998 for one stratum, Agresti and Caffo 2000 for the difference of
two). A difference of two agents on the same questions gets z² / 2 pseudo-pairs, half won by each side (Bonett and
Price 2012, after Agresti and Min 2005), by strata in the same way.

Clusters (duplicates, questions on one abstract, epochs of one question) count as an effective number of observations
n / (1 + rho (size - 1)), size being that of an observation's own cluster on average. The correlation rho within
clusters is estimated over all strata from how alike outcomes of a cluster are (Fleiss and Cuzick 1979): an estimate
that large clusters without a right answer do not pull down. It is as sure as the clusters that tell of it are many,
each by its size less one: a large cluster among single questions is one that tells (Kish's effective number, here in
the place of Satterthwaite's degrees of freedom). The estimate is drawn to 0.5 as by three more clusters, and the
effective number of observations made smaller by what Student's t with so many degrees of freedom is wider than the
normal distribution, in so far as it rests on rho (Korn and Graubard 1998; Dean and Pagano 2015). It is never smaller
than with rho = 1: of clusters of one size as many as there are, of others fewer, n² / Σ size²; nor larger than that
where all outcomes of a stratum are equal.

`perf/coverage.md` shows by simulation how often these intervals hold what they should.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Method = Literal["adjusted Wald", "bootstrap", "too few"]
_PRIOR_CLUSTERS, _PRIOR_CORRELATION = 3.0, 0.5


class Estimate(Struct, frozen=True, kw_only=True):
    """A figure with its interval. Everything is on the scale of the values (right or wrong: 0 to 1)."""

    value: float
    n: int
    """Questions behind the figure."""
    low: float | None
    """Ends of the interval, which holds the figure; ``None``: the values are too few or too much alike for one."""
    high: float | None
    level: float = 0.95
    """Coverage of the interval."""
    method: Method
    """How the interval was made; ``too few``: there is none."""


class Tallies(NamedTuple):
    """What the interval of a mean needs to know of each stratum: arrays (..., strata). An observation is one outcome: a
    question's, or one of its epochs'."""

    observations: Floats
    total: Floats
    """Sum of the outcomes."""
    squares: Floats
    """Sum of their squares."""
    within: Floats
    """Sum of (an outcome less the mean of its cluster)²."""
    pairs: Floats
    """Ordered pairs of observations within clusters: the sum of size × (size - 1)."""
    clusters: Floats


def adjusted_interval(
    tallies: Tallies, least: float, most: float, weights: Floats, pseudo: float, level: float = 0.95
) -> tuple[Floats, Floats]:
    """The interval of Σ weight × mean over strata.

    Args:
        tallies: of each stratum, arrays (..., K).
        least: the smallest outcome there can be: 0, or -1 for a difference.
        most: the largest.
        weights: of the strata, (K,).
        pseudo: pseudo-observations over all strata, half `least` and half `most`, as a multiple of z².
        level: coverage.

    Returns:
        Lower and upper ends, (...): within what the outcomes allow, and around the figure itself.
    """
    z = normal_quantile(level)
    strata = tallies.observations.shape[-1]
    mean = tallies.total / tallies.observations
    spread = np.maximum(tallies.squares / tallies.observations - mean**2, 0.0)
    counted = _effective(tallies, spread, level)
    added = pseudo * z**2 / strata
    whole = counted + added
    middle = (counted * mean + added * (least + most) / 2) / whole
    squares = (counted * (spread + mean**2) + added * (least**2 + most**2) / 2) / whole
    variance = (weights**2 * np.maximum(squares - middle**2, 0.0) / whole).sum(axis=-1)
    centre, half = (weights * middle).sum(axis=-1), z * np.sqrt(variance)
    value = (weights * mean).sum(axis=-1)
    lowest = np.minimum(weights * least, weights * most).sum()
    highest = np.maximum(weights * least, weights * most).sum()
    low: Floats = np.minimum(np.clip(centre - half, lowest, highest), value)
    high: Floats = np.maximum(np.clip(centre + half, lowest, highest), value)
    return low, high


def _effective(tallies: Tallies, spread: Floats, level: float) -> Floats:
    """How many independent observations those of each stratum are worth; without clusters as many as there are."""
    n, pairs, clusters = tallies.observations, tallies.pairs, tallies.clusters
    if not pairs.any():
        return n
    told = (pairs > 0) & (clusters > 1)  # one cluster says nothing of how clusters differ
    whole = _over_strata(told, (n - clusters) * spread)
    shared = whole - _over_strata(told, tallies.within) + _over_strata(told, (n - clusters) * spread / n)
    # Σ (size - 1)² = pairs - n + clusters
    telling = _over_strata(told, n - clusters) ** 2 / np.maximum(_over_strata(told, pairs - n + clusters), 1.0)
    prior = whole * _PRIOR_CLUSTERS / np.maximum(telling, 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.where(whole > 0, (shared + prior * _PRIOR_CORRELATION) / (whole + prior), 1.0)
        free = telling * _over_strata(told, clusters - 1) / _over_strata(told, clusters)
    inflation = 1 + np.clip(correlation, 0.0, 1.0) * pairs / n
    wider = (student_quantile(np.fmax(free, 1.0), level) / normal_quantile(level)) ** 2
    # However few the clusters, they are worth what they are if all outcomes of each are equal.
    least = n / (1 + pairs / n)
    made: Floats = np.where(
        spread <= 0, least, np.maximum(n / inflation / (1 + (1 - 1 / inflation) * (wider - 1)), least)
    )
    return made


def _over_strata(told: NDArray[np.bool_], numbers: Floats) -> Floats:
    """Their sum over the strata that tell of clusters, (..., 1)."""
    summed: Floats = np.where(told, numbers, 0.0).sum(axis=-1, keepdims=True)
    return summed


def normal_quantile(level: float) -> float:
    """The z of a two-sided interval with this coverage: 1.96 for 0.95."""
    return NormalDist().inv_cdf((1 + level) / 2)


def student_quantile(freedom: Floats | float, level: float) -> Floats:
    """The t of a two-sided interval with this coverage, by degrees of freedom."""
    from scipy.special import stdtrit

    found: Floats = stdtrit(freedom, (1 + level) / 2)
    return found


def binomial_error(p: float, n: int) -> float:
    """sqrt(p(1-p)/n), the ± of MIRAGE's tables (Section 4.1). It is no interval, nor one half of one: where all answers
    are alike it is 0."""
    return math.sqrt(max(p * (1 - p), 0.0) / n)


def macro_error(errors: Sequence[float]) -> float:
    """The ± of an unweighted mean of independent figures from theirs: sqrt(Σ error²) / number."""
    if not errors:
        raise ValueError("expected one error or more")
    return float(np.sqrt(np.square(errors).sum())) / len(errors)
