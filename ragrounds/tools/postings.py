"""Postings of a lexical index: which passages hold a term, how often, and a bound of what it adds to their scores.

Terms are numbered, the common ones first. The passages are cut into windows of 65,536. In the folder of an index stand,
as raw arrays that are memory-mapped:

* ``common/`` — the terms of :func:`common_from` passages and more: ``low.u16``, a passage's place in its window;
  ``starts.i64``, where the list of each term begins. ``windows.u32`` says where, in that list, each window begins;
* ``rare/`` — the others: ``passages.u32`` and ``starts.i64``;
* both with ``counts.u8``, how often the term stands in the passage, 255 for that and more (then ``many_keys.i64``,
  ascending, and ``many_counts.i32`` know), and with ``codes.u8``, the weight in 255ths of the term's greatest,
  rounded up;
* ``dense.u8`` — a row of codes of all passages for each term that one in :data:`DENSE` holds; ``rows.i32`` its number;
* ``lengths.u32`` — each passage's number of terms; ``most.f32`` and ``holders.u32`` — each term's greatest weight and
  number of passages.

So a posting takes four bytes, and a search reads three of them. Exact weights come from counts and lengths, and leave
out the inverse document frequency: it goes into the query's weights, so that one index serves several variants of BM25.
The codes are bounds: they say which passages cannot be among the best, and never decide between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ragrounds.tools.collection import map_array

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

WINDOW_BITS = 16
WINDOW = 1 << WINDOW_BITS
"""Passages of a window: their bounds are summed in 16 bits, in 128 kB, which the processor's cache holds."""
LEVELS = 255
"""The code of a term's greatest weight; 0 stands for a passage without the term."""
FULL = 255
"""From this count on the exact one stands in a table beside the postings."""
DENSE = 16
"""A term has a dense row if at least one passage in so many holds it."""
_RARE = 64
_COMPILED_TERMS = 8_000
"""Queries of more terms than this are answered by the plain sum: bounds in 16 bits would say nothing."""


