"""Pictures as data: marks and axes. An analysis makes one; terminal, SVG and notebook draw the same from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.errors import UserError
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.scorers import described

_LOGARITHMIC = 20.0
"""Highest over lowest value from which a scale is logarithmic."""
INTERVALS = "95 % intervals"
T = TypeVar("T")


class PictureAxis(Struct, frozen=True, kw_only=True):
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


def scale(values: Sequence[float]) -> PictureAxis:
    """From 0, or logarithmic where the values lie far apart."""
    low, high = min(values), max(values)
    if high <= 0:
        return PictureAxis(low=0.0, high=1.0, ticks=(0.0,))
    if low > 0 and high / low >= _LOGARITHMIC:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]
        start = max(tick for tick in ticks if tick <= low)
        end = min(tick for tick in ticks if tick >= high)
        shown = [tick for tick in ticks if start <= tick <= end]
        if len(shown) > 7:
            shown = [tick for tick in shown if math.isclose(math.log10(tick) % 1, 0, abs_tol=1e-9)]
        return PictureAxis(low=start, high=end, ticks=tuple(shown), logarithmic=True)
    return linear(0.0, high)


def linear(low: float, high: float, top: float = math.inf) -> PictureAxis:
    """Even steps that hold `low` and `high`, no further up than `top`."""
    span = max(high - low, abs(high) * 0.05, 1e-9)
    step = _nice(span / 5)
    start = math.floor(low / step + 1e-9) * step
    end = min(top, math.ceil(high / step - 1e-9) * step)
    if end <= start:
        end = start + step
    count = round((end - start) / step)
    return PictureAxis(low=start, high=end, ticks=tuple(start + step * index for index in range(count + 1)))


def _nice(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


DOT = "·"
"""The label of a mark without a name, where others have theirs."""


class Mark(Struct, frozen=True, kw_only=True):
    """A point. `value` is a share from 0 to 1; its 95 % interval is `low` to `high`, across `x_low` to `x_high`."""

    x: float
    value: float
    low: float | None = None
    high: float | None = None
    x_low: float | None = None
    x_high: float | None = None
    label: str = ""
    """Written on the mark, such as a run's number; empty: nothing."""
    name: str = ""
    """What it is, where that is another than its series'."""
    emphasis: bool = False
    """Whether it stands out, such as a point on the frontier."""


class Series(Struct, frozen=True, kw_only=True):
    """Marks of one name."""

    name: str
    marks: tuple[Mark, ...]
    joined: bool = True
    """Whether a line joins them; else each is by itself, with its own name."""


class Points(Struct, frozen=True, kw_only=True):
    """Shares upwards, a number across, one line of marks for each series."""

    title: str
    x: str
    """Words of the axis across."""
    lines: tuple[Series, ...]
    up: str = "percent"
    """Words of the axis upwards."""
    unit: Literal["number", "dollars", "seconds", "tokens"] = "number"
    """What the axis across counts."""
    steps: bool = False
    """Whether a stepped line joins the emphasised marks."""
    whole: bool = False
    """Whether the axis across counts what has no halves, such as searches."""


def upwards(scorer: str) -> str:
    """The words of the axis upwards for the scores of a scorer."""
    return "percent right" if described(scorer).accuracy else f"{scorer}, percent"


class Bar(Struct, frozen=True, kw_only=True):
    """A share from 0 to 1, ``None`` where it is not known; `low` and `high` are what `Bars.spread` says."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


class Bars(Struct, frozen=True, kw_only=True):
    """Shares as bars, in named groups."""

    title: str
    groups: tuple[tuple[str, tuple[Bar, ...]], ...]
    x: str = "percent"
    """Words of the axis."""
    spread: str = INTERVALS
    """What the ends of a bar's interval are; empty: bars have no interval."""


