"""The frontier as SVG: a file of its own, or a part of the report. Plain shapes, no script, no outside font."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from ragrounds.evals.compare.frontier import Frontier, Spot
from ragrounds.ui.axes import Axis
from ragrounds.ui.figures import percent
from ragrounds.ui.frontier_axes import axes
from ragrounds.ui.frontier_sheet import UNITS, amount
from ragrounds.ui.plot_svg import HEIGHT, LEFT, LEGEND, RIGHT, STYLE, WIDTH, document, frame, level, upright, x_at, y_at


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
    parts += [_bars(spot, cost, accuracy) for spot in frontier.spots]
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


def _steps(frontier: Frontier, cost: Axis, accuracy: Axis) -> str:
    path = ""
    for spot in frontier.spots:
        if spot.on_frontier and spot.cost.value is not None and spot.accuracy.value is not None:
            x, y = x_at(cost, spot.cost.value), y_at(accuracy, spot.accuracy.value)
            path += f"H{x} V{y}" if path else f"M{x} {y}"
    return f'<path class="step" d="{path}H{WIDTH - RIGHT:g}"/>' if path else ""


def _bars(spot: Spot, cost: Axis, accuracy: Axis) -> str:
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


def _dot(spot: Spot, cost: Axis, accuracy: Axis, number: str, agent: str) -> str:
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
