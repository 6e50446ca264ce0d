"""Pictures of retrieval scored alone: means, differences. Figures are those of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragrounds.evals.analyses.pictures import Bar, Bars, Forest, ForestRow
from ragrounds.evals.retrieval.bench import BenchDifference
from ragrounds.evals.retrieval.comparison import RetrievalComparison

_LEVEL = 0.05
_MOST = 40
"""Rows of a forest of differences."""
ONE_RETRIEVER = "one retriever differs from none"
"""Why there may be no picture of differences."""


def retrieval_means(entries: Sequence[Mapping[str, Any]], measures: Sequence[str]) -> Bars | None:
    """The mean of every measure that is a share, the retrievers below each other; ``None``: there is none."""
    shares = [name for name in measures if all(one[name] is None or 0 <= one[name] <= 1 for one in entries)]
    groups = tuple((name, tuple(Bar(name=_called(one), value=one[name]) for one in entries)) for name in shares)
    if not any(bar.value is not None for _, bars in groups for bar in bars):
        return None
    title = "Means over every judged query"
    return Bars(title=title, x="mean, times 100", groups=groups, spread="")


def bench_means(
    measure: str, sets: Sequence[str], rows: Sequence[tuple[str, Mapping[str, float | None], float | None]]
) -> Bars | None:
    """The mean of one measure on every set and over all of them; ``None``: nothing was measured, or it is no share.

    Args:
        measure: its name.
        sets: in their order.
        rows: retriever, set → mean, mean over sets.
    """
    groups = [(name, tuple(Bar(name=row[0], value=row[1].get(name)) for row in rows)) for name in sets]
    groups.append(("mean over sets", tuple(Bar(name=row[0], value=row[2]) for row in rows)))
    values = [bar.value for _, bars in groups for bar in bars if bar.value is not None]
    if not values or not all(0 <= value <= 1 for value in values):
        return None
    return Bars(title=f"{measure} of every set", x=f"mean {measure}, times 100", groups=tuple(groups), spread="")


def retrieval_differences(pairs: Sequence[RetrievalComparison | BenchDifference]) -> Forest | None:
    """The difference of every pair of retrievers; full marks are those that the corrected test carries. ``None``: there
    is one retriever alone."""
    if not pairs:
        return None
    chosen = sorted(pairs, key=lambda pair: (pair.holm >= _LEVEL, -abs(pair.difference)))[:_MOST]
    order = {name: place for place, name in enumerate(dict.fromkeys(pair.second for pair in pairs))}
    rows = [
        ForestRow(
            name=pair.first,
            value=pair.difference,
            low=pair.low,
            high=pair.high,
            group=f"minus {pair.second}",
            note=f"n = {pair.queries:,}",
            filled=pair.holm < _LEVEL,
        )
        for pair in sorted(chosen, key=lambda pair: order[pair.second])
    ]
    left = f"{len(chosen):,} of {len(pairs):,} pairs." if len(chosen) < len(pairs) else ""
    return Forest(
        title=f"Paired differences of {pairs[0].measure}",
        x=f"difference of {pairs[0].measure} (right of 0: the retriever named is better)",
        rows=tuple(rows),
        unit=pairs[0].measure,
        signed=True,
        reference=0.0,
        spread=f"{100 * pairs[0].level:g} % intervals",
        filled="the corrected test tells the two apart",
        hollow="the corrected test does not",
        note=left,
    )


def _called(entry: Mapping[str, Any]) -> str:
    return f"{entry['retriever']} (published)" if "published" in entry else str(entry["retriever"])
