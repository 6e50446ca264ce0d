"""Axes of pictures: ticks and scales. Shared by the terminal and SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

_LOGARITHMIC = 20.0
"""Highest over lowest value from which a scale is logarithmic."""


class Axis(Struct, frozen=True, kw_only=True):
    """A scale from values to 0…1."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """0 at `low`, 1 at `high`; what lies beyond stands at the edge."""
        if self.logarithmic:
            low, high, at = math.log(self.low), math.log(self.high), math.log(max(value, self.low))
        else:
            low, high, at = self.low, self.high, value
        return min(1.0, max(0.0, (at - low) / (high - low)))


def scale(values: Sequence[float]) -> Axis:
    """From 0, or logarithmic where the values lie far apart."""
    low, high = min(values), max(values)
    if high <= 0:
        return Axis(low=0.0, high=1.0, ticks=(0.0,))
    if low > 0 and high / low >= _LOGARITHMIC:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]
        start = max(tick for tick in ticks if tick <= low)
        end = min(tick for tick in ticks if tick >= high)
        shown = [tick for tick in ticks if start <= tick <= end]
        if len(shown) > 7:
            shown = [tick for tick in shown if math.isclose(math.log10(tick) % 1, 0, abs_tol=1e-9)]
        return Axis(low=start, high=end, ticks=tuple(shown), logarithmic=True)
    return linear(0.0, high)


def linear(low: float, high: float, top: float = math.inf) -> Axis:
    """Even steps that hold `low` and `high`, no further up than `top`."""
    span = max(high - low, abs(high) * 0.05, 1e-9)
    step = _nice(span / 5)
    start = math.floor(low / step + 1e-9) * step
    end = min(top, math.ceil(high / step - 1e-9) * step)
    if end <= start:
        end = start + step
    count = round((end - start) / step)
    return Axis(low=start, high=end, ticks=tuple(start + step * index for index in range(count + 1)))


def _nice(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= step * (1 - 1e-9))
