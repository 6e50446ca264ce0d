"""The search compiled by numba (extra ``fast``), with the same result as :meth:`ragrounds.tools.postings.Postings.best`
to the last bit. Importing this module takes a second.

Window by window, bounds of scores are summed in 16 bits from the postings' codes. The terms that together cannot lift
a passage among the best are not added but looked up, for the passages that are still in reach (MaxScore, Turtle and
Flood 1995). Which they are is decided anew for each window. A term is looked up where few passages are left, and added
like the others where they are many, so that short queries are answered by look-ups and long ones by sums. What is in
reach at the end, little more than `k` passages, is scored exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from ragrounds.tools.postings_layout import RawLists

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Shorts = npt.NDArray[np.uint16]
Words = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

_WINDOW = 65536
_BLOCK = 64
"""The sums of so many passages are compared with the bar at once."""
_TOUCHED = 6
"""A window with fewer postings than one for so many passages is gone through posting by posting."""
_LOOK_UP = 14
"""Finding one passage in a list costs about as much as adding this many entries of the list."""
_ROOM = 4096
"""So many passages, and some for each of the `k`, are kept before they are scored exactly and thinned out."""


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def search(
    lists: RawLists,
    lengths: Words,
    shape: tuple[float, float, float],
    terms: Longs,
    factors: Floats,
    bounds: npt.NDArray[np.float64],
    k: int,
) -> tuple[Longs, Floats]:
    """The `k` best passages and a few more, in the order of the passages.

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
    scale = (65535.0 - 2 * count) / bounds.sum()
    tables, rest, slack = _tables(bounds, scale)
    cursors = np.zeros(count, dtype=np.int64)
    froms, tos = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    sums = np.zeros(_WINDOW, dtype=np.uint16)
    near, reach = np.empty(_WINDOW, dtype=np.int32), np.empty(_WINDOW, dtype=np.int32)
    room = _ROOM + 4 * k
    pool, pooled = np.empty(room + _WINDOW, dtype=np.int64), np.empty(room + _WINDOW, dtype=np.int32)
    size = 0
    heap = np.zeros(k, dtype=np.int32)  # the best bounds
    held = 0
    bar = 1  # what the bound of a passage must reach
    for window in range((passages + _WINDOW - 1) // _WINDOW):
        base = window * _WINDOW
        end = min(base + _WINDOW, passages)
        added = count
        while added > 0 and rest[added - 1] < bar:
            added -= 1
        entries = _cut(lists, terms, window, end, added, cursors, froms, tos)
        if entries == 0:
            continue
        need = bar - rest[added]
        _sum(lists, terms, tables, added, base, froms, tos, sums)
        if entries * _TOUCHED < end - base:
            found = _touched(lists, terms, added, base, froms, tos, sums, need, near, reach)
        else:
            if held < k and added == count:
                need = max(need, _reached(sums, k) - slack)
            found = _gather(sums, need, near, reach)
        for term in range(added, count):
            if found == 0:
                break
            _follow(lists, terms[term], tables[term], base, froms[term], tos[term], sums, near, reach, found)
            found = _kept(near, reach, found, bar - rest[term + 1])
        for one in range(found):
            bound = reach[one]
            if bound < bar:
                continue
            pool[size] = base + near[one]
            pooled[size] = bound
            size += 1
            if held < k:
                held = _push(heap, held, bound)
                if held < k:
                    continue
            elif bound > heap[0]:
                _replace(heap, bound)
            bar = max(bar, heap[0] - slack)
        if size > room // 2:
            size = _kept(pool, pooled, size, bar)
        if size > room // 2:
            pool[:size].sort()
            scores = _exact(lists, lengths, shape, terms, factors, pool[:size])
            size, least = _best_of(scores, k, pool, pooled, size)
            if size == k:  # later passages must have more
                bar = max(bar, int(np.floor(least * scale)) + 1)
    size = _kept(pool, pooled, size, bar)
    pool[:size].sort()
    return pool[:size].copy(), _exact(lists, lengths, shape, terms, factors, pool[:size])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _tables(bounds: npt.NDArray[np.float64], scale: float) -> tuple[npt.NDArray[np.uint16], Longs, int]:
    """What each code of each term adds to a bound, in 16 bits; the most that a term and those behind it add; and how
    much more than its score the bound of a passage can be."""
    count = len(bounds)
    tables = np.zeros((count, 256), dtype=np.uint16)
    rest = np.zeros(count + 1, dtype=np.int64)
    slack = 1
    for term in range(count):
        step = bounds[term] * scale / 255
        for code in range(1, 256):
            tables[term, code] = np.uint16(int(np.ceil(step * code)) + 1)
        slack += int(step) + 3
    for term in range(count - 1, -1, -1):
        rest[term] = rest[term + 1] + tables[term, 255]
    return tables, rest, slack


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _cut(
    lists: RawLists, terms: Longs, window: int, end: int, added: int, cursors: Longs, froms: Longs, tos: Longs
) -> int:
    """Note where each term's part of a window begins and ends; gives back how many postings the first terms have. The
    cursors of rare terms move on with the windows."""
    common = len(lists.common_starts) - 1
    entries = 0
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
        if term < added:
            entries += tos[term] - froms[term]
    return entries


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _sum(
    lists: RawLists,
    terms: Longs,
    tables: npt.NDArray[np.uint16],
    added: int,
    base: int,
    froms: Longs,
    tos: Longs,
    sums: Shorts,
) -> None:
    """Add the first terms' postings to the sums of a window."""
    common = len(lists.common_starts) - 1
    for term in range(added):
        if terms[term] < common:
            _add(sums, lists.low, lists.common_codes, tables[term], froms[term], tos[term])
        else:
            for place in range(froms[term], tos[term]):
                sums[lists.rare[place] - base] += tables[term, lists.rare_codes[place]]


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
            if bound >= need:
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
) -> None:
    """Add one term to the bounds of the passages that are in reach."""
    if number >= len(lists.common_starts) - 1:
        for place in range(start, stop):
            sums[lists.rare[place] - base] = table[lists.rare_codes[place]]
        for one in range(found):
            reach[one] += sums[near[one]]
        for place in range(start, stop):
            sums[lists.rare[place] - base] = 0
    elif lists.rows[number] >= 0:
        row = lists.rows[number]
        for one in range(found):
            reach[one] += table[lists.dense[row, base + near[one]]]
    elif found * _LOOK_UP < stop - start:
        for one in range(found):
            place = _find(lists.low, start, stop, near[one])
            if place < stop and lists.low[place] == near[one]:
                reach[one] += table[lists.common_codes[place]]
    else:
        _add(sums, lists.low, lists.common_codes, table, start, stop)
        for one in range(found):
            reach[one] += sums[near[one]]
        for place in range(start, stop):
            sums[lists.low[place]] = 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _kept(places: Ints | Longs, bounds: Ints, count: int, need: int) -> int:
    """Keep the passages whose bound reaches what is needed."""
    kept = 0
    for one in range(count):
        if bounds[one] >= need:
            places[kept] = places[one]
            bounds[kept] = bounds[one]
            kept += 1
    return kept


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _add(sums: Shorts, low: Shorts, codes: Bytes, table: Shorts, start: int, stop: int) -> None:
    """Add a part of a common term's list to the sums of its window."""
    for place in range(start, stop):
        sums[low[place]] += table[codes[place]]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _reached(sums: Shorts, k: int) -> int:
    """A sum that at least `k` passages reach; 0: none is known."""
    blocks = len(sums) // _BLOCK
    if k > blocks // 2:
        return 0
    tops = np.empty(blocks, dtype=np.int64)
    for block in range(blocks):
        most = np.uint16(0)
        for spot in range(block * _BLOCK, (block + 1) * _BLOCK):
            most = max(most, sums[spot])
        tops[block] = most
    return int(np.sort(tops)[blocks - k])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _gather(sums: Shorts, need: int, near: Ints, reach: Ints) -> int:
    """List the places whose sum is `need` or more, and set all sums to 0."""
    found = 0
    bar = np.uint16(max(need, 1))
    for start in range(0, len(sums), _BLOCK):
        any_above = False
        for spot in range(start, start + _BLOCK):
            any_above |= sums[spot] >= bar
        if any_above:
            for spot in range(start, start + _BLOCK):
                if sums[spot] >= bar:
                    near[found] = spot
                    reach[found] = sums[spot]
                    found += 1
        sums[start : start + _BLOCK] = 0
    return found


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _find(places: Shorts | Words, start: int, stop: int, wanted: int) -> int:
    """The first place of a list that holds `wanted` or more."""
    while start < stop:
        middle = (start + stop) >> 1
        if places[middle] < wanted:
            start = middle + 1
        else:
            stop = middle
    return start


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _push(heap: Ints, held: int, value: int) -> int:
    """Put a value into a heap that is not full; the root is the least."""
    place = held
    while place > 0:
        parent = (place - 1) // 2
        if heap[parent] <= value:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = value
    return held + 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _replace(heap: Ints, value: int) -> None:
    """Put a value in the place of the least."""
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
def _best_of(scores: Floats, k: int, pool: Longs, pooled: Ints, size: int) -> tuple[int, float]:
    """Keep the `k` best of the pool, with a bound that no bar removes, of equal ones the earlier; gives back how many
    are kept and what the last of them has."""
    if size < k:
        return size, 0.0
    least = np.sort(scores)[size - k]
    left = k - int((scores > least).sum())
    kept = 0
    for one in range(size):
        if scores[one] < least or (scores[one] == least and left == 0):
            continue
        if scores[one] == least:
            left -= 1
        pool[kept] = pool[one]
        pooled[kept] = 2**30
        kept += 1
    return kept, float(least)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _exact(
    lists: RawLists,
    lengths: Words,
    shape: tuple[float, float, float],
    terms: Longs,
    factors: Floats,
    found: Longs,
) -> Floats:
    """The exact scores of some passages, summed in 32 bits in the order of the terms."""
    k1, b, mean = shape
    common = len(lists.common_starts) - 1
    scores = np.zeros(len(found), dtype=np.float32)
    for term in range(len(terms)):
        number = terms[term]
        factor = factors[term]
        for one in range(len(found)):
            passage = found[one]
            times = 0
            if number < common:
                if lists.rows[number] >= 0 and lists.dense[lists.rows[number], passage] == 0:
                    continue
                window = passage // _WINDOW
                spot = passage - window * _WINDOW
                stop = lists.common_starts[number] + lists.windows[number, window + 1]
                start = lists.common_starts[number] + lists.windows[number, window]
                place = _find(lists.low, start, stop, spot)
                if place < stop and lists.low[place] == spot:
                    times = int(lists.common_counts[place])
            else:
                stop = lists.rare_starts[number - common + 1]
                place = _find(lists.rare, lists.rare_starts[number - common], stop, passage)
                if place < stop and lists.rare[place] == passage:
                    times = int(lists.rare_counts[place])
            if times == 0:
                continue
            if times == 255:
                times = int(lists.many_counts[np.searchsorted(lists.many_keys, (number << 32) | passage)])
            norm = k1 * (1 - b + b * float(lengths[passage]) / mean)
            scores[one] += np.float32(times / (times + norm)) * factor
    return scores
