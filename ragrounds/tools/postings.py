"""Postings of one shard of a lexical index: which passages hold a term, with the weight of the term in each.

A shard is a sparse matrix, passages × terms, kept by columns in three raw files that are memory-mapped. The weights
leave out the inverse document frequency: it goes into the query's weights, so that one index serves several variants
of BM25, and its values come from the whole index and not from the shard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragrounds.tools.collection import map_array

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

_NARROW = 0.5
"""Passages are left out once the terms that are left can add no more than this share of what the best have."""
_AGAIN = 0.7
"""They are gone through again when what is left has fallen to this share."""
_SAMPLE = 16
"""One score in so many is looked at to see where the best begin."""
_LOOK_UP = 40
"""Finding one passage in a list by bisection costs about as much as adding this many entries of the list."""
_LONG = 0.02
"""A term is common, and worth a check before it is added, if more than this share of the passages hold it."""
_MARGIN = 1e-4
"""Relative room for rounding when a passage is judged out of reach; float32 sums of 1,000 terms err by less."""


@dataclass(frozen=True)
class Weighted:
    """A term of a query: its number, its weight there, and the most that it can add to a passage's score."""

    term: int
    weight: float
    most: float


class Shard:
    """Reads one shard. `first` is the position of its first passage in the collection, `count` its passages."""

    def __init__(self, folder: Path, first: int, count: int) -> None:
        self.first = first
        self.count = count
        self._weights: Floats = map_array(folder / "weights.f32", np.float32)
        self._passages: Ints = map_array(folder / "passages.i32", np.int32)
        self._starts: npt.NDArray[np.int64] = map_array(folder / "starts.i64", np.int64)

    def column(self, term: int) -> tuple[Ints, Floats]:
        """Passages (positions inside the shard, ascending) that hold a term, and its weight in each."""
        if term + 1 >= len(self._starts):  # the shard ends before the vocabulary does
            return self._passages[:0], self._weights[:0]
        start, end = int(self._starts[term]), int(self._starts[term + 1])
        return self._passages[start:end], self._weights[start:end]

    def summed(self, query: Sequence[Weighted], positions: Ints) -> npt.NDArray[np.float64]:
        """The scores of some passages (positions inside the shard, ascending), summed in 64 bits."""
        scores = np.zeros(len(positions))
        for term in query:
            passages, weights = self.column(term.term)
            if len(passages):
                at = np.minimum(np.searchsorted(passages, positions), len(passages) - 1)
                held = passages[at] == positions
                scores[held] += weights[at[held]] * np.float32(term.weight)
        return scores

    def compiled(self, query: Sequence[Weighted], k: int, least: float) -> tuple[Ints, Floats]:
        """:meth:`best`, compiled by numba.

        Raises:
            ImportError: numba is not installed.
        """
        from ragrounds.tools.postings_numba import search

        # Terms behind the end of the shard's vocabulary have no postings in it.
        terms = np.minimum(np.array([term.term for term in query], dtype=np.int64), len(self._starts) - 1)
        ends = np.minimum(terms + 1, len(self._starts) - 1)
        positions, scores = search(
            self._passages,
            self._weights,
            self._starts[terms],
            self._starts[ends],
            np.array([term.weight for term in query], dtype=np.float32),
            np.array([term.most for term in query]),
            self.count,
            min(k, self.count),
            least,
            _LONG,
            _NARROW,
            _AGAIN,
            _MARGIN,
            _LOOK_UP,
        )
        order = np.lexsort((positions, -scores))
        return positions[order], scores[order]

    def best(self, query: Sequence[Weighted], k: int, least: float) -> tuple[Ints, Floats]:
        """The `k` best passages with a score above 0, best first; ties go to the earlier passage.

        Args:
            query: Terms, the most important first. They are added in this order, which is the same in every shard, so
                that scores do not depend, to the last bit, on how the collection is cut.
            k: How many, at least 1.
            least: A score that `k` passages of other shards are known to reach; passages below it may be left out.

        Once the terms that are left cannot lift a passage into the best `k`, only those that still can are followed
        (MaxScore, Turtle and Flood 1995). This changes no result.
        """
        scores = np.zeros(self.count, dtype=np.float32)
        leaders: Ints | None = None
        candidates: Ints | None = None
        total = left = sum(term.most for term in query)
        checked = math.inf
        for term in query:
            passages, weights = self.column(term.term)
            if (
                left < _NARROW * max(least, total - left)
                and left < _AGAIN * checked
                and len(passages) > self.count * _LONG
            ):
                if leaders is None:
                    leaders = _leaders(scores, 8 * k)
                least = max(least, _reached(scores[leaders], k))
                checked = left
                if left < _NARROW * least:
                    candidates = _above(scores, least * (1 - _MARGIN) - left, candidates)
            if candidates is not None and len(candidates) * _LOOK_UP < len(passages):
                _add_some(scores, candidates, passages, weights, np.float32(term.weight))
            else:
                np.add.at(scores, passages, weights * np.float32(term.weight))
            left -= term.most
        if candidates is None:
            reached = max(least, _reached(scores[_leaders(scores, 8 * k)], k))
            candidates = _above(scores, reached * (1 - _MARGIN), None)
        return top(scores, _above(scores, 0.0, candidates), k)


def _leaders(scores: Floats, count: int) -> Ints:
    """About `count` passages with the best scores so far: among them the k-th best is a score that k passages reach.

    Where to draw the line is seen in a sample, so that the many others are never listed.
    """
    sample = scores[::_SAMPLE]
    rank = count // _SAMPLE
    if 0 < rank < len(sample):
        found = _above(scores, float(np.partition(sample, len(sample) - rank)[-rank]), None)
        if len(found) >= count // 4:
            return found
    return _above(scores, 0.0, None)


def _reached(scores: Floats, k: int) -> float:
    """The k-th best of some scores, 0 where they are fewer."""
    return float(np.partition(scores, len(scores) - k)[-k]) if len(scores) >= k else 0.0


def _above(scores: Floats, bar: float, among: Ints | None) -> Ints:
    """Positions, ascending, whose score exceeds a bar."""
    if among is None:
        return np.flatnonzero(scores > np.float32(bar)).astype(np.int32)
    return among[scores[among] > np.float32(bar)]


def _add_some(scores: Floats, candidates: Ints, passages: Ints, weights: Floats, factor: np.float32) -> None:
    """Add a term to the candidates alone."""
    at = np.searchsorted(passages, candidates)
    at[at == len(passages)] = 0
    held = passages[at] == candidates
    scores[candidates[held]] += weights[at[held]] * factor


def top(scores: Floats, positions: Ints, k: int) -> tuple[Ints, Floats]:
    """The `k` best of some ascending positions, best first, ties to the earlier one."""
    values = scores[positions]
    if len(values) > k:
        bar = np.partition(values, len(values) - k)[-k]
        positions = positions[values >= bar]
        values = scores[positions]
    order = np.argsort(-values, kind="stable")[:k]
    return positions[order], values[order]
