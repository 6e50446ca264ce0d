"""Which of the found documents are graded: all, or a sample stratified by bands of ranks.

Relevance falls with the rank, so that a sample of the same size within each band says more than one of all ranks
(Cochran 1977, Chapter 5). The labels play no part in it: the graph must not see them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from ragrounds.errors import UserError


def read_bands(text: str, depth: int) -> tuple[tuple[int, int], ...]:
    """Bands of ranks, first and last, from the last ranks of all but the deepest: ``10,25`` with depth 50 is 1–10,
    11–25, 26–50.

    Raises:
        UserError: no whole numbers, or none that rise.
    """
    try:
        ends = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        ends = [0]
    if any(end < 1 for end in ends) or ends != sorted(set(ends)):
        raise UserError(f"The bands {text!r} are none: expected rising ranks, such as 10,25.")
    ends = [end for end in ends if end < depth] + [depth]
    return tuple(zip([1, *(end + 1 for end in ends)], ends, strict=False))


def band_of(rank: int, bands: Sequence[tuple[int, int]]) -> int:
    """The number, from 0, of the band that holds a rank from 1."""
    return next(number for number, (first, last) in enumerate(bands) if first <= rank <= last)


def allotted(sizes: Sequence[int], sample: int) -> list[int]:
    """How many of each band are drawn: as equal as can be, the first ones more; what a small band cannot give is taken
    from the others."""
    many = [0] * len(sizes)
    left = min(sample, sum(sizes))
    while left:
        for number, size in enumerate(sizes):
            if left and many[number] < size:
                many[number] += 1
                left -= 1
    return many


def drawn(documents: Sequence[str], bands: Sequence[tuple[int, int]], sample: int, seed: str) -> list[str]:
    """The documents to grade, best first; `documents` stand best first too. `sample` 0: all."""
    if not sample:
        return list(documents)
    within: Mapping[int, list[str]] = {number: [] for number in range(len(bands))}
    for rank, document in enumerate(documents, 1):
        within[band_of(rank, bands)].append(document)
    chosen: set[str] = set()
    for (_, inside), many in zip(
        within.items(), allotted([len(inside) for inside in within.values()], sample), strict=True
    ):
        lots = sorted(inside, key=lambda document: hashlib.sha256(f"{seed}\n{document}".encode()).digest())
        chosen |= set(lots[:many])
    return [document for document in documents if document in chosen]
