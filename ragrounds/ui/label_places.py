"""Where names of points stand in a picture: by their points, over nothing else, found by a small search.

Every name has places around its point, near ones first. Each takes the best that is left, then all are tried again
with the others where they stand, until none moves. What has no free place is not written over anything: it is left
to the picture to name it elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ragrounds.ui.svg_shapes import Box

_AWAY = (7.0, 12.0, 20.0, 32.0, 48.0, 68.0, 92.0)
"""Distances from a point that are tried."""
_DIRECTIONS = 16
_ROUNDS = 6
_TAKEN = 1000.0
"""What a place costs that lies on something that must be read."""


class PointName(Struct, frozen=True):
    """A name that wants a place."""

    x: float
    y: float
    """Where its point is."""
    width: float
    height: float


class NamePlace(Struct, frozen=True):
    """Where a name stands."""

    box: Box
    away: float
    """How far from its point; far ones need a line to it."""


def name_places(
    names: Sequence[PointName], marks: Sequence[Box], lines: Sequence[Box], frame: Box
) -> list[NamePlace | None]:
    """A place for each name; ``None``: it has no place that leaves everything else free.

    Args:
        names: in the order of their importance.
        marks: what no name may cover.
        lines: what names had better not cover, such as intervals.
        frame: in which they must be.
    """
    choices = [list(_choices(name, marks, lines, frame)) for name in names]
    chosen: list[NamePlace | None] = [None] * len(names)
    for _ in range(_ROUNDS):
        moved = False
        for index, possible in enumerate(choices):
            others = [one.box for at, one in enumerate(chosen) if one is not None and at != index]
            best = min(
                ((cost + sum(_TAKEN for box in others if place.box.over(box)), at) for at, (cost, place) in possible),
                default=(math.inf, 0),
            )
            place = possible[best[1]][1][1] if best[0] < _TAKEN else None
            moved, chosen[index] = moved or place != chosen[index], place
        if not moved:
            break
    return chosen


def _choices(
    name: PointName, marks: Sequence[Box], lines: Sequence[Box], frame: Box
) -> Iterator[tuple[int, tuple[float, NamePlace]]]:
    """The places in the frame and off all marks, numbered, each with what it costs: far ones, and those on lines."""
    at = 0
    for away in _AWAY:
        for step in range(_DIRECTIONS):
            angle = 2 * math.pi * step / _DIRECTIONS
            right, down = math.cos(angle), math.sin(angle)
            # The box touches the circle with the side or the corner that faces the point.
            middle_x = name.x + away * right + _sign(right) * name.width / 2
            middle_y = name.y + away * down + _sign(down) * name.height / 2
            box = Box(
                middle_x - name.width / 2,
                middle_y - name.height / 2,
                middle_x + name.width / 2,
                middle_y + name.height / 2,
            )
            if box.left < frame.left or box.right > frame.right or box.top < frame.top or box.bottom > frame.bottom:
                continue
            if any(box.over(taken) for taken in marks):
                continue
            crossed = sum(bool(box.over(drawn)) for drawn in lines)
            # Of equal distances to the right, and then above.
            yield at, (away + 25 * crossed + 2 * (1 - right) + (1 + down), NamePlace(box, away))
            at += 1


def _sign(value: float) -> float:
    return 0.0 if abs(value) < 0.2 else math.copysign(1.0, value)
