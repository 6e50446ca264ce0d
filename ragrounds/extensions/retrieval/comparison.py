"""Paired comparisons of rankings on the same queries, as is usual in information retrieval.

For two runs and a measure: the difference of the means, its interval over queries (not computed for too few queries),
and the p-value of Fisher's randomisation test (Smucker, Allan and Carterette 2007), two-sided, with Holm's correction
over all pairs that one table shows. Each of several sets has the same weight, whatever its number of queries, as in
BEIR and MTEB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec
import numpy as np

from ragrounds.base.errors import UserError
from ragrounds.evals.stats import holm, paired_difference

RESAMPLES = 10_000


Values = Mapping[str, Mapping[str, float]]
"""Values of one retriever: set → query → value."""


class RetrievalComparison(msgspec.Struct, frozen=True, kw_only=True):
    """`first` minus `second` on one measure: the unweighted mean over sets of the mean difference in each."""

    first: str
    second: str
    measure: str
    sets: int
    queries: int
    difference: float
    low: float | None
    high: float | None
    """Bounds of the interval of the difference (:mod:`ragrounds.evals.stats.estimates`), with queries resampled within
    sets.

    They are ``None`` if there are too few queries for an interval.
    """
    level: float
    p: float
    """p value of the randomisation test over all queries, weighted so that every set counts alike."""
    holm: float
    """`p` after Holm's correction over the table."""
    wins: int
    """Number of queries with a greater value or, for several sets, number of sets with a greater mean."""
    ties: int
    losses: int


def compare(
    values: Mapping[str, Values],
    measure: str,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> list[RetrievalComparison]:
    """Compare every pair of runs on one measure, on the sets that both have.

    Args:
        values: run → set → query → value; all runs have the same queries of a set.
        measure: name of the measure, for the table.
        resamples: number of resamples of the bootstrap, and of the randomisation test if there are more sign patterns.
        level: confidence level of the interval.
        seed: seed of the resampling.

    Raises:
        UserError: runs with different queries.
    """
    comparisons = []
    for first, second in combinations(values, 2):
        shared = [name for name in values[first] if name in values[second]]
        if any(values[first][name].keys() != values[second][name].keys() for name in shared):
            raise UserError(f"Cannot compare {first} with {second}: their queries differ. Compare runs of one set.")
        rows = [(name, query) for name in shared for query in values[first][name]]
        first_values = [values[first][name][query] for name, query in rows]
        second_values = [values[second][name][query] for name, query in rows]
        strata = [name for name, _ in rows]
        interval = (
            paired_difference(second_values, first_values, strata, resamples=resamples, level=level, seed=seed)
            if rows
            else None
        )
        differences = [a - b for a, b in zip(first_values, second_values, strict=True)]
        decisive = weighted = differences
        # Over several sets, every set has the same weight, and wins are counted by set.
        if len(shared) > 1:
            weighted = [
                difference / len(values[first][name]) for difference, name in zip(differences, strata, strict=True)
            ]
            decisive = [mean(values[first][name]) - mean(values[second][name]) for name in shared]
        comparisons.append(
            RetrievalComparison(
                first=first,
                second=second,
                measure=measure,
                sets=len(shared),
                queries=len(rows),
                difference=interval.value if interval else 0.0,
                low=interval.low if interval else None,
                high=interval.high if interval else None,
                level=level,
                p=randomisation(weighted, resamples=resamples, seed=seed),
                holm=1.0,
                wins=sum(difference > 0 for difference in decisive),
                ties=sum(difference == 0 for difference in decisive),
                losses=sum(difference < 0 for difference in decisive),
            )
        )
    adjusted = holm([comparison.p for comparison in comparisons])
    return [msgspec.structs.replace(comparison, holm=p) for comparison, p in zip(comparisons, adjusted, strict=True)]


def mean(values: Mapping[str, float]) -> float:
    """Return the mean over queries, or 0 if the set is empty."""
    return sum(values.values()) / len(values) if values else 0.0


def randomisation(differences: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return the two-sided p value of Fisher's randomisation test.

    It is the share of random sign patterns whose mean difference is at least as far from 0. The test is exact if there
    are no more than `resamples` sign patterns.
    """
    from scipy import stats

    values = np.asarray(differences, dtype=float)
    if not values.any():
        return 1.0
    # Queries on which the runs agree carry no sign: leaving them out changes no p-value, and makes small sets exact.
    values = values[values != 0]
    if len(values) < 2:
        return 1.0
    test = stats.permutation_test(
        (values, np.zeros_like(values)),
        lambda first, second, axis: np.sum(first - second, axis=axis),
        permutation_type="samples",
        n_resamples=resamples,
        batch=max(1, 2_000_000 // len(values)),
        rng=np.random.default_rng(seed),
    )
    return float(test.pvalue)
