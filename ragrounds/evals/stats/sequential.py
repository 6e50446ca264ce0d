"""Means of bounded values under continuous monitoring: intervals and p values that stay valid however often one looks.

To test whether the mean is m, bet against it: stake a share c of the capital on values above m, which are paid x / m,
and keep the rest. After each value the capital is multiplied by (1 - c) + c x / m. If m is the mean, the capital is a
martingale from 1 for every c. So is its average over fixed values of c, and so is half of that plus half of the same
bets on values below m. By Ville's inequality (1939) the chance that it ever reaches 1 / a is at most a. All m against
which the capital has not reached 1 / a are a confidence sequence: it contains the mean at all times at once with
probability 1 - a, so one may stop by looking at it. The only assumptions are that the values lie between known bounds,
and that each has the same mean given those before it (for questions sampled alike, an order chosen beforehand does
that).

Source: Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting", Journal of the Royal
Statistical Society B 86(1): bets in both directions shared half and half (hedged capital), a mixture over fixed bets
(diversified Kelly betting). Orabona and Jun (2024), "Tight concentrations and confidence sequences from the regret of
universal portfolio", IEEE Transactions on Information Theory 70(1), take the same mixture over all c. Each factor is
convex in m even in its logarithm, so the average capital is, too, and the set is an interval.

A draw may be a cluster of questions. Its value is then the sum of its questions' values, its weight their number, both
as shares of the largest cluster's weight. The mean over questions is a ratio: the mean value by the mean weight. If it
is m, value - m × weight has the mean 0, so a stake c pays 1 + c (value / m - weight), which is never below 1 - c. With
weight 1 that is the bet above. However a draw's value depends on its weight, the bet is fair.

The mixture is four fifths on c = 2p - 1, where p has a Beta(5, 5) distribution cut to (1/2, 1), at 24 quantiles, and
one fifth on six bold bets. Against "no difference" the bet that grows fastest stakes about (difference) / (mean square
of the values): 0.1 to 0.5 for right-or-wrong answers of similar agents, and more if a value is already a mean (epochs,
a question of every dataset) and varies less. The choice of bets determines how soon a difference is found, not the
validity: any fixed mixture is exact.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_COMMON = (
    0.00846641757971689, 0.025418710406278855, 0.04242972471793571, 0.059539786522439186, 0.0767910495017623,
    0.09422835224384318, 0.11190021626943936, 0.12986004864288736, 0.14816763598757543, 0.1668910525220011,
    0.1861091609660337, 0.20591497532089975, 0.22642030304042082, 0.24776233702761274, 0.27011331596643506,
    0.29369520339642063, 0.3188029693466068, 0.3458434908394188, 0.37540493461644386, 0.4083914647977971,
    0.44631685460787596, 0.49206254310561004, 0.5524675763868623, 0.654840871173743,
)  # fmt: skip
"""2p - 1 at the 24 mid-quantiles of a Beta(5, 5) distribution cut to (1/2, 1)."""
_BOLD = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
BETS = np.array([*_COMMON, *_BOLD])
_EDGE = 1e-12
"""Smallest distance of m from the bounds, as a share of their distance. At a bound itself a bet may pay infinitely."""
_FIRST = 16
_CLOSE = 1e-9
"""Relative size of Newton's step after which the next would be less than a rounding error."""


class SequentialInterval(Struct, frozen=True, kw_only=True):
    """Interval of a confidence sequence after the values so far."""

    n: int
    """Number of values so far."""
    mean: float
    low: float
    """Lower end of the intersection of all intervals so far, which is as valid as each of them."""
    high: float
    level: float
    p: float | None
    """Smallest error level at which the `null` value would be excluded by now, valid at any stopping time; ``None`` if
    no null value is tested."""


