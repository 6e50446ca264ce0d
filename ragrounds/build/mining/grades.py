"""Two-axis grades of a candidate document (R2MED, Section 3.3): 0 to 10 each for its relevance to the answer and for
its support of the reasoning.

8 and above on both: a verified positive. 4 and below on both: a verified negative. Everything else is ambiguous and
dropped, 5 to 7 as much as an 8 beside a 3: the paper speaks of no mixed case, and one that is neither is safest left
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.judges.verdict import Contract

AXES = ("relevance", "support")
HIGHEST = 10
CONTRACT = Contract(AXES, tuple(str(grade) for grade in range(HIGHEST + 1)))
"""What the grader must answer."""

Fate = Literal["positive", "negative", "dropped", "ungraded"]


class Thresholds(Struct, frozen=True, kw_only=True):
    """Where positives begin and negatives end."""

    positive: int = 8
    """At least this on both axes."""
    negative: int = 4
    """At most this on both axes."""

    def __post_init__(self) -> None:
        if not 0 <= self.negative < self.positive <= HIGHEST:
            raise UserError(
                f"Negatives up to {self.negative} and positives from {self.positive}: expected 0 ≤ negative < positive "
                f"≤ {HIGHEST}."
            )


def fate(grades: Mapping[str, Any], thresholds: Thresholds) -> Fate:
    """What becomes of a document with these grades (axis → whole number); without both it is ungraded."""
    given = [grades[axis] for axis in AXES if axis in grades]
    if len(given) < len(AXES):
        return "ungraded"
    if min(given) >= thresholds.positive:
        return "positive"
    return "negative" if max(given) <= thresholds.negative else "dropped"
