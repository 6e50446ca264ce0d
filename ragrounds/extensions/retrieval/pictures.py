"""Pictures of retrieval scores: means and differences. Figures are those of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.extensions.retrieval.comparison import RetrievalComparison
from ragrounds.ui.pictures.comparison_pictures import pair_picture

_LEVEL = 0.05
ONE_RETRIEVER = "one retriever differs from none"
"""Reason why there may be no picture of differences."""


def retrieval_means(entries: Sequence[Mapping[str, Any]], measures: Sequence[str]) -> Picture | None:
    """Return the mean of every measure that is a share, the retrievers below each other; ``None`` if there is no
    mean.
    """
    shares = [name for name in measures if all(entry[name] is None or 0 <= entry[name] <= 1 for entry in entries)]
    marks = [Mark(name=entry["retriever"], value=entry[name], group=name) for name in shares for entry in entries]
    return _bar_picture("Means over every judged query", "mean, times 100", marks)


def set_means(
    measure: str, sets: Sequence[str], rows: Sequence[tuple[str, Mapping[str, float | None], float | None]]
) -> Picture | None:
    """Return the mean of one measure on every set and over all; ``None`` if nothing was measured, or if it is no share.

    Args:
        measure: name of the measure.
        sets: sets in their order.
        rows: retriever, set → mean, mean over sets.
    """
    marks = [Mark(name=row[0], value=row[1].get(name), group=name) for name in sets for row in rows]
    marks += [Mark(name=row[0], value=row[2], group="mean over sets") for row in rows]
    if not all(0 <= mark.value <= 1 for mark in marks if mark.value is not None):
        return None
    return _bar_picture(f"{measure} of every set", f"mean {measure}, times 100", marks)


def _bar_picture(title: str, words: str, marks: Sequence[Mark]) -> Picture | None:
    has_values = any(mark.value is not None for mark in marks)
    return Picture(title=title, words=words, marks=tuple(marks), bars=True) if has_values else None


def retrieval_differences(pairs: Sequence[RetrievalComparison]) -> Picture | None:
    """Return the difference of every pair of retrievers; ``None`` if there is only one retriever.

    Full marks are differences that the corrected test finds significant.
    """
    if not pairs:
        return None
    rows = [
        Mark(
            name=pair.first,
            value=pair.difference,
            low=pair.low,
            high=pair.high,
            group=f"minus {pair.second}",
            note=f"n = {pair.queries:,}",
            full=pair.holm < _LEVEL,
        )
        for pair in pairs
    ]
    return pair_picture(
        Picture(
            title=f"Paired differences of {pairs[0].measure}",
            words=f"difference of {pairs[0].measure} (right of 0: the retriever named is better)",
            unit=pairs[0].measure,
            marks=tuple(rows),
            spread=f"{100 * pairs[0].level:g} % intervals",
            full="significant",
            hollow="not significant",
        )
    )
