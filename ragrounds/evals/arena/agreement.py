"""How far judges agree with each other, people among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ragrounds.evals.stats.agreement import krippendorff_alpha

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
                    alpha=krippendorff_alpha(pairs) if pairs else None,
                )
            )
    return tuple(found)
