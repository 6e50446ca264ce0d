"""Does a judge favour answers of its own model?

A judge that is also a contestant's model is compared with the other judges on the very same matches: what share of the
points it gives its own systems against what they give them. One judge alone cannot show it: a good score for its own
systems may be deserved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from ragrounds.evals.arena.arena import Arena
from ragrounds.evals.arena.outcomes import POINTS, Played
from ragrounds.evals.judges.grade import judges_itself


class SelfPreference(Struct, frozen=True, kw_only=True):
    """One judge on its own systems' matches against others'."""

    judge: str
    systems: tuple[str, ...]
    matches: int
    own: float | None
    """Mean points a match (0 to 1) that the judge gives its own systems, on matches that others judged too."""
    others: float | None
    """What the other judges give them on the same matches; ``None``: there is no other judge."""
    difference: float | None
    error: float | None
    """Standard error of the difference, clustered by question."""


def self_preference(arena: Arena, played: Sequence[Played], axis: int) -> tuple[SelfPreference, ...]:
    """Every judge whose model also answers."""
    found = []
    for judge, text in enumerate(arena.judges):
        own = {
            place for place, system in enumerate(arena.systems) if system.model and judges_itself(text, [system.model])
        }
        if own:
            found.append(_one(arena, played, axis, judge, own))
    return tuple(found)


def _one(arena: Arena, played: Sequence[Played], axis: int, judge: int, own: set[int]) -> SelfPreference:
    mine: list[float] = []
    theirs: list[float] = []
    by_question: dict[str, list[float]] = {}
    for match in played:
        if (match.first in own) == (match.second in own):
            continue
        said = [outcomes[axis] for outcomes in match.judges]
        if said[judge] is None:
            continue
        others = [
            _points(outcome, match.first in own) for place, outcome in enumerate(said) if place != judge and outcome
        ]
        if len(arena.judges) > 1 and not others:
            continue
        mine.append(_points(said[judge], match.first in own))
        if others:
            theirs.append(sum(others) / len(others))
            by_question.setdefault(match.question_id, []).append(mine[-1] - theirs[-1])
    difference, error = _clustered(list(by_question.values()))
    return SelfPreference(
        judge=arena.judges[judge],
        systems=tuple(arena.names[place] for place in sorted(own)),
        matches=len(mine),
        own=sum(mine) / len(mine) if mine else None,
        others=sum(theirs) / len(theirs) if theirs else None,
        difference=difference,
        error=error,
    )


def _points(outcome: str | None, first: bool) -> float:
    points = POINTS[outcome or "tie"]
    return points if first else 1.0 - points


def _clustered(groups: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    """Mean over all values, and its standard error with values of one group going together."""
    count = sum(len(group) for group in groups)
    if not count:
        return None, None
    mean = sum(sum(group) for group in groups) / count
    if len(groups) < 2:
        return mean, None
    squares = sum((sum(group) - len(group) * mean) ** 2 for group in groups)
    return mean, math.sqrt(squares * len(groups) / (len(groups) - 1)) / count
