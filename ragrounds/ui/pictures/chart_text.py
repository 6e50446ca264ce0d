"""Pictures drawn with letters, for a terminal of any width, and the words that every drawing of them has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text

from ragrounds.evals.analyses.pictures import Axis, Mark, Picture, across_axis, value_axis
from ragrounds.ui.pictures.named_points import NamedPoint, Spot, named_points, steps
from ragrounds.ui.text import TOO_FEW, UNKNOWN, figure_text, in_unit, one_line, percent, points, safe

_AROUND, _BARS_FROM = 3, 14
"""Lines above and below the frame in which points stand; height from which their intervals are drawn."""
_MARGIN = 7
"""Columns to its left, for the axis upwards."""
_NAME = 34
"""Columns to the left of rows, for their names."""
_STYLES = ("bold bright_blue", "bold yellow", "bold green", "bold magenta", "bold red", "bold cyan")
_FULL, _PALE, _DOT = "▀▄", "⠛⣤", "·"
"""Points in the upper and the lower half of a line; one that is not named."""
_DOTS = ((1, 8), (2, 16), (4, 32), (64, 128))
"""Of a braille letter, from the top down: left, right."""
Cell = tuple[str, str]
"""A letter and its style."""


class PictureText(Text):
    """A picture drawn with letters. It knows what it is of, so that a page can draw the picture itself."""

    picture: Picture


def draw(picture: Picture, width: int = 80, height: int = 20) -> PictureText:
    """The picture in at most `width` columns; points in at most `height` lines, and those that what has no place takes.

    Raises:
        UserError: nothing in the picture has a value.
    """
    drawn = PictureText()
    drawn.append_text(_points(picture, width, height) if picture.points else _rows(picture, width))
    drawn.picture = picture
    return drawn


def value_text(picture: Picture, value: float | None, digits: int = 1) -> str:
    """A value in the picture's unit."""
    if value is None:
        return UNKNOWN
    if picture.unit == "percent":
        return points(value, digits) if picture.signed else percent(value, digits)
    return figure_text(value, "+,.4g" if picture.signed else ",.4g")


def mark_text(picture: Picture, mark: Mark, digits: int = 1) -> str:
    """A mark's figure: its value, the ends of its interval, its note."""
    parts = [value_text(picture, mark.value, digits)]
    if mark.value is not None and (mark.low is not None or mark.high is not None):
        parts.append(f"({value_text(picture, mark.low)} to {value_text(picture, mark.high)})")
    elif mark.value is not None and picture.spread and not picture.bars and not picture.points:
        parts.append(f"({TOO_FEW})")
    return " ".join([*parts, safe(mark.note)]).rstrip()


def tick_texts(picture: Picture, axis: Axis) -> list[str]:
    """What stands at the ticks of the axis of values."""
    digits = 0 if all(abs(100 * tick - round(100 * tick)) < 1e-6 for tick in axis.ticks) else 1
    return [value_text(picture, tick, digits) if tick or not picture.signed else "0" for tick in axis.ticks]


def meanings(picture: Picture) -> list[tuple[bool, str]]:
    """What full marks mean, and hollow ones where there are any."""
    known = {mark.full for mark in picture.marks if mark.value is not None}
    return [(full, words) for full, words in ((True, picture.full), (False, picture.hollow)) if words and full in known]


def said_below(picture: Picture) -> list[str]:
    """The sentences below a picture: what its intervals are, what it leaves out."""
    spread = picture.spread and any(mark.low is not None or mark.high is not None for mark in picture.marks)
    return [safe(words) for words in (f"error bars: {picture.spread}" if spread else "", picture.note) if words]