class ForestRow(Struct, frozen=True, kw_only=True):
    """A figure with its interval; ``None``: not known, of one end alone: the data set no bound there."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    best: float | None = None
    """What the attempts whose result is open could still make of it; ``None``: none is open."""
    note: str = ""
    """Stands behind the figure, such as the number of questions."""
    group: str = ""
    """Rows of one group stand together, under its name."""
    filled: bool = True
    """Whether its mark is full; what that means says `Forest.filled`."""


class Forest(Struct, frozen=True, kw_only=True):
    """Figures below each other on one axis, each with its interval."""

    title: str
    x: str
    """Words of the axis."""
    rows: tuple[ForestRow, ...]
    unit: str = "percent"
    """``percent``: values are shares, shown times 100. Any other unit: values are shown as they are."""
    signed: bool = False
    """Whether values are differences, written with their sign."""
    reference: float | None = None
    """Where a line stands that rows are read against, such as no difference."""
    spread: str = INTERVALS
    """What the ends of a row's interval are."""
    filled: str = ""
    """What full marks mean; empty: all are."""
    hollow: str = ""
    """What hollow marks mean."""
    note: str = ""
    """Said below the picture, such as what it leaves out."""


class StackPart(Struct, frozen=True, kw_only=True):
    """One kind of what rows consist of."""

    name: str
    about: str = ""
    """What it means."""


class StackRow(Struct, frozen=True, kw_only=True):
    """What something consists of: a count for each of `Stacks.parts`."""

    name: str
    counts: tuple[int, ...]


class Stacks(Struct, frozen=True, kw_only=True):
    """Rows that consist of parts, each as long as its share."""

    title: str
    x: str
    """Words of the axis."""
    parts: tuple[StackPart, ...]
    rows: tuple[StackRow, ...]


class HopProfile(Struct, frozen=True, kw_only=True):
    """Panels beside each other with the same series and one axis across: how something goes from step to step."""

    title: str
    panels: tuple[Points, ...]


Picture = Points | Bars | Forest | Stacks | HopProfile


def forest_axis(forest: Forest) -> PictureAxis:
    """The axis that holds every row with its interval, and the line that rows are read against.

    Raises:
        UserError: no row has a value.
    """
    ends = [
        end for row in forest.rows if row.value is not None for end in (row.value, row.low, row.high) if end is not None
    ]
    if not ends:
        raise UserError("There is nothing to draw: no row has a value.")
    if forest.reference is not None:
        ends.append(forest.reference)
    low, high = min(ends), max(ends)
    if forest.unit != "percent" or forest.signed:
        return linear(low, high)
    # Of shares some room to both sides, so that one that is 0 or 1 does not stand on the edge of a narrow axis.
    return linear(max(0.0, low - 0.02), min(1.0, high + 0.02), top=1.0)


def figure_marks(found: Iterable[tuple[float, Figure]]) -> tuple[Mark, ...]:
    """A mark for each place across and the figure there; figures without a value have none."""
    return tuple(
        Mark(x=x, value=figure.value, low=figure.low, high=figure.high)
        for x, figure in found
        if figure.value is not None
    )


def figure_bar(name: str, figure: Figure | None) -> Bar:
    """The bar of a figure, with the number of questions behind it; ``None`` is a bar without a value."""
    if figure is None:
        return Bar(name=name, value=None)
    return Bar(name=name, value=figure.value, low=figure.low, high=figure.high, note=f"n = {figure.n:,}")


def point_axes(points: Points) -> tuple[PictureAxis, PictureAxis]:
    """The axes that hold every point with its interval.

    Raises:
        UserError: there is no point.
    """
    marks = [mark for line in points.lines for mark in line.marks]
    if not marks:
        raise UserError("There is nothing to draw: no point has a value.")
    across = [end for mark in marks for end in (mark.x, mark.x_low, mark.x_high) if end is not None]
    ends = [end for mark in marks for end in (mark.value, mark.low, mark.high) if end is not None]
    axis = scale(across)
    if points.whole:
        axis = replace(axis, ticks=tuple(tick for tick in axis.ticks if tick == int(tick)))
    return axis, linear(min(ends), max(ends), top=1.0)


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


def number(value: float) -> str:
    """A tick."""
    return f"{value:,.4g}"
