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

The mixture is four fifths on c = 2p - 1, where p has a Beta(5, 5) distribution cut to (1/2, 1), at 24 quantiles, and
one fifth on six bold bets. Against "no difference" the bet that grows fastest stakes about (difference) / (mean square
of the values): 0.1 to 0.5 for right-or-wrong answers of similar agents, and more if a value is already a mean (epochs,
a question of every dataset) and varies less. The choice of bets determines how soon a difference is found, not the
validity: any fixed mixture is exact.
"""

from __future__ import annotations

import math

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
_HALVINGS = 50


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
    """Confidence sequence of the mean of values between `least` and `maximum`, given one at a time.

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
        self._counts: dict[float, int] = {}
        self._n, self._sum = 0, 0.0
        self._low, self._high = 0.0, 1.0
        self._null = None if null is None else (null - least) / self._span
        self._most_capital = 0.0

    def add(self, value: float) -> None:
        """Add the next value.

        Raises:
            ValueError: the value is not finite, or outside the bounds.
        """
        share = (value - self._lowest) / self._span
        if not -1e-9 <= share <= 1 + 1e-9:
            raise ValueError(f"the value {value} is outside the bounds")
        share = min(1.0, max(0.0, round(share, 12)))
        self._counts[share] = self._counts.get(share, 0) + 1
        self._n += 1
        self._sum += share
        values = np.array(list(self._counts))
        counts = np.array(list(self._counts.values()), dtype=np.float64)
        self._narrow(values, counts)
        if self._null is not None:
            # The mean of the null hypothesis may lie outside the bounds, where no data are possible.
            capital = float(log_capital(values, counts, self._null)) if 0 <= self._null <= 1 else math.inf
            self._most_capital = max(self._most_capital, capital)

    @property
    def interval(self) -> SequentialInterval | None:
        """Interval after the values so far; ``None`` before the first value."""
        if not self._n:
            return None
        return SequentialInterval(
            n=self._n,
            mean=self._unscale(self._sum / self._n),
            low=self._unscale(self._low),
            high=self._unscale(self._high),
            level=self._level,
            p=None if self._null is None else math.exp(-self._most_capital),
        )

    def _unscale(self, share: float) -> float:
        return self._lowest + self._span * share

    def _narrow(self, values: Floats, counts: Floats) -> None:
        """Exclude the means against which the capital has now reached the limit.

        Against the observed mean the capital is never above 1, so each end lies between the previous end and that mean.
        """
        mean = self._sum / self._n
        low, high = self._low, self._high
        if self._left_out(low, values, counts):
            self._low = self._edge(low, mean, values, counts) if mean > low else low
        if self._left_out(high, values, counts):
            self._high = self._edge(high, mean, values, counts) if mean < high else high
        if self._low > self._high:  # the mean is outside, which has a chance of at most 1 - level
            self._low, self._high = (low, low) if self._low == low else (high, high)

    def _left_out(self, mean: float, values: Floats, counts: Floats) -> bool:
        return float(log_capital(values, counts, mean)) >= self._limit

    def _edge(self, excluded: float, included: float, values: Floats, counts: Floats) -> float:
        for _ in range(_HALVINGS):
            middle = (excluded + included) / 2
            if self._left_out(middle, values, counts):
                excluded = middle
            else:
                included = middle
        return excluded


def log_capital(values: Floats, counts: Floats, mean: float) -> Floats:
    """Return the log capital against `mean` for values in [0, 1].

    Args:
        values: distinct values, (V,).
        counts: number of times that each value occurred, (…, V); the order of the values does not matter.
        mean: tested mean, 0 to 1.

    Returns:
        Log capital, (…). At -log(a) or above, `mean` is excluded at level 1 - a.
    """
    m = min(1 - _EDGE, max(_EDGE, mean))
    above = np.log1p(np.multiply.outer(values / m - 1, BETS))
    below = np.log1p(np.multiply.outer((1 - values) / (1 - m) - 1, BETS))
    log_capitals = counts @ np.concatenate([above, below], axis=1)
    largest = log_capitals.max(axis=-1, keepdims=True)
    total: Floats = largest[..., 0] + np.log(np.exp(log_capitals - largest).mean(axis=-1))
    return total
