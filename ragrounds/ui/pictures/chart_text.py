"""Pictures made of letters, for a terminal of any width, and the words that all renderings share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from textwrap import wrap

from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ragrounds.evals.analyses.pictures import Axis, Mark, Picture, across_axis, value_axis
from ragrounds.ui.pictures.named_points import NamedPoint, Spot, named_points, steps
from ragrounds.ui.text import TOO_FEW, UNKNOWN, figure_text, in_unit, one_line, percent, points, safe
from ragrounds.ui.theme import SERIES, Theme, palette, series_name

_AROUND, _BARS_FROM = 3, 14
"""Number of lines above and below the frame of the points; height from which their intervals are shown."""
_MARGIN = 7
"""Number of columns to its left, for the vertical axis."""
_NAME_WIDTH = 34
"""Number of columns to the left of rows, for their names."""
_STYLES: Sequence[str] = ("bold bright_blue", "bold yellow", "bold green", "bold magenta", "bold red", "bold cyan")
_FULL, _PALE, _DOT, _OPEN = "▀▄", "⠛⣤", "·", "▷►"
"""Points in the upper and the lower half of a line; a point without a name; pale and full points at a lower bound."""
_DOTS = ((1, 8), (2, 16), (4, 32), (64, 128))
"""Bits of a braille letter, from the top down: left, right."""
Cell = tuple[str, str]
"""Letter and its style."""


class PictureText(Text):
    """Picture made of letters. It keeps the picture, so that a page can render it as SVG."""

    picture: Picture


def draw(picture: Picture, width: int = 80, height: int = 20, theme: Theme | None = None) -> PictureText:
    """Render the picture in at most `width` columns.

    Points take at most `height` lines, and further lines for the names that have no room. Points and names have the
    theme's colours; without a theme, points have those that the terminal chooses, and names have none: yellow on white
    cannot be read.

    Raises:
        UserError: nothing in the picture has a value.
    """
    colours = [palette(theme == "dark")[series_name(index)] for index in range(SERIES)] if theme else ()
    styles = [f"bold {colour}" for colour in colours] or _STYLES
    text = _render_points(picture, width, height, styles, not theme) if picture.points else _render_rows(picture, width)
    rendered = PictureText()
    rendered.append_text(text)
    rendered.picture = picture
    return rendered


def value_text(picture: Picture, value: float | None, digits: int = 1) -> str:
    """Return a value in the picture's unit."""
    if value is None:
        return UNKNOWN
    if picture.unit == "percent":
        return points(value, digits) if picture.signed else percent(value, digits)
    return figure_text(value, "+,.4g" if picture.signed else ",.4g")


def mark_text(picture: Picture, mark: Mark, digits: int = 1) -> str:
    """Return a mark's figure: its value, the ends of its interval, its note."""
    parts = [value_text(picture, mark.value, digits)]
    if mark.value is not None and (mark.low is not None or mark.high is not None):
        parts.append(f"({value_text(picture, mark.low)} to {value_text(picture, mark.high)})")
    elif mark.value is not None and picture.spread and not picture.bars and not picture.points:
        parts.append(f"({TOO_FEW})")
    return " ".join([*parts, safe(mark.note)]).rstrip()


def tick_texts(picture: Picture, axis: Axis) -> list[str]:
    """Return the labels of the ticks of the axis of values."""
    digits = 0 if all(abs(100 * tick - round(100 * tick)) < 1e-6 for tick in axis.ticks) else 1
    return [value_text(picture, tick, digits) if tick or not picture.signed else "0" for tick in axis.ticks]


def meanings(picture: Picture) -> list[tuple[bool, str]]:
    """Return the meaning of full marks, and of hollow ones if there are any."""
    present = {mark.full for mark in picture.marks if mark.value is not None}
    return [
        (full, words) for full, words in ((True, picture.full), (False, picture.hollow)) if words and full in present
    ]


def footnotes(picture: Picture) -> list[str]:
    """Return the sentences below a picture: what its intervals are, and what it leaves out."""
    spread = picture.spread and any(mark.low is not None or mark.high is not None for mark in picture.marks)
    return [safe(words) for words in (f"error bars: {picture.spread}" if spread else "", picture.note) if words]


