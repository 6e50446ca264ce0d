"""The frame of pictures drawn with letters, for a terminal of any width.

An analysis drawn with letters, for a terminal of any width.

The frontier drawn with letters, for a terminal of any width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.text import Text

from ragrounds.evals.analyses.pictures import Bar, Bars, Picture, PictureAxis, Points, number, point_axes
from ragrounds.evals.compare.frontier import Frontier
from ragrounds.ui.frontier import UNITS, amount
from ragrounds.ui.frontier_axes import axes
from ragrounds.ui.text import UNKNOWN, one_line, percent, safe

ROWS = 15
MARGIN = 7
Cells = list[list[tuple[str, str]]]
"""Rows of a letter and its style."""


def blank(columns: int) -> Cells:
    """An empty picture."""
    return [[(" ", "")] * columns for _ in range(ROWS)]


def column_at(axis: PictureAxis, value: float, columns: int) -> int:
    """Where a value stands across."""
    return round(axis.place(value) * (columns - 1))


def row_at(axis: PictureAxis, value: float) -> int:
    """Where a value stands upwards."""
    return round((1 - axis.place(value)) * (ROWS - 1))


def framed(
    cells: Cells,
    across: PictureAxis,
    up: PictureAxis,
    label: Callable[[float], str],
    caption: str,
    title: str = "percent right",
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


_STYLES = ("bold green", "bold yellow", "bold magenta", "bold blue", "bold red")
_LABEL = 34


def draw(picture: Picture, width: int = 80) -> Text:
    """The picture in at most `width` columns."""
    return _points(picture, width) if isinstance(picture, Points) else _bars(picture, width)


def _points(points: Points, width: int) -> Text:
    """Each line is a number, from 1; its legend stands below."""
    across, up = point_axes(points)
    columns = max(20, width - MARGIN - 2)
    cells = blank(columns)
    for line in points.lines:
        for mark in line.marks:
            if mark.low is not None and mark.high is not None:
                for row in range(row_at(up, mark.high), row_at(up, mark.low) + 1):
                    cells[row][column_at(across, mark.x, columns)] = ("|", "cyan")
    for index, line in reversed(list(enumerate(points.lines))):
        for mark in line.marks:
            label = str(index + 1)
            start = min(column_at(across, mark.x, columns), columns - len(label))
            for offset, letter in enumerate(label):
                cells[row_at(up, mark.value)][start + offset] = (letter, _STYLES[index % len(_STYLES)])
    text = framed(cells, across, up, number, safe(points.x), "percent")
    for index, line in enumerate(points.lines):
        text.append(f"\n{'':{MARGIN}}{index + 1}", style=_STYLES[index % len(_STYLES)])
        text.append(f" {one_line(line.name, max(20, width - MARGIN - 4))}")
    return text


def _bars(bars: Bars, width: int) -> Text:
    """Full letters up to the value; the interval is the shaded part on both sides of its end."""
    columns = max(10, min(60, width - _LABEL - 24))
    text = Text()
    for group, members in bars.groups:
        if group:
            text.append(f"{one_line(group, width)}\n", style="bold")
        for bar in members:
            text.append(f"{one_line(bar.name, _LABEL):<{_LABEL}} ")
            _strip(text, bar, columns)
            text.append(f" {percent(bar.value, 1) if bar.value is not None else UNKNOWN:>5}  {safe(bar.note)}\n")
    scale = f"{'':{_LABEL}} 0{'100 %':>{columns - 1}}"
    text.append(f"{scale}   ▓░ {bars.spread}" if bars.spread else scale, style="dim")
    return text


def _strip(text: Text, bar: Bar, columns: int) -> None:
    value = 0.0 if bar.value is None else bar.value
    low = value if bar.low is None else bar.low
    high = value if bar.high is None else bar.high
    full, from_, to = (round(columns * min(1.0, max(0.0, end))) for end in (value, low, high))
    text.append("█" * min(from_, full), style="green")
    text.append("▓" * max(0, full - from_), style="green")
    text.append("░" * max(0, to - full), style="cyan")
    text.append(" " * max(0, columns - max(full, to)))


def draw_frontier(frontier: Frontier, numbers: Mapping[str, str], width: int = 80) -> Text:
    """Accuracy upwards, cost to the right. A run is its number, bold where it is on the frontier; bars are 95 %
    intervals; dots lead along the frontier, which moves in steps: up only where a dearer run is more accurate."""
    columns = max(20, width - MARGIN - 2)
    cost, accuracy = axes(frontier)
    cells = blank(columns)

    def x(value: float) -> int:
        return column_at(cost, value, columns)

    def y(value: float) -> int:
        return row_at(accuracy, value)

    along = [spot for spot in frontier.spots if spot.on_frontier]
    for spot, following in zip(along, [*along[1:], None], strict=True):
        if spot.cost.value is None or spot.accuracy.value is None:
            continue
        level, end = y(spot.accuracy.value), columns
        if following is not None and following.cost.value is not None and following.accuracy.value is not None:
            end = x(following.cost.value)
            for row in range(y(following.accuracy.value), level):
                cells[row][min(end, columns - 1)] = (".", "dim")
        for column in range(x(spot.cost.value), end):
            cells[level][column] = (".", "dim")
    for spot in frontier.spots:
        if spot.cost.value is None or spot.accuracy.value is None:
            continue
        column, row = x(spot.cost.value), y(spot.accuracy.value)
        if spot.accuracy.low is not None and spot.accuracy.high is not None:
            for at in range(y(spot.accuracy.high), y(spot.accuracy.low) + 1):
                cells[at][column] = ("|", "cyan")
        if spot.cost.low is not None and spot.cost.high is not None:
            for at in range(x(spot.cost.low), x(spot.cost.high) + 1):
                cells[row][at] = ("-", "cyan")
    for spot in reversed(frontier.spots):
        if spot.cost.value is None or spot.accuracy.value is None:
            continue
        label = numbers[spot.run]
        start = min(x(spot.cost.value), columns - len(label))
        for offset, letter in enumerate(label):
            cells[y(spot.accuracy.value)][start + offset] = (letter, "bold green" if spot.on_frontier else "yellow")
    unit = f"{UNITS[frontier.measure]} a question"
    return framed(cells, cost, accuracy, lambda tick: amount(tick, frontier.measure), unit)
