"""An analysis drawn with letters, for a terminal of any width."""

from __future__ import annotations

from rich.text import Text

from ragrounds.ui.figures import UNKNOWN, percent
from ragrounds.ui.pictures import Bar, Bars, Picture, Points
from ragrounds.ui.pictures_axes import number, point_axes
from ragrounds.ui.plot_text import MARGIN, blank, column_at, framed, row_at
from ragrounds.ui.text import one_line, safe

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
