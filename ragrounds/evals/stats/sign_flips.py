"""The exact test of two agents on the same questions: of the same figure as the interval, the mean over datasets.

If neither agent is better, each question's difference might as well have the other sign. The test asks in what share of
all such changes of signs the figure is as far from 0 as it is, duplicates changing theirs together (a permutation test
of matched pairs: Fisher 1935, Section 21). Of one dataset without duplicates this is McNemar's exact test.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ragrounds.evals.stats.intervals import Estimate
from ragrounds.evals.stats.paired import binomial_p

_GRID = 2**15
"""Steps on which the figures of several datasets are added up; a figure between two counts as the one further out."""
_ROUNDING = _CLOSE = 1e-6
_INSIDE = 1e-9
"""How far an interval that must hold 0 reaches beyond it, if it does not by itself."""


class SignFlipTest(Struct, frozen=True, kw_only=True):
    """A test of right or wrong answers to the same questions."""

    p: float
    """Exact, two-sided."""
    differing: float
    """Share of questions that the agents answer differently, the mean over datasets."""
    worth: int
    """Questions of one dataset, none a duplicate, among which as large a share of such answers says as much."""


def sign_flip_test(
    first: Sequence[float], second: Sequence[float], strata: Sequence[str], clusters: Sequence[str]
) -> SignFlipTest:
    """Whether the mean over strata of `second` minus `first` could be 0.

    Args:
        first, second: 1 where right, 0 where wrong, one entry a question.
        strata: the dataset of each.
        clusters: questions of one stratum with the same name change signs together; empty names stand alone.
    """
    sizes = Counter(strata)
    apart: defaultdict[tuple[str, str | int], int] = defaultdict(int)
    counts = dict.fromkeys(sizes, 0)
    for index, (one, other, stratum, cluster) in enumerate(zip(first, second, strata, clusters, strict=True)):
        if one != other:
            apart[stratum, cluster or index] += 1 if other else -1
            counts[stratum] += 1
    shares = {stratum: 1 / (size * len(sizes)) for stratum, size in sizes.items()}
    moves = [(stratum, step) for (stratum, _), step in apart.items() if step]
    spread = sum((shares[stratum] * step) ** 2 for stratum, step in moves)
    if len(sizes) == 1 and all(abs(step) == 1 for _, step in moves):
        ups = sum(step > 0 for _, step in moves)
        p = binomial_p(len(moves) - ups, ups)
    else:
        p = _share_beyond(moves, shares)
    differing = min(1.0, sum(count / sizes[stratum] for stratum, count in counts.items()) / len(sizes))
    return SignFlipTest(p=p, differing=differing, worth=round(differing / spread) if spread else len(first))


def difference_and_test(
    sides: Sequence[Sequence[float]],
    strata: Sequence[str],
    clusters: Sequence[str],
    at_level: Callable[[float], Estimate],
    level: float = 0.95,
    null: float = 0.0,
) -> tuple[Estimate, SignFlipTest | None]:
    """A difference of two agents with its interval and its test, of which neither says more than the other: where the
    test finds no difference, the interval holds none; where the interval does, p is as large.

    Args:
        sides: the scores of both; there is a test where all are right or wrong.
        strata, clusters: see :func:`sign_flip_test`.
        at_level: the estimate at a level.
        level: of the interval.
        null: the estimate of no difference.
    """
    made, (first, second) = at_level(level), sides
    if made.low is None or made.high is None or not {*first, *second} <= {0.0, 1.0}:
        return made, None
    test = sign_flip_test(first, second, strata, clusters)
    if test.p >= 1 - level:
        return replace(made, low=min(made.low, null - _INSIDE), high=max(made.high, null + _INSIDE)), test
    if _leaves_out(made, null):
        return made, test
    least, most = 0.0, 1.0  # the chance at which the interval just leaves the null out
    while most - least > _CLOSE:
        middle = (least + most) / 2
        least, most = (least, middle) if _leaves_out(at_level(1 - middle), null) else (middle, most)
    return made, replace(test, p=max(test.p, most))


def _leaves_out(estimate: Estimate, null: float) -> bool:
    return estimate.low is not None and estimate.high is not None and not estimate.low <= null <= estimate.high


def _share_beyond(moves: Sequence[tuple[str, int]], shares: Mapping[str, float]) -> float:
    """In which share of all changes of signs the sum of the moves is as far from 0 as it is, or further.

    Args:
        moves: of each cluster its stratum and the sum of its differences, which is not 0.
        shares: of the strata, what a question's difference is multiplied by.
    """
    if not moves:
        return 1.0
    steps: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for stratum, step in moves:
        steps[stratum][abs(step)] += 1
    width = 2 * sum(shares[stratum] * abs(step) for stratum, step in moves) / (_GRID - 2 * len(steps) - 2)
    spectrum = np.ones(_GRID // 2 + 1, dtype=np.complex128)
    for stratum, found in steps.items():
        chances = _chances(found)
        places = (np.arange(len(chances)) - len(chances) // 2) * (shares[stratum] / width)
        spectrum *= np.fft.rfft(np.bincount(np.rint(places).astype(np.intp) % _GRID, chances, _GRID))
    summed = np.fft.irfft(spectrum, _GRID)
    # A stratum's sum is at most half a step from its place.
    value = abs(sum(shares[stratum] * step for stratum, step in moves))
    nearest = max(0, math.ceil(value / width - len(steps) / 2 - _ROUNDING))
    beyond = summed[nearest : _GRID - nearest + 1].sum() if nearest else 1.0
    return float(min(1.0, max(beyond, 2.0 ** (1 - len(moves)))))


def _chances(found: Mapping[int, int]) -> NDArray[np.float64]:
    """How likely each sum of ± steps is, from the least to the largest.

    Args:
        found: step → how many there are.
    """
    from scipy.special import gammaln

    chances = np.ones(1)
    for step, count in found.items():
        ups = np.arange(count + 1)
        each = np.zeros(2 * step * count + 1)
        each[:: 2 * step] = np.exp(
            gammaln(count + 1) - gammaln(ups + 1) - gammaln(count - ups + 1) - count * math.log(2)
        )
        chances = np.convolve(chances, each)
    return chances
