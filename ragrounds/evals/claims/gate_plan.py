"""How many questions a gate's rule needs: power by the gate's own test, on draws of what a pilot measured.

A pilot's values are tilted (exponentially) until their mean is the one that is wanted, and drawn; the test is carried
out after every draw, and the power after n questions is the share of draws that hold by then. Of a question's values
over epochs the spread between questions stays and the spread within them is divided by the epochs. A judge that errs in
a share e of its verdicts shows 1 - 2e of a difference; the majority of several errs less often (errors taken to be
independent).
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

from ragrounds.evals.stats.one_sided import bets_on, log_mean_exp, reach

Floats = NDArray[np.float64]
_DRAWS, _MOST = 4_000, 20_000


class DesignSize(Struct, frozen=True, kw_only=True):
    """What a rule needs by one design."""

    rule: str
    effect: float
    """How far beyond its limit the truth is, in the claim's units."""
    epochs: int
    judges: int
    questions: int | None = None
    """So many hold with the power wanted, with a look after every one; ``None``: more than 20,000."""
    median: int | None = None
    """Half of the gates end by then."""
    fixed: int | None = None
    """Of a test of the same power that is looked at once."""
    cost: float | None = None
    """Dollars at full price of all runs, judging apart; ``None``: not known."""


def tilted(values: Floats, mean: float) -> Floats | None:
    """The chances of these values that give them this mean, least away from equal ones; ``None``: none do."""
    if not values.min() < mean < values.max():
        return None

    def chances(tilt: float) -> Floats:
        grown = np.exp(tilt * values - np.max(tilt * values))
        made: Floats = grown / grown.sum()
        return made

    return chances(brentq(lambda tilt: float(chances(tilt) @ values) - mean, -700, 700))


def judged(share: float, middle: float, error: float, judges: int) -> float:
    """What the majority of judges shows of a mean share; `middle` is where their errors draw it to."""
    return middle + (1 - 2 * majority_error(error, judges)) * (share - middle)


def majority_error(error: float, judges: int) -> float:
    """How often the majority of judges is wrong of which each is so in a share of its verdicts, by itself."""
    return float(bdtrc(judges // 2, judges, error)) if error else 0.0


def spread_of(values: Floats, epochs: int, judges: int = 1, error: float = 0.0, squares: float = 0.0) -> float:
    """The variance of a design as a share of that of one epoch by one judge.

    Args:
        values: (questions, epochs) of the pilot.
        epochs, judges: of the design.
        error: of a judge. A verdict that is wrong in a share e varies by e (1 - e).
        squares: the sum of the squares of what a verdict changes the value by.
    """
    noise, left = squares * error * (1 - error), majority_error(error, judges)
    within = float(values.var(axis=1, ddof=1).mean()) if values.shape[1] > 1 else 0.0
    whole = float(values.var())
    within, kept = max(within, noise), ((1 - 2 * left) / (1 - 2 * error)) ** 2
    between = max(0.0, whole - within) * kept
    inside = (within - noise) * kept + squares * left * (1 - left)
    return (between + inside / epochs) / whole if whole else 1.0


def size(
    design: DesignSize, values: Floats, limit: float, mean: float, spread: float, error: float, power: float, seed: int
) -> DesignSize:
    """The design with its size, from draws of such values that are followed until enough of them hold.

    Args:
        design: what is planned.
        values: (questions, epochs) of the pilot; they, `limit` and `mean` are shares.
        limit: of the rule.
        mean: what is to be seen.
        spread: of :func:`spread_of`.
        error: of the gate.
        power: wanted.
        seed: of the draws.
    """
    flat = values.ravel()
    chances = tilted(flat, mean)
    if chances is None:
        return design
    table = bets_on(np.clip(mean + (flat - mean) * math.sqrt(spread), 0, 1), limit)
    generator, ends = np.random.default_rng(seed), list[int]()
    grown, edges = np.zeros((_DRAWS, table.shape[1])), np.cumsum(chances)
    for question in range(1, _MOST + 1):
        grown += table[np.minimum(np.searchsorted(edges, generator.random(len(grown))), len(flat) - 1)]
        shown = log_mean_exp(grown) >= reach(error)
        if shown.any():
            ends += [question] * int(shown.sum())
            grown = grown[~shown]
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
