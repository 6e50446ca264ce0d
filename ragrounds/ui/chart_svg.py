"""Pictures as SVG: a file of its own, or a part of the report. Plain shapes, no script, no font from outside."""

from __future__ import annotations

from html import escape

from ragrounds.evals.analyses.pictures import DOT, Bar, Bars, Mark, Picture, PictureAxis, Points, point_axes
from ragrounds.ui.text import UNKNOWN, in_unit, one_line, percent, safe

_WIDTH, _HEIGHT = 720.0, 420.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 24.0, 24.0, 56.0
_LEGEND = 20.0
"""Height of a line of the legend."""
_NAMES, _NOTES, _ROW = 250.0, 130.0, 26.0
"""Width of the bars' names and of what stands behind them; height of a bar's line."""
_COLOURS = ("#1a7f4b", "#b26a00", "#7a3e9d", "#1f5fa8", "#b3261e", "#4d4d4d")
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.grid{stroke:#ddd}.axis{stroke:#666}.bar{stroke:#5b7a9d;"
    "stroke-width:1.5}.step{stroke:#1a7f4b;stroke-width:2;stroke-dasharray:5 4;fill:none}.on{fill:#1a7f4b}"
    ".off{fill:#b26a00}text.on,text.off{font-weight:700}.mark{font-weight:600;fill:#fff;text-anchor:middle;"
    "dominant-baseline:central}"
)


def svg(picture: Picture, *, standalone: bool = True) -> str:
    """The picture as SVG.

    Args:
        picture: what to draw.
        standalone: a whole document with its namespace and style; else a part of an HTML page that has
            :func:`picture_style`.

    Raises:
        UserError: the picture has no point with a value.
    """
    return _bars(picture, standalone) if isinstance(picture, Bars) else _points(picture, standalone)


def picture_style() -> str:
    """The style of pictures, for a page that draws them as its parts."""
    return "".join(f".picture {rule}}}" for rule in _STYLE.split("}") if rule)


def _document(parts: list[str], height: float, description: str, standalone: bool) -> str:
    description = escape(description)
    namespace = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    style = f"<style>{_STYLE}</style><rect width='100%' height='100%' fill='#fff'/>" if standalone else ""
    return (
        f'<svg{namespace} viewBox="0 0 {_WIDTH:g} {height:g}" role="img" aria-label="{description}" class="picture">'
        f"<title>{description}</title>{style}{''.join(parts)}</svg>"
    )


