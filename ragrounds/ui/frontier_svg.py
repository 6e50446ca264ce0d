"""The frontier as SVG: a file of its own, or a part of the report. Plain shapes, no script, no outside font."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from ragrounds.evals.frontier import Frontier, Spot
from ragrounds.ui.figures import percent
from ragrounds.ui.frontier_axes import Axis, axes
from ragrounds.ui.frontier_sheet import UNITS, amount
from ragrounds.ui.text import safe

_WIDTH, _HEIGHT = 720.0, 420.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 24.0, 24.0, 56.0
_LEGEND = 20.0
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.grid{stroke:#ddd}.axis{stroke:#666}.bar{stroke:#5b7a9d;"
    "stroke-width:1.5}.step{stroke:#1a7f4b;stroke-width:2;stroke-dasharray:5 4;fill:none}.on{fill:#1a7f4b}"
    ".off{fill:#b26a00}text.on,text.off{font-weight:700}.mark{font-weight:600;fill:#fff;text-anchor:middle;"
    "dominant-baseline:central}"
)


def frontier_svg(frontier: Frontier, protocol: str, numbers: Mapping[str, str], *, standalone: bool = True) -> str:
    """Accuracy upwards, cost to the right, both with 95 % intervals; the frontier as steps; a legend below.

    Args:
        frontier: what to draw.
        protocol: named in the picture's description.
        numbers: run id → number in the tables.
        standalone: a whole SVG document with its namespace and style; else a part of an HTML page.
    """
    cost, accuracy = axes(frontier)
    parts = [*_grid(cost, accuracy, frontier), _steps(frontier, cost, accuracy)]
    parts += [_bars(spot, cost, accuracy) for spot in frontier.spots]
    parts += [_dot(spot, cost, accuracy, numbers[spot.run]) for spot in reversed(frontier.spots)]
    top = _HEIGHT + 4
    for index, spot in enumerate(frontier.spots):
        y = top + index * _LEGEND
        name = safe(spot.agent, 90)
        kind = "on" if spot.on_frontier else "off"
        parts.append(
            f'<circle class="{kind}" cx="{_LEFT:g}" cy="{y:g}" r="8"/><text class="mark" x="{_LEFT:g}" y="{y:g}" '
            f'font-size="10">{numbers[spot.run]}</text><text x="{_LEFT + 16:g}" y="{y + 4:g}">{escape(name)}</text>'
        )
    height = top + len(frontier.spots) * _LEGEND
    about = escape(f"Accuracy under {protocol} and {UNITS[frontier.measure]} a question, with 95 % intervals")
    namespace = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    style = f"<style>{_STYLE}</style><rect width='100%' height='100%' fill='#fff'/>" if standalone else ""
    return (
        f'<svg{namespace} viewBox="0 0 {_WIDTH:g} {height:g}" role="img" aria-label="{about}" class="frontier">'
        f"<title>{about}</title>{style}{''.join(parts)}</svg>"
    )


def style() -> str:
    """The picture's style, for a page that draws it inside."""
    return "".join(f".frontier {rule}}}" for rule in _STYLE.split("}") if rule)


def _x(axis: Axis, value: float) -> float:
    return round(_LEFT + axis.place(value) * (_WIDTH - _LEFT - _RIGHT), 1)


def _y(axis: Axis, value: float) -> float:
    return round(_HEIGHT - _BOTTOM - axis.place(value) * (_HEIGHT - _TOP - _BOTTOM), 1)


def _grid(cost: Axis, accuracy: Axis, frontier: Frontier) -> list[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for tick in cost.ticks:
        x = _x(cost, tick)
        label = escape(amount(tick, frontier.measure))
        parts.append(
            f'<line class="grid" x1="{x}" y1="{_TOP:g}" x2="{x}" y2="{bottom:g}"/>'
            f'<text x="{x}" y="{bottom + 18:g}" text-anchor="middle">{label}</text>'
        )
    for tick in accuracy.ticks:
        y = _y(accuracy, tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT:g}" y1="{y}" x2="{right:g}" y2="{y}"/>'
            f'<text x="{_LEFT - 8:g}" y="{y + 4}" text-anchor="end">{percent(tick, 0)} %</text>'
        )
    scale = ", logarithmic" if cost.logarithmic else ""
    parts.append(
        f'<line class="axis" x1="{_LEFT:g}" y1="{bottom:g}" x2="{right:g}" y2="{bottom:g}"/>'
        f'<line class="axis" x1="{_LEFT:g}" y1="{_TOP:g}" x2="{_LEFT:g}" y2="{bottom:g}"/>'
        f'<text x="{(_LEFT + right) / 2:g}" y="{bottom + 38:g}" text-anchor="middle">'
        f"{escape(UNITS[frontier.measure])} a question{scale}</text>"
    )
    return parts


def _steps(frontier: Frontier, cost: Axis, accuracy: Axis) -> str:
    path = ""
    for spot in frontier.spots:
        if spot.on_frontier and spot.cost.value is not None and spot.accuracy.value is not None:
            x, y = _x(cost, spot.cost.value), _y(accuracy, spot.accuracy.value)
            path += f"H{x} V{y}" if path else f"M{x} {y}"
    return f'<path class="step" d="{path}H{_WIDTH - _RIGHT:g}"/>' if path else ""


def _bars(spot: Spot, cost: Axis, accuracy: Axis) -> str:
    if spot.cost.value is None or spot.accuracy.value is None:
        return ""
    x, y = _x(cost, spot.cost.value), _y(accuracy, spot.accuracy.value)
    parts = ""
    if spot.accuracy.low is not None and spot.accuracy.high is not None:
        top, bottom = _y(accuracy, spot.accuracy.high), _y(accuracy, spot.accuracy.low)
        parts += f'<path class="bar" d="M{x} {top}V{bottom}M{x - 5:g} {top}h10M{x - 5:g} {bottom}h10"/>'
    if spot.cost.low is not None and spot.cost.high is not None:
        left, right = _x(cost, spot.cost.low), _x(cost, spot.cost.high)
        parts += f'<path class="bar" d="M{left} {y}H{right}M{left} {y - 5:g}v10M{right} {y - 5:g}v10"/>'
    return parts


def _dot(spot: Spot, cost: Axis, accuracy: Axis, number: str) -> str:
    if spot.cost.value is None or spot.accuracy.value is None:
        return ""
    x, y = _x(cost, spot.cost.value), _y(accuracy, spot.accuracy.value)
    told = escape(f"{safe(spot.agent)}: {percent(spot.accuracy.value)} %")
    kind = "on" if spot.on_frontier else "off"
    # Small, so that narrow intervals are not hidden behind it; the number stands beside it.
    return (
        f'<g><title>{told}</title><circle class="{kind}" cx="{x}" cy="{y}" r="4"/>'
        f'<text class="{kind}" x="{x - 8:g}" y="{y - 7:g}" text-anchor="end">{number}</text></g>'
    )
