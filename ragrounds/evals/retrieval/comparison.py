"""Paired comparisons of rankings on the same queries, as is usual in information retrieval.

For two runs and a measure: the difference of the means, its interval over queries (none where they are too few), and
the p-value of Fisher's randomisation test (Smucker, Allan and Carterette 2007), two-sided, with Holm's correction
over all pairs that one table shows. Of several sets each counts as much as any other, whatever its number of queries,
as in BEIR and MTEB.
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
"""Set → query → value of one retriever."""


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
    """Interval of the difference (:mod:`ragrounds.evals.stats.estimates`), queries drawn within sets; ``None``: too few
    queries for one."""
    level: float
    p: float
    """Of the randomisation test over all queries, each weighted so that sets count alike."""
    holm: float
    """`p` after Holm's correction over the table."""
    wins: int
    """Queries with a greater value; of several sets the sets with a greater mean."""
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
        values: Run → set → query → value; all runs have the same queries of a set.
        measure: What the values are, for the table.
        resamples: Of the bootstrap, and of the randomisation test where trying all signs would take more.
        level: Of the interval.
        seed: Equal seeds give equal results.

    Raises:
        UserError: runs with different queries.
    """
    made = []
    for first, second in combinations(values, 2):
        shared = [name for name in values[first] if name in values[second]]
        if any(values[first][name].keys() != values[second][name].keys() for name in shared):
            raise UserError(f"Cannot compare {first} with {second}: their queries differ. Compare runs of one set.")
        rows = [(name, query) for name in shared for query in values[first][name]]
        one = [values[first][name][query] for name, query in rows]
        other = [values[second][name][query] for name, query in rows]
        strata = [name for name, _ in rows]
        apart = paired_difference(other, one, strata, resamples=resamples, level=level, seed=seed) if rows else None
        differences = [a - b for a, b in zip(one, other, strict=True)]
        counted = weighted = differences
        if len(shared) > 1:
            weighted = [each / len(values[first][name]) for each, name in zip(differences, strata, strict=True)]
            counted = [mean(values[first][name]) - mean(values[second][name]) for name in shared]
        made.append(
            RetrievalComparison(
                first=first,
                second=second,
                measure=measure,
                sets=len(shared),
                queries=len(rows),
                difference=apart.value if apart else 0.0,
                low=apart.low if apart else None,
                high=apart.high if apart else None,
                level=level,
                p=randomisation(weighted, resamples=resamples, seed=seed),
                holm=1.0,
                wins=sum(each > 0 for each in counted),
                ties=sum(each == 0 for each in counted),
                losses=sum(each < 0 for each in counted),
            )
        )
    adjusted = holm([comparison.p for comparison in made])
    return [msgspec.structs.replace(one, holm=p) for one, p in zip(made, adjusted, strict=True)]


class QueryDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A query on which two retrievers differ."""

    set: str
    query: str
    text: str
    first: float
    second: float


def largest_differences(
    first: Values, second: Values, texts: Mapping[str, Mapping[str, str]], most: int
) -> tuple[QueryDifference, ...]:
    """The queries on which two retrievers differ the most, those that the first wins before those that it loses; equal
    differences in the order of the sets."""
    found = [
        QueryDifference(set=name, query=query, text=texts[name].get(query, ""), first=value, second=second[name][query])
        for name in first
        if name in second
        for query, value in first[name].items()
        if query in second[name] and value != second[name][query]
    ]
    ranked: Sequence[QueryDifference] = sorted(found, key=lambda one: -abs(one.first - one.second))[:most]
    return tuple(sorted(ranked, key=lambda one: one.second - one.first))


def mean(values: Mapping[str, float]) -> float:
    """The mean over queries; 0 of none."""
    return sum(values.values()) / len(values) if values else 0.0


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
