"""Points and their names, in the units of what draws them. A name is beside its own point, without a line to it, over
no other name, and never nearer to another point; where there is no such place, the point is its number."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from ragrounds.evals.analyses.pictures import Mark, Picture

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Spot = tuple[float, float]
"""Across, down."""
NUMBERS = string.digits[1:] + string.ascii_lowercase
"""What is drawn for a point that has no room for its name."""


class NamedPoint(NamedTuple):
    """A mark at its place."""

    mark: Mark
    at: Spot
    bars: Sequence[tuple[Spot, Spot]]
    """Its intervals: upright, level."""
    colour: int | None
    """Of its series, from 0; ``None``: pale."""
    name: str
    box: Box | None
    """Of its name."""
    number: str
    """Of its group; or in place of the name, where there is no room for it."""


def named_points(
    picture: Picture,
    place: Callable[[Mark, float, float], Spot],
    *,
    fit: Callable[[str], str],
    wide: Callable[[str], float],
    high: float,
    gap: Spot,
    frame: Box,
) -> list[NamedPoint]:
    """The points of a picture, the pale ones first.

    Args:
        picture: marks and axes.
        place: where in the drawing a mark's figures are, across and up.
        fit: makes a name no longer than there is room for.
        wide, high: how large names are.
        gap: between a point and its name.
        frame: holds all names.
    """
    known = [(mark, mark.x, mark.value) for mark in picture.marks if mark.x is not None and mark.value is not None]
    points, names = (
        [place(*one) for one in known],
        [fit(one.name) if one.named and not one.group else "" for one, *_ in known],
    )
    bars = [
        [
            (place(mark, *least), place(mark, *most))
            for least, most in (((x, mark.low), (x, mark.high)), ((mark.x_low, value), (mark.x_high, value)))
            if None not in (*least, *most)
        ]
        for mark, x, value in known
    ]
    full = [at for (mark, *_), at in zip(known, points, strict=True) if mark.full and picture.steps]
    lines = [
        (min(x, to) - gap[0] / 2, min(y, end) - gap[1] / 2, max(x, to) + gap[0] / 2, max(y, end) + gap[1] / 2)
        for (x, y), (to, end) in chain(pairwise(steps(full, frame[2])), *bars)
    ]
    boxes = _boxes(points, [wide(name) for name in names], high, gap, frame, lines)
    colours, numbers, made = series(picture), iter(NUMBERS), list[NamedPoint]()
    for (mark, *_), at, spans, name, box in sorted(
        zip(known, points, bars, names, boxes, strict=True), key=lambda one: one[0][0].full
    ):
        colour = colours[mark.group or mark.name] if mark.full or mark.group else None
        number = NUMBERS[colour % len(NUMBERS)] if colour is not None and mark.group else ""
        made.append(NamedPoint(mark, at, spans, colour, name, box, next(numbers, "") if name and not box else number))
    return made


def series(picture: Picture) -> dict[str, int]:
    """The groups of points, and the points without one, with their numbers from 0; full ones first."""
    marks = sorted(picture.marks, key=lambda mark: not mark.full)
    return {name: at for at, name in enumerate(dict.fromkeys(mark.group or mark.name for mark in marks))}


def steps(points: Sequence[Spot], end: float) -> list[Spot]:
    """The corners of a line that leads level from each point to below the next, and from the last to the end."""
    ends = [*(x for x, _ in points[1:]), end]
    return [corner for (x, y), to in zip(points, ends, strict=True) for corner in ((x, y), (to, y))] if points else []


def distance(box: Box, point: Spot) -> float:
    """From a point to the nearest place of a box."""
    (left, top, right, bottom), (x, y) = box, point
    return math.hypot(max(left - x, 0.0, x - right), max(top - y, 0.0, y - bottom))


def meet(one: Box, other: Box, apart: float = 0.0) -> bool:
    """Whether two boxes share more than an edge, or are nearer than this to each other's side."""
    return one[0] - apart < other[2] and other[0] < one[2] + apart and one[1] < other[3] and other[1] < one[3]


def _boxes(
    points: Sequence[Spot], widths: Sequence[float], high: float, gap: Spot, frame: Box, lines: Sequence[Box]
) -> list[Box | None]:
    """A box for each name, over none of the lines where it can be."""
    free, taken = dict[int, list[Box]](), dict[int, Box]()
    for at, (point, width) in enumerate(zip(points, widths, strict=True)):
        found = []
        for rank, box in enumerate(_around(point, width, high, gap) if width else ()):
            own, others = distance(box, point), [distance(box, other) for other in points if other != point]
            inside = frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]
            if inside and own <= min(others, default=own):
                near, over = sum(other < 2 * own for other in others), sum(meet(box, line) for line in lines)
                found.append((own / gap[0] + 0.1 * rank + near + 2 * over, box))
        free[at] = [box for _, box in sorted(found)]
    while free := {at: boxes for at, boxes in free.items() if boxes}:
        # Who has the fewest places left chooses first.
        chosen = min(free, key=lambda at: len(free[at]))
        taken[chosen] = free.pop(chosen)[0]
        for at, boxes in free.items():
            free[at] = [box for box in boxes if not meet(box, taken[chosen], gap[0] / 2)]
    return [taken.get(at) for at in range(len(points))]


def _around(point: Spot, width: float, high: float, gap: Spot) -> Iterator[Box]:
    """Places at a point, those that read best first: beside it, above, below, and then one and two lines further."""
    x, y = point
    beside, slid = (
        [x + gap[0], x - gap[0] - width],
        [x - share * (width - 1) for share in (0.0, 0.5, 1.0, 0.25, 0.75, 0.12, 0.88)],
    )
    for lefts, top in (
        (beside, y - high / 2),
        *(
            ([*beside, *slid], top)
            for down in (gap[1], gap[1] + high, gap[1] + 2 * high)
            for top in (y - down - high, y + down)
        ),
    ):
        yield from ((math.floor(left), top, math.floor(left) + width, top + high) for left in lefts)
