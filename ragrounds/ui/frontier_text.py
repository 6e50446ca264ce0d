"""The frontier drawn with letters, for a terminal of any width."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from ragrounds.evals.compare.frontier import Frontier
from ragrounds.ui.frontier_axes import axes
from ragrounds.ui.frontier_sheet import UNITS, amount
from ragrounds.ui.plot_text import MARGIN, blank, column_at, framed, row_at


def draw(frontier: Frontier, numbers: Mapping[str, str], width: int = 80) -> Text:
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
