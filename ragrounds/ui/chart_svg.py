"""Pictures as SVG: a file of its own, or a part of a page. Plain shapes, no script, no font from outside."""

from __future__ import annotations

from ragrounds.evals.analyses.pictures import Bars, Forest, Picture, Points, Stacks
from ragrounds.ui.chart_points import points_parts, profile_parts
from ragrounds.ui.chart_rows import bars_parts, forest_figure, forest_parts, stacks_parts
from ragrounds.ui.svg_shapes import WIDE, document, style
from ragrounds.ui.text import percent, safe
from ragrounds.ui.theme import Theme

_EDGE = 10.0
"""Room around what stands by itself."""
_SPOKEN = 12
"""Rows that a picture's description tells; its table has all."""


def svg(picture: Picture, *, standalone: bool = True, theme: Theme = "light", width: float = WIDE) -> str:
    """The picture as SVG.

    Args:
        picture: what to draw.
        standalone: a whole document with its colours; else a part of an HTML page that has
            :func:`ragrounds.ui.theme.theme_style` and :func:`picture_style`.
        theme: the colours of a document.
        width: of it.

    Raises:
        UserError: nothing in the picture has a value.
    """
    edge = _EDGE if standalone else 0.0
    parts, height = _parts(picture, width - 2 * edge)
    if edge:
        parts = [f'<g transform="translate({edge:g} {edge:g})">', *parts, "</g>"]
    said = description(picture)
    return document(parts, width, round(height + 4 + 2 * edge), said, theme if standalone else None)


def page_picture(picture: Picture) -> str:
    """The picture as a part of a page that has :func:`ragrounds.ui.theme.theme_style` and :func:`picture_style`; a
    screen that is too narrow for it scrolls it.

    Raises:
        UserError: nothing in the picture has a value.
    """
    return f'<div class="scroll">{svg(picture, standalone=False)}</div>'


def picture_style() -> str:
    """The style of pictures, for a page that draws them as its parts and has the theme's properties."""
    return style()


def description(picture: Picture) -> str:
    """What a picture shows, in words: its title and its first figures."""
    if isinstance(picture, Forest):
        said = [f"{row.name} {forest_figure(picture, row)}" for row in picture.rows]
    elif isinstance(picture, Points):
        said = [f"{mark.name or line.name} {percent(mark.value, 1)} %" for line in picture.lines for mark in line.marks]
    elif isinstance(picture, Bars):
        said = [
            f"{group} {bar.name} {percent(bar.value, 1)} %".strip()
            for group, members in picture.groups
            for bar in members
            if bar.value is not None
        ]
    elif isinstance(picture, Stacks):
        said = [
            f"{row.name} "
            + ", ".join(
                f"{count:,} {part.name}" for part, count in zip(picture.parts, row.counts, strict=True) if count
            )
            for row in picture.rows
        ]
    else:
        said = [panel.title for panel in picture.panels]
    more = f"; and {len(said) - _SPOKEN:,} more" if len(said) > _SPOKEN else ""
    return safe(f"{picture.title}: {'; '.join(said[:_SPOKEN])}{more}")


def _parts(picture: Picture, width: float) -> tuple[list[str], float]:
    if isinstance(picture, Forest):
        return forest_parts(picture, width)
    if isinstance(picture, Points):
        return points_parts(picture, width)
    if isinstance(picture, Bars):
        return bars_parts(picture, width)
    return stacks_parts(picture, width) if isinstance(picture, Stacks) else profile_parts(picture, width)
