"""Postings of a lexical index: which passages hold a term, how often, and a bound of its share of their scores.

Terms are numbered, the common ones first. The passages are cut into windows of 65,536. The folder of an index holds,
as raw arrays that are memory-mapped:

* ``common/`` — the terms of :func:`common_from` passages and more: ``low.u16``, a passage's index in its window;
  ``starts.i64``, the start of each term's list. ``windows.u32`` holds the index in that list at which each window
  begins;
* ``rare/`` — the others: ``passages.u32`` and ``starts.i64``;
* both with ``counts.u8``, how often the term is in the passage, 255 for that and more (then ``many_keys.i64``,
  ascending, and ``many_counts.i32`` hold the count), and with ``codes.u8``, the weight in 255ths of the term's
  greatest, rounded up;
* ``dense.u8`` — a row of codes of all passages for each term that one in :data:`DENSE` holds; ``rows.i32`` its number;
* ``lengths.u32`` — each passage's number of terms; ``most.f32`` and ``holders.u32`` — each term's greatest weight and
  number of passages.

So a posting takes four bytes, and a search reads three of them. Exact weights come from counts and lengths, and leave
out the inverse document frequency: it goes into the query's weights, so that one index serves several variants of BM25.
The codes are bounds: they say which passages cannot be among the best, and never decide between two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

WINDOW_BITS = 16
WINDOW = 1 << WINDOW_BITS
"""Number of passages in a window. Their bounds are summed in 16 bits, in 128 kB, which the processor's cache holds."""
LEVELS = 255
"""Code of a term's greatest weight. Code 0 means a passage without the term."""
FULL = 255
"""Count from which the exact count is in a table next to the postings."""
DENSE = 16
"""A term has a dense row if at least one passage in so many holds it."""
_RARE = 64


def common_from(passages: int) -> int:
    """Return how many passages hold a common term: at least four for each window, so that the windows' table stays
    small.
    """
    return max(_RARE, 4 * -(-passages // WINDOW))


@dataclass(frozen=True)
class Norms:
    """Effect of a passage's length on the weights of its terms: ``count / (count + k1 * (1 - b + b * length / mean))``.

    `lengths` are the lengths of all passages, `mean` is their mean.
    """

    lengths: npt.NDArray[np.uint32]
    k1: float
    b: float
    mean: float

    def weights(self, counts: npt.NDArray[np.int32], passages: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
        """Return the weights of some postings, rounded to 32 bits as the last step."""
        lengths = self.lengths[passages].astype(np.float64)
        norms = self.k1 * (1 - self.b + self.b * lengths / self.mean)
        wide = counts.astype(np.float64)
        weights: npt.NDArray[np.float32] = (wide / (wide + norms)).astype(np.float32)
        return weights


class RawLists(NamedTuple):
    """Arrays of an index, as the module describes them."""

    low: npt.NDArray[np.uint16]
    common_codes: npt.NDArray[np.uint8]
    common_counts: npt.NDArray[np.uint8]
    common_starts: npt.NDArray[np.int64]
    windows: npt.NDArray[np.uint32]
    rows: npt.NDArray[np.int32]
    dense: npt.NDArray[np.uint8]
    rare: npt.NDArray[np.uint32]
    rare_codes: npt.NDArray[np.uint8]
    rare_counts: npt.NDArray[np.uint8]
    rare_starts: npt.NDArray[np.int64]
    many_keys: npt.NDArray[np.int64]
    many_counts: npt.NDArray[np.int32]
