"""The search compiled by numba (extra ``fast``), with the same result as
:meth:`ragrounds.tools.index.postings.Postings.best` to the last bit. Importing this module takes a second.

Window by window, bounds of scores are summed in 16 bits from the postings' codes. Terms that together cannot lift a
passage among the best need not be added: they are looked up for the passages that are still in reach (MaxScore, Turtle
and Flood 1995). Which they are is decided anew for each window, and how many passages are in reach is sampled, so that
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
"""The sums of so many passages are compared with what is needed at once."""
_TOUCHED = 30
"""A window with fewer postings than one for so many passages is gone through posting by posting."""
_SAMPLED = 16
"""One passage of so many is looked at to know how many are in reach."""
_LOOK_UP = 28
"""Finding one passage in a list costs about as much as adding this many entries of the list."""
_UNITS = 65000.0
"""What the bounds of all terms together come to, so that they and their rounding fit 16 bits."""
LAST = 0xFFFFFFFF
"""A result is kept as one number: the bits of its score, then this less its passage. The better one is the greater."""


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
    """The `k` best results, each as one number (see :data:`LAST`), in no order; 0: there is none.

    Args:
        lists: The postings.
        lengths: Of all passages.
        shape: k1, b and the mean length.
        terms: Numbers of the query's terms, the most important first.
        factors: Their weights in the query.
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
    places, tops = np.empty(_WINDOW, dtype=np.int64), np.empty(_WINDOW // _BLOCK, dtype=np.uint16)
    heap, last = np.zeros(k, dtype=np.int64), np.zeros(1, dtype=np.int32)
    bar = 1  # what the bound of a passage must reach
    for window in range((passages + _WINDOW - 1) // _WINDOW):
        base = window * _WINDOW
        end = min(base + _WINDOW, passages)
        added = count
        while added > 0 and rest[added - 1] < bar:
            added -= 1
        _cut(lists, terms, window, end, cursors, froms, tos)
        entries = (tos[:added] - froms[:added]).sum()
        if entries == 0:
            continue
        for term in range(added):
            _add(lists, terms[term], tables[term], base, froms[term], tos[term], sums)
        if entries * _TOUCHED < end - base:
            found = _touched(lists, terms, added, base, froms, tos, sums, bar - rest[added], near, reach)
        else:
            left = (tos[added:] - froms[added:]).sum()
            while added < count and _in_reach(sums, bar - rest[added]) * _LOOK_UP > left:
                half = left // 2
                while added < count and left > half:
                    _add(lists, terms[added], tables[added], base, froms[added], tos[added], sums)
                    left -= tos[added] - froms[added]
                    added += 1
            need = bar - rest[added]
            _tops(sums, tops)
            if heap[0] == 0:
                need = max(need, _least(tops if 2 * k < len(tops) else sums, k) - slack)
            found = _gather(sums, tops, need, near, reach)
        for term in range(added, count):
            if found == 0:
                break
            _follow(lists, terms[term], tables[term], base, froms[term], tos[term], sums, near, reach, found, places)
            found = _kept(near, reach, found, bar - rest[term + 1])
        done = 0
        for first in (_least(reach[:found], k), 0):  # the likely ones: few others are in reach after them
            chosen = near[done : done + _kept(near[done:], reach[done:], found - done, max(first, bar - 1))]
            scores = _exact(lists, lengths, shape, terms, factors, base, froms, tos, chosen, places)
            bits = scores.view(np.int32)
            for one in range(len(chosen)):
                key = (np.int64(bits[one]) << 32) | (LAST - base - chosen[one])
                if key > heap[0]:
                    _replace(heap, key)
            if heap[0] > 0:  # later passages must have more
                last[0] = heap[0] >> 32
                bar = int(last.view(np.float32)[0] * scale) + 1
            done += len(chosen)
            if done == found:
                break
    return heap


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _tables(bounds: npt.NDArray[np.float64], scale: float) -> tuple[Shorts, Longs, int]:
    """What each code of each term adds to a bound, in 16 bits; the most that a term and those behind it add; and how
    much more than its score the bound of a passage can be."""
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
def _cut(lists: RawLists, terms: Longs, window: int, end: int, cursors: Longs, froms: Longs, tos: Longs) -> None:
    """Note where each term's part of a window begins and ends. The cursors of rare terms move on with the windows."""
    common = len(lists.common_starts) - 1
    for term in range(len(terms)):
        number = terms[term]
        if number < common:
            start = lists.common_starts[number]
            froms[term] = start + lists.windows[number, window]
            tos[term] = start + lists.windows[number, window + 1]
        else:
            place = max(cursors[term], lists.rare_starts[number - common])
            froms[term] = place
            last = lists.rare_starts[number - common + 1]
            while place < last and lists.rare[place] < end:
                place += 1
            tos[term] = place
            cursors[term] = place


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _add(lists: RawLists, number: int, table: Shorts, base: int, start: int, stop: int, sums: Shorts) -> None:
    """Add a term's part of a window to its sums."""
    common = len(lists.common_starts) - 1
    if number < common:  # slices, so that the loop is as fast as can be
        low, codes = lists.low[start:stop], lists.common_codes[start:stop]
        for place in range(len(low)):
            sums[low[place]] += table[codes[place]]
    else:
        for place in range(start, stop):
            sums[lists.rare[place] - base] += table[lists.rare_codes[place]]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _touched(
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
    """As :func:`_gather`, by the postings that were added: for few of them this is faster."""
    common = len(lists.common_starts) - 1
    found = 0
    for term in range(added):
        for place in range(froms[term], tos[term]):
            spot = np.int64(lists.low[place]) if terms[term] < common else np.int64(lists.rare[place]) - base
            bound = np.int64(sums[spot])
            if bound >= max(need, 1):
                near[found] = spot
                reach[found] = bound
                found += 1
            sums[spot] = 0
    return found


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _follow(
    lists: RawLists,
    number: int,
    table: Shorts,
    base: int,
    start: int,
    stop: int,
    sums: Shorts,
    near: Ints,
    reach: Ints,
    found: int,
    places: Longs,
) -> None:
    """Add one term to the bounds of the passages that are in reach."""
    if number < len(lists.common_starts) - 1 and lists.rows[number] >= 0:
        row = lists.rows[number]
        for one in range(found):
            reach[one] += table[lists.dense[row, base + near[one]]]
    elif number < len(lists.common_starts) - 1 and found * _LOOK_UP < stop - start:
        _find(lists.low[start:stop], 0, near[:found], places)
        for one in range(found):
            place = start + places[one]
            if lists.low[place] == near[one]:
                reach[one] += table[lists.common_codes[place]]
    else:
        _add(lists, number, table, base, start, stop, sums)
        for one in range(found):
            reach[one] += sums[near[one]]
        for place in range(start, stop):
            sums[lists.low[place] if number < len(lists.common_starts) - 1 else lists.rare[place] - base] = 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _kept(near: Ints, reach: Ints, count: int, need: int) -> int:
    """Put the passages whose bound reaches what is needed before the others; gives back how many they are."""
    kept = 0
    for one in range(count):
        near[kept], near[one] = near[one], near[kept]
        reach[kept], reach[one] = reach[one], reach[kept]
        kept += reach[kept] >= need
    return kept


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _in_reach(sums: Shorts, need: int) -> int:
    """About how many passages of a window reach what is needed."""
    found = 0
    for spot in range(0, _WINDOW, _SAMPLED):
        found += sums[spot] >= need
    return found * _SAMPLED


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _tops(sums: Shorts, tops: Shorts) -> None:
    """The greatest sum of each block. Several are compared at once only where the loop does nothing else, and where its
    range ends with its start plus a constant."""
    for block in range(len(tops)):
        most = np.uint16(0)
        for spot in range(block * _BLOCK, block * _BLOCK + _BLOCK):
            most = max(most, sums[spot])
        tops[block] = most


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _least(values: Ints | Shorts, k: int) -> int:
    """The last of the `k` greatest values; 0: there are fewer."""
    if len(values) < k:
        return 0
    heap = np.zeros(k, dtype=np.int64)
    for value in values:
        if value > heap[0]:
            _replace(heap, value)
    return int(heap[0])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _gather(sums: Shorts, tops: Shorts, need: int, near: Ints, reach: Ints) -> int:
    """List the places whose sum is `need` or more, and set all sums to 0."""
    found = 0
    bar = np.uint16(max(need, 1))
    for block in range(len(tops)):
        if tops[block] >= bar:
            for spot in range(block * _BLOCK, (block + 1) * _BLOCK):
                if sums[spot] >= bar:
                    near[found] = spot
                    reach[found] = sums[spot]
                    found += 1
    sums[:] = 0
    return found


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _find(values: Shorts | Words, base: int, wanted: Ints, places: Longs) -> None:
    """Where in an ascending list, which is not empty, each wanted value and `base` stands, if it is there. All are
    searched for side by side: none waits for another's reading."""
    left = len(values)
    places[: len(wanted)] = 0
    while left > 1:
        half = left >> 1
        for one in range(len(wanted)):
            places[one] += half * (values[places[one] + half - 1] < base + wanted[one])
        left -= half


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _replace(heap: Longs, value: int) -> None:
    """Put a value in the place of the least, which is the root."""
    size = len(heap)
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _exact(
    lists: RawLists,
    lengths: Words,
    shape: Shape,
    terms: Longs,
    factors: Floats,
    base: int,
    froms: Longs,
    tos: Longs,
    near: Ints,
    places: Longs,
) -> Floats:
    """The exact scores of some passages of a window, summed in 32 bits in the order of the terms."""
    k1, b, mean = shape
    common = len(lists.common_starts) - 1
    scores = np.zeros(len(near), dtype=np.float32)
    norms = np.empty(len(near), dtype=np.float64)
    for one in range(len(near)):
        norms[one] = k1 * (1 - b + b * float(lengths[base + near[one]]) / mean)
    for term in range(len(terms)):
        number, start, stop = terms[term], froms[term], tos[term]
        if start == stop:
            continue
        if number < common:
            _find(lists.low[start:stop], 0, near, places)
        else:
            _find(lists.rare[start:stop], base, near, places)
        for one in range(len(near)):
            place = start + places[one]
            if number < common:
                held = lists.low[place] == near[one]
                times = int(lists.common_counts[place])
            else:
                held = lists.rare[place] == base + near[one]
                times = int(lists.rare_counts[place])
            if not held:
                continue
            if times == FULL:
                times = int(lists.many_counts[np.searchsorted(lists.many_keys, (number << 32) | (base + near[one]))])
            scores[one] += np.float32(times / (times + norms[one])) * factors[term]
    return scores
