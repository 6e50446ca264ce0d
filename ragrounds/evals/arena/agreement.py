"""How far judges agree: with each other, and each with itself when the order is exchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

Said = Mapping[Any, str]
"""Item (question and pair) → outcome, where there is one."""


class Agreement(Struct, frozen=True, kw_only=True):
    """Two judges on the items that both judged."""

    one: str
    other: str
    items: int
    same: float | None
    """Share of equal outcomes."""
    alpha: float | None
    """Krippendorff's alpha, nominal: 1 perfect, 0 as by chance; ``None`` where it is not defined."""


def agreements(said: Mapping[str, Said]) -> tuple[Agreement, ...]:
    """Every pair of judges."""
    names = list(said)
    found = []
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            common = [item for item in said[one] if item in said[other]]
            pairs = [(said[one][item], said[other][item]) for item in common]
            found.append(
                Agreement(
                    one=one,
                    other=other,
                    items=len(common),
                    same=sum(a == b for a, b in pairs) / len(pairs) if pairs else None,
                    alpha=krippendorff([list(pair) for pair in pairs]),
                )
            )
    return tuple(found)


def krippendorff(items: Sequence[Sequence[str]]) -> float | None:
    """Krippendorff's alpha for nominal values (Krippendorff 2011, "Computing Krippendorff's alpha-reliability").

    `items` are the outcomes that each item was given, by any number of judges; items with fewer than two do not count.
    ``None`` where nothing can be compared, or all outcomes are the same.
    """
    observed = 0.0
    totals: Counter[str] = Counter()
    for outcomes in items:
        size = len(outcomes)
        if size < 2:
            continue
        counts = Counter(outcomes)
        totals.update(counts)
        observed += sum(n * (size - n) for n in counts.values()) / (size - 1)
    whole = sum(totals.values())
    expected = sum(n * (whole - n) for n in totals.values()) / (whole - 1) if whole > 1 else 0.0
    return 1.0 - observed / expected if expected else None
