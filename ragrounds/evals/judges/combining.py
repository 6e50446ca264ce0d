"""From single verdicts to one: both orders of a pair, several judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def both_orders(one: str | None, other: str | None) -> str | None:
    """The outcome of two orders, both named from the same side (``first``, ``second``, ``tie``).

    Orders that disagree are a tie. ``None``: one of the two is missing, so the match is.
    """
    if one is None or other is None:
        return None
    return one if one == other else "tie"


def majority(outcomes: Sequence[str | None]) -> str | None:
    """The outcome that more than half of the judges gave; without one, a tie.

    Missing verdicts (``None``) make the match missing only where they could change it.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    counts = Counter(outcome for outcome in outcomes if outcome is not None)
    missing = len(outcomes) - sum(counts.values())
    if not counts:
        return None
    half = len(outcomes) / 2
    best, most = counts.most_common(1)[0]
    if most > half:
        return best
    if missing and most + missing > half:
        return None
    return "tie"
