"""Number of questions that a gate's rule needs: power of the gate's own test, simulated from a pilot's values.

A pilot's values are tilted (exponentially) until their mean is the planned one, and sampled. The test is carried out
after every draw, and the power after n questions is the share of simulations that hold by then. The variance of a
question's values over epochs has two parts: the spread between questions stays and the spread within them is divided by
the epochs. A judge that errs in a share e of its verdicts shows 1 - 2e of a difference; the majority of several judges
errs less often (errors are assumed to be independent).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import bdtrc

from ragrounds.evals.stats.sequential import bets_on, log_mean_exp
from ragrounds.extensions.gate.one_sided import reach

Floats = NDArray[np.float64]
_DRAWS, _MOST = 4_000, 20_000


class DesignSize(Struct, frozen=True, kw_only=True):
    """Number of questions that a rule needs under one design."""

    rule: str
    effect: float
    """Distance of the truth beyond the rule's limit, in the claim's units."""
    epochs: int
    judges: int
    questions: int | None = None
    """Number of questions at which the rule holds with the planned power, tested after every question; ``None`` if
    above 20,000."""
    median: int | None = None
    """Number of questions after which half of the gates have ended."""
    fixed: int | None = None
    """Number of questions that a test of the same power needs if it is carried out once."""
    cost: float | None = None
    """Full-price dollars of all runs, without judging; ``None`` if not known."""


def tilted(values: Floats, mean: float) -> Floats | None:
    """Return the probabilities closest to equal ones that give these values this mean; ``None`` if it is out of their
    range."""
    if not values.min() < mean < values.max():
        return None

    def tilted_chances(tilt: float) -> Floats:
        weights = np.exp(tilt * values - np.max(tilt * values))
        normalised: Floats = weights / weights.sum()
        return normalised

    return tilted_chances(brentq(lambda tilt: float(tilted_chances(tilt) @ values) - mean, -700, 700))


def majority_mean(share: float, middle: float, error: float, judges: int) -> float:
    """Return the mean share that the majority of judges shows; `middle` is the share to which their errors pull it."""
    return middle + (1 - 2 * majority_error(error, judges)) * (share - middle)


def majority_error(error: float, judges: int) -> float:
    """Return the share of wrong majority verdicts if each judge errs independently in a share `error` of its
    verdicts."""
    return float(bdtrc(judges // 2, judges, error)) if error else 0.0


def spread_of(values: Floats, epochs: int, judges: int = 1, error: float = 0.0, squares: float = 0.0) -> float:
    """Return the variance of a design as a share of the variance of one epoch by one judge.

    Args:
        values: values of the pilot, (questions, epochs).
        epochs, judges: numbers of the design.
        error: error rate of a judge. A verdict that is wrong in a share e has variance e (1 - e).
        squares: sum of the squared changes of the value by a verdict.
    """
    noise, majority_share = squares * error * (1 - error), majority_error(error, judges)
    within = float(values.var(axis=1, ddof=1).mean()) if values.shape[1] > 1 else 0.0
    total = float(values.var())
    within, signal = max(within, noise), ((1 - 2 * majority_share) / (1 - 2 * error)) ** 2
    between = max(0.0, total - within) * signal
    within_after = (within - noise) * signal + squares * majority_share * (1 - majority_share)
    return (between + within_after / epochs) / total if total else 1.0


def size(
    design: DesignSize, values: Floats, limit: float, mean: float, spread: float, error: float, power: float, seed: int
) -> DesignSize:
    """Return the design with its size, from simulations that are followed until enough of them hold.

    Args:
        design: design to size.
        values: values of the pilot, (questions, epochs); they, `limit` and `mean` are shares.
        limit: limit of the rule.
        mean: mean share to be detected.
        spread: relative variance by :func:`spread_of`.
        error: error of the gate.
        power: power to reach.
        seed: seed of the simulations.
    """
    flat = values.ravel()
    chances = tilted(flat, mean)
    if chances is None:
        return design
    table = bets_on(np.clip(mean + (flat - mean) * math.sqrt(spread), 0, 1), limit)
    generator, ends = np.random.default_rng(seed), list[int]()
    log_capitals, edges = np.zeros((_DRAWS, table.shape[1])), np.cumsum(chances)
    for question in range(1, _MOST + 1):
        log_capitals += table[np.minimum(np.searchsorted(edges, generator.random(len(log_capitals))), len(flat) - 1)]
        holds = log_mean_exp(log_capitals) >= reach(error)
        if holds.any():
            ends += [question] * int(holds.sum())
            log_capitals = log_capitals[~holds]
        if len(ends) >= power * _DRAWS:
            break
    z = NormalDist().inv_cdf(1 - error) + NormalDist().inv_cdf(power)
    variance = spread * float(chances @ (flat - mean) ** 2)
    return replace(
        design,
        questions=ends[-1] if len(ends) >= power * _DRAWS else None,
        median=ends[_DRAWS // 2 - 1] if len(ends) >= _DRAWS // 2 else None,
        fixed=math.ceil(z**2 * variance / (mean - limit) ** 2),
    )
