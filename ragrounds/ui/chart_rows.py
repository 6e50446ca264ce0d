"""Pictures of rows as SVG: bars, forests of intervals, stacks of parts. Names stand to the left, or above their rows
where it is narrow; figures to the right."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.evals.analyses.pictures import Bar, Bars, Forest, ForestRow, PictureAxis, Stacks, forest_axis
from ragrounds.ui.chart_points import legend_parts, title_parts
from ragrounds.ui.svg_shapes import (
    BOLD,
    NARROW,
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

_ROW, _TALL = 24.0, 38.0
"""Height of a row with its name beside it, and below its name."""
_LONGEST = 0.34
"""Of the width, for names."""
_FIGURES = 0.5
"""Of the width, at most for figures with their notes."""
_APART = 0.01
"""Of the axis: what is nearer to a mark is not seen beside it."""
_SEEN = 2.5
"""The narrowest part of a stack."""


class _Rows:
    """Where rows stand: names, the strip that values have a place in, figures."""

    def __init__(self, axis: PictureAxis, names: Sequence[str], figures: Sequence[str], width: float) -> None:
        self.axis, self.width = axis, width
        self.narrow = width <= NARROW
        longest = max((text_width(safe(name)) for name in names), default=0.0)
        self.names = 0.0 if self.narrow else min(longest, width * _LONGEST) + 12
        self.figures = min(max((text_width(one) for one in figures), default=0.0), width * _FIGURES) + 12
        self.left, self.right = self.names + 8, width - self.figures - 4
        self.row = _TALL if self.narrow else _ROW
        self.short = short_names(names, width - 4 if self.narrow else self.names - 12)
        self._over: list[tuple[float, float, float]] = []

    def x(self, value: float) -> float:
        """Where a value stands."""
        return round(self.left + self.axis.place(value) * (self.right - self.left), 1)

    def labels(self, y: float, name: str, figure: str) -> str:
        """A row's name and figure, about the middle `y` of its strip."""
        behind = text(self.width - self.figures + 6, y + 4, shortened(figure, self.figures - 8))
        said = self.short[name]
        if self.narrow:
            self._over.append((y - 30, y - 6, text_width(said) + 5))
        named = text(0, y - 12, said, "over") if self.narrow else text(self.names - 4, y + 4, said, anchor="end")
        return (titled(name, named) if said != safe(name) else named) + behind

    def middle(self, top: float) -> float:
        """The middle of the strip of a row that begins here."""
        return top + (self.row - 11 if self.narrow else self.row / 2)

    def upright(self, kind: str, value: float, spans: Sequence[tuple[float, float]]) -> list[str]:
        """A line at a value through these spans, which stops above names that stand where it would pass."""
        x, parts = self.x(value), []
        for top, end in spans:
            for above, below, right in self._over:
                if x < right and top < below and above < end:
                    parts += [line(kind, x, top, x, above)] if above > top else []
                    top = below
            parts += [line(kind, x, top, x, end)] if end > top else []
        return parts

    def frame(self, spans: Sequence[tuple[float, float]], ticks: Sequence[str], words: str) -> tuple[list[str], float]:
        """The grid, the ticks below it, and what the axis counts; and where all that ends.

        Args:
            spans: from where to where the grid stands: nowhere that groups are named.
            ticks: what stands at each.
            words: what the axis counts.
        """
        bottom = spans[-1][1]
        parts, free = [], -100.0
        for tick, said in zip(self.axis.ticks, ticks, strict=True):
            x = self.x(tick)
            parts += self.upright("grid", tick, spans)
            half = text_width(said) / 2
            if x - half >= free:
                middle = min(max(x, half), self.width - half)
                parts.append(text(middle, bottom + 15, said, anchor="middle"))
                free = middle + half + 8
        parts.append(line("axis", self.left, bottom, self.right, bottom))
        y = bottom + 34
        for at, one in enumerate(wrapped(words, self.width - 8)):
            half = text_width(one) / 2
            middle = min(max((self.left + self.right) / 2, half), self.width - half)
            parts.append(text(middle, y + 15 * at, one, "quiet", "middle"))
            bottom = y + 15 * at
        return parts, bottom + 6


def forest_parts(forest: Forest, width: float) -> tuple[list[str], float]:
    """A row for each figure with its interval; rows of one group below its name."""
    axis = forest_axis(forest)
    figures = [forest_figure(forest, row) for row in forest.rows]
    rows = _Rows(axis, [row.name for row in forest.rows], figures, width)
    parts, y = title_parts(forest.title, width)
    group, drawn, spans = "", list[str](), [(y + 2, y + 2)]
    y += 2
    hollow = False
    for row, figure in zip(forest.rows, figures, strict=True):
        if row.group and row.group != group:
            y += 6
            drawn.append(text(0, y + 13, shortened(row.group, width / BOLD), "strong over"))
            y += 20
            spans.append((y, y))
        group = row.group
        middle = rows.middle(y)
        drawn.append(_forest_row(rows, forest, row, figure, middle))
        hollow = hollow or not row.filled
        y += rows.row
        spans[-1] = (spans[-1][0], y + 2)
    frame, bottom = rows.frame(spans, [tick_text(forest, tick, axis) for tick in axis.ticks], forest.x)
    if forest.reference is not None:
        frame += rows.upright("reference", forest.reference, spans)
    legend = [(mark(0, 8, 0), forest.filled)] if forest.filled else []
    legend += [(mark(0, 8, 0, hollow=True), forest.hollow)] if hollow and forest.hollow else []
    if any(_open(axis, row) for row in forest.rows):
        legend.append((line("open", -4, 0, 20, 0), "up to here if every open attempt were right"))
    under, bottom = legend_parts(legend, bottom, width)
    said, bottom = _said([forest.spread and f"bars: {forest.spread}", forest.note], bottom, width)
    return [*parts, *frame, *drawn, *under, *said], bottom


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


