"""Points and profiles as SVG: marks with their intervals, lines that join them, names at their places."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.evals.analyses.pictures import DOT, HopProfile, Mark, PictureAxis, Points, Series, point_axes
from ragrounds.ui.label_places import PointName, name_places
from ragrounds.ui.svg_shapes import (
    BOLD,
    DASHES,
    SIZE,
    Box,
    level,
    line,
    mark,
    short_names,
    shortened,
    text,
    text_width,
    titled,
    upright,
    upright_text,
    wrapped,
)
from ragrounds.ui.text import in_unit, percent, safe

_LINE = 18.0
"""Height of a line of the legend."""
_ON, _OFF = 2, 1
"""Series in whose colour marks on the frontier are drawn, and those that are not on it."""
_LONGEST_NAME = 250.0
_APART = 5.0
"""Between marks of several series at one place."""


def points_parts(points: Points, width: float) -> tuple[list[str], float]:
    """The shapes of a picture of points under its title, and the height that they take."""
    parts, y = title_parts(points.title, width)
    height = 300.0
    panel = _Panel(points, Box(0.0, y, width, y + height), width)
    parts += panel.drawn()
    legend, bottom = _legend(points.lines, y + height + 6, width, points)
    unnamed, bottom = _listed("not named in the picture: " + "; ".join(panel.unnamed), bottom, width, panel.unnamed)
    return [*parts, *legend, *unnamed], bottom


def profile_parts(profile: HopProfile, width: float) -> tuple[list[str], float]:
    """The panels beside each other, and one legend."""
    parts, y = title_parts(profile.title, width)
    gap, height, count = 16.0, 230.0, len(profile.panels)
    each = (width - gap * (count - 1)) / max(count, 1)
    for index, points in enumerate(profile.panels):
        left = index * (each + gap)
        parts.append(text(left, y + 2, shortened(points.title, each / BOLD), "strong"))
        parts += _Panel(points, Box(left, y + 10, left + each, y + height), width).drawn()
    legend, bottom = _legend(profile.panels[0].lines if profile.panels else (), y + height + 6, width)
    return [*parts, *legend], bottom


def title_parts(title: str, width: float) -> tuple[list[str], float]:
    """The lines of a title, and where what it is over begins."""
    lines = wrapped(title, width - 8, 13 * BOLD)
    return [text(0, 14 + 16 * at, one, "title") for at, one in enumerate(lines)], 14 + 16 * len(lines)


def _listed(words: str, y: float, width: float, of: Sequence[str]) -> tuple[list[str], float]:
    if not of:
        return [], y
    lines = wrapped(words, width - 8)
    return [text(0, y + 12 + 15 * at, one, "quiet") for at, one in enumerate(lines)], y + 15 * len(lines) + 4


class _Panel:
    """Axes with their grid in a part of the picture, in which values have a place."""

    def __init__(self, points: Points, box: Box, width: float) -> None:
        self.points = points
        self.across, self.up = point_axes(points)
        ticks = max(text_width(self._share(tick)) for tick in self.up.ticks)
        self.left = box.left + ticks + 30
        self.right, self.top, self.bottom = box.right - 14, box.top + 8, box.bottom - 44
        self.box, self.width = box, width
        self.unnamed: list[str] = []
        """Names for which there was no place."""

    def x(self, value: float) -> float:
        """Where a value of the axis across stands."""
        return round(self.left + self.across.place(value) * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        """Where a value of the axis upwards stands."""
        return round(self.bottom - self.up.place(value) * (self.bottom - self.top), 1)

    def drawn(self) -> list[str]:
        """Axes, lines, intervals, marks, names."""
        marks = [one for series in self.points.lines for one in series.marks]
        parts = self._axes()
        if self.points.steps:
            parts += self._steps([one for one in marks if one.emphasis])
        for index, series in enumerate(self.points.lines):
            if series.joined and len(series.marks) > 1:
                parts.append(self._joined(index, series))
        for index, series in enumerate(self.points.lines):
            parts += [self._spans(one, self._moved(index, series)) for one in series.marks]
        for index, series in reversed(list(enumerate(self.points.lines))):
            parts += [self._mark(index, series, one) for one in series.marks]
        return [*parts, *self._names()]

    def _moved(self, index: int, series: Series) -> float:
        """How far the marks of a series stand beside their place, so that those of several do not hide each other."""
        joined = [at for at, one in enumerate(self.points.lines) if one.joined and len(one.marks) > 1]
        if not series.joined or index not in joined or self.across.logarithmic:
            return 0.0
        return (joined.index(index) - (len(joined) - 1) / 2) * min(_APART, 24.0 / len(joined))

    def _share(self, value: float) -> str:
        digits = 0 if all(abs(100 * tick - round(100 * tick)) < 1e-6 for tick in self.up.ticks) else 1
        return f"{percent(value, digits)} %"

    def _axes(self) -> list[str]:
        parts, free = [], self.box.left
        for tick, words in zip(self.across.ticks, self._ticks(self.across), strict=True):
            x = self.x(tick)
            parts.append(line("grid", x, self.top, x, self.bottom))
            half = text_width(words) / 2
            middle = min(max(x, self.box.left + half), self.box.right - half)
            if middle - half >= free:
                parts.append(text(middle, self.bottom + 16, words, anchor="middle"))
                free = middle + half + 6
        for tick in self.up.ticks:
            y = self.y(tick)
            parts.append(line("grid", self.left, y, self.right, y))
            parts.append(text(self.left - 6, y + 4, self._share(tick), anchor="end"))
        scale = ", logarithmic" if self.across.logarithmic else ""
        parts += [
            line("axis", self.left, self.bottom, self.right, self.bottom),
            line("axis", self.left, self.top, self.left, self.bottom),
        ]
        if self.points.x:
            words = shortened(f"{self.points.x}{scale}", self.box.right - self.box.left)
            half = text_width(words) / 2
            middle = min(max((self.left + self.right) / 2, self.box.left + half), self.box.right - half)
            parts.append(text(middle, self.bottom + 36, words, "quiet", "middle"))
        words = shortened(self.points.up, self.bottom - self.top + 40)
        parts.append(upright_text(self.box.left + 12, (self.top + self.bottom) / 2, words, "quiet"))
        return parts

    def _ticks(self, axis: PictureAxis) -> list[str]:
        return [in_unit(tick, self.points.unit) for tick in axis.ticks]

    def _steps(self, marks: Sequence[Mark]) -> list[str]:
        """A line along the emphasised marks: level, then up to the next, and on to the right edge."""
        path = ""
        for one in marks:
            x, y = self.x(one.x), self.y(one.value)
            path += f"H{x:g}V{y:g}" if path else f"M{x:g} {y:g}"
        return [f'<path class="step" d="{path}H{self.right:g}"/>'] if path else []

    def _joined(self, index: int, series: Series) -> str:
        moved = self._moved(index, series)
        path = " ".join(f"{self.x(one.x) + moved:g},{self.y(one.value):g}" for one in series.marks)
        dash = DASHES[index % len(DASHES)]
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        return f'<polyline class="l{index % 8 + 1}" points="{path}" fill="none" stroke-width="2"{dashed}/>'

    def _spans(self, one: Mark, moved: float) -> str:
        """A mark's intervals, upwards and across."""
        x, y, parts = self.x(one.x) + moved, self.y(one.value), ""
        if one.low is not None and one.high is not None:
            parts += upright(x, self.y(one.high), self.y(one.low))
        if one.x_low is not None and one.x_high is not None:
            parts += level(y, self.x(one.x_low), self.x(one.x_high))
        return parts

    def _mark(self, index: int, series: Series, one: Mark) -> str:
        x, y = self.x(one.x) + self._moved(index, series), self.y(one.value)
        at = f"{safe(self.points.x)} {in_unit(one.x, self.points.unit)}".strip()
        ends = ""
        if one.low is not None and one.high is not None:
            ends = f" (95 %: {percent(one.low, 1)} to {percent(one.high, 1)})"
        hint = f"{one.name or series.name}: {percent(one.value)} %{ends}; {at}"
        if not one.label:
            return titled(hint, mark(index, x, y, 4.5))
        size = 2.5 if one.label == DOT else 5.0
        return titled(hint, mark(_ON if one.emphasis else _OFF, x, y, size, hollow=not one.emphasis))

    def _names(self) -> list[str]:
        """The names of labelled marks beside them, the emphasised ones first."""
        named = [
            (series.name, one)
            for series in self.points.lines
            for one in series.marks
            if one.label and one.label != DOT and not one.name
        ]
        named.sort(key=lambda pair: not pair[1].emphasis)
        room = min(_LONGEST_NAME, (self.right - self.left) * 0.55)
        short = short_names([name for name, _ in named], room)
        words = [short[name] for name, _ in named]
        marks, lines = self._boxes()
        wanted = [
            PointName(self.x(one.x), self.y(one.value), text_width(said) * (BOLD if one.emphasis else 1), SIZE + 2)
            for said, (_, one) in zip(words, named, strict=True)
        ]
        frame = Box(self.left + 2, self.top - 4, self.right + 10, self.bottom - 2)
        parts = []
        for said, (name, one), place in zip(words, named, name_places(wanted, marks, lines, frame), strict=True):
            if place is None:
                self.unnamed.append(f"{safe(name)} {percent(one.value, 1)} %")
                continue
            box, x, y = place.box, self.x(one.x), self.y(one.value)
            if place.away > 15:
                to_x, to_y = min(max(x, box.left), box.right), min(max(y, box.top), box.bottom)
                parts.append(line("leader", x, y, to_x, to_y))
            at = text(box.left, box.bottom - 3.5, said, "strong over" if one.emphasis else "over")
            parts.append(titled(name, at) if said != safe(name) else at)
        return parts

    def _boxes(self) -> tuple[list[Box], list[Box]]:
        """What names may not cover, and what they had better not cover."""
        marks, lines = [], []
        for series in self.points.lines:
            for one in series.marks:
                x, y = self.x(one.x), self.y(one.value)
                reach = 3.0 if one.label == DOT else 6.0
                marks.append(Box(x - reach, y - reach, x + reach, y + reach))
                if one.low is not None and one.high is not None:
                    lines.append(Box(x - 4, self.y(one.high), x + 4, self.y(one.low)))
                if one.x_low is not None and one.x_high is not None:
                    lines.append(Box(self.x(one.x_low), y - 4, self.x(one.x_high), y + 4))
        return marks, [*lines, *self._step_boxes()]

    def _step_boxes(self) -> list[Box]:
        ends = [(self.x(one.x), self.y(one.value)) for each in self.points.lines for one in each.marks if one.emphasis]
        if not self.points.steps or not ends:
            return []
        made = []
        for (x, y), (to_x, to_y) in zip(ends, [*ends[1:], (self.right, ends[-1][1])], strict=True):
            made += [Box(min(x, to_x), y - 2, max(x, to_x), y + 2), Box(to_x - 2, min(y, to_y), to_x + 2, max(y, to_y))]
        return made


