"""Pictures as data: a flat list of marks on one or two axes, which terminal, SVG and notebook render alike."""

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
"""Ratio of the highest to the lowest value from which the horizontal axis is logarithmic; and for plain numbers, such
as passages."""
_PADDING = 0.02
"""Padding at both sides of shares, so that a share of 0 or 1 is not at the edge of a narrow axis."""
Unit = Literal["number", "dollars", "seconds", "tokens"]
T = TypeVar("T")


class Mark(Struct, frozen=True, kw_only=True):
    """Figure in a picture: a point if it has an `x`, otherwise a row of its own, in the order of the list."""

    name: str
    value: float | None = None
    """Value; ``None`` if not known."""
    low: float | None = None
    """Lower end of the interval of `value`. If only one end is set, the other is unbounded."""
    high: float | None = None
    best: float | None = None
    """Value that open attempts could still lead to; ``None`` if none is open."""
    x: float | None = None
    x_low: float | None = None
    x_high: float | None = None
    group: str = ""
    """Name of the group, shown above its rows; a line joins its points. Points without a group are labelled
    individually."""
    note: str = ""
    """Text shown after the figure, such as the number of questions."""
    is_labelled: bool = True
    """True if a point is labelled; otherwise it is a dot."""
    is_open: bool = False
    """True if `x` is a lower bound."""
    full: bool = True
    """True if the mark is full; `Picture.full` says what that means."""


class Picture(Struct, frozen=True, kw_only=True):
    """Marks with the labels of their axes."""

    title: str
    marks: tuple[Mark, ...]
    words: str = "percent"
    """Label of the axis of values."""
    unit: str = "percent"
    """Unit of the values. ``percent``: values are shares, shown times 100. Values in other units are shown as they
    are."""
    x: str = ""
    """Label of the horizontal axis of points."""
    x_unit: Unit = "number"
    bars: bool = False
    """True if rows are bars, from 0 to 1."""
    signed: bool = False
    """True if values are differences, written with their sign."""
    reference: float | None = None
    """Position of a reference line for the rows, such as no difference."""
    band: tuple[float, float] | None = None
    """Ends of a band behind the rows, such as the range of noise."""
    spread: str = "95 % intervals"
    """Meaning of the ends of intervals; empty if there are no intervals."""
    full: str = ""
    """Meaning of full marks; empty if all are full."""
    hollow: str = ""
    series_names: tuple[str, ...] = ()
    """Names in the order of their colours, so that a run has the same colour in every picture of a page. Other names
    follow, in the marks' order.
    """
    steps: bool = False
    """True if a stepped line connects the full points."""
    note: str = ""
    """Text below the picture, such as what it leaves out."""

    @property
    def points(self) -> bool:
        """True if the marks are points on two axes; otherwise each is a row."""
        return any(mark.x is not None for mark in self.marks)

    @property
    def all_open(self) -> bool:
        """True if `x` of every mark is a lower bound."""
        return all(mark.is_open for mark in self.marks)


class Axis(Struct, frozen=True, kw_only=True):
    """Scale that maps values to 0…1."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def position_of(self, value: float) -> float:
        """Return 0 at `low` and 1 at `high`; values outside are placed at the edge."""
        if self.logarithmic:
            low, high, scaled = math.log(self.low), math.log(self.high), math.log(max(value, self.low))
        else:
            low, high, scaled = self.low, self.high, value
        return min(1.0, max(0.0, (scaled - low) / (high - low)))


def value_axis(picture: Picture) -> Axis:
    """Return the axis that contains every value with its interval, and the reference line.

    Raises:
        UserError: no mark has a value.
    """
    marks = [mark for mark in picture.marks if mark.value is not None]
    if picture.bars and picture.marks:
        return Axis(low=0.0, high=1.0, ticks=(0.0, 0.25, 0.5, 0.75, 1.0))
    if not marks:
        raise UserError("There is nothing to draw: nothing in it has a value.")
    ends = ((mark.value, mark.low, mark.high, mark.best, picture.reference) for mark in marks)
    values = [end for mark_ends in ends for end in mark_ends if end is not None]
    low, high = min(values), max(values)
    if picture.unit != "percent" or picture.signed:
        return _linear(low, high)
    return _linear(max(0.0, low - _PADDING), min(1.0, high + _PADDING), top=1.0)


def across_axis(picture: Picture) -> Axis:
    """Return the horizontal axis that contains every point with its interval.

    It starts from 0, or is logarithmic if the values are far apart.
    """
    values = [end for mark in picture.marks for end in (mark.x, mark.x_low, mark.x_high) if end is not None]
    low, high = min(values), max(values)
    if high <= 0:
        return Axis(low=0.0, high=1.0, ticks=(0.0,))
    if low <= 0 or high / low < (_NUMBERS if picture.x_unit == "number" else _LOGARITHMIC):
        return _linear(0.0, high)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]
    start, end = max(tick for tick in ticks if tick <= low), min(tick for tick in ticks if tick >= high)
    return Axis(low=start, high=end, ticks=tuple(tick for tick in ticks if start <= tick <= end), logarithmic=True)


def _linear(low: float, high: float, top: float = math.inf) -> Axis:
    """Return an axis with even steps of 1, 2 or 5 that contains both ends, with `top` as the upper limit."""
    span = max(high - low, abs(high) * 0.05, 1e-9) / 5
    power = 10.0 ** math.floor(math.log10(span))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= span * (1 - 1e-9))
    start = math.floor(low / step + 1e-9) * step
    end = max(min(top, math.ceil(high / step - 1e-9) * step), start + step)
    ticks = tuple(start + step * index for index in range(round((end - start) / step) + 1))
    return Axis(low=start, high=end, ticks=ticks)


def upwards(scorer: str) -> str:
    """Return the label of the vertical axis of a scorer's scores."""
    return "percent right" if described(scorer).accuracy else f"{scorer}, percent"


def figure_mark(name: str, figure: Figure | None, group: str = "", x: float | None = None) -> Mark:
    """Return the mark of a figure, with its number of questions; ``None`` gives a mark without a value."""
    if figure is None:
        return Mark(name=name, group=group, x=x)
    note = f"n = {figure.n:,}" if x is None else ""
    return Mark(name=name, group=group, x=x, value=figure.value, low=figure.low, high=figure.high, note=note)


def renamed(part: T, name: Callable[[str], str]) -> T:
    """Apply `name` to every text in a picture, or in another record or tuple."""
    changed: object = part
    if isinstance(part, str):
        changed = name(part)
    elif isinstance(part, tuple):
        changed = tuple(renamed(element, name) for element in part)
    elif isinstance(part, Struct):
        changed = replace(part, **{field: renamed(getattr(part, field), name) for field in part.__struct_fields__})
    return cast("T", changed)
