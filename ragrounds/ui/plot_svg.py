"""Pieces of SVG pictures: the frame with its grid, marks, intervals, the document. Plain shapes, no script, no outside
font."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from ragrounds.ui.axes import Axis
from ragrounds.ui.figures import percent

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


def x_at(axis: Axis, value: float, left: float = LEFT) -> float:
    """Where a value stands across."""
    return round(left + axis.place(value) * (WIDTH - left - RIGHT), 1)


def y_at(axis: Axis, value: float) -> float:
    """Where a value stands upwards."""
    return round(HEIGHT - BOTTOM - axis.place(value) * (HEIGHT - TOP - BOTTOM), 1)


def frame(across: Axis, up: Axis, label: Callable[[float], str], caption: str) -> list[str]:
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