def _legend(
    series: Sequence[Series], top: float, width: float, points: Points | None = None
) -> tuple[list[str], float]:
    """What marks mean, a line each, or several on one where they fit."""
    entries: list[tuple[str, str]] = []
    if points is not None and points.steps:
        entries.append((mark(_ON, 8, 0), "on the frontier (the broken line): none scores as high for less"))
        if any(not one.emphasis and one.label for each in series for one in each.marks):
            entries.append((mark(_OFF, 8, 0, hollow=True), "not on it"))
    for index, one in enumerate(series):
        if any(not each.label for each in one.marks):
            drawn = mark(index, 8, 0)
            if one.joined and len(one.marks) > 1:
                dash = DASHES[index % len(DASHES)]
                dashed = f' stroke-dasharray="{dash}"' if dash else ""
                drawn += f'<path class="l{index % 8 + 1}" d="M-6 0H22" fill="none" stroke-width="2"{dashed}/>'
            entries.append((drawn, one.name))
        elif any(each.label == DOT for each in one.marks):
            entries.append((mark(_OFF, 8, 0, 2.5, hollow=True), one.name))
    return legend_parts(entries, top, width)


def legend_parts(entries: Sequence[tuple[str, str]], top: float, width: float) -> tuple[list[str], float]:
    """Shapes with their names beside each other, on as many lines as they need. A shape is drawn about (8, 0)."""
    parts, x, y = [], 6.0, top + 8
    for shape, name in entries:
        lines = wrapped(name, width - 40) or [""]
        wide = max(map(text_width, lines)) + 46
        if x > 6 and x + wide > width:
            x, y = 6.0, y + _LINE
        said = "".join(text(28, 4 + 15 * at, one) for at, one in enumerate(lines))
        parts.append(f'<g transform="translate({x:g} {y:g})">{shape}{said}</g>')
        x, y = x + wide, y + 15 * (len(lines) - 1)
    return parts, (y + _LINE if entries else top)
