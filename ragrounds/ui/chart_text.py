"""Pictures drawn with letters, for a terminal of any width."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rich.text import Text

from ragrounds.evals.analyses.pictures import (
    Bar,
    Bars,
    Forest,
    ForestRow,
    HopProfile,
    Mark,
    Picture,
    PictureAxis,
    Points,
    StackRow,
    Stacks,
    forest_axis,
    point_axes,
)
from ragrounds.ui.chart_rows import forest_figure, tick_text
from ragrounds.ui.text import UNKNOWN, in_unit, one_line, percent, safe

_ROWS = 15
"""Lines of the part of a picture in which points stand."""
_MARGIN = 7
"""Columns to its left, for the axis upwards."""
_LABEL = 34
"""Columns to the left of bars, for their names."""
_STYLES = ("bold green", "bold yellow", "bold magenta", "bold blue", "bold red")


class PictureText(Text):
    """A picture drawn with letters. It knows what it is of, so that a page can draw the picture itself."""

    picture: Picture


def draw(picture: Picture, width: int = 80, *, legend: bool = True) -> PictureText:
    """The picture in at most `width` columns; without its `legend` where a table beside it names the marks."""
    drawn = PictureText()
    drawn.append_text(_drawn(picture, width, legend))
    drawn.picture = picture
    return drawn


def _drawn(picture: Picture, width: int, legend: bool) -> Text:
    if isinstance(picture, Bars):
        return _bars(picture, width)
    if isinstance(picture, Points):
        return _points(picture, width, legend)
    if isinstance(picture, Forest):
        return _forest(picture, width)
    return _stacks(picture, width) if isinstance(picture, Stacks) else _profile(picture, width, legend)


class _Canvas:
    """A grid of letters with their styles, in which values have a place."""

    def __init__(self, across: PictureAxis, up: PictureAxis, columns: int) -> None:
        self.across, self.up, self.columns = across, up, columns
        self.cells = [[(" ", "")] * columns for _ in range(_ROWS)]

    def column(self, value: float) -> int:
        """Where a value of the axis across stands."""
        return round(self.across.place(value) * (self.columns - 1))

    def row(self, value: float) -> int:
        """Where a value of the axis upwards stands, from the top."""
        return round((1 - self.up.place(value)) * (_ROWS - 1))

    def intervals(self, mark: Mark) -> None:
        """Draw a mark's intervals, upwards and across."""
        column, row = self.column(mark.x), self.row(mark.value)
        if mark.low is not None and mark.high is not None:
            for at in range(self.row(mark.high), self.row(mark.low) + 1):
                self.cells[at][column] = ("|", "cyan")
        if mark.x_low is not None and mark.x_high is not None:
            for at in range(self.column(mark.x_low), self.column(mark.x_high) + 1):
                self.cells[row][at] = ("-", "cyan")

    def steps(self, marks: list[Mark]) -> None:
        """Draw dots along the emphasised marks: level, and up where the next one stands higher."""
        for mark, following in zip(marks, [*marks[1:], None], strict=True):
            row, end = self.row(mark.value), self.columns
            if following is not None:
                end = self.column(following.x)
                for at in range(self.row(following.value), row):
                    self.cells[at][min(end, self.columns - 1)] = (".", "dim")
            for column in range(self.column(mark.x), end):
                self.cells[row][column] = (".", "dim")

    def write(self, mark: Mark, label: str, style: str) -> None:
        """Write a label at a mark."""
        start = min(self.column(mark.x), self.columns - len(label))
        for offset, letter in enumerate(label):
            self.cells[self.row(mark.value)][start + offset] = (letter, style)


def _points(points: Points, width: int, legend: bool) -> Text:
    """A mark is written as its label, or as the number of its line, from 1; the lines are named in the legend."""
    across, up = point_axes(points)
    canvas = _Canvas(across, up, max(20, width - _MARGIN - 2))
    marks = [mark for line in points.lines for mark in line.marks]
    if points.steps:
        canvas.steps([mark for mark in marks if mark.emphasis])
    for mark in marks:
        canvas.intervals(mark)
    for index, line in reversed(list(enumerate(points.lines))):
        for mark in line.marks:
            style = ("bold green" if mark.emphasis else "yellow") if mark.label else _STYLES[index % len(_STYLES)]
            canvas.write(mark, mark.label or str(index + 1), style)
    text = _framed(canvas, points)
    for index, line in enumerate(points.lines if legend else ()):
        text.append(f"\n{'':{_MARGIN}}{index + 1}", style=_STYLES[index % len(_STYLES)])
        text.append(f" {one_line(line.name, max(20, width - _MARGIN - 4))}")
    return text


def _framed(canvas: _Canvas, points: Points) -> Text:
    """The canvas with its axes."""
    labels = {canvas.row(tick): percent(tick, 0) for tick in canvas.up.ticks}
    text = Text(f"{safe(points.up):>{_MARGIN}}\n", style="dim")
    for row, line in enumerate(canvas.cells):
        text.append(f"{labels.get(row, ''):>{_MARGIN - 2}} {'┤' if row in labels else '│'}", style="dim")
        for letter, style in line:
            text.append(letter, style=style)
        text.append("\n")
    marks, places = ["─"] * canvas.columns, [canvas.column(tick) for tick in canvas.across.ticks]
    for at in places:
        marks[at] = "┬"
    words = _tick_line(places, [in_unit(tick, points.unit) for tick in canvas.across.ticks], canvas.columns)
    text.append(" " * (_MARGIN - 1) + "└" + "".join(marks) + "\n", style="dim")
    text.append(" " * _MARGIN + words + "\n", style="dim")
    scale = ", logarithmic" if canvas.across.logarithmic else ""
    text.append(f"{'':{_MARGIN}}{safe(points.x)}{scale}; bars: 95 % intervals", style="dim")
    return text


