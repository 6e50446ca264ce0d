"""The frontier drawn with letters, for a terminal of any width."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from ragrounds.evals.frontier import Frontier
from ragrounds.ui.figures import percent
from ragrounds.ui.frontier_axes import axes
from ragrounds.ui.frontier_sheet import UNITS, amount

_ROWS = 15
_MARGIN = 7


def draw(frontier: Frontier, numbers: Mapping[str, str], width: int = 80) -> Text:
    """Accuracy upwards, cost to the right. A run is its number, bold where it is on the frontier; bars are 95 %
    intervals; dots lead along the frontier, which moves in steps: up only where a dearer run is more accurate."""
    columns = max(20, width - _MARGIN - 2)
    cost, accuracy = axes(frontier)
    cells: list[list[tuple[str, str]]] = [[(" ", "")] * columns for _ in range(_ROWS)]

    def x(value: float) -> int:
        return round(cost.place(value) * (columns - 1))

    def y(value: float) -> int:
        return round((1 - accuracy.place(value)) * (_ROWS - 1))

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
    return _framed(cells, frontier, columns)


def _framed(cells: list[list[tuple[str, str]]], frontier: Frontier, columns: int) -> Text:
    cost, accuracy = axes(frontier)
    labels = {round((1 - accuracy.place(tick)) * (_ROWS - 1)): percent(tick, 0) for tick in accuracy.ticks}
    text = Text(f"{'percent right':>{_MARGIN}}\n", style="dim")
    for row, line in enumerate(cells):
        text.append(f"{labels.get(row, ''):>{_MARGIN - 2}} {'┤' if row in labels else '│'}", style="dim")
        for letter, style in line:
            text.append(letter, style=style)
        text.append("\n")
    marks, words = ["─"] * columns, [" "] * (columns + _MARGIN)
    free = 0
    for tick in cost.ticks:
        at = round(cost.place(tick) * (columns - 1))
        marks[at] = "┬"
        label = amount(tick, frontier.measure)
        start = max(0, min(at - len(label) // 2, columns - len(label)))
        if start >= free:
            words[start : start + len(label)] = list(label)
            free = start + len(label) + 1
    text.append(" " * (_MARGIN - 1) + "└" + "".join(marks) + "\n", style="dim")
    text.append(" " * _MARGIN + "".join(words).rstrip() + "\n", style="dim")
    scale = ", logarithmic" if cost.logarithmic else ""
    text.append(f"{'':{_MARGIN}}{UNITS[frontier.measure]} a question{scale}; bars: 95 % intervals", style="dim")
    return text
