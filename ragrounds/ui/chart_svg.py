"""Pieces of SVG pictures: the frame with its grid, marks, intervals, the document. Plain shapes, no script, no outside
font.

An analysis as an SVG file.

The frontier as SVG: a file of its own, or a part of the report. Plain shapes, no script, no outside font.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

from ragrounds.evals.analyses.pictures import Bar, Bars, Picture, PictureAxis, Points, number, point_axes
from ragrounds.evals.compare.frontier import Frontier, FrontierPoint
from ragrounds.ui.frontier import UNITS, amount
from ragrounds.ui.frontier_axes import axes
from ragrounds.ui.text import UNKNOWN, one_line, percent, safe

WIDTH, HEIGHT = 720.0, 420.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 24.0, 24.0, 56.0
LEGEND = 20.0
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.grid{stroke:#ddd}.axis{stroke:#666}.bar{stroke:#5b7a9d;"
    "stroke-width:1.5}.step{stroke:#1a7f4b;stroke-width:2;stroke-dasharray:5 4;fill:none}.on{fill:#1a7f4b}"
    ".off{fill:#b26a00}text.on,text.off{font-weight:700}.mark{font-weight:600;fill:#fff;text-anchor:middle;"
    "dominant-baseline:central}"
)


def document(parts: list[str], height: float, about: str, kind: str, *, standalone: bool = True) -> str:
    """A whole SVG document with its namespace and style; or, not standalone, a part of an HTML page."""
    about = escape(about)
    namespace = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    style = f"<style>{STYLE}</style><rect width='100%' height='100%' fill='#fff'/>" if standalone else ""
    return (
        f'<svg{namespace} viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{about}" class="{kind}">'
        f"<title>{about}</title>{style}{''.join(parts)}</svg>"
    )


def x_at(axis: PictureAxis, value: float, left: float = LEFT) -> float:
    """Where a value stands across."""
    return round(left + axis.place(value) * (WIDTH - left - RIGHT), 1)


def y_at(axis: PictureAxis, value: float) -> float:
    """Where a value stands upwards."""
    return round(HEIGHT - BOTTOM - axis.place(value) * (HEIGHT - TOP - BOTTOM), 1)


def frame(across: PictureAxis, up: PictureAxis, label: Callable[[float], str], caption: str) -> list[str]:
    """Axes with their grid: `label` writes a tick of the axis across, percent stand upwards."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tick in across.ticks:
        x = x_at(across, tick)
        parts.append(
            f'<line class="grid" x1="{x}" y1="{TOP:g}" x2="{x}" y2="{bottom:g}"/>'
            f'<text x="{x}" y="{bottom + 18:g}" text-anchor="middle">{escape(label(tick))}</text>'
        )
    for tick in up.ticks:
        y = y_at(up, tick)
        parts.append(
            f'<line class="grid" x1="{LEFT:g}" y1="{y}" x2="{right:g}" y2="{y}"/>'
            f'<text x="{LEFT - 8:g}" y="{y + 4}" text-anchor="end">{percent(tick, 0)} %</text>'
        )
    scale = ", logarithmic" if across.logarithmic else ""
    parts.append(
        f'<line class="axis" x1="{LEFT:g}" y1="{bottom:g}" x2="{right:g}" y2="{bottom:g}"/>'
        f'<line class="axis" x1="{LEFT:g}" y1="{TOP:g}" x2="{LEFT:g}" y2="{bottom:g}"/>'
        f'<text x="{(LEFT + right) / 2:g}" y="{bottom + 38:g}" text-anchor="middle">'
        f"{escape(caption)}{scale}</text>"
    )
    return parts


def upright(x: float, top: float, bottom: float) -> str:
    """An interval upwards."""
    return f'<path class="bar" d="M{x} {top}V{bottom}M{x - 5:g} {top}h10M{x - 5:g} {bottom}h10"/>'


def level(y: float, left: float, right: float) -> str:
    """An interval across."""
    return f'<path class="bar" d="M{left} {y}H{right}M{left} {y - 5:g}v10M{right} {y - 5:g}v10"/>'


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
    across = PictureAxis(low=0.0, high=1.0, ticks=(0.0, 0.25, 0.5, 0.75, 1.0))
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