def _forest_row(rows: _Rows, forest: Forest, row: ForestRow, figure: str, y: float) -> str:
    labels = rows.labels(y, row.name, figure)
    if row.value is None:
        return labels
    shape = ""
    if row.best is not None and _open(rows.axis, row):
        # Below the interval, which it may not leave.
        shape += line("open", rows.x(row.value), y + 7, rows.x(row.best), y + 7)
        shape += line("span", rows.x(row.best), y + 4, rows.x(row.best), y + 10)
    if row.low is not None or row.high is not None:
        # A side without a bound reaches the edge.
        low = rows.left if row.low is None else rows.x(row.low)
        high = rows.right if row.high is None else rows.x(row.high)
        shape += line("span", low, y, high, y)
        shape += "".join(
            line("span", rows.x(end), y - 4, rows.x(end), y + 4) for end in (row.low, row.high) if end is not None
        )
    shape += mark(0, rows.x(row.value), y, hollow=not row.filled)
    return labels + titled(f"{row.name}: {figure}", shape)


def bars_parts(bars: Bars, width: float) -> tuple[list[str], float]:
    """Shares as bars, in named groups; bars of one place in every group are alike."""
    axis = PictureAxis(low=0.0, high=1.0, ticks=(0.0, 0.25, 0.5, 0.75, 1.0))
    members = [one for _, group in bars.groups for one in group]
    figures = [_bar_figure(one) for one in members]
    rows = _Rows(axis, [one.name for one in members], figures, width)
    parts, y = title_parts(bars.title, width)
    drawn, at, spans = list[str](), 0, [(y + 2, y + 2)]
    y += 2
    for index, (group, inside) in enumerate(bars.groups):
        if group:
            y += 6
            drawn.append(text(0, y + 13, shortened(group, width / BOLD), "strong over"))
            y += 20
            spans.append((y, y))
        for one in inside:
            drawn.append(_bar(rows, one, figures[at], index if group else 0, rows.middle(y)))
            at, y = at + 1, y + rows.row
            spans[-1] = (spans[-1][0], y + 2)
    frame, bottom = rows.frame(spans, [f"{percent(tick, 0)} %" for tick in axis.ticks], bars.x)
    said, bottom = _said([bars.spread and f"ends: {bars.spread}"], bottom, width)
    return [*parts, *frame, *drawn, *said], bottom


def _bar_figure(one: Bar) -> str:
    note = f" ({safe(one.note)})" if one.note else ""
    return f"{percent(one.value, 1)} %{note}" if one.value is not None else f"{UNKNOWN}{note}"


def _bar(rows: _Rows, one: Bar, figure: str, index: int, y: float) -> str:
    left, end = rows.x(0.0), rows.x(one.value or 0.0)
    shape = bar(index, left, y - 7, end - left, 14) if one.value else ""
    if one.low is not None and one.high is not None:
        low, high = rows.x(one.low), rows.x(one.high)
        shape += line("halo", low, y, high, y) + level(y, low, high)
    return rows.labels(y, one.name, figure) + titled(f"{one.name}: {figure}", shape)


def stacks_parts(stacks: Stacks, width: float) -> tuple[list[str], float]:
    """Rows of parts, each as long as its share of the row, with a legend of the parts."""
    axis = PictureAxis(low=0.0, high=1.0, ticks=(0.0, 0.25, 0.5, 0.75, 1.0))
    totals = [sum(row.counts) for row in stacks.rows]
    figures = [f"n = {total:,}" for total in totals]
    rows = _Rows(axis, [row.name for row in stacks.rows], figures, width)
    parts, y = title_parts(stacks.title, width)
    entries = [
        (f'<g transform="translate(-2 0)">{bar(place, 0, -6, 22, 12)}</g>', part.name)
        for place, part in enumerate(stacks.parts)
    ]
    legend, y = legend_parts(entries, y, width)
    top, drawn = y, list[str]()
    for row, total, figure in zip(stacks.rows, totals, figures, strict=True):
        middle = rows.middle(y)
        drawn.append(rows.labels(middle, row.name, figure))
        before = 0
        for place, (part, count) in enumerate(zip(stacks.parts, row.counts, strict=True)):
            if not count:
                continue
            left, right = rows.x(before / total), rows.x((before + count) / total)
            hint = f"{row.name}: {part.name} {count:,} ({percent(count / total, 1)} %)"
            # What is there at all is seen, at the end of its row too.
            wide = max(_SEEN, right - left)
            shape = bar(place, min(left, rows.right - wide), middle - 8, wide, 16)
            drawn.append(titled(f"{hint}; {part.about}" if part.about else hint, shape))
            before += count
        y += rows.row
    frame, bottom = rows.frame([(top, y + 2)], [f"{percent(tick, 0)} %" for tick in axis.ticks], stacks.x)
    return [*parts, *legend, *frame, *drawn], bottom


def _said(notes: Sequence[str], y: float, width: float) -> tuple[list[str], float]:
    lines = [one for note in notes if note for one in wrapped(note, width - 8)]
    return [text(0, y + 10 + 15 * at, one, "quiet") for at, one in enumerate(lines)], y + 15 * len(lines) + 2
