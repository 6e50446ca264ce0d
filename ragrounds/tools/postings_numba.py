"""The search of one shard compiled by numba (extra ``fast``): the steps of :meth:`ragrounds.tools.postings.Shard.best`
in one loop, with the same result to the last bit. Importing this module takes a second."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def search(
    passages: Ints,
    weights: Floats,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    factors: Floats,
    most: npt.NDArray[np.float64],
    count: int,
    k: int,
    least: float,
    common: float,
    narrow: float,
    again: float,
    margin: float,
    look_up: int,
) -> tuple[Ints, Floats]:
    """The `k` best passages of a shard, in no order; the parameters are explained in the other module."""
    scores = np.zeros(count, dtype=np.float32)
    candidates = np.empty(0, dtype=np.int32)
    chosen = False
    given = least > 0
    total = most.sum()
    left = total
    checked = np.inf
    for term in range(len(starts)):
        start, end = starts[term], ends[term]
        if left < narrow * max(least, total - left) and left < again * checked and end - start > count * common:
            checked = left
            if not given:  # the first shard has to find out for itself what the best reach
                best = _top(scores, candidates, k)[1] if chosen else _top_of_all(scores, k, 0.0)[1]
                if len(best) == k:
                    least = max(least, best.min())
            if left < narrow * least:
                bar = float(np.float32(least * (1 - margin) - left))
                candidates = _above(scores, candidates, bar) if chosen else _all_above(scores, bar)
                chosen = True
        factor = factors[term]
        if chosen and len(candidates) * look_up < end - start:
            low = start
            for passage in candidates:
                low = _find(passages, low, end, int(passage))
                if low < end and passages[low] == passage:
                    scores[passage] += weights[low] * factor
        else:
            for place in range(start, end):
                scores[passages[place]] += weights[place] * factor
        left -= most[term]
    if chosen:
        return _top(scores, candidates, k)
    return _top_of_all(scores, k, least * (1 - margin))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _find(passages: Ints, low: int, high: int, wanted: int) -> int:
    """The first place from `low` on that holds `wanted` or more: steps that double, then bisection."""
    step = 1
    while low + step < high and passages[low + step] < wanted:
        low += step
        step *= 2
    high = min(high, low + step + 1)
    while low < high:
        middle = (low + high) // 2
        if passages[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _all_above(scores: Floats, bar: float) -> Ints:
    found = np.empty(len(scores), dtype=np.int32)
    size = 0
    for passage in range(len(scores)):
        if scores[passage] > bar:
            found[size] = passage
            size += 1
    return found[:size].copy()


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _above(scores: Floats, candidates: Ints, bar: float) -> Ints:
    found = np.empty(len(candidates), dtype=np.int32)
    size = 0
    for passage in candidates:
        if scores[passage] > bar:
            found[size] = passage
            size += 1
    return found[:size].copy()


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _top(scores: Floats, candidates: Ints, k: int) -> tuple[Ints, Floats]:
    positions = np.empty(k, dtype=np.int32)
    values = np.empty(k, dtype=np.float32)
    size = 0
    for passage in candidates:
        size = _offer(positions, values, size, passage, scores[passage])
    return positions[:size].copy(), values[:size].copy()


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _top_of_all(scores: Floats, k: int, floor: float) -> tuple[Ints, Floats]:
    """The best of all that are above a floor."""
    positions = np.empty(k, dtype=np.int32)
    values = np.empty(k, dtype=np.float32)
    size = 0
    lowest = np.float32(max(floor, 0.0))
    for passage in range(len(scores)):
        score = scores[passage]
        if score > lowest:
            size = _offer(positions, values, size, passage, score)
            if size == k:
                lowest = max(lowest, values[0])
    return positions[:size].copy(), values[:size].copy()


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _offer(positions: Ints, values: Floats, size: int, passage: int, score: float) -> int:
    """Keep a passage in a heap whose root is the worst: the lowest score, of equal ones the latest passage. Passages
    are offered in ascending order, so that one that only equals the root never displaces it."""
    if score <= 0:
        return size
    if size == len(values):
        if score <= values[0]:
            return size
        place = 0  # the root goes; the new one sinks
        while True:
            child = 2 * place + 1
            if child >= size:
                break
            if child + 1 < size and (
                values[child + 1] < values[child]
                or (values[child + 1] == values[child] and positions[child + 1] > positions[child])
            ):
                child += 1
            if values[child] > score or (values[child] == score and positions[child] < passage):
                break
            positions[place] = positions[child]
            values[place] = values[child]
            place = child
        positions[place] = passage
        values[place] = score
        return size
    place = size  # the new one rises
    while place > 0:
        parent = (place - 1) // 2
        if values[parent] < score or (values[parent] == score and positions[parent] > passage):
            break
        positions[place] = positions[parent]
        values[place] = values[parent]
        place = parent
    positions[place] = passage
    values[place] = score
    return size + 1
