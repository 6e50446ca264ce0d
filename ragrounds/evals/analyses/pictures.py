"""Axes of pictures: ticks and scales. Shared by the terminal and SVG.

What is drawn of an analysis: points with intervals on curves, or bars. The terminal and SVG draw the same.

Where things stand in the picture of an analysis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.analyses import (
    AnalysisResult,
    Curves,
    Epochs,
    Grid,
    Positions,
    Qualities,
    Refinement,
    SearchUses,
    Sources,
    Success,
)
from ragrounds.evals.analyses.retrieved import NOT_FOUND
from ragrounds.evals.compare.figures import Figure

_LOGARITHMIC = 20.0
"""Highest over lowest value from which a scale is logarithmic."""


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
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= step * (1 - 1e-9))


class Mark(Struct, frozen=True, kw_only=True):
    """A point. Shares, not percent; `low` and `high` are its 95 % interval."""

    x: float
    value: float
    low: float | None = None
    high: float | None = None


class Series(Struct, frozen=True, kw_only=True):
    """Points of one name."""

    name: str
    marks: tuple[Mark, ...]


class Points(Struct, frozen=True, kw_only=True):
    """Shares upwards, a number across."""

    title: str
    x: str
    lines: tuple[Series, ...]


class Bar(Struct, frozen=True, kw_only=True):
    """A share; `low` and `high` are what `Bars.spread` says."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


class Bars(Struct, frozen=True, kw_only=True):
    """Shares as bars, in groups. No `spread`: bars have no interval."""

    title: str
    groups: tuple[tuple[str, tuple[Bar, ...]], ...]
    spread: str = "95 % intervals"


Picture = Points | Bars


def picture(analysed: AnalysisResult) -> Picture:
    """What to draw of an analysis."""
    title, record = analysed.table.title, analysed.record
    if isinstance(record, Curves):
        lines = tuple(
            Series(name=curve.name, marks=_marks([(point.x, point.figure) for point in curve.points]))
            for curve in record.curves
        )
        return Points(title=f"{title} ({record.scorer})", x=record.x, lines=lines)
    if isinstance(record, Qualities):
        lines = tuple(Series(name=run.run, marks=_marks([(run.ndcg, run.figure)])) for run in record.runs)
        return Points(title=f"{title} ({record.scorer})", x=f"nDCG@{record.k}", lines=lines)
    if isinstance(record, Grid):
        cells = tuple(_bar(f"{cell.corpus}, {cell.retriever}", cell.overall) for cell in record.cells)
        return Bars(title=title, groups=(("", cells),))
    parts = record if isinstance(record, tuple) else (record,)
    groups: list[tuple[str, tuple[Bar, ...]]] = []
    spread = "95 % intervals"
    for part in parts:
        if isinstance(part, Positions):
            title = f"{analysed.table.title} ({part.scorer})"
            groups.append((part.run, tuple(_bar(_ranks(one.ranks), one.figure) for one in part.bins)))
        elif isinstance(part, Success):
            groups.append((part.run, _success(part)))
            spread = ""
        elif isinstance(part, Sources):
            for dataset, shares in part.shares.items():
                name = f"{part.run}, {dataset}"
                groups.append((name, tuple(Bar(name=source, value=share) for source, share in shares.items())))
            spread = ""
        elif isinstance(part, SearchUses):
            groups.append((part.run, _uses(part)))
        elif isinstance(part, Refinement):
            groups.append((part.run, (_of("wrong to right", part.gained), _of("right to wrong", part.lost))))
        elif isinstance(part, Epochs):
            groups.append(("", (_epochs(part),)))
            title, spread = f"{analysed.table.title} ({part.scorer})", "mean ± sd"
    return Bars(title=title, groups=tuple(groups), spread=spread)


def _marks(found: Sequence[tuple[float, Figure]]) -> tuple[Mark, ...]:
    return tuple(
        Mark(x=x, value=figure.value, low=figure.low, high=figure.high)
        for x, figure in found
        if figure.value is not None
    )


def _bar(name: str, figure: Figure) -> Bar:
    return Bar(name=name, value=figure.value, low=figure.low, high=figure.high, note=f"n = {figure.n:,}")


def _ranks(ranks: str) -> str:
    return ranks if ranks == NOT_FOUND else f"rank {ranks}"


def _success(part: Success) -> tuple[Bar, ...]:
    found, missed = part.found_right + part.found_wrong, part.missed_right + part.missed_wrong
    return (
        Bar(name="right if found", value=part.accuracy_found, note=f"n = {found:,}"),
        Bar(name="right if missed", value=part.accuracy_missed, note=f"n = {missed:,}"),
    )


def _uses(part: SearchUses) -> tuple[Bar, ...]:
    use = part.uses[-1]
    shown = {"found gold": use.found, "new gold": use.new_gold, "kept gold": use.kept, "used gold": use.used}
    return tuple(_of(name, figure) for name, figure in shown.items())


def _of(name: str, figure: Figure | None) -> Bar:
    return Bar(name=name, value=None) if figure is None else _bar(name, figure)


def _epochs(part: Epochs) -> Bar:
    low, high = (None, None) if part.sd is None else (max(0.0, part.mean - part.sd), min(1.0, part.mean + part.sd))
    return Bar(name=part.name, value=part.mean, low=low, high=high, note=f"n = {len(part.values):,}")


def point_axes(points: Points) -> tuple[PictureAxis, PictureAxis]:
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
