"""A picture as data: one flat list of marks on one or two axes. Terminal, SVG and notebook draw the same from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.scorers import described

_LOGARITHMIC, _NUMBERS = 5.0, 20.0
"""Highest over lowest value from which the axis across is logarithmic; of plain numbers, such as passages."""
_ROOM = 0.02
"""To both sides of shares, so that one that is 0 or 1 does not stand on the edge of a narrow axis."""
Unit = Literal["number", "dollars", "seconds", "tokens"]
T = TypeVar("T")


class Mark(Struct, frozen=True, kw_only=True):
    """A figure: a point where it has an `x`, else a row of its own, in the order of the list."""

    name: str
    value: float | None = None
    """``None``: not known."""
    low: float | None = None
    """The interval of `value`. One end alone: the data set no bound at the other."""
    high: float | None = None
    best: float | None = None
    """What the attempts whose result is open could still make of it; ``None``: none is open."""
    x: float | None = None
    x_low: float | None = None
    x_high: float | None = None
    group: str = ""
    """Rows of one group stand under its name; a line joins its points. Points without one are named at their places."""
    note: str = ""
    """Stands behind the figure, such as the number of questions."""
    named: bool = True
    """Whether a point is named; else it is a dot."""
    full: bool = True
    """Whether its mark is full; what that means says `Picture.full`."""


class Picture(Struct, frozen=True, kw_only=True):
    """Marks with the words of their axes."""

    title: str
    marks: tuple[Mark, ...]
    words: str = "percent"
    """Of the axis of values."""
    unit: str = "percent"
    """``percent``: values are shares, shown times 100. Any other: values are shown as they are."""
    x: str = ""
    """Words of the axis across, of points."""
    x_unit: Unit = "number"
    bars: bool = False
    """Whether rows are bars, from 0 to 1."""
    signed: bool = False
    """Whether values are differences, written with their sign."""
    reference: float | None = None
    """Where a line stands that rows are read against, such as no difference."""
    band: tuple[float, float] | None = None
    """From where to where a band lies behind the rows, such as what is noise."""
    spread: str = "95 % intervals"
    """What the ends of intervals are; empty: there are none."""
    full: str = ""
    """What full marks mean; empty: all are."""
    hollow: str = ""
    steps: bool = False
    """Whether a stepped line leads along the full points."""
    note: str = ""
    """Said below the picture, such as what it leaves out."""

    @property
    def points(self) -> bool:
        """Whether the marks are points on two axes; else each is a row."""
        return any(mark.x is not None for mark in self.marks)


class Axis(Struct, frozen=True, kw_only=True):
    """A scale from values to 0…1."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """0 at `low`, 1 at `high`; what lies beyond stands at the edge."""
        if self.logarithmic:
            low, high, at = math.log(self.low), math.log(self.high), math.log(max(value, self.low))
        else:
            low, high, at = self.low, self.high, value
        return min(1.0, max(0.0, (at - low) / (high - low)))


def value_axis(picture: Picture) -> Axis:
    """The axis that holds every value with its interval, and the line that rows are read against.

    Raises:
        UserError: no mark has a value.
    """
    marks = [mark for mark in picture.marks if mark.value is not None]
    if picture.bars and picture.marks:
        return Axis(low=0.0, high=1.0, ticks=(0.0, 0.25, 0.5, 0.75, 1.0))
    if not marks:
        raise UserError("There is nothing to draw: nothing in it has a value.")
    ends = [end for mark in marks for end in (mark.value, mark.low, mark.high, picture.reference) if end is not None]
    low, high = min(ends), max(ends)
    if picture.unit != "percent" or picture.signed:
        return _linear(low, high)
    return _linear(max(0.0, low - _ROOM), min(1.0, high + _ROOM), top=1.0)


def across_axis(picture: Picture) -> Axis:
    """The axis across that holds every point with its interval: from 0, or logarithmic where they lie far apart."""
    ends = [end for mark in picture.marks for end in (mark.x, mark.x_low, mark.x_high) if end is not None]
    low, high = min(ends), max(ends)
    if high <= 0:
        return Axis(low=0.0, high=1.0, ticks=(0.0,))
    if low <= 0 or high / low < (_NUMBERS if picture.x_unit == "number" else _LOGARITHMIC):
        return _linear(0.0, high)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]
    start, end = max(tick for tick in ticks if tick <= low), min(tick for tick in ticks if tick >= high)
    return Axis(low=start, high=end, ticks=tuple(tick for tick in ticks if start <= tick <= end), logarithmic=True)


def _linear(low: float, high: float, top: float = math.inf) -> Axis:
    """Even steps of 1, 2 or 5 that hold both, no further up than `top`."""
    span = max(high - low, abs(high) * 0.05, 1e-9) / 5
    power = 10.0 ** math.floor(math.log10(span))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= span * (1 - 1e-9))
    start = math.floor(low / step + 1e-9) * step
    end = max(min(top, math.ceil(high / step - 1e-9) * step), start + step)
    ticks = tuple(start + step * index for index in range(round((end - start) / step) + 1))
    return Axis(low=start, high=end, ticks=ticks)


def upwards(scorer: str) -> str:
    """The words of the axis of a scorer's scores."""
    return "percent right" if described(scorer).accuracy else f"{scorer}, percent"


def figure_mark(name: str, figure: Figure | None, group: str = "", x: float | None = None) -> Mark:
    """The mark of a figure, with the number of questions behind it; ``None`` is a mark without a value."""
    if figure is None:
        return Mark(name=name, group=group, x=x)
    note = f"n = {figure.n:,}" if x is None else ""
    return Mark(name=name, group=group, x=x, value=figure.value, low=figure.low, high=figure.high, note=note)


def renamed(part: T, name: Callable[[str], str]) -> T:
    """A picture, or another record or tuple, in which every text is what `name` makes of it."""
    made: object = part
    if isinstance(part, str):
        made = name(part)
    elif isinstance(part, tuple):
        made = tuple(renamed(each, name) for each in part)
    elif isinstance(part, Struct):
        made = replace(part, **{field: renamed(getattr(part, field), name) for field in part.__struct_fields__})
    return cast("T", made)
