"""The search compiled by numba (extra ``fast``), with the same result as
:meth:`ragrounds.tools.index.postings.Postings.best` to the last bit. Importing this module takes a second.

Window by window, bounds of scores are summed in 16 bits from the postings' codes. Terms that together cannot lift a
passage among the best need not be added: they are looked up for the passages that are still in reach (MaxScore, Turtle
and Flood 1995). These terms are chosen again for each window, and the number of passages in reach is sampled, so that
short queries are answered by look-ups and long ones by sums. The passages in reach are scored exactly, those with the
highest bounds first, so that few others remain in reach.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from ragrounds.tools.index.postings_layout import FULL, RawLists

Floats = npt.NDArray[np.float32]
Shorts = npt.NDArray[np.uint16]
Words = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Shape = tuple[float, float, float]

_WINDOW = 65536
_BLOCK = 64
"""Number of passages whose sums are compared at once with the required bound."""
_TOUCHED = 30
"""Divisor of a window's passages. A window with fewer postings than the quotient is scanned posting by posting."""
_SAMPLED = 16
"""Sampling step: every so many passages are checked to estimate how many are in reach."""
_LOOK_UP = 28
"""Cost of finding one passage in a list, in entries of the list that could be added in the same time."""
_UNITS = 65000.0
"""Sum of the bounds of all terms, so that they and their rounding fit 16 bits."""
LAST = 0xFFFFFFFF
"""Mask of a result's lower half.

A result is one number: the bits of its score, then this less its passage. The better result is the greater number.
"""


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def search(
    lists: RawLists,
    lengths: Words,
    shape: Shape,
    terms: Longs,
    factors: Floats,
    bounds: npt.NDArray[np.float64],
    k: int,
) -> Longs:
    """Return the `k` best results, each as one number (see :data:`LAST`), in no order. A 0 means no result.

    Args:
        lists: The postings.
        lengths: Lengths of all passages.
        shape: k1, b and the mean length.
        terms: Numbers of the query's terms, the most important first.
        factors: The terms' weights in the query.
        bounds: The most that each adds to a score.
        k: At most the number of passages.
    """
    passages, count = len(lengths), len(terms)
    scale = (_UNITS - 2 * count) / bounds.sum()
    tables, rest, slack = _tables(bounds, scale)
    cursors = np.zeros(count, dtype=np.int64)
    froms, tos = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    sums = np.zeros(_WINDOW, dtype=np.uint16)
    near, reach = np.empty(_WINDOW, dtype=np.int32), np.empty(_WINDOW, dtype=np.int32)
    positions, tops = np.empty(_WINDOW, dtype=np.int64), np.empty(_WINDOW // _BLOCK, dtype=np.uint16)
    heap, last = np.zeros(k, dtype=np.int64), np.zeros(1, dtype=np.int32)
    bar = 1  # the bound that a passage must reach
    for window in range((passages + _WINDOW - 1) // _WINDOW):
        base = window * _WINDOW
        end = min(base + _WINDOW, passages)
        added = count
        while added > 0 and rest[added - 1] < bar:
            added -= 1
        _cut_window(lists, terms, window, end, cursors, froms, tos)
        entries = (tos[:added] - froms[:added]).sum()
        if entries == 0:
            continue
        for term in range(added):
            _add_postings(lists, terms[term], tables[term], base, froms[term], tos[term], sums)
        if entries * _TOUCHED < end - base:
            reachable = _gather_touched(lists, terms, added, base, froms, tos, sums, bar - rest[added], near, reach)
        else:
            left = (tos[added:] - froms[added:]).sum()
            while added < count and _estimate_reachable(sums, bar - rest[added]) * _LOOK_UP > left:
                half = left // 2
                while added < count and left > half:
                    _add_postings(lists, terms[added], tables[added], base, froms[added], tos[added], sums)
                    left -= tos[added] - froms[added]
                    added += 1
            need = bar - rest[added]
            _block_maxima(sums, tops)
            if heap[0] == 0:
                need = max(need, _kth_greatest(tops if 2 * k < len(tops) else sums, k) - slack)
            reachable = _gather_reachable(sums, tops, need, near, reach)
        for term in range(added, count):
            if reachable == 0:
                break
            _add_by_look_up(
                lists, terms[term], tables[term], base, froms[term], tos[term], sums, near, reach, reachable, positions
            )
            reachable = _partition_reachable(near, reach, reachable, bar - rest[term + 1])
        done = 0
        # The likely passages come first: few others are in reach after them.
        for first in (_kth_greatest(reach[:reachable], k), 0):
            candidates = near[
                done : done + _partition_reachable(near[done:], reach[done:], reachable - done, max(first, bar - 1))
            ]
            scores = _exact_scores(lists, lengths, shape, terms, factors, base, froms, tos, candidates, positions, sums)
            bits = scores.view(np.int32)
            for idx in range(len(candidates)):
                key = (np.int64(bits[idx]) << 32) | (LAST - base - candidates[idx])
                if key > heap[0]:
                    _replace_root(heap, key)
            if heap[0] > 0:  # later passages must have more
                last[0] = heap[0] >> 32
                bar = int(last.view(np.float32)[0] * scale) + 1
            done += len(candidates)
            if done == reachable:
                break
    return heap


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def search_deep(
    lists: RawLists,
    lengths: Words,
    shape: Shape,
    terms: Longs,
    factors: Floats,
    bounds: npt.NDArray[np.float64],
    k: int,
) -> Longs:
    """Return at least the results of :func:`search`, and perhaps worse ones.

    The bounds of all windows are summed before any passage is scored. This takes less time for a large `k`: every
    window of :func:`search` would score about `k` passages, since no pruning is possible before `k` scores are known.
    """
    passages, count = len(lengths), len(terms)
    windows = (passages + _WINDOW - 1) // _WINDOW
    tables, _, slack = _tables(bounds, (_UNITS - 2 * count) / bounds.sum())
    cursors = np.zeros(count, dtype=np.int64)
    froms, tos = np.zeros((windows, count), dtype=np.int64), np.zeros((windows, count), dtype=np.int64)
    sums = np.zeros(windows * _WINDOW, dtype=np.uint16)
    tops = np.empty(len(sums) // _BLOCK, dtype=np.uint16)
    for window in range(windows):
        base = window * _WINDOW
        _cut_window(lists, terms, window, min(base + _WINDOW, passages), cursors, froms[window], tos[window])
        for term in range(count):
            start, stop = froms[window, term], tos[window, term]
            _add_postings(lists, terms[term], tables[term], base, start, stop, sums[base : base + _WINDOW])
    _block_maxima(sums, tops)
    near, reach = np.empty(passages, dtype=np.int32), np.empty(passages, dtype=np.int32)
    # The greatest sums of k blocks are those of k passages.
    need = int(np.partition(tops, len(tops) - k)[len(tops) - k]) - slack if k <= len(tops) else 0
    reachable = _gather_reachable(sums, tops, need, near, reach)
    if reachable > k:
        need = int(np.partition(reach[:reachable], reachable - k)[reachable - k]) - slack
    kept = 0
    for idx in range(reachable):
        near[kept] = near[idx]
        kept += reach[idx] >= need
    keys = np.empty(kept, dtype=np.int64)
    positions = np.empty(kept, dtype=np.int64)
    first = 0
    for window in range(windows):
        base = window * _WINDOW
        last = first + int(np.searchsorted(near[first:kept], base + _WINDOW))
        candidates = near[first:last] - np.int32(base)
        zeros = sums[base : base + _WINDOW]
        scores = _exact_scores(
            lists, lengths, shape, terms, factors, base, froms[window], tos[window], candidates, positions, zeros
        )
        bits = scores.view(np.int32)
        for idx in range(len(candidates)):
            keys[first + idx] = (np.int64(bits[idx]) << 32) | (LAST - base - candidates[idx])
        first = last
    return keys


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _tables(bounds: npt.NDArray[np.float64], scale: float) -> tuple[Shorts, Longs, int]:
    """Return three things: the 16-bit amount that each code of each term adds to a bound, the most that a term and the
    later ones add, and the most by which a passage's bound can exceed its score.
    """
    count = len(bounds)
    tables = np.zeros((count, 256), dtype=np.uint16)
    rest = np.zeros(count + 1, dtype=np.int64)
    slack = 1
    for term in range(count - 1, -1, -1):
        step = bounds[term] * scale / 255
        for code in range(1, 256):
            tables[term, code] = np.uint16(int(np.ceil(step * code)) + 1)
        slack += int(step) + 3
        rest[term] = rest[term + 1] + tables[term, 255]
    return tables, rest, slack


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _cut_window(lists: RawLists, terms: Longs, window: int, end: int, cursors: Longs, froms: Longs, tos: Longs) -> None:
    """Write where each term's part of a window begins and ends. The cursors of rare terms move on with the windows."""
    common = len(lists.common_starts) - 1
    for term in range(len(terms)):
        number = terms[term]
        if number < common:
            start = lists.common_starts[number]
            froms[term] = start + lists.windows[number, window]
            tos[term] = start + lists.windows[number, window + 1]
        else:
            position = max(cursors[term], lists.rare_starts[number - common])
            froms[term] = position
            last = lists.rare_starts[number - common + 1]
            while position < last and lists.rare[position] < end:
                position += 1
            tos[term] = position
            cursors[term] = position


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _add_postings(lists: RawLists, number: int, table: Shorts, base: int, start: int, stop: int, sums: Shorts) -> None:
    """Add a term's part of a window to its sums."""
    common = len(lists.common_starts) - 1
    if number < common:  # slices, so that the loop is as fast as can be
        low, codes = lists.low[start:stop], lists.common_codes[start:stop]
        for position in range(len(low)):
            sums[low[position]] += table[codes[position]]
    else:
        for position in range(start, stop):
            sums[lists.rare[position] - base] += table[lists.rare_codes[position]]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _gather_touched(
    lists: RawLists,
    terms: Longs,
    added: int,
    base: int,
    froms: Longs,
    tos: Longs,
    sums: Shorts,
    need: int,
    near: Ints,
    reach: Ints,
) -> int:
    """Do the work of :func:`_gather_reachable` by the postings that were added, which is faster for few of them."""
    common = len(lists.common_starts) - 1
    count = 0
    for term in range(added):
        for position in range(froms[term], tos[term]):
            spot = np.int64(lists.low[position]) if terms[term] < common else np.int64(lists.rare[position]) - base
            bound = np.int64(sums[spot])
            if bound >= max(need, 1):
                near[count] = spot
                reach[count] = bound
                count += 1
            sums[spot] = 0
    return count


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _add_by_look_up(
    lists: RawLists,
    number: int,
    table: Shorts,
    base: int,
    start: int,
    stop: int,
    sums: Shorts,
    near: Ints,
    reach: Ints,
    hit_count: int,
    positions: Longs,
) -> None:
    """Add a term to the bounds of the passages that are in reach."""
    if number < len(lists.common_starts) - 1 and lists.rows[number] >= 0:
        row = lists.rows[number]
        for idx in range(hit_count):
            reach[idx] += table[lists.dense[row, base + near[idx]]]
    elif number < len(lists.common_starts) - 1 and hit_count * _LOOK_UP < stop - start:
        _find_positions(lists.low[start:stop], 0, near[:hit_count], positions)
        for idx in range(hit_count):
            position = start + positions[idx]
            if lists.low[position] == near[idx]:
                reach[idx] += table[lists.common_codes[position]]
    else:
        _add_postings(lists, number, table, base, start, stop, sums)
        for idx in range(hit_count):
            reach[idx] += sums[near[idx]]
        for position in range(start, stop):
            sums[lists.low[position] if number < len(lists.common_starts) - 1 else lists.rare[position] - base] = 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _partition_reachable(near: Ints, reach: Ints, count: int, need: int) -> int:
    """Move the passages whose bound reaches `need` before the others, and return their number."""
    reached = 0
    for idx in range(count):
        near[reached], near[idx] = near[idx], near[reached]
        reach[reached], reach[idx] = reach[idx], reach[reached]
        reached += reach[reached] >= need
    return reached


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _estimate_reachable(sums: Shorts, need: int) -> int:
    """Return an estimate of how many passages of a window reach `need`."""
    count = 0
    for spot in range(0, _WINDOW, _SAMPLED):
        count += sums[spot] >= need
    return count * _SAMPLED


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _block_maxima(sums: Shorts, tops: Shorts) -> None:
    """Write the greatest sum of each block.

    Several are compared at once only if the loop does nothing else, and if its range ends with its start plus a
    constant.
    """
    for block in range(len(tops)):
        greatest = np.uint16(0)
        for spot in range(block * _BLOCK, block * _BLOCK + _BLOCK):
            greatest = max(greatest, sums[spot])
        tops[block] = greatest


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _kth_greatest(values: Ints | Shorts, k: int) -> int:
    """Return the last of the `k` greatest values; 0 if there are fewer."""
    if len(values) < k:
        return 0
    heap = np.zeros(k, dtype=np.int64)
    for value in values:
        if value > heap[0]:
            _replace_root(heap, value)
    return int(heap[0])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _gather_reachable(sums: Shorts, tops: Shorts, need: int, near: Ints, reach: Ints) -> int:
    """List the indices whose sum is `need` or more, return their number, and set all sums to 0."""
    count = 0
    bar = np.uint16(max(need, 1))
    for block in range(len(tops)):
        if tops[block] >= bar:
            for spot in range(block * _BLOCK, (block + 1) * _BLOCK):
                if sums[spot] >= bar:
                    near[count] = spot
                    reach[count] = sums[spot]
                    count += 1
    sums[:] = 0
    return count


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _find_positions(values: Shorts | Words, base: int, wanted_values: Ints, positions: Longs) -> None:
    """Find each of `wanted_values` plus `base` in an ascending, not empty list, and write its index if it is there.

    All are searched for in parallel steps: none waits for another's reading.
    """
    left = len(values)
    positions[: len(wanted_values)] = 0
    while left > 1:
        half = left >> 1
        for idx in range(len(wanted_values)):
            positions[idx] += half * (values[positions[idx] + half - 1] < base + wanted_values[idx])
        left -= half


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _scan_positions(values: Shorts | Words, base: int, ordinals: Shorts, positions: Longs) -> None:
    """Do the work of :func:`_find_positions` by reading the whole list. `ordinals` numbers the wanted values from 1."""
    for position in range(len(values)):
        ordinal = ordinals[values[position] - base]
        if ordinal > 0:
            positions[ordinal - 1] = position


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _replace_root(heap: Longs, value: int) -> None:
    """Replace the least value, which is the heap's root."""
    size = len(heap)
    position = 0
    while True:
        child = 2 * position + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[position] = heap[child]
        position = child
    heap[position] = value


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _exact_scores(
    lists: RawLists,
    lengths: Words,
    shape: Shape,
    terms: Longs,
    factors: Floats,
    base: int,
    froms: Longs,
    tos: Longs,
    near: Ints,
    positions: Longs,
    zeros: Shorts,
) -> Floats:
    """Return the exact scores of some passages of a window, summed in 32 bits in the order of the terms. `zeros` has an
    entry for each passage of the window.
    """
    k1, b, mean = shape
    common = len(lists.common_starts) - 1
    scores = np.zeros(len(near), dtype=np.float32)
    norms = np.empty(len(near), dtype=np.float64)
    for idx in range(len(near)):
        norms[idx] = k1 * (1 - b + b * float(lengths[base + near[idx]]) / mean)
        zeros[near[idx]] = idx + 1
    for term in range(len(terms)):
        number, start, stop = terms[term], froms[term], tos[term]
        if start == stop:
            continue
        if stop - start < len(near) * _LOOK_UP and len(near) < _WINDOW:  # the last ordinal must fit 16 bits
            positions[: len(near)] = 0
            if number < common:
                _scan_positions(lists.low[start:stop], 0, zeros, positions)
            else:
                _scan_positions(lists.rare[start:stop], base, zeros, positions)
        elif number < common:
            _find_positions(lists.low[start:stop], 0, near, positions)
        else:
            _find_positions(lists.rare[start:stop], base, near, positions)
        for idx in range(len(near)):
            position = start + positions[idx]
            if number < common:
                is_held = lists.low[position] == near[idx]
                times = int(lists.common_counts[position])
            else:
                is_held = lists.rare[position] == base + near[idx]
                times = int(lists.rare_counts[position])
            if not is_held:
                continue
            if times == FULL:
                times = int(lists.many_counts[np.searchsorted(lists.many_keys, (number << 32) | (base + near[idx]))])
            scores[idx] += np.float32(times / (times + norms[idx])) * factors[term]
    for idx in range(len(near)):
        zeros[near[idx]] = 0
    return scores