def _render_rows(picture: Picture, width: int) -> Text:
    """Render a line for each mark: its name, its interval and the mark on the strip, its figure."""
    axis, text, group = value_axis(picture), Text(), ""
    figures = [mark_text(picture, mark) for mark in picture.marks]
    columns = max(10, min(60, width - _NAME_WIDTH - 3 - max(map(cell_len, figures))))
    for mark, figure in zip(picture.marks, figures, strict=True):
        if mark.group and mark.group != group:
            text.append(f"{one_line(mark.group, width)}\n", style="bold")
        group = mark.group
        text.append(f"{set_cell_size(one_line(mark.name, _NAME_WIDTH), _NAME_WIDTH)} ")
        _append_cells(text, _strip(picture, mark, axis, columns))
        text.append(f"  {figure}\n")
    positions = [round(axis.position_of(tick) * (columns - 1)) for tick in axis.ticks]
    text.append(f"{'':{_NAME_WIDTH}} {_tick_line(positions, tick_texts(picture, axis), columns)}\n")
    text.append(f"{'':{_NAME_WIDTH}} {_legend_text(picture, safe(picture.words))}")
    return text


def _strip(picture: Picture, mark: Mark, axis: Axis, columns: int) -> list[Cell]:
    cells = [(" ", "")] * columns

    def column(value: float) -> int:
        return round(axis.position_of(value) * (columns - 1))

    for position in range(column(picture.band[0]), column(picture.band[1]) + 1) if picture.band else ():
        cells[position] = ("░", "dim")
    if picture.reference is not None:
        cells[column(picture.reference)] = ("┊", "dim")
    if mark.value is None:
        return cells
    if picture.bars:
        full = round(axis.position_of(mark.value) * columns)
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


