"""Exact test of two agents on the same questions, of the same figure as the interval: the mean over datasets.

If neither agent is better, each question's difference could equally have the other sign. The p value is the share of
all sign changes for which the figure is at least as far from 0 as observed, where duplicates change signs together (a
permutation test of matched pairs: Fisher 1935, Section 21). So do the epochs of a question. For one dataset and one
epoch, without duplicates, this is McNemar's exact test.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ragrounds.evals.stats.estimates import right_or_wrong
from ragrounds.evals.stats.intervals import Estimate
from ragrounds.evals.stats.paired import binomial_p

_GRID = 2**15
"""Number of steps of the grid on which the figures of several datasets are added up. A figure between two steps counts
as the outer one."""
_ROUNDING = _CLOSE = 1e-6
_MARGIN = 1e-9
"""Distance by which an interval that must contain 0 is extended beyond it if needed."""


class SignFlipTest(Struct, frozen=True, kw_only=True):
    """Result of a test of right or wrong answers, or of their means over epochs, to the same questions."""

    p: float
    """Exact two-sided p value."""
    differing: float
    """Share of questions that the agents answer differently, as the mean over datasets."""
    worth: int
    """Number of questions of one dataset without duplicates that are as informative with the same share of such
    answers."""


def sign_flip_test(
    first: Sequence[float],
    second: Sequence[float],
    strata: Sequence[str],
    clusters: Sequence[str],
    attempts: int = 1,
) -> SignFlipTest:
    """Test whether the mean over strata of `second` minus `first` could be 0.

    Args:
        first, second: share of a question's attempts that are right, one entry for each question.
        strata: dataset of each question.
        clusters: cluster name of each question. Questions of one stratum with the same name change signs together; a
            question with an empty name is its own cluster.
        attempts: number of epochs of each question; they change signs together.
    """
    sizes = Counter(strata)
    difference_sums: defaultdict[tuple[str, str | int], int] = defaultdict(int)
    counts = dict.fromkeys(sizes, 0)
    for index, (first_value, second_value, stratum, cluster) in enumerate(
        zip(first, second, strata, clusters, strict=True)
    ):
        if first_value != second_value:
            difference_sums[stratum, cluster or index] += round((second_value - first_value) * attempts)
            counts[stratum] += 1
    shares = {stratum: 1 / (size * attempts * len(sizes)) for stratum, size in sizes.items()}
    cluster_steps = [(stratum, step) for (stratum, _), step in difference_sums.items() if step]
    spread = sum((shares[stratum] * step) ** 2 for stratum, step in cluster_steps)
    if len(sizes) == 1 and all(abs(step) == 1 for _, step in cluster_steps):
        ups = sum(step > 0 for _, step in cluster_steps)
        p = binomial_p(len(cluster_steps) - ups, ups)
    else:
        p = _share_beyond(cluster_steps, shares)
    differing = min(1.0, sum(count / sizes[stratum] for stratum, count in counts.items()) / len(sizes))
    return SignFlipTest(p=p, differing=differing, worth=round(differing / spread) if spread else len(first))


def difference_and_test(
    sides: Sequence[Sequence[float]],
    strata: Sequence[str],
    clusters: Sequence[str],
    at_level: Callable[[float], Estimate],
    level: float = 0.95,
    null: float = 0.0,
    attempts: int = 1,
) -> tuple[Estimate, SignFlipTest | None]:
    """Return a difference of two agents with an interval and a test that agree.

    If the test finds no difference, the interval contains the null; if the interval contains it, p is as large.

    Args:
        sides: scores of both agents; they are tested if all are shares of attempts that are right.
        strata, clusters: see :func:`sign_flip_test`.
        at_level: function that returns the estimate at a level.
        level: level of the interval.
        null: estimate if there is no difference.
        attempts: number of epochs that each score is a mean over.
    """
    estimate, (first, second) = at_level(level), sides
    if estimate.low is None or estimate.high is None or not right_or_wrong(np.array(sides), attempts):
        return estimate, None
    test = sign_flip_test(first, second, strata, clusters, attempts)
    if test.p >= 1 - level:
        return replace(estimate, low=min(estimate.low, null - _MARGIN), high=max(estimate.high, null + _MARGIN)), test
    if _excludes(estimate, null):
        return estimate, test
    lowest, highest = 0.0, 1.0  # bounds of the error level at which the interval just excludes the null
    while highest - lowest > _CLOSE:
        middle = (lowest + highest) / 2
        lowest, highest = (lowest, middle) if _excludes(at_level(1 - middle), null) else (middle, highest)
    return estimate, replace(test, p=max(test.p, highest))


def _excludes(estimate: Estimate, null: float) -> bool:
    return estimate.low is not None and estimate.high is not None and not estimate.low <= null <= estimate.high


def _share_beyond(cluster_steps: Sequence[tuple[str, int]], shares: Mapping[str, float]) -> float:
    """Return the share of all sign changes for which the sum of the steps is at least as far from 0 as observed.

    Args:
        cluster_steps: for each cluster its stratum and the sum of its differences, which is not 0.
        shares: factor of a question's difference in each stratum.
    """
    if not cluster_steps:
        return 1.0
    steps: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for stratum, step in cluster_steps:
        steps[stratum][abs(step)] += 1
    width = 2 * sum(shares[stratum] * abs(step) for stratum, step in cluster_steps) / (_GRID - 2 * len(steps) - 2)
    spectrum = np.ones(_GRID // 2 + 1, dtype=np.complex128)
    for stratum, step_counts in steps.items():
        chances = _sum_probabilities(step_counts)
        positions = (np.arange(len(chances)) - len(chances) // 2) * (shares[stratum] / width)
        spectrum *= np.fft.rfft(np.bincount(np.rint(positions).astype(np.intp) % _GRID, chances, _GRID))
    summed = np.fft.irfft(spectrum, _GRID)
    # The rounded position of a stratum's sum is at most half a step off.
    value = abs(sum(shares[stratum] * step for stratum, step in cluster_steps))
    nearest = max(0, math.ceil(value / width - len(steps) / 2 - _ROUNDING))
    beyond = summed[nearest : _GRID - nearest + 1].sum() if nearest else 1.0
    return float(min(1.0, max(beyond, 2.0 ** (1 - len(cluster_steps)))))


def _sum_probabilities(step_counts: Mapping[int, int]) -> NDArray[np.float64]:
    """Return the probability of each sum of ± steps, from the smallest to the largest.

    Args:
        step_counts: step → number of such steps.
    """
    from scipy.special import gammaln

    chances = np.ones(1)
    for step, count in step_counts.items():
        ups = np.arange(count + 1)
        step_probabilities = np.zeros(2 * step * count + 1)
        step_probabilities[:: 2 * step] = np.exp(
            gammaln(count + 1) - gammaln(ups + 1) - gammaln(count - ups + 1) - count * math.log(2)
        )
        chances = np.convolve(chances, step_probabilities)
    return chances
