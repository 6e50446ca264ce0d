"""The filter against near-duplicates (CMedTEB + CARE, Section 4.1 and Table 14).

An index is begun with seed texts; every later one is kept only where no more than `most` of its nearest neighbours in
the index are nearer than a threshold, and joins the index then. So the order of the texts matters, and is the seed's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ragrounds.tools.embedders import Vectors

_BLOCK = 512


def diverse(
    vectors: Vectors,
    threshold: float,
    *,
    seeds: int = 5000,
    neighbours: int = 5,
    most: int = 1,
    told: Callable[[int], None] | None = None,
) -> npt.NDArray[np.intp]:
    """Positions of the texts that are kept, ascending.

    Args:
        vectors: Unit vectors, one row a text, in the order in which they are looked at.
        threshold: Cosine above which a neighbour is too near.
        seeds: The first so many are kept without a question.
        neighbours: How many of the nearest are looked at.
        most: So many of them may be too near.
        told: Hears how many have been looked at.
    """
    if most >= neighbours:
        return np.arange(len(vectors))
    kept = np.zeros(len(vectors), dtype=bool)
    kept[:seeds] = True
    for start in range(min(seeds, len(vectors)), len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK]
        # Those before the block are settled at once; those within it one after another, as they join the index.
        near = (block @ vectors[:start][kept[:start]].T > threshold).sum(axis=1)
        within = block @ block.T > threshold
        for row in range(len(block)):
            count = near[row] + (within[row, :row] & kept[start : start + row]).sum()
            # Among the nearest `neighbours`, those above the threshold come first: counting all of them is enough.
            kept[start + row] = min(count, neighbours) <= most
        if told:
            told(start + len(block))
    return np.flatnonzero(kept)
