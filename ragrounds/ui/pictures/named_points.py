"""Points and their names, in the units of the renderer.

A name is next to its own point, without a line to it, over no other name, and never nearer to another point. If there
is no such position, the point shows a number.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from ragrounds.evals.analyses.pictures import Mark, Picture

Box = tuple[float, float, float, float]
"""Box as left, top, right, bottom."""
Spot = tuple[float, float]
"""Position as across, down."""
NUMBERS = string.digits[1:] + string.ascii_lowercase
"""Signs for points that have no room for their names."""


class NamedPoint(NamedTuple):
    """Mark with its position."""

    mark: Mark
    spot: Spot
    bars: Sequence[tuple[Spot, Spot]]
    """Intervals of the mark: upright, level."""
    colour: int | None
    """Index of the series' colour, from 0; ``None`` for a dot without a name."""
    name: str
    box: Box | None
    """Box of the name."""
    number: str
    """Number of the group; or the sign that replaces the name if there is no room for it."""


def named_points(
    picture: Picture,
    locate: Callable[[Mark, float, float], Spot],
    *,
    fit: Callable[[str], str],
    wide: Callable[[str], float],
    high: float,
    gap: Spot,
    frame: Box,
) -> list[NamedPoint]:
    """Return the points of a picture, the pale ones first.

    Args:
        picture: marks and axes.
        locate: function that returns the position of a mark's figures in the rendering, across and down.
        fit: function that shortens a name to the room there is.
        wide, high: width and height of names.
        gap: distance between a point and its name.
        frame: box that contains all names.
    """
    valued = [(mark, mark.x, mark.value) for mark in picture.marks if mark.x is not None and mark.value is not None]
    points = [locate(*mark_values) for mark_values in valued]
    # The points of a group are named by the legend.
    names = [fit(mark.name) if mark.is_labelled and not mark.group else "" for mark, *_ in valued]
    bars = [
        [
            (locate(mark, *least), locate(mark, *greatest))
            for least, greatest in (((x, mark.low), (x, mark.high)), ((mark.x_low, value), (mark.x_high, value)))
            if None not in (*least, *greatest)
        ]
        for mark, x, value in valued
    ]
    full = sorted(spot for (mark, *_), spot in zip(valued, points, strict=True) if mark.full and picture.steps)
    lines = [
        (min(x, to) - gap[0] / 2, min(y, end) - gap[1] / 2, max(x, to) + gap[0] / 2, max(y, end) + gap[1] / 2)
        for (x, y), (to, end) in chain(pairwise(steps(full, frame[2])), *bars)
    ]
    boxes = _place_boxes(points, [wide(name) for name in names], high, gap, frame, lines)
    colours, numbers, placed = series(picture), iter(NUMBERS), list[NamedPoint]()
    for (mark, *_), spot, spans, name, box in sorted(
        zip(valued, points, bars, names, boxes, strict=True), key=lambda parts: parts[0][0].full
    ):
        colour = colours[mark.group or mark.name] if mark.is_labelled or mark.group else None
        number = NUMBERS[colour % len(NUMBERS)] if colour is not None and mark.group else ""
        placed.append(
            NamedPoint(mark, spot, spans, colour, name, box, next(numbers, "") if name and not box else number)
        )
    return placed


def series(picture: Picture) -> dict[str, int]:
    """Return the indexes of the colours of groups, and of marks without a group, from 0."""
    names = (*picture.series_names, *(mark.group or mark.name for mark in picture.marks))
    return {name: index for index, name in enumerate(dict.fromkeys(names))}


def steps(points: Sequence[Spot], end: float) -> list[Spot]:
    """Return the corners of a line that leads level from each point to below the next, and from the last to the end."""
    ends = [*(x for x, _ in points[1:]), end]
    return [corner for (x, y), to in zip(points, ends, strict=True) for corner in ((x, y), (to, y))] if points else []


def distance(box: Box, point: Spot) -> float:
    """Return the distance from a point to the nearest point of a box."""
    (left, top, right, bottom), (x, y) = box, point
    return math.hypot(max(left - x, 0.0, x - right), max(top - y, 0.0, y - bottom))


def overlap(first: Box, second: Box, margin: float = 0.0) -> bool:
    """Return True if two boxes share more than an edge, or are nearer than `margin` to each other's side."""
    across = first[0] - margin < second[2] and second[0] < first[2] + margin
    return across and first[1] < second[3] and second[1] < first[3]


def _place_boxes(
    points: Sequence[Spot], widths: Sequence[float], high: float, gap: Spot, frame: Box, lines: Sequence[Box]
) -> list[Box | None]:
    """Return a box for each name, over none of the lines if possible."""
    free, taken = dict[int, list[Box]](), dict[int, Box]()
    for index, (point, width) in enumerate(zip(points, widths, strict=True)):
        candidates = []
        for rank, box in enumerate(_boxes_around(point, width, high, gap) if width else ()):
            own_distance = distance(box, point)
            other_distances = [distance(box, other) for other in points if other != point]
            inside = frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]
            if inside and own_distance <= min(other_distances, default=own_distance):
                near = sum(other < 2 * own_distance for other in other_distances)
                over = sum(overlap(box, line) for line in lines)
                # A line through a name is worse than another point near it, and both are worse than a farther place.
                candidates.append((own_distance / gap[0] + 0.1 * rank + near + 2 * over, box))
        free[index] = [box for _, box in sorted(candidates)]
    while free := {index: boxes for index, boxes in free.items() if boxes}:
        # The name with the fewest positions left chooses first.
        tightest = min(free, key=lambda index: len(free[index]))
        taken[tightest] = free.pop(tightest)[0]
        for index, boxes in free.items():
            free[index] = [box for box in boxes if not overlap(box, taken[tightest], gap[0] / 2)]
    return [taken.get(index) for index in range(len(points))]


def _boxes_around(point: Spot, width: float, high: float, gap: Spot) -> Iterator[Box]:
    """Yield positions at a point, the most readable first: next to it, above, below, and then one and two lines
    further.
    """
    x, y = point
    next_to = [x + gap[0], x - gap[0] - width]
    shifted = [x - share * (width - 1) for share in (0.0, 0.5, 1.0, 0.25, 0.75, 0.12, 0.88)]
    rows = [(next_to, y - high / 2)]
    for down in (gap[1], gap[1] + high, gap[1] + 2 * high):
        rows += [([*next_to, *shifted], y - down - high), ([*next_to, *shifted], y + down)]
    for lefts, top in rows:
        yield from ((math.floor(left), top, math.floor(left) + width, top + high) for left in lefts)