def _rows(picture: Picture, width: int) -> Text:
    """A line for each mark: its name, its interval and itself on the strip, its figure."""
    axis, text, group = value_axis(picture), Text(), ""
    figures = [mark_text(picture, mark) for mark in picture.marks]
    columns = max(10, min(60, width - _NAME - 3 - max(map(len, figures))))
    for mark, figure in zip(picture.marks, figures, strict=True):
        if mark.group and mark.group != group:
            text.append(f"{one_line(mark.group, width)}\n", style="bold")
        group = mark.group
        text.append(f"{one_line(mark.name, _NAME):<{_NAME}} ")
        _append(text, _strip(picture, mark, axis, columns))
        text.append(f"  {figure}\n")
    places = [round(axis.place(tick) * (columns - 1)) for tick in axis.ticks]
    text.append(f"{'':{_NAME}} {_tick_line(places, tick_texts(picture, axis), columns)}\n", style="dim")
    text.append(f"{'':{_NAME}} {_below(picture, safe(picture.words))}", style="dim")
    return text


def _strip(picture: Picture, mark: Mark, axis: Axis, columns: int) -> list[Cell]:
    cells = [(" ", "")] * columns

    def column(value: float) -> int:
        return round(axis.place(value) * (columns - 1))

    for at in range(column(picture.band[0]), column(picture.band[1]) + 1) if picture.band else ():
        cells[at] = ("░", "dim")
    if picture.reference is not None:
        cells[column(picture.reference)] = ("┊", "dim")
    if mark.value is None:
        return cells
    if picture.bars:
        full = round(axis.place(mark.value) * columns)
        cells[:full] = [("█", "green")] * full
    if mark.low is not None or mark.high is not None:
        # A side without a bound reaches the edge.
        low = 0 if mark.low is None else column(mark.low)
        high = columns - 1 if mark.high is None else column(mark.high)
        cells[low : high + 1] = [("─", "cyan")] * (high - low + 1)
        cells[low] = ("─" if mark.low is None else "├", "cyan")
        cells[high] = ("─" if mark.high is None else "┤", "cyan")
    if not picture.bars or mark.low is not None:
        cells[column(mark.value)] = ("●", "bold green") if mark.full else ("○", "bold yellow")
    return cells


