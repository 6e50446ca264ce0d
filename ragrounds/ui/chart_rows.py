"""Pictures of rows as SVG: bars, forests of intervals, stacks of parts. Names stand to the left, figures to the
right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ragrounds.evals.analyses.pictures import Bar, Bars, Forest, ForestRow, PictureAxis, StackRow, Stacks, forest_axis
from ragrounds.ui.chart_points import legend_parts, title_parts
from ragrounds.ui.svg_shapes import (
    BOLD,
    bar,
    level,
    line,
    mark,
    short_names,
    shortened,
    text,
    text_width,
    titled,
    wrapped,
)
from ragrounds.ui.text import TOO_FEW, UNKNOWN, figure_text, percent, points, safe

_ROW = 24.0
"""Height of a row."""
_LONGEST = 0.34
"""Of the width, for names."""
_FIGURES = 0.5
"""Of the width, at most for figures with their notes."""
_APART = 0.01
"""Of the axis: what is nearer to a mark is not seen beside it."""
_SEEN = 2.5
"""The narrowest part of a stack."""
_SHARES = PictureAxis(low=0.0, high=1.0, ticks=(0.0, 0.25, 0.5, 0.75, 1.0))


class _Row(Struct, frozen=True):
    """A row of a picture."""

    name: str
    figure: str
    draw: Callable[[_Strip, float], str]
    """Its shapes, about a height in the strip."""
    group: str = ""


class _Strip:
    """Where values have a place: between names and figures."""

    def __init__(self, axis: PictureAxis, rows: Sequence[_Row], width: float) -> None:
        longest = max((text_width(safe(row.name)) for row in rows), default=0.0)
        self.axis, self.width = axis, width
        self.names = min(longest, width * _LONGEST) + 12
        self.figures = min(max((text_width(row.figure) for row in rows), default=0.0), width * _FIGURES) + 12
        self.left, self.right = self.names + 8, width - self.figures - 4

    def x(self, value: float) -> float:
        """Where a value stands."""
        return round(self.left + self.axis.place(value) * (self.right - self.left), 1)


def _parts(
    axis: PictureAxis,
    rows: Sequence[_Row],
    top: float,
    width: float,
    ticks: Sequence[str],
    words: str,
    reference: float | None = None,
) -> tuple[list[str], float]:
    """Rows below each other, those of a group under its name; the grid behind them, the ticks and what the axis counts
    below. Gives the shapes and where they end.

    Args:
        axis: of all rows.
        rows: from the top.
        top: where they begin.
        width: of the picture.
        ticks: what stands at each tick.
        words: what the axis counts.
        reference: where a line stands through all rows.
    """
    strip = _Strip(axis, rows, width)
    short = short_names([row.name for row in rows], strip.names - 12)
    y, group, drawn, spans = top, "", list[str](), [(top, top)]
    for row in rows:
        if row.group and row.group != group:
            drawn.append(text(0, y + 19, shortened(row.group, width / BOLD), "strong over"))
            y += 26
            spans.append((y, y))
        group, middle = row.group, y + _ROW / 2
        figure = text(width - strip.figures + 6, middle + 4, shortened(row.figure, strip.figures - 8))
        name = text(strip.names - 4, middle + 4, short[row.name], anchor="end")
        drawn.append((titled(row.name, name) if short[row.name] != safe(row.name) else name) + figure)
        drawn.append(row.draw(strip, middle))
        y += _ROW
        spans[-1] = (spans[-1][0], y + 2)
    grid, free, bottom = list[str](), -100.0, spans[-1][1]
    for tick, said in zip(axis.ticks, ticks, strict=True):
        x, half = strip.x(tick), text_width(said) / 2
        grid += [line("grid", x, start, x, end) for start, end in spans if end > start]
        if x - half >= free:
            middle = min(max(x, half), width - half)
            grid.append(text(middle, bottom + 15, said, anchor="middle"))
            free = middle + half + 8
    grid.append(line("axis", strip.left, bottom, strip.right, bottom))
    y = bottom + 34
    for at, one in enumerate(wrapped(words, width - 8)):
        half = text_width(one) / 2
        middle = min(max((strip.left + strip.right) / 2, half), width - half)
        grid.append(text(middle, y + 15 * at, one, "quiet", "middle"))
        bottom = y + 15 * at
    if reference is not None:
        x = strip.x(reference)
        grid += [line("reference", x, start, x, end) for start, end in spans if end > start]
    return [*grid, *drawn], bottom + 6


def forest_parts(forest: Forest, width: float) -> tuple[list[str], float]:
    """A row for each figure with its interval; rows of one group below its name."""
    axis = forest_axis(forest)
    parts, y = title_parts(forest.title, width)
    rows = [_forest_row(forest, row) for row in forest.rows]
    ticks = [tick_text(forest, tick, axis) for tick in axis.ticks]
    drawn, bottom = _parts(axis, rows, y + 2, width, ticks, forest.x, forest.reference)
    legend = [(mark(0, 8, 0), forest.filled)] if forest.filled else []
    if forest.hollow and not all(row.filled for row in forest.rows):
        legend.append((mark(0, 8, 0, hollow=True), forest.hollow))
    if any(_open(axis, row) for row in forest.rows):
        legend.append((line("open", -4, 0, 20, 0), "up to here if every open attempt were right"))
    under, bottom = legend_parts(legend, bottom, width)
    said, bottom = _said([forest.spread and f"bars: {forest.spread}", forest.note], bottom, width)
    return [*parts, *drawn, *under, *said], bottom


def forest_figure(forest: Forest, row: ForestRow) -> str:
    """A row's figure as words: its value, the ends of its interval, its note."""
    note = f" {safe(row.note)}" if row.note else ""
    if row.value is None:
        return f"{UNKNOWN}{note}"
    ends = f"({TOO_FEW})"
    if row.low is not None or row.high is not None:
        low, high = (UNKNOWN if end is None else _one(forest, end) for end in (row.low, row.high))
        ends = f"({low} to {high})"
    return f"{_one(forest, row.value)} {ends}{note}"


