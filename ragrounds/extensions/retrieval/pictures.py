"""Picture of the differences between retrievers. Its figures are those of the table."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.extensions.retrieval.comparison import RetrievalComparison
from ragrounds.ui.pictures.comparison_pictures import pair_picture

_LEVEL = 0.05
ONE_RETRIEVER = "one retriever differs from none"
"""Reason why there may be no picture of differences."""


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
