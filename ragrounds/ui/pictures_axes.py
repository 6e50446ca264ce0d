"""Where things stand in the picture of an analysis."""

from __future__ import annotations

from ragrounds.errors import UserError
from ragrounds.ui.axes import Axis, linear, scale
from ragrounds.ui.pictures import Points


def point_axes(points: Points) -> tuple[Axis, Axis]:
    """The axes that hold every point with its interval.

    Raises:
        UserError: there is no point.
    """
    marks = [mark for line in points.lines for mark in line.marks]
    if not marks:
        raise UserError("There is nothing to draw: no point has a value.")
    ends = [end for mark in marks for end in (mark.value, mark.low, mark.high) if end is not None]
    return scale([mark.x for mark in marks]), linear(min(ends), max(ends), top=1.0)


def number(value: float) -> str:
    """A tick."""
    return f"{value:,.4g}"