def _bar(bar: Bar, across: PictureAxis, y: float, colour: str) -> str:
    name = f'<text x="{_NAMES - 8:g}" y="{y + 4:g}" text-anchor="end">{escape(one_line(bar.name, 38))}</text>'
    left, end = _across(across, 0.0), _across(across, bar.value or 0.0)
    note = f" ({safe(bar.note)})" if bar.note else ""
    said = f"{percent(bar.value, 1)} %{note}" if bar.value is not None else f"{UNKNOWN}{note}"
    shape = f'<rect x="{left}" y="{y - 8:g}" width="{end - left:g}" height="16" fill="{colour}" fill-opacity="0.75"/>'
    whisker = ""
    if bar.low is not None and bar.high is not None:
        whisker = level(y, _across(across, bar.low), _across(across, bar.high))
    return f'<g>{name}{shape}{whisker}<text x="{WIDTH - _NOTES + 12:g}" y="{y + 4:g}">{escape(said)}</text></g>'


def _across(axis: PictureAxis, value: float) -> float:
    return round(_NAMES + axis.place(value) * (WIDTH - _NAMES - _NOTES - RIGHT / 2), 1)


def frontier_svg(
    frontier: Frontier, scorer: str, numbers: Mapping[str, str], agents: Mapping[str, str], *, standalone: bool = True
) -> str:
    """Accuracy upwards, cost to the right, both with 95 % intervals; the frontier as steps; a legend below.

    Args:
        frontier: what to draw.
        scorer: named in the picture's description.
        numbers: run id → number in the tables.
        agents: run id → what the legend calls it, safe to show.
        standalone: a whole SVG document with its namespace and style; else a part of an HTML page.
    """
    cost, accuracy = axes(frontier)
    unit = f"{UNITS[frontier.measure]} a question"
    parts = [
        *frame(cost, accuracy, lambda tick: amount(tick, frontier.measure), unit),
        _steps(frontier, cost, accuracy),
    ]
    parts += [_intervals(spot, cost, accuracy) for spot in frontier.spots]
    parts += [_dot(spot, cost, accuracy, numbers[spot.run], agents[spot.run]) for spot in reversed(frontier.spots)]
    top = HEIGHT + 4
    for index, spot in enumerate(frontier.spots):
        y = top + index * LEGEND
        kind, name = "on" if spot.on_frontier else "off", escape(agents[spot.run])
        parts.append(
            f'<circle class="{kind}" cx="{LEFT:g}" cy="{y:g}" r="8"/><text class="mark" x="{LEFT:g}" y="{y:g}" '
            f'font-size="10">{numbers[spot.run]}</text><text x="{LEFT + 16:g}" y="{y + 4:g}">{name}</text>'
        )
    height = top + len(frontier.spots) * LEGEND
    about = f"Accuracy under {scorer} and {unit}, with 95 % intervals"
    return document(parts, height, about, "frontier", standalone=standalone)


def style() -> str:
    """The picture's style, for a page that draws it inside."""
    return "".join(f".frontier {rule}}}" for rule in STYLE.split("}") if rule)


def _steps(frontier: Frontier, cost: PictureAxis, accuracy: PictureAxis) -> str:
    path = ""
    for spot in frontier.spots:
        if spot.on_frontier and spot.cost.value is not None and spot.accuracy.value is not None:
            x, y = x_at(cost, spot.cost.value), y_at(accuracy, spot.accuracy.value)
            path += f"H{x} V{y}" if path else f"M{x} {y}"
    return f'<path class="step" d="{path}H{WIDTH - RIGHT:g}"/>' if path else ""


def _intervals(spot: FrontierPoint, cost: PictureAxis, accuracy: PictureAxis) -> str:
    if spot.cost.value is None or spot.accuracy.value is None:
        return ""
    x, y = x_at(cost, spot.cost.value), y_at(accuracy, spot.accuracy.value)
    parts = ""
    if spot.accuracy.low is not None and spot.accuracy.high is not None:
        top, bottom = y_at(accuracy, spot.accuracy.high), y_at(accuracy, spot.accuracy.low)
        parts += upright(x, top, bottom)
    if spot.cost.low is not None and spot.cost.high is not None:
        left, right = x_at(cost, spot.cost.low), x_at(cost, spot.cost.high)
        parts += level(y, left, right)
    return parts


def _dot(spot: FrontierPoint, cost: PictureAxis, accuracy: PictureAxis, number: str, agent: str) -> str:
    if spot.cost.value is None or spot.accuracy.value is None:
        return ""
    x, y = x_at(cost, spot.cost.value), y_at(accuracy, spot.accuracy.value)
    told = escape(f"{agent}: {percent(spot.accuracy.value)} %")
    kind = "on" if spot.on_frontier else "off"
    # Small, so that narrow intervals are not hidden behind it; the number stands beside it.
    return (
        f'<g><title>{told}</title><circle class="{kind}" cx="{x}" cy="{y}" r="4"/>'
        f'<text class="{kind}" x="{x - 8:g}" y="{y - 7:g}" text-anchor="end">{number}</text></g>'
    )
