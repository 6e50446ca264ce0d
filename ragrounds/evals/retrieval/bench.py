"""Many retrievers on many sets of queries: one mean a set, the mean of those, and paired differences over all sets.

A set counts as much as any other, whatever its number of queries, as in BEIR and MTEB; intervals and tests draw
queries within their sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec

from ragrounds.evals.retrieval.comparison import RESAMPLES, randomisation
from ragrounds.evals.stats import holm, paired_difference

Values = Mapping[str, Mapping[str, float]]
"""Set → query → value of one retriever."""


class BenchDifference(msgspec.Struct, frozen=True, kw_only=True):
    """`first` minus `second`: the unweighted mean over sets of the mean difference in each."""

    first: str
    second: str
    measure: str
    sets: int
    queries: int
    difference: float
    low: float | None
    high: float | None
    """Bootstrap of queries within sets; ``None``: too few."""
    level: float
    p: float
    """Of the randomisation test over all queries, each weighted so that sets count alike."""
    holm: float
    """`p` after Holm's correction over the table."""
    won: int
    """Sets with a greater mean."""
    lost: int


class QueryDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A query on which two retrievers differ."""

    set: str
    query: str
    text: str
    first: float
    second: float


def compare_over_sets(
    values: Mapping[str, Values], measure: str, *, resamples: int = RESAMPLES, level: float = 0.95, seed: int = 0
) -> list[BenchDifference]:
    """Compare every pair of retrievers on the sets that both have.

    Args:
        values: Retriever → set → query → value.
        measure: What the values are, for the table.
        resamples: Of the bootstrap and of the randomisation test.
        level: Of the interval.
        seed: Equal seeds give equal results.
    """
    made = []
    for first, second in combinations(values, 2):
        shared = [name for name in values[first] if name in values[second]]
        rows = [(name, query) for name in shared for query in values[first][name]]
        if not rows:
            continue
        one = [values[first][name][query] for name, query in rows]
        other = [values[second][name][query] for name, query in rows]
        strata = [name for name, _ in rows]
        apart = paired_difference(other, one, strata, resamples=resamples, level=level, seed=seed)
        sizes = {name: len(values[first][name]) for name in shared}
        weighted = [(a - b) / sizes[name] for a, b, name in zip(one, other, strata, strict=True)]
        means = [_mean(values[first][name]) - _mean(values[second][name]) for name in shared]
        made.append(
            BenchDifference(
                first=first,
                second=second,
                measure=measure,
                sets=len(shared),
                queries=len(rows),
                difference=apart.value,
                low=apart.low,
                high=apart.high,
                level=level,
                p=randomisation(weighted, resamples=resamples, seed=seed),
                holm=1.0,
                won=sum(mean > 0 for mean in means),
                lost=sum(mean < 0 for mean in means),
            )
        )
    adjusted = holm([one.p for one in made])
    return [msgspec.structs.replace(one, holm=p) for one, p in zip(made, adjusted, strict=True)]


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


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values) if values else 0.0
