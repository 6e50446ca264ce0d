"""Pictures drawn with letters, for a terminal of any width, and the words that every drawing of them has."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from ragrounds.evals.analyses.pictures import DOT, Axis, Mark, Picture, across_axis, value_axis
from ragrounds.ui.text import TOO_FEW, UNKNOWN, figure_text, in_unit, one_line, percent, points, safe

_ROWS = 15
"""Lines of the part of a picture in which points stand."""
_MARGIN = 7
"""Columns to its left, for the axis upwards."""
_NAME = 34
"""Columns to the left of rows, for their names."""
_STYLES = ("bold green", "bold yellow", "bold magenta", "bold blue", "bold red")
Cell = tuple[str, str]
"""A letter and its style."""


class PictureText(Text):
    """A picture drawn with letters. It knows what it is of, so that a page can draw the picture itself."""

    picture: Picture


def draw(picture: Picture, width: int = 80, *, legend: bool = True) -> PictureText:
    """The picture in at most `width` columns; without its `legend` where a table beside it names the points.

    Raises:
        UserError: nothing in the picture has a value.
    """
    drawn = PictureText()
    drawn.append_text(_points(picture, width, legend) if picture.points else _rows(picture, width))
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


def point_names(picture: Picture) -> dict[str, int]:
    """The groups of points, and the points without one, with their numbers from 0."""
    return {name: at for at, name in enumerate(dict.fromkeys(mark.group or mark.name for mark in picture.marks))}


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


def _points(picture: Picture, width: int, legend: bool) -> Text:
    """Points in a frame, each as its label, or as the number of its line in the legend, from 1."""
    up, across, numbers = value_axis(picture), across_axis(picture), point_names(picture)
    columns = max(20, width - _MARGIN - 2)
    cells: list[list[Cell]] = [[(" ", "")] * columns for _ in range(_ROWS)]

    def column(value: float) -> int:
        return round(across.place(value) * (columns - 1))

    def row(value: float) -> int:
        return round((1 - up.place(value)) * (_ROWS - 1))

    placed = [(mark, column(mark.x), row(mark.value)) for mark in picture.marks if None not in (mark.x, mark.value)]  # type: ignore[arg-type]
    steps = [(at, level) for mark, at, level in placed if mark.full and picture.steps]
    for (at, level), (end, above) in zip(steps, [*steps[1:], (columns - 1, _ROWS)], strict=False):
        cells[level][at : end + 1] = [(".", "dim")] * (end + 1 - at)
        for between in range(above, level):
            cells[between][end] = (".", "dim")
    for mark, at, level in placed:
        if mark.low is not None and mark.high is not None:
            for between in range(row(mark.high), row(mark.low) + 1):
                cells[between][at] = ("|", "cyan")
        if mark.x_low is not None and mark.x_high is not None:
            start, end = column(mark.x_low), column(mark.x_high)
            cells[level][start : end + 1] = [("-", "cyan")] * (end + 1 - start)
    for mark, at, level in reversed(placed):
        number = numbers[mark.group or mark.name]
        label = mark.label or str(number + 1)
        style = ("bold green" if mark.full else "yellow") if mark.label else _STYLES[number % len(_STYLES)]
        start = min(at, columns - len(label))
        cells[level][start : start + len(label)] = [(letter, style) for letter in label]
    text = Text(f"{safe(picture.words):>{_MARGIN}}\n", style="dim")
    ticks = {row(tick): said for tick, said in zip(up.ticks, tick_texts(picture, up), strict=True)}
    for at, line in enumerate(cells):
        text.append(f"{ticks.get(at, ''):>{_MARGIN - 2}} {'┤' if at in ticks else '│'}", style="dim")
        _append(text, line)
        text.append("\n")
    places = [column(tick) for tick in across.ticks]
    rule = "".join("┬" if at in places else "─" for at in range(columns))
    words = _tick_line(places, [in_unit(tick, picture.x_unit) for tick in across.ticks], columns)
    below = _below(picture, safe(picture.x) + (", logarithmic" if across.logarithmic else ""))
    text.append(f"{'└':>{_MARGIN}}{rule}\n{'':{_MARGIN}}{words}\n{'':{_MARGIN}}{below}", style="dim")
    named = {mark.group or mark.name: mark.label for mark in picture.marks if legend and mark.label != DOT}
    for name, label in named.items():
        text.append(f"\n{'':{_MARGIN}}{label or numbers[name] + 1}", style=_STYLES[numbers[name] % len(_STYLES)])
        text.append(f" {one_line(name, max(20, width - _MARGIN - 4))}")
    return text


def _append(text: Text, cells: Sequence[Cell]) -> None:
    for letter, style in cells:
        text.append(letter, style=style)


def _below(picture: Picture, axis: str) -> str:
    rows = [f"{'●' if full else '○'} {safe(words)}" for full, words in meanings(picture) if not picture.points]
    return "; ".join([axis, *rows, *said_below(picture)])


def _tick_line(places: Sequence[int], words: Sequence[str], columns: int) -> str:
    """What stands at ticks, each below its own where there is room."""
    letters, free = [" "] * columns, 0
    for at, said in zip(places, words, strict=True):
        start = max(0, min(at - len(said) // 2, columns - len(said)))
        if start >= free:
            letters[start : start + len(said)] = list(said)
            free = start + len(said) + 1
    return "".join(letters).rstrip()