class _Frame:
    """Axes with their grid, in which values have a place."""

    def __init__(self, points: Points) -> None:
        self.points = points
        self.across, self.up = point_axes(points)

    def x(self, value: float) -> float:
        """Where a value of the axis across stands."""
        return round(_LEFT + self.across.place(value) * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        """Where a value of the axis upwards stands."""
        return round(_HEIGHT - _BOTTOM - self.up.place(value) * (_HEIGHT - _TOP - _BOTTOM), 1)

    def axes(self) -> list[str]:
        """The grid, the axes with their ticks, and what the axis across counts."""
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        parts = []
        for tick in self.across.ticks:
            x = self.x(tick)
            parts.append(
                f'<line class="grid" x1="{x}" y1="{_TOP:g}" x2="{x}" y2="{bottom:g}"/>'
                f'<text x="{x}" y="{bottom + 18:g}" text-anchor="middle">'
                f"{escape(in_unit(tick, self.points.unit))}</text>"
            )
        for tick in self.up.ticks:
            y = self.y(tick)
            parts.append(
                f'<line class="grid" x1="{_LEFT:g}" y1="{y}" x2="{right:g}" y2="{y}"/>'
                f'<text x="{_LEFT - 8:g}" y="{y + 4}" text-anchor="end">{percent(tick, 0)} %</text>'
            )
        scale = ", logarithmic" if self.across.logarithmic else ""
        parts.append(
            f'<line class="axis" x1="{_LEFT:g}" y1="{bottom:g}" x2="{right:g}" y2="{bottom:g}"/>'
            f'<line class="axis" x1="{_LEFT:g}" y1="{_TOP:g}" x2="{_LEFT:g}" y2="{bottom:g}"/>'
            f'<text x="{(_LEFT + right) / 2:g}" y="{bottom + 38:g}" text-anchor="middle">'
            f"{escape(safe(self.points.x))}{scale}</text>"
        )
        return parts

    def intervals(self, mark: Mark) -> str:
        """A mark's intervals, upwards and across."""
        x, y, parts = self.x(mark.x), self.y(mark.value), ""
        if mark.low is not None and mark.high is not None:
            parts += _upright(x, self.y(mark.high), self.y(mark.low))
        if mark.x_low is not None and mark.x_high is not None:
            parts += _level(y, self.x(mark.x_low), self.x(mark.x_high))
        return parts

    def steps(self, marks: list[Mark]) -> str:
        """A line along the emphasised marks: level, then up to the next, and on to the right edge."""
        path = ""
        for mark in marks:
            x, y = self.x(mark.x), self.y(mark.value)
            path += f"H{x} V{y}" if path else f"M{x} {y}"
        return f'<path class="step" d="{path}H{_WIDTH - _RIGHT:g}"/>' if path else ""


def _points(points: Points, standalone: bool) -> str:
    """Marks with their intervals, joined by a line where a series has several; a legend below. A mark with a label is
    small, so that narrow intervals are not hidden behind it, and its label stands beside it."""
    frame = _Frame(points)
    marks = [mark for line in points.lines for mark in line.marks]
    parts = frame.axes()
    if standalone:
        parts.append(f'<text x="{_LEFT:g}" y="15" font-weight="600">{escape(safe(points.title))}</text>')
    if points.steps:
        parts.append(frame.steps([mark for mark in marks if mark.emphasis]))
    for index, line in enumerate(points.lines):
        if line.joined and len(line.marks) > 1:
            path = " ".join(f"{frame.x(mark.x)},{frame.y(mark.value)}" for mark in line.marks)
            colour = _COLOURS[index % len(_COLOURS)]
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    parts += [frame.intervals(mark) for mark in marks]
    for index, line in reversed(list(enumerate(points.lines))):
        parts += [_dot(frame, mark.name or line.name, mark, _COLOURS[index % len(_COLOURS)]) for mark in line.marks]
    top = _HEIGHT + 4
    for index, line in enumerate(points.lines):
        label = next((mark for mark in line.marks if mark.label), None)
        parts.append(_legend(line.name, label, _COLOURS[index % len(_COLOURS)], top + index * _LEGEND))
    description = f"{safe(points.title)}, with 95 % intervals"
    return _document(parts, top + len(points.lines) * _LEGEND, description, standalone)


def _dot(frame: _Frame, name: str, mark: Mark, colour: str) -> str:
    x, y = frame.x(mark.x), frame.y(mark.value)
    at = f"{safe(frame.points.x)} {in_unit(mark.x, frame.points.unit)}"
    hint = escape(f"{safe(name)}, {at}: {percent(mark.value)} %")
    if not mark.label:
        return f'<g><title>{hint}</title><circle cx="{x}" cy="{y}" r="5" fill="{colour}"/></g>'
    kind = "on" if mark.emphasis else "off"
    if mark.label == DOT:
        return f'<g><title>{hint}</title><circle class="{kind}" cx="{x}" cy="{y}" r="3"/></g>'
    return (
        f'<g><title>{hint}</title><circle class="{kind}" cx="{x}" cy="{y}" r="4"/>'
        f'<text class="{kind}" x="{x - 8:g}" y="{y - 7:g}" text-anchor="end">{escape(safe(mark.label))}</text></g>'
    )


def _legend(name: str, mark: Mark | None, colour: str, y: float) -> str:
    text = f'<text x="{_LEFT + 16:g}" y="{y + 4:g}">{escape(one_line(name, 110 if mark else 90))}</text>'
    if mark is None:
        return f'<circle cx="{_LEFT:g}" cy="{y:g}" r="6" fill="{colour}"/>{text}'
    kind = "on" if mark.emphasis else "off"
    return (
        f'<circle class="{kind}" cx="{_LEFT:g}" cy="{y:g}" r="8"/><text class="mark" x="{_LEFT:g}" y="{y:g}" '
        f'font-size="{10 if len(mark.label) < 3 else 8}">{escape(safe(mark.label))}</text>{text}'
    )


def _bars(bars: Bars, standalone: bool) -> str:
    across = PictureAxis(low=0.0, high=1.0, ticks=(0.0, 0.25, 0.5, 0.75, 1.0))
    y = 24.0
    parts = [f'<text x="16" y="{y:g}" font-weight="600">{escape(safe(bars.title))}</text>']
    first = y + 12
    for index, (group, members) in enumerate(bars.groups):
        colour = _COLOURS[index % len(_COLOURS)] if group else _COLOURS[0]
        if group:
            y += _ROW
            parts.append(f'<text x="16" y="{y + 4:g}" font-weight="600">{escape(one_line(group, 100))}</text>')
        for bar in members:
            y += _ROW
            parts.append(_bar(bar, across, y, colour))
    bottom = y + 18
    grid = []
    for tick in across.ticks:
        x = _bar_end(across, tick)
        grid.append(
            f'<line class="grid" x1="{x}" y1="{first:g}" x2="{x}" y2="{bottom:g}"/>'
            f'<text x="{x}" y="{bottom + 16:g}" text-anchor="middle">{percent(tick, 0)} %</text>'
        )
    description = f"{safe(bars.title)}, {bars.spread}" if bars.spread else safe(bars.title)
    return _document([*grid, *parts], bottom + 28, description, standalone)


def _bar(bar: Bar, across: PictureAxis, y: float, colour: str) -> str:
    name = f'<text x="{_NAMES - 8:g}" y="{y + 4:g}" text-anchor="end">{escape(one_line(bar.name, 38))}</text>'
    left, end = _bar_end(across, 0.0), _bar_end(across, bar.value or 0.0)
    note = f" ({safe(bar.note)})" if bar.note else ""
    figure = f"{percent(bar.value, 1)} %{note}" if bar.value is not None else f"{UNKNOWN}{note}"
    shape = f'<rect x="{left}" y="{y - 8:g}" width="{end - left:g}" height="16" fill="{colour}" fill-opacity="0.75"/>'
    whisker = ""
    if bar.low is not None and bar.high is not None:
        whisker = _level(y, _bar_end(across, bar.low), _bar_end(across, bar.high))
    return f'<g>{name}{shape}{whisker}<text x="{_WIDTH - _NOTES + 12:g}" y="{y + 4:g}">{escape(figure)}</text></g>'


def _bar_end(axis: PictureAxis, value: float) -> float:
    return round(_NAMES + axis.place(value) * (_WIDTH - _NAMES - _NOTES - _RIGHT / 2), 1)


def _upright(x: float, top: float, bottom: float) -> str:
    return f'<path class="bar" d="M{x} {top}V{bottom}M{x - 5:g} {top}h10M{x - 5:g} {bottom}h10"/>'


def _level(y: float, left: float, right: float) -> str:
    return f'<path class="bar" d="M{left} {y}H{right}M{left} {y - 5:g}v10M{right} {y - 5:g}v10"/>'