def common_from(passages: int) -> int:
    """How many passages hold a common term: at least four to a window, so that the windows' table stays small."""
    return max(_RARE, 4 * -(-passages // WINDOW))


@dataclass(frozen=True)
class Weighted:
    """A term of a query: its number, its weight there, and the most that it can add to a passage's score."""

    term: int
    weight: float
    most: float


@dataclass(frozen=True)
class Norms:
    """What a passage's length does to the weights of its terms: ``count / (count + k1 * (1 - b + b * length / mean))``.

    `lengths` are those of all passages, `mean` is theirs.
    """

    lengths: npt.NDArray[np.uint32]
    k1: float
    b: float
    mean: float

    def weights(self, counts: npt.NDArray[np.int32], passages: npt.NDArray[np.generic]) -> Floats:
        """The weights of some postings, rounded to 32 bits as the last step."""
        lengths = self.lengths[passages].astype(np.float64)
        norms = self.k1 * (1 - self.b + self.b * lengths / self.mean)
        wide = counts.astype(np.float64)
        weights: Floats = (wide / (wide + norms)).astype(np.float32)
        return weights


class RawLists(NamedTuple):
    """The arrays of an index; the module tells what is in each."""

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


class Postings:
    """Reads the postings of one index. Safe for many threads at once."""

    def __init__(self, folder: Path, passages: int, k1: float, b: float, mean: float) -> None:
        self.passages = passages
        self.norms = Norms(map_array(folder / "lengths.u32", np.uint32), k1, b, mean)
        self.holders = map_array(folder / "holders.u32", np.uint32)
        self.most = map_array(folder / "most.f32", np.float32)
        windows = -(-passages // WINDOW)
        self.lists = RawLists(
            low=map_array(folder / "common" / "low.u16", np.uint16),
            common_codes=map_array(folder / "common" / "codes.u8", np.uint8),
            common_counts=map_array(folder / "common" / "counts.u8", np.uint8),
            common_starts=map_array(folder / "common" / "starts.i64", np.int64),
            windows=map_array(folder / "windows.u32", np.uint32).reshape(-1, windows + 1),
            rows=map_array(folder / "rows.i32", np.int32),
            dense=map_array(folder / "dense.u8", np.uint8).reshape(-1, windows * WINDOW),
            rare=map_array(folder / "rare" / "passages.u32", np.uint32),
            rare_codes=map_array(folder / "rare" / "codes.u8", np.uint8),
            rare_counts=map_array(folder / "rare" / "counts.u8", np.uint8),
            rare_starts=map_array(folder / "rare" / "starts.i64", np.int64),
            many_keys=map_array(folder / "many_keys.i64", np.int64),
            many_counts=map_array(folder / "many_counts.i32", np.int32),
        )
        for array in (self.norms.lengths, *self.lists):
            array.flags.writeable = False  # as mapped ones are; numba would compile all again for an empty one

    def column(self, term: int) -> tuple[npt.NDArray[np.int64], Floats]:
        """The passages that hold a term, ascending, and its exact weight in each."""
        lists = self.lists
        common = len(lists.common_starts) - 1
        if term < common:
            span = slice(int(lists.common_starts[term]), int(lists.common_starts[term + 1]))
            ends = lists.windows[term].astype(np.int64)
            passages = np.repeat(np.arange(len(ends) - 1, dtype=np.int64) << WINDOW_BITS, np.diff(ends))
            passages += lists.low[span]
            counts = lists.common_counts[span].astype(np.int32)
        else:
            span = slice(int(lists.rare_starts[term - common]), int(lists.rare_starts[term - common + 1]))
            passages = lists.rare[span].astype(np.int64)
            counts = lists.rare_counts[span].astype(np.int32)
        full = np.flatnonzero(counts == FULL)
        if len(full):
            counts[full] = lists.many_counts[np.searchsorted(lists.many_keys, (term << 32) | passages[full])]
        return passages, self.norms.weights(counts, passages)

    def best(self, query: Sequence[Weighted], k: int) -> tuple[npt.NDArray[np.int64], Floats]:
        """The `k` best passages with a score above 0, best first; ties go to the earlier passage.

        All postings of the query are added, which needs nothing but numpy and is what :meth:`compiled` is held
        against.

        Args:
            query: Terms, the most important first. Scores are 32-bit sums in this order.
            k: How many, at least 1.
        """
        scores = np.zeros(self.passages, dtype=np.float32)
        for term in query:
            passages, weights = self.column(term.term)
            scores[passages] += weights * np.float32(term.weight)
        return top(scores, k)

    def compiled(self, query: Sequence[Weighted], k: int) -> tuple[npt.NDArray[np.int64], Floats]:
        """:meth:`best`, compiled by numba, with the same result to the last bit.

        Raises:
            ImportError: numba is not installed.
        """
        from ragrounds.tools import postings_numba

        if len(query) > _COMPILED_TERMS:
            return self.best(query, k)
        norms = self.norms
        found, scores = postings_numba.search(
            self.lists,
            norms.lengths,
            (float(norms.k1), float(norms.b), float(norms.mean)),
            np.array([term.term for term in query], dtype=np.int64),
            np.array([term.weight for term in query], dtype=np.float32),
            np.array([term.most for term in query], dtype=np.float64),
            min(k, self.passages),
        )
        order = np.lexsort((found, -scores))[:k]
        order = order[scores[order] > 0]
        return found[order], scores[order]

    def summed(self, query: Sequence[Weighted], positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The scores of some passages (positions, ascending), summed in 64 bits."""
        scores = np.zeros(len(positions))
        for term in query:
            passages, weights = self.column(term.term)
            at = np.minimum(np.searchsorted(passages, positions), len(passages) - 1)
            held = passages[at] == positions
            scores[held] += weights[at[held]] * np.float32(term.weight)
        return scores


def top(scores: Floats, k: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """The positions of the `k` best scores above 0, best first, ties to the earlier one."""
    positions = np.flatnonzero(scores > 0)
    values = scores[positions]
    if len(values) > k:
        bar = np.partition(values, len(values) - k)[-k]
        positions = positions[values >= bar]
        values = scores[positions]
    order = np.argsort(-values, kind="stable")[:k]
    return positions[order], values[order]
