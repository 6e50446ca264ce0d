"""Paired comparisons of rankings on the same queries, as is usual in information retrieval.

For two runs and a measure: the difference of the means, its interval over queries (none where they are too few), and
the p-value of Fisher's randomisation test (Smucker, Allan and Carterette 2007), two-sided, with Holm's correction
over all pairs that one table shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec
import numpy as np

from ragrounds.errors import UserError
from ragrounds.evals.stats import holm, paired_difference

RESAMPLES = 10_000


class RetrievalComparison(msgspec.Struct, frozen=True, kw_only=True):
    """`first` minus `second` on one measure."""

    first: str
    second: str
    measure: str
    queries: int
    difference: float
    low: float | None
    high: float | None
    """Interval of the difference (:mod:`ragrounds.evals.stats.estimates`); ``None``: too few queries for one."""
    level: float
    p: float
    """Of the randomisation test."""
    holm: float
    """`p` after Holm's correction over the table."""
    wins: int
    ties: int
    losses: int


def compare(
    values: Mapping[str, Mapping[str, float]],
    measure: str,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> list[RetrievalComparison]:
    """Compare every pair of runs on one measure.

    Args:
        values: Run → query → value; all runs have the same queries.
        measure: What the values are, for the table.
        resamples: Of the bootstrap, and of the randomisation test where trying all signs would take more.
        level: Of the interval.
        seed: Equal seeds give equal results.

    Raises:
        UserError: runs with different queries.
    """
    made = []
    for first, second in combinations(values, 2):
        one, other = values[first], values[second]
        if one.keys() != other.keys():
            raise UserError(f"Cannot compare {first} with {second}: their queries differ. Compare runs of one set.")
        differences = [one[query] - other[query] for query in one]
        apart = (
            paired_difference(
                [other[query] for query in one], list(one.values()), resamples=resamples, level=level, seed=seed
            )
            if one
            else None
        )
        made.append(
            RetrievalComparison(
                first=first,
                second=second,
                measure=measure,
                queries=len(differences),
                difference=sum(differences) / len(differences) if differences else 0.0,
                low=apart.low if apart else None,
                high=apart.high if apart else None,
                level=level,
                p=randomisation(differences, resamples=resamples, seed=seed),
                holm=1.0,
                wins=sum(difference > 0 for difference in differences),
                ties=sum(difference == 0 for difference in differences),
                losses=sum(difference < 0 for difference in differences),
            )
        )
    adjusted = holm([comparison.p for comparison in made])
    return [msgspec.structs.replace(one, holm=p) for one, p in zip(made, adjusted, strict=True)]


def randomisation(differences: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Two-sided p-value: how often the mean difference is as far from 0 when each query's sign is drawn anew. Exact
    where all sign patterns are no more than `resamples`."""
    from scipy import stats

    values = np.asarray(differences, dtype=float)
    if not values.any():
        return 1.0
    # Queries on which the runs agree carry no sign: leaving them out changes no p-value, and makes small sets exact.
    values = values[values != 0]
    if len(values) < 2:
        return 1.0
    result = stats.permutation_test(
        (values, np.zeros_like(values)),
        lambda one, other, axis: np.sum(one - other, axis=axis),
        permutation_type="samples",
        n_resamples=resamples,
        batch=max(1, 2_000_000 // len(values)),
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)
