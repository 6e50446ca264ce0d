"""Tests of two agents on the same questions, and of many such pairs at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from msgspec import Struct


class McNemar(Struct, frozen=True, kw_only=True):
    """Two agents on the same questions, right or wrong. Only questions where they differ say anything."""

    first_only: int
    """Questions that the first alone has right."""
    second_only: int
    both: int
    neither: int
    p: float
    """Exact two-sided p (a binomial test on the differing questions)."""


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> McNemar:
    """McNemar's exact test that neither agent is right more often. Takes questions as independent: with duplicates
    among them, leave all but one of each cluster out, or go by the clustered bootstrap.

    Raises:
        ValueError: sides of different length, or none.
    """
    if not len(first) or len(first) != len(second):
        raise ValueError(f"McNemar's test needs the same questions on both sides, got {len(first)} and {len(second)}")
    pairs = [(bool(one), bool(other)) for one, other in zip(first, second, strict=True)]
    kinds = ((True, False), (False, True), (True, True), (False, False))
    first_only, second_only, both, neither = (pairs.count(kind) for kind in kinds)
    n, least = first_only + second_only, min(first_only, second_only)
    # Whole numbers: the binomial tail is exact however many questions differ.
    tail = term = 1
    for k in range(1, least + 1):
        term = term * (n - k + 1) // k
        tail += term
    p = min(1.0, 2 * tail / 2**n)
    return McNemar(first_only=first_only, second_only=second_only, both=both, neither=neither, p=p)


def holm(p_values: Sequence[float], among: int | None = None) -> list[float]:
    """p values adjusted for being many, by Holm's step-down procedure (1979), in the order given.

    Args:
        p_values: of the tests that were made.
        among: how many tests there could have been, where these were picked by their data; ``None``: these are all.
            The adjusted values are then as large as any others could make them, or larger.
    """
    count = max(len(p_values), among or 0)
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def minimum_detectable_effect(n: int, differing: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """The smallest true difference in accuracy that `n` paired questions show with this power.

    Args:
        n: questions.
        differing: share of questions where exactly one of the two is right, from a pilot or an earlier run.
        alpha: two-sided level of the test.
        power: chance to see the difference.

    Returns:
        A difference of accuracies, 0 to 1, by Connor's (1987) approximation for McNemar's test; ``None`` where the
        differing questions are too few: even if all of them went one way, it would be seen less often than that.
    """
    if n < 1 or not 0 < differing <= 1:
        raise ValueError(f"expected n ≥ 1 and a share of differing questions above 0 up to 1, got {n} and {differing}")
    level, chance = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)

    def _short_by(effect: float) -> float:
        return (
            level * math.sqrt(differing) + chance * math.sqrt(max(differing - effect**2, 0.0)) - effect * math.sqrt(n)
        )

    if _short_by(differing) > 0:
        return None
    # Bisection on √n δ = z_α √d + z_β √(d − δ²): the left side grows with δ, the right side falls.
    low, high = 0.0, differing
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if _short_by(middle) <= 0 else (middle, high)
    return high