def _points(picture: Picture, width: int, height: int) -> Text:
    """Points in a frame, in colours of their own where they are full; a line of dots joins those of a group, or leads
    in steps along the full ones. Where intervals would not be seen apart, a low frame draws none."""
    if height < _BARS_FROM:
        bare = [replace(mark, low=None, high=None, x_low=None, x_high=None) for mark in picture.marks]
        picture = replace(picture, marks=tuple(bare))
    up, across = value_axis(picture), across_axis(picture)
    columns, between = max(20, width - _MARGIN - 1), max(1, len(up.ticks) - 1)
    # As many lines between two ticks as between any others.
    rows = 1 + between * max(1, (height - _AROUND - 1) // between)
    grid: list[list[Cell]] = [[(" ", "")] * columns for _ in range(rows)]

    def column(value: float) -> int:
        return round(across.place(value) * (columns - 1))

    def level(value: float) -> float:
        """From 0 at the upper edge of the first line."""
        return (1 - up.place(value)) * (rows - 1) + 0.5

    points = named_points(
        picture,
        lambda _, x, value: (column(x) + 0.5, 2 * int(level(value)) + 1.0),
        fit=lambda name: one_line(name, min(_NAME, columns // 2)),
        wide=cell_len,
        high=2,
        gap=(1.5, 1),
        frame=(0, 0, columns, 2 * rows),
    )
    for one in points:
        for (x, y), (to, end) in one.bars:
            start, top, bottom = int(x), int(end) // 2, int(y) // 2
            for line in range(top, bottom + 1) if x == to else ():
                grid[line][start] = ("┬" if line == top else "┴" if line == bottom else "│", _style(one))
            for at in range(start, int(to) + 1) if x < to else ():
                grid[top][at] = ("├" if at == start else "┤" if at == int(to) else "─", _style(one))
    if picture.steps:
        _dotted(grid, steps([(one.at[0], level(one.mark.value or 0.0)) for one in points if one.mark.full], columns))
    key = dict[str, str]()
    for one in points:
        name, line, half = (
            safe(one.mark.group) or one.name,
            int(one.at[1]) // 2,
            level(one.mark.value or 0.0) % 1 >= 0.5,
        )
        if one.box:
            _write(grid[int(one.box[1]) // 2], int(one.box[0]), name, _style(one))
        elif name:
            key[f"{one.number or _DOT} {one_line(name, _NAME)}"] = _style(one)
        shape = (_FULL if one.mark.full else _PALE)[half] if one.box else one.number or _DOT
        grid[line][int(one.at[0])] = (shape, _style(one))
    scale = ", logarithmic" if across.logarithmic else ""
    text = Text(f"{safe(picture.words)} by {safe(picture.x)}{scale}\n", style="dim")
    ticks = {int(level(tick)): said for tick, said in zip(up.ticks, tick_texts(picture, up), strict=True)}
    for at, letters in enumerate(grid):
        text.append(f"{ticks.get(at, ''):>{_MARGIN - 2}} {'┤' if at in ticks else '│'}", style="dim")
        _append(text, letters)
        text.append("\n")
    places = [column(tick) for tick in across.ticks]
    rule = "".join("┬" if at in places else "─" for at in range(columns))
    words = _tick_line(places, [in_unit(tick, picture.x_unit) for tick in across.ticks], columns)
    text.append(f"{'└':>{_MARGIN}}{rule}\n{'':{_MARGIN}}{words}", style="dim")
    if below := _below(picture) if height >= _BARS_FROM else safe(picture.note):
        key[below] = "dim"
    used = width
    for said, style in key.items():
        used += 2 + cell_len(said)
        text.append(f"\n{'':{_MARGIN}}" if used > width else "  ").append(said, style=style)
        used = _MARGIN + cell_len(said) if used > width else used
    return text


def _style(point: NamedPoint) -> str:
    return "dim" if point.colour is None else _STYLES[point.colour % len(_STYLES)]


def _dotted(grid: list[list[Cell]], corners: Sequence[Spot]) -> None:
    """A line of braille dots, level or upright between corners in columns and lines."""
    dots = dict[tuple[int, int], int]()
    for (x, y), (to, end) in pairwise(corners):
        for across in range(int(2 * x), int(2 * to) + (x == to)):
            for down in range(int(4 * min(y, end)), int(4 * max(y, end)) + 1):
                cell = down // 4, across // 2
                dots[cell] = dots.get(cell, 0) | _DOTS[down % 4][across % 2]
    for (line, at), found in dots.items():
        grid[line][at] = (chr(0x2800 + found), "dim")


def _write(line: list[Cell], at: int, words: str, style: str) -> None:
    """Words over a line's letters; a wide one takes two, one without a width stands on the last."""
    for letter in words:
        wide = cell_len(letter)
        line[at - (not wide)] = (letter if wide else line[at - 1][0] + letter, style)
        line[at + 1 : at + wide] = [("", "")] * (wide - 1)
        at += wide


def _append(text: Text, cells: Sequence[Cell]) -> None:
    for letter, style in cells:
        text.append(letter, style=style)


def _below(picture: Picture, axis: str = "") -> str:
    marks = (_PALE[1], _FULL[1]) if picture.points else "○●"
    rows = [f"{marks[full]} {safe(words)}" for full, words in meanings(picture)]
    return "; ".join(words for words in (axis, *rows, *said_below(picture)) if words)


def _tick_line(places: Sequence[int], words: Sequence[str], columns: int) -> str:
    """What stands at ticks, each below its own where there is room."""
    letters, free = [" "] * columns, 0
    for at, said in zip(places, words, strict=True):
        start = max(0, min(at - len(said) // 2, columns - len(said)))
        if start >= free:
            letters[start : start + len(said)] = list(said)
            free = start + len(said) + 1
    return "".join(letters).rstrip()