class ConfidenceSequence:
    """Confidence sequence of the mean of values between `least` and `maximum`, given one draw at a time.

    Args:
        least: smallest possible value.
        maximum: largest possible value, above `least`.
        level: probability that every interval contains the mean.
        null: mean to test, for `p`.

    Raises:
        ValueError: `least` is not below `maximum`, or the level is not in (0, 1).
    """

    def __init__(
        self, least: float = -1.0, maximum: float = 1.0, *, level: float = 0.95, null: float | None = None
    ) -> None:
        if not least < maximum or not 0 < level < 1:
            raise ValueError(f"expected least < most and a level in (0, 1), got {least}, {maximum} and {level}")
        self._lowest, self._span, self._level = least, maximum - least, level
        self._limit = -math.log1p(-level)
        self._draws: list[tuple[float, float]] = []
        self._sums = [(0.0, 0.0)]
        """Sums of values and weights before the first draw and after each."""
        self._counts: Counter[tuple[float, float]] = Counter()
        """Number of draws that the ends include, by value and weight."""
        self._ends = [0.0, 1.0]
        self._null = None if null is None else (null - least) / self._span
        self._null_capitals, self._tested = np.zeros((1, 2 * len(BETS))), 0
        self._most_capital = 0.0

    def add(self, value: float, weight: float = 1.0) -> None:
        """Add the next draw.

        Args:
            value: value of the draw, or the sum of a cluster's values as a share of the largest cluster's weight.
            weight: weight of the cluster as a share of the largest one's.

        Raises:
            ValueError: the value is not finite, or outside the bounds.
        """
        share = (value - self._lowest * weight) / self._span
        if not -1e-9 <= share <= weight + 1e-9 or not 0 < weight <= 1 + 1e-9:
            raise ValueError(f"the value {value} is outside the bounds")
        weight = min(1.0, round(weight, 12))
        share = min(weight, max(0.0, round(share, 12)))
        self._draws.append((share, weight))
        self._sums.append((self._sums[-1][0] + share, self._sums[-1][1] + weight))

    @property
    def p(self) -> float | None:
        """Smallest error level at which the null value would be excluded by now; ``None`` if none is tested."""
        if self._null is None:
            return None
        if self._tested < len(self._draws):
            values, weights = np.array(self._draws[self._tested :]).T
            bets = _both_bets(values, self._null, weights)
            capitals = np.cumsum(np.concatenate([self._null_capitals, bets]), axis=0)[1:]
            self._tested, self._null_capitals = len(self._draws), capitals[-1:]
            # The mean of the null hypothesis may lie outside the bounds, where no data are possible.
            capital = float(log_mean_exp(capitals).max()) if 0 <= self._null <= 1 else math.inf
            self._most_capital = max(self._most_capital, capital)
        return math.exp(-self._most_capital)

    @property
    def interval(self) -> SequentialInterval | None:
        """Interval after the draws so far; ``None`` before the first draw."""
        if not self._draws:
            return None
        self._include(len(self._draws))
        total, weight = self._sums[-1]
        return SequentialInterval(
            n=len(self._draws),
            mean=self._unscale(total / weight),
            # The last digits depend on when the interval was read before, so they are not part of a result.
            low=round(self._unscale(self._ends[0]), 10),
            high=round(self._unscale(self._ends[1]), 10),
            level=self._level,
            p=self.p,
        )

    def _unscale(self, share: float) -> float:
        return self._lowest + self._span * share

    def _include(self, count: int) -> None:
        """Exclude the means against which the capital has reached the limit after any of the first `count` draws.

        Draws that the ends include already are not looked at one by one again.
        """
        if not self._counts and count > _FIRST:  # the many steps away from the bounds are taken with few draws
            self._include(_FIRST)
        included, before = self._counts.total(), self._ends
        if included == count or before[0] == before[1]:
            return
        new = self._draws[included:count]
        sums = np.array(self._sums[included + 1 : count + 1])
        ends = [self._end(end, np.array(new), sums[:, 0] / sums[:, 1]) for end in (0, 1)]
        if ends[0] > ends[1] and len(new) > 1:  # the end that was reached first stays
            self._include((included + count) // 2)
            self._include(count)
            return
        if ends[0] > ends[1]:  # the mean is outside, which has a chance of at most 1 - level
            ends = [before[0]] * 2 if ends[0] == before[0] else [before[1]] * 2
        self._ends = ends
        self._counts.update(new)

    def _end(self, end: int, new: Floats, means: Floats) -> float:
        """Return the mean furthest inwards against which the capital has reached the limit.

        The capital's logarithm is convex, so Newton's steps from an excluded mean never pass the end. Against the
        observed mean the capital is never above 1, so an end is always outside of it.

        Args:
            end: 0 for the lower end, 1 for the upper one.
            new: value and weight of the draws that the ends do not include yet, (draws, 2).
            means: observed mean after each of them.
        """
        included = np.array([*self._counts] or np.empty((0, 2)))
        counts = np.array([*self._counts.values()], dtype=np.float64)
        excluded = self._ends[end]
        mean = min(1 - _EDGE, max(_EDGE, excluded))
        while True:
            capitals = counts @ _both_bets(included[:, 0], mean, included[:, 1]) + np.cumsum(
                _both_bets(new[:, 0], mean, new[:, 1]), axis=0
            )
            logs = np.where(means > mean if end == 0 else means < mean, log_mean_exp(capitals), -np.inf)
            look = int(logs.argmax())
            if logs[look] < self._limit:
                return excluded
            slopes = counts @ _slopes(included, mean) + _slopes(new[: look + 1], mean).sum(axis=0)
            shares = np.exp(capitals[look] - capitals[look].max())
            step = (self._limit - float(logs[look])) * float(shares.sum() / (shares @ slopes))
            excluded = mean
            if not 0 < step / (means[look] - mean) < 1:  # less than rounding errors
                return excluded
            mean += step
            if abs(step) < _CLOSE * min(mean, 1 - mean):
                return mean


def bets_on(values: Floats | float, mean: Floats | float, weights: Floats | float = 1.0) -> Floats:
    """Return the change of each bet's log capital by each draw, (…, bets), if it bets on values above `mean`."""
    log_factors: Floats = np.log1p(np.multiply.outer(np.asarray(values) / np.maximum(mean, _EDGE) - weights, BETS))
    return log_factors


def log_mean_exp(log_capitals: Floats) -> Floats:
    """Return the logarithm of the mean capital of all bets from the log capital of each."""
    largest = log_capitals.max(axis=-1, keepdims=True)
    total: Floats = largest[..., 0] + np.log(np.exp(log_capitals - largest).mean(axis=-1))
    return total


def _both_bets(values: Floats, mean: Floats | float, weights: Floats | float) -> Floats:
    """Return the change of the log capital of bets above and below `mean`, (…, 2 × bets)."""
    m = np.minimum(1 - _EDGE, np.maximum(_EDGE, mean))
    return np.concatenate([bets_on(values, m, weights), bets_on(weights - values, 1 - m, weights)], axis=-1)


def _slopes(draws: Floats, mean: float) -> Floats:
    """Return the derivative of :func:`_both_bets` by the mean for each draw's value and weight, (draws, 2 × bets)."""
    values, weights = draws.T
    payments = np.concatenate(
        [np.multiply.outer(-values / mean**2, BETS), np.multiply.outer((weights - values) / (1 - mean) ** 2, BETS)],
        axis=-1,
    )
    slopes: Floats = payments * np.exp(-_both_bets(values, mean, weights))
    return slopes


def log_capital(values: Floats, counts: Floats, mean: float) -> Floats:
    """Return the log capital against `mean` for values in [0, 1].

    Args:
        values: distinct values, (V,).
        counts: number of times that each value occurred, (…, V); the order of the values does not matter.
        mean: tested mean, 0 to 1.

    Returns:
        Log capital, (…). At -log(a) or above, `mean` is excluded at level 1 - a.
    """
    return log_mean_exp(counts @ _both_bets(values, mean, 1.0))