def _one(forest: Forest, value: float) -> str:
    if forest.unit == "percent":
        return points(value, 1) if forest.signed else percent(value, 1)
    return figure_text(value, "+.4g" if forest.signed else ".4g")


def tick_text(forest: Forest, value: float, axis: PictureAxis) -> str:
    """What stands at a tick of a forest's axis."""
    if forest.unit != "percent":
        return figure_text(value, "+,.4g" if forest.signed else ",.4g") if value else "0"
    digits = 0 if all(abs(100 * tick - round(100 * tick)) < 1e-6 for tick in axis.ticks) else 1
    if forest.signed:
        return points(value, digits) if value else "0"
    return f"{percent(value, digits)} %"


def _open(axis: PictureAxis, row: ForestRow) -> bool:
    """Whether what open attempts could still make of a figure is seen beside it."""
    if row.best is None or row.value is None:
        return False
    return axis.place(row.best) - axis.place(row.value) > _APART


def _forest_row(forest: Forest, row: ForestRow) -> _Row:
    figure = forest_figure(forest, row)

    def draw(strip: _Strip, y: float) -> str:
        """Its interval, its mark, and what open attempts could make of it."""
        if row.value is None:
            return ""
        shape = ""
        if row.best is not None and _open(strip.axis, row):
            # Below the interval, which it may not leave.
            shape += line("open", strip.x(row.value), y + 7, strip.x(row.best), y + 7)
            shape += line("span", strip.x(row.best), y + 4, strip.x(row.best), y + 10)
        if row.low is not None or row.high is not None:
            # A side without a bound reaches the edge.
            low = strip.left if row.low is None else strip.x(row.low)
            high = strip.right if row.high is None else strip.x(row.high)
            shape += line("span", low, y, high, y)
            ends = (strip.x(end) for end in (row.low, row.high) if end is not None)
            shape += "".join(line("span", end, y - 4, end, y + 4) for end in ends)
        shape += mark(0, strip.x(row.value), y, hollow=not row.filled)
        return titled(f"{row.name}: {figure}", shape)

    return _Row(row.name, figure, draw, row.group)


def bars_parts(bars: Bars, width: float) -> tuple[list[str], float]:
    """Shares as bars, in named groups; bars of one place in every group are alike."""
    parts, y = title_parts(bars.title, width)
    places = enumerate(bars.groups)
    rows = [_bar_row(one, group, place if group else 0) for place, (group, inside) in places for one in inside]
    drawn, bottom = _parts(_SHARES, rows, y + 2, width, _share_ticks(), bars.x)
    said, bottom = _said([bars.spread and f"ends: {bars.spread}"], bottom, width)
    return [*parts, *drawn, *said], bottom


def _share_ticks() -> list[str]:
    return [f"{percent(tick, 0)} %" for tick in _SHARES.ticks]


def _bar_row(one: Bar, group: str, index: int) -> _Row:
    note = f" ({safe(one.note)})" if one.note else ""
    figure = f"{percent(one.value, 1)} %{note}" if one.value is not None else f"{UNKNOWN}{note}"

    def draw(strip: _Strip, y: float) -> str:
        """The bar, and the interval of its end."""
        left, end = strip.x(0.0), strip.x(one.value or 0.0)
        shape = bar(index, left, y - 7, end - left, 14) if one.value else ""
        if one.low is not None and one.high is not None:
            low, high = strip.x(one.low), strip.x(one.high)
            shape += line("halo", low, y, high, y) + level(y, low, high)
        return titled(f"{one.name}: {figure}", shape)

    return _Row(one.name, figure, draw, group)


def stacks_parts(stacks: Stacks, width: float) -> tuple[list[str], float]:
    """Rows of parts, each as long as its share of the row, with a legend of the parts."""
    parts, y = title_parts(stacks.title, width)
    entries = [
        (f'<g transform="translate(-2 0)">{bar(place, 0, -6, 22, 12)}</g>', part.name)
        for place, part in enumerate(stacks.parts)
    ]
    legend, y = legend_parts(entries, y, width)
    rows = [_stack_row(stacks, row) for row in stacks.rows]
    drawn, bottom = _parts(_SHARES, rows, y, width, _share_ticks(), stacks.x)
    return [*parts, *legend, *drawn], bottom


def _stack_row(stacks: Stacks, row: StackRow) -> _Row:
    total = sum(row.counts)

    def draw(strip: _Strip, y: float) -> str:
        """Its parts, from the left."""
        shapes, before = "", 0
        for place, (part, count) in enumerate(zip(stacks.parts, row.counts, strict=True)):
            if not count:
                continue
            left, right = strip.x(before / total), strip.x((before + count) / total)
            hint = f"{row.name}: {part.name} {count:,} ({percent(count / total, 1)} %)"
            # What is there at all is seen, at the end of its row too.
            wide = max(_SEEN, right - left)
            shape = bar(place, min(left, strip.right - wide), y - 8, wide, 16)
            shapes += titled(f"{hint}; {part.about}" if part.about else hint, shape)
            before += count
        return shapes

    return _Row(row.name, f"n = {total:,}", draw)


def _said(notes: Sequence[str], y: float, width: float) -> tuple[list[str], float]:
    lines = [one for note in notes if note for one in wrapped(note, width - 8)]
    return [text(0, y + 10 + 15 * at, one, "quiet") for at, one in enumerate(lines)], y + 15 * len(lines) + 2
