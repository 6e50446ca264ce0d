"""Reads the postings of a lexical index (:mod:`ragrounds.tools.index.postings_layout`) and finds the best passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragrounds.tools.index.collection import map_array
from ragrounds.tools.index.postings_layout import FULL, WINDOW, WINDOW_BITS, Norms, RawLists

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

_COMPILED_TERMS = 8_000
"""Number of query terms above which the plain sum is used, since bounds in 16 bits would be too coarse."""

DEEP = 100
"""Number of results from which adding all postings takes less time than pruning."""


@dataclass(frozen=True)
class Weighted:
    """A term of a query: its number, its weight there, and the most that it can add to a passage's score."""

    term: int
    weight: float
    maximum: float


class Postings:
    """Postings of an index, for reading. Safe for many threads at once."""

    def __init__(self, folder: Path, passages: int, k1: float, b: float, mean: float) -> None:
        self.passages = passages
        self.norms = Norms(map_array(folder / "lengths.u32", np.uint32), k1, b, mean)
        self.holders = map_array(folder / "holders.u32", np.uint32)
        self.maxima = map_array(folder / "most.f32", np.float32)
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
        """Return the passages that hold a term, ascending, and its exact weight in each."""
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
        """Return the `k` best passages with a score above 0, best first. Ties go to the earlier passage.

        All postings of the query are added, which needs nothing but numpy and is the reference for
        :meth:`compiled`.

        Args:
            query: Terms, the most important first. Scores are 32-bit sums in this order.
            k: Number of passages, at least 1.
        """
        scores = np.zeros(self.passages, dtype=np.float32)
        for term in query:
            passages, weights = self.column(term.term)
            scores[passages] += weights * np.float32(term.weight)
        return top(scores, k)

    def compiled(self, query: Sequence[Weighted], k: int) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return the result of :meth:`best` to the last bit, compiled by numba.

        Raises:
            ImportError: numba is not installed.
        """
        from ragrounds.tools.index import postings_numba

        if len(query) > _COMPILED_TERMS:
            return self.best(query, k)
        norms = self.norms
        search = postings_numba.search if k < DEEP else postings_numba.search_deep
        best_keys = search(
            self.lists,
            norms.lengths,
            (float(norms.k1), float(norms.b), float(norms.mean)),
            np.array([term.term for term in query], dtype=np.int64),
            np.array([term.weight for term in query], dtype=np.float32),
            np.array([term.maximum for term in query], dtype=np.float64),
            min(k, self.passages),
        )
        best_keys = np.sort(best_keys[best_keys > 0])[: -k - 1 : -1]
        return postings_numba.LAST - (best_keys & postings_numba.LAST), (best_keys >> 32).astype(np.int32).view(
            np.float32
        )

    def summed(self, query: Sequence[Weighted], positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the scores of some passages (positions, ascending), summed in 64 bits."""
        scores = np.zeros(len(positions))
        for term in query:
            passages, weights = self.column(term.term)
            indices = np.minimum(np.searchsorted(passages, positions), len(passages) - 1)
            is_held = passages[indices] == positions
            scores[is_held] += weights[indices[is_held]] * np.float32(term.weight)
        return scores


def top(scores: Floats, k: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the positions of the `k` best scores above 0, best first, and the scores.

    Ties go to the earlier position.
    """
    positions = np.flatnonzero(scores > 0)
    values = scores[positions]
    if len(values) > k:
        bar = np.partition(values, len(values) - k)[-k]
        positions = positions[values >= bar]
        values = scores[positions]
    order = np.argsort(-values, kind="stable")[:k]
    return positions[order], values[order]
