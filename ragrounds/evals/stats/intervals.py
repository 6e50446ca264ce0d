"""Interval of a mean of right-or-wrong scores that is valid for few questions, many datasets and few clusters.

The interval is an adjusted Wald interval by strata: to each of K strata z² / K pseudo-observations are added, half of
them right, and Wald's interval is computed from the result (Agresti and Coull 1998 for one stratum, Agresti and Caffo
2000 for the difference of two). A difference of two agents on the same questions gets z² / 2 pseudo-pairs, half won by
each side (Bonett and Price 2012, after Agresti and Min 2005), by strata in the same way.

Clusters (duplicates, questions on one abstract, epochs of one question) count as an effective number of observations n
/ (1 + rho (size - 1)), where size is the mean size of an observation's own cluster. The correlation rho within clusters
is estimated over all strata from the similarity of outcomes in a cluster (Fleiss and Cuzick 1979). Large clusters
without a right answer do not bias this estimate downwards. Its precision depends on the number of informative clusters,
each weighted by its size minus one: a large cluster among single questions counts as one (Kish's effective number, in
place of Satterthwaite's degrees of freedom). The estimate is shrunk towards 0.5 as if by three more clusters. The
effective number of observations is reduced by as much as Student's t with these degrees of freedom is wider than the
normal distribution, in proportion to its dependence on rho (Korn and Graubard 1998; Dean and Pagano 2015). It is never
smaller than with rho = 1: for clusters of one size their number, for others fewer, n² / Σ size². It is not larger than
that if all outcomes of a stratum are equal.

`perf/coverage.md` shows the simulated coverage of these intervals.
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
    """Figure with its interval, on the scale of the values (right or wrong: 0 to 1)."""

    value: float
    n: int
    """Questions behind the figure."""
    low: float | None
    """Lower end of the interval, which contains the figure; ``None`` if the values are too few or too similar for
    one."""
    high: float | None
    level: float = 0.95
    """Coverage of the interval."""
    method: Method
    """Method of the interval; ``too few`` if there is no interval."""


class Tallies(NamedTuple):
    """Sums over each stratum that the interval of a mean needs: arrays (..., strata).

    An observation is one outcome: of a question, or of one of its epochs.
    """

    observations: Floats
    total: Floats
    """Sum of the outcomes."""
    squares: Floats
    """Sum of their squares."""
    within: Floats
    """Sum of (an outcome minus the mean of its cluster)²."""
    pairs: Floats
    """Number of ordered pairs of observations within clusters: the sum of size × (size - 1)."""
    clusters: Floats


def adjusted_interval(
    tallies: Tallies, least: float, maximum: float, weights: Floats, pseudo: float, level: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the interval of Σ weight × mean over strata.

    Args:
        tallies: tallies of each stratum, arrays (..., K).
        least: smallest possible outcome: 0, or -1 for a difference.
        maximum: largest possible outcome.
        weights: weights of the strata, (K,).
        pseudo: pseudo-observations over all strata, half `least` and half `maximum`, as a multiple of z².
        level: coverage.

    Returns:
        Lower and upper ends, (...). They are within the range of possible outcomes and contain the figure.
    """
    z = normal_quantile(level)
    strata = tallies.observations.shape[-1]
    mean = tallies.total / tallies.observations
    spread = np.maximum(tallies.squares / tallies.observations - mean**2, 0.0)
    effective = _effective(tallies, spread, level)
    pseudo_count = pseudo * z**2 / strata
    adjusted = effective + pseudo_count
    adjusted_mean = (effective * mean + pseudo_count * (least + maximum) / 2) / adjusted
    squares = (effective * (spread + mean**2) + pseudo_count * (least**2 + maximum**2) / 2) / adjusted
    variance = (weights**2 * np.maximum(squares - adjusted_mean**2, 0.0) / adjusted).sum(axis=-1)
    centre, half_width = (weights * adjusted_mean).sum(axis=-1), z * np.sqrt(variance)
    value = (weights * mean).sum(axis=-1)
    lowest = np.minimum(weights * least, weights * maximum).sum()
    highest = np.maximum(weights * least, weights * maximum).sum()
    low: Floats = np.minimum(np.clip(centre - half_width, lowest, highest), value)
    high: Floats = np.maximum(np.clip(centre + half_width, lowest, highest), value)
    return low, high


def _effective(tallies: Tallies, spread: Floats, level: float) -> Floats:
    """Return the number of independent observations that those of each stratum are worth; without clusters all of
    them."""
    n, pairs, clusters = tallies.observations, tallies.pairs, tallies.clusters
    if not pairs.any():
        return n
    informative = (pairs > 0) & (clusters > 1)  # a single cluster does not show how clusters differ
    total = _over_strata(informative, (n - clusters) * spread)
    shared = total - _over_strata(informative, tallies.within) + _over_strata(informative, (n - clusters) * spread / n)
    # Σ (size - 1)² = pairs - n + clusters
    effective_clusters = _over_strata(informative, n - clusters) ** 2 / np.maximum(
        _over_strata(informative, pairs - n + clusters), 1.0
    )
    prior = total * _PRIOR_CLUSTERS / np.maximum(effective_clusters, 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.where(total > 0, (shared + prior * _PRIOR_CORRELATION) / (total + prior), 1.0)
        free = effective_clusters * _over_strata(informative, clusters - 1) / _over_strata(informative, clusters)
    inflation = 1 + np.clip(correlation, 0.0, 1.0) * pairs / n
    widening = (student_quantile(np.fmax(free, 1.0), level) / normal_quantile(level)) ** 2
    # However few the clusters, they are worth at least what they are worth if all outcomes of each are equal.
    fewest = n / (1 + pairs / n)
    effective: Floats = np.where(
        spread <= 0, fewest, np.maximum(n / inflation / (1 + (1 - 1 / inflation) * (widening - 1)), fewest)
    )
    return effective


def _over_strata(informative: NDArray[np.bool_], numbers: Floats) -> Floats:
    """Return the sum over the strata that are informative about clusters, (..., 1)."""
    summed: Floats = np.where(informative, numbers, 0.0).sum(axis=-1, keepdims=True)
    return summed


def normal_quantile(level: float) -> float:
    """Return the z of a two-sided interval with this coverage: 1.96 for 0.95."""
    return NormalDist().inv_cdf((1 + level) / 2)


def student_quantile(freedom: Floats | float, level: float) -> Floats:
    """Return the t of a two-sided interval with this coverage, by degrees of freedom."""
    from scipy.special import stdtrit

    quantile: Floats = stdtrit(freedom, (1 + level) / 2)
    return quantile


def identical_runs_bound(changed: float, n: int) -> float:
    """Return the difference that 95 % of pairs of identical runs on the same `n` questions stay within.

    It is ±1.96·√(2v/n), where v is the mean variance of a score within its question, and `changed` is 2v: the mean
    square of the difference between two scores of a question. For right or wrong it is the share of scores that change.
    """
    return normal_quantile(0.95) * math.sqrt(changed / n)


def binomial_error(p: float, n: int) -> float:
    """Return sqrt(p(1-p)/n), the ± of MIRAGE's tables (Section 4.1).

    It is neither an interval nor half of one: if all answers are equal it is 0.
    """
    return math.sqrt(max(p * (1 - p), 0.0) / n)


def macro_error(errors: Sequence[float]) -> float:
    """Return the ± of an unweighted mean of independent figures: sqrt(Σ error²) / number."""
    if not errors:
        raise ValueError("expected one error or more")
    return float(np.sqrt(np.square(errors).sum())) / len(errors)
