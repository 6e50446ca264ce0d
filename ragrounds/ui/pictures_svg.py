"""An analysis as an SVG file."""

from __future__ import annotations

from html import escape

from ragrounds.ui.axes import Axis
from ragrounds.ui.figures import UNKNOWN, percent
from ragrounds.ui.pictures import Bar, Bars, Picture, Points
from ragrounds.ui.pictures_axes import number, point_axes
from ragrounds.ui.plot_svg import (
    HEIGHT,
    LEFT,
    LEGEND,
    RIGHT,
    WIDTH,
    document,
    frame,
    level,
    upright,
    x_at,
    y_at,
)
from ragrounds.ui.text import one_line, safe

_COLOURS = ("#1a7f4b", "#b26a00", "#7a3e9d", "#1f5fa8", "#b3261e", "#4d4d4d")
_NAMES, _NOTES, _ROW = 250.0, 130.0, 26.0


def svg(picture: Picture) -> str:
    """A whole SVG document."""
    return _points(picture) if isinstance(picture, Points) else _bars(picture)


def _points(points: Points) -> str:
    across, up = point_axes(points)
    parts = frame(across, up, number, safe(points.x))
    parts.append(f'<text x="{LEFT:g}" y="15" style="font-weight:600">{escape(safe(points.title))}</text>')
    top = HEIGHT + 4
    for index, line in enumerate(points.lines):
        colour = _COLOURS[index % len(_COLOURS)]
        places = [(x_at(across, mark.x), y_at(up, mark.value), mark) for mark in line.marks]
        if len(places) > 1:
            path = " ".join(f"{x},{y}" for x, y, _ in places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y, mark in places:
            if mark.low is not None and mark.high is not None:
                parts.append(upright(x, y_at(up, mark.high), y_at(up, mark.low)))
            told = escape(f"{safe(line.name)}, {safe(points.x)} {number(mark.x)}: {percent(mark.value)} %")
            parts.append(f'<g><title>{told}</title><circle cx="{x}" cy="{y}" r="5" fill="{colour}"/></g>')
        y = top + index * LEGEND
        parts.append(
            f'<circle cx="{LEFT:g}" cy="{y:g}" r="6" fill="{colour}"/>'
            f'<text x="{LEFT + 16:g}" y="{y + 4:g}">{escape(one_line(line.name, 90))}</text>'
        )
    about = f"{safe(points.title)}, with 95 % intervals"
    return document(parts, top + len(points.lines) * LEGEND, about, "analysis")


def _bars(bars: Bars) -> str:
    across = Axis(low=0.0, high=1.0, ticks=(0.0, 0.25, 0.5, 0.75, 1.0))
    parts: list[str] = []
    y = 24.0
    parts.append(f'<text x="16" y="{y:g}" style="font-weight:600">{escape(safe(bars.title))}</text>')
    first = y + 12
    for index, (group, members) in enumerate(bars.groups):
        colour = _COLOURS[index % len(_COLOURS)] if group else _COLOURS[0]
        if group:
            y += _ROW
            parts.append(f'<text x="16" y="{y + 4:g}" style="font-weight:600">{escape(one_line(group, 100))}</text>')
        for bar in members:
            y += _ROW
            parts.append(_bar(bar, across, y, colour))
    bottom = y + 18
    grid = []
    for tick in across.ticks:
        x = _across(across, tick)
        grid.append(
            f'<line class="grid" x1="{x}" y1="{first:g}" x2="{x}" y2="{bottom:g}"/>'
            f'<text x="{x}" y="{bottom + 16:g}" text-anchor="middle">{percent(tick, 0)} %</text>'
        )
    about = f"{safe(bars.title)}, {bars.spread}" if bars.spread else safe(bars.title)
    return document([*grid, *parts], bottom + 28, about, "analysis")


def _bar(bar: Bar, across: Axis, y: float, colour: str) -> str:
    name = f'<text x="{_NAMES - 8:g}" y="{y + 4:g}" text-anchor="end">{escape(one_line(bar.name, 38))}</text>'
    left, end = _across(across, 0.0), _across(across, bar.value or 0.0)
    note = f" ({safe(bar.note)})" if bar.note else ""
    said = f"{percent(bar.value, 1)} %{note}" if bar.value is not None else f"{UNKNOWN}{note}"
    shape = f'<rect x="{left}" y="{y - 8:g}" width="{end - left:g}" height="16" fill="{colour}" fill-opacity="0.75"/>'
    whisker = ""
    if bar.low is not None and bar.high is not None:
        whisker = level(y, _across(across, bar.low), _across(across, bar.high))
    return f'<g>{name}{shape}{whisker}<text x="{WIDTH - _NOTES + 12:g}" y="{y + 4:g}">{escape(said)}</text></g>'


def _across(axis: Axis, value: float) -> float:
    return round(_NAMES + axis.place(value) * (WIDTH - _NAMES - _NOTES - RIGHT / 2), 1)