def _render_points(picture: Picture, width: int, height: int, styles: Sequence[str], plain_names: bool) -> Text:
    """Render points in a frame; full points have colours of their own.

    A line of dots joins the points of a group, or leads in steps along the full ones. A low frame shows no intervals,
    since they could not be distinguished.
    """
    if height < _BARS_FROM:
        bare = [replace(mark, low=None, high=None, x_low=None, x_high=None) for mark in picture.marks]
        picture = replace(picture, marks=tuple(bare))
    up, across = value_axis(picture), across_axis(picture)
    columns, between = max(20, width - _MARGIN - 1), max(1, len(up.ticks) - 1)
    # The same number of lines between any two ticks.
    rows = 1 + between * max(1, (height - _AROUND - 1) // between)
    grid: list[list[Cell]] = [[(" ", "")] * columns for _ in range(rows)]

    def column(value: float) -> int:
        return round(across.position_of(value) * (columns - 1))

    def level(value: float) -> float:
        """Return the height of a value in lines, from 0 at the upper edge of the first line."""
        return (1 - up.position_of(value)) * (rows - 1) + 0.5

    def style_of(point: NamedPoint) -> str:
        return "dim" if point.colour is None else styles[point.colour % len(styles)]

    points = named_points(
        picture,
        lambda _, x, value: (column(x) + 0.5, 2 * int(level(value)) + 1.0),
        fit=lambda name: one_line(name, min(_NAME_WIDTH, columns // 2)),
        wide=cell_len,
        high=2,
        gap=(1.5, 1),
        frame=(0, 0, columns, 2 * rows),
    )
    for point in points:
        for (x, y), (to, end) in point.bars:
            start, top, bottom = int(x), int(end) // 2, int(y) // 2
            for line in range(top, bottom + 1) if x == to else ():
                grid[line][start] = ("┬" if line == top else "┴" if line == bottom else "│", style_of(point))
            for position in range(start, int(to) + 1) if x < to else ():
                grid[top][position] = (
                    "├" if position == start else "┤" if position == int(to) else "─",
                    style_of(point),
                )
    if picture.steps:
        _add_dotted_line(
            grid,
            steps(
                sorted((point.spot[0], level(point.mark.value or 0.0)) for point in points if point.mark.full), columns
            ),
        )
    key = dict[str, str]()
    for point in points:
        name, line = safe(point.mark.group) or point.name, int(point.spot[1]) // 2
        name_style = "bold" if plain_names else style_of(point)
        half = level(point.mark.value or 0.0) % 1 >= 0.5
        if point.box:
            _write_words(grid[int(point.box[1]) // 2], int(point.box[0]), name, name_style)
        elif name:
            key[f"{point.number or _DOT} {one_line(name, _NAME_WIDTH)}"] = name_style
        shape = (_FULL if point.mark.full else _PALE)[half] if point.box else point.number or _DOT
        shape = _OPEN[point.mark.full] if point.box and point.mark.is_open else shape
        grid[line][int(point.spot[0])] = (shape, style_of(point))
    scale = ", logarithmic" if across.logarithmic else ""
    text = Text(f"{safe(picture.words)} by {safe(picture.x)}{scale}\n")
    ticks = {int(level(tick)): label for tick, label in zip(up.ticks, tick_texts(picture, up), strict=True)}
    for position, letters in enumerate(grid):
        text.append(f"{ticks.get(position, ''):>{_MARGIN - 2}} {'┤' if position in ticks else '│'}")
        _append_cells(text, letters)
        text.append("\n")
    positions = [column(tick) for tick in across.ticks]
    rule = "".join("┬" if position in positions else "─" for position in range(columns))
    words = _tick_line(positions, [in_unit(tick, picture.x_unit) for tick in across.ticks], columns)
    text.append(f"{'└':>{_MARGIN}}{rule}\n{'':{_MARGIN}}{words}")
    below = _legend_text(picture) if height >= _BARS_FROM else safe(picture.note)
    key |= dict.fromkeys(wrap(below, columns), "")
    line_width = width
    for entry, style in key.items():
        line_width += 2 + cell_len(entry)
        text.append(f"\n{'':{_MARGIN}}" if line_width > width else "  ").append(entry, style=style)
        line_width = _MARGIN + cell_len(entry) if line_width > width else line_width
    return text


def _add_dotted_line(grid: list[list[Cell]], corners: Sequence[Spot]) -> None:
    """Add a line of braille dots, level or upright between corners in columns and lines."""
    dots = dict[tuple[int, int], int]()
    for (x, y), (to, end) in pairwise(corners):
        for across in range(int(2 * x), int(2 * to) + (x == to)):
            for down in range(int(4 * min(y, end)), int(4 * max(y, end)) + 1):
                cell = down // 4, across // 2
                dots[cell] = dots.get(cell, 0) | _DOTS[down % 4][across % 2]
    for (line, position), bits in dots.items():
        grid[line][position] = (chr(0x2800 + bits), "dim")


def _write_words(line: list[Cell], position: int, words: str, style: str) -> None:
    """Write words over a line's letters.

    A wide letter takes two cells; a letter without a width joins the previous one.
    """
    for letter in words:
        wide = cell_len(letter)
        line[position - (not wide)] = (letter if wide else line[position - 1][0] + letter, style)
        line[position + 1 : position + wide] = [("", "")] * (wide - 1)
        position += wide


def _append_cells(text: Text, cells: Sequence[Cell]) -> None:
    for letter, style in cells:
        text.append(letter, style=style)


def _legend_text(picture: Picture, axis: str = "") -> str:
    points = _OPEN if picture.all_open else _PALE[1] + _FULL[1]
    marks = points if picture.points else "○●"
    rows = [f"{marks[full]} {safe(words)}" for full, words in meanings(picture)]
    return "; ".join(words for words in (axis, *rows, *footnotes(picture)) if words)


def _tick_line(positions: Sequence[int], words: Sequence[str], columns: int) -> str:
    """Return the labels of ticks in a line, each below its own tick if there is room."""
    letters, free = [" "] * columns, 0
    for position, label in zip(positions, words, strict=True):
        start = max(0, min(position - len(label) // 2, columns - len(label)))
        if start >= free:
            letters[start : start + len(label)] = list(label)
            free = start + len(label) + 1
    return "".join(letters).rstrip()
