"""The frame of pictures drawn with letters, for a terminal of any width."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

from ragrounds.ui.axes import Axis
from ragrounds.ui.figures import percent

ROWS = 15
MARGIN = 7
Cells = list[list[tuple[str, str]]]
"""Rows of a letter and its style."""


def blank(columns: int) -> Cells:
    """An empty picture."""
    return [[(" ", "")] * columns for _ in range(ROWS)]


def column_at(axis: Axis, value: float, columns: int) -> int:
    """Where a value stands across."""
    return round(axis.place(value) * (columns - 1))


def row_at(axis: Axis, value: float) -> int:
    """Where a value stands upwards."""
    return round((1 - axis.place(value)) * (ROWS - 1))


def framed(
    cells: Cells, across: Axis, up: Axis, label: Callable[[float], str], caption: str, title: str = "percent right"
) -> Text:
    """A picture with its axes: `label` writes a tick of the axis across, percent stand upwards."""
    columns = len(cells[0])
    labels = {row_at(up, tick): percent(tick, 0) for tick in up.ticks}
    text = Text(f"{title:>{MARGIN}}\n", style="dim")
    for row, line in enumerate(cells):
        text.append(f"{labels.get(row, ''):>{MARGIN - 2}} {'┤' if row in labels else '│'}", style="dim")
        for letter, style in line:
            text.append(letter, style=style)
        text.append("\n")
    marks, words = ["─"] * columns, [" "] * (columns + MARGIN)
    free = 0
    for tick in across.ticks:
        at = column_at(across, tick, columns)
        marks[at] = "┬"
        name = label(tick)
        start = max(0, min(at - len(name) // 2, columns - len(name)))
        if start >= free:
            words[start : start + len(name)] = list(name)
            free = start + len(name) + 1
    text.append(" " * (MARGIN - 1) + "└" + "".join(marks) + "\n", style="dim")
    text.append(" " * MARGIN + "".join(words).rstrip() + "\n", style="dim")
    scale = ", logarithmic" if across.logarithmic else ""
    text.append(f"{'':{MARGIN}}{caption}{scale}; bars: 95 % intervals", style="dim")
    return text