def _tick_line(places: Sequence[int], words: Sequence[str], columns: int) -> str:
    """What stands at ticks, each below its own where there is room."""
    letters, free = [" "] * columns, 0
    for at, said in zip(places, words, strict=True):
        start = max(0, min(at - len(said) // 2, columns - len(said)))
        if start >= free:
            letters[start : start + len(said)] = list(said)
            free = start + len(said) + 1
    return "".join(letters).rstrip()


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


def _forest(forest: Forest, width: int) -> Text:
    """A line for each row: its interval and its mark on the strip, hollow where the row's is; then its figure."""
    axis = forest_axis(forest)
    figures = [forest_figure(forest, row) for row in forest.rows]
    columns = max(10, min(60, width - _LABEL - 3 - max(map(len, figures))))
    text, group = Text(), ""
    for row, figure in zip(forest.rows, figures, strict=True):
        if row.group and row.group != group:
            text.append(f"{one_line(row.group, width)}\n", style="bold")
        group = row.group
        text.append(f"{one_line(row.name, _LABEL):<{_LABEL}} ")
        for letter, style in _forest_strip(forest, row, axis, columns):
            text.append(letter, style=style)
        text.append(f"  {figure}\n")
    places = [round(axis.place(tick) * (columns - 1)) for tick in axis.ticks]
    words = _tick_line(places, [tick_text(forest, tick, axis) for tick in axis.ticks], columns)
    text.append(f"{'':{_LABEL}} {words}\n", style="dim")
    hollow = any(not row.filled for row in forest.rows)
    said_below = [safe(forest.x)]
    said_below += [f"● {safe(forest.filled)}"] if forest.filled else []
    said_below += [f"○ {safe(forest.hollow)}"] if hollow and forest.hollow else []
    said_below += [f"├─┤ {safe(forest.spread)}"] if forest.spread else []
    said_below += [safe(forest.note)] if forest.note else []
    text.append(f"{'':{_LABEL}} " + "; ".join(said_below), style="dim")
    return text


def _forest_strip(forest: Forest, row: ForestRow, axis: PictureAxis, columns: int) -> list[tuple[str, str]]:
    strip = [(" ", "")] * columns

    def column(value: float) -> int:
        """Where a value stands."""
        return round(axis.place(value) * (columns - 1))

    if forest.reference is not None:
        strip[column(forest.reference)] = ("┊", "dim")
    if row.value is None:
        return strip
    if row.low is not None or row.high is not None:
        low = 0 if row.low is None else column(row.low)
        high = columns - 1 if row.high is None else column(row.high)
        strip[low : high + 1] = [("─", "cyan")] * (high - low + 1)
        strip[low] = ("─" if row.low is None else "├", "cyan")
        strip[high] = ("─" if row.high is None else "┤", "cyan")
    strip[column(row.value)] = ("●", "bold green") if row.filled else ("○", "bold yellow")
    return strip


_FILLS = "█▒░▓▚#=+"
"""Of the parts of a stack."""


def _stacks(stacks: Stacks, width: int) -> Text:
    """A line for each row, its parts as long as their shares."""
    columns = max(10, min(60, width - _LABEL - 16))
    text = Text()
    for row in stacks.rows:
        text.append(f"{one_line(row.name, _LABEL):<{_LABEL}} ")
        for place, length in enumerate(_lengths(row, columns)):
            text.append(_FILLS[place % len(_FILLS)] * length, style=_STYLES[place % len(_STYLES)])
        text.append(f"  n = {sum(row.counts):,}\n")
    text.append(f"{'':{_LABEL}} 0{'100 %':>{columns - 1}}  {safe(stacks.x)}\n", style="dim")
    for place, part in enumerate(stacks.parts):
        text.append(f"{'':{_LABEL}} " if not place else "  ")
        text.append(_FILLS[place % len(_FILLS)], style=_STYLES[place % len(_STYLES)])
        text.append(f" {safe(part.name)}")
    return text


def _lengths(row: StackRow, columns: int) -> list[int]:
    """Columns of each part, together as many as there are; what is there at all has one, where there is room."""
    total, ends, before = sum(row.counts), [0], 0
    for count in row.counts:
        before += count
        end = round(columns * before / total) if total else 0
        ends.append(min(columns, max(end, ends[-1] + (1 if count else 0))))
    return [end - start for start, end in itertools.pairwise(ends)]


def _profile(profile: HopProfile, width: int, legend: bool) -> Text:
    text = Text()
    for place, panel in enumerate(profile.panels):
        text.append(("\n\n" if place else "") + safe(panel.title) + "\n", style="bold")
        text.append_text(_points(panel, width, legend and place == len(profile.panels) - 1))
    return text
