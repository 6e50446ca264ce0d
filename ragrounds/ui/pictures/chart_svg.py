"""Pictures as SVG: a separate file, or a part of a page. Plain shapes, no script, no external font.

Colours are those of the theme, by class: custom properties on a page, literal colours in a standalone picture. Series
differ in dash as well as in colour.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from html import escape

from ragrounds.evals.analyses.pictures import Axis, Mark, Picture, across_axis, value_axis
from ragrounds.ui.pictures.chart_text import footnotes, mark_text, meanings, tick_texts, value_text
from ragrounds.ui.pictures.named_points import Spot, named_points, series, steps
from ragrounds.ui.text import in_unit, safe, shorten_middle
from ragrounds.ui.theme import SERIES, Theme, palette

WIDE = 720.0
"""Width of pictures."""
PAGE_WIDTH = 520.0
"""Width of pictures on a page: their texts can still be read on a telephone, where they are shrunk by a third."""
_MIN_WIDTH, _MAX_WIDTH = 340, 640
"""Widths on a page between which a picture is scaled; a narrower page scrolls it."""
_MARGIN = 10.0
"""Margin around a standalone picture."""
_LETTER_WIDTH = 7.0
"""Upper bound of a letter's average width, in any font of the host; letters of a bold title are a little wider."""
_LINE, _ROW, _PLANE = 15.0, 24.0, 300.0
"""Heights of a line of text, of a row, and of the area of the points."""
_MIN_DISTANCE = 0.01
"""Share of the axis within which a value cannot be distinguished from its mark."""
_DESCRIBED_FIGURES = 12
"""Number of figures in a picture's description; its table has all."""
_SERIES_SHIFT = 5.0
"""Distance between points of several series with the same position."""
_DASHES = ("", "7 4", "2 3", "10 3 2 3", "5 2", "1 2", "12 4", "6 2 2 2")
_STYLE = (
    'text{font:12px Helvetica,Arial,"Liberation Sans",sans-serif;fill:var(--ink)}'
    ".title{font-weight:700;font-size:13px}.strong{font-weight:700}.quiet{fill:var(--dim)}"
    ".grid{stroke:var(--line);fill:none}.axis{stroke:var(--edge);fill:none}"
    ".reference{stroke:var(--ink);stroke-dasharray:2 3;fill:none}.span{stroke:var(--ink);stroke-width:1.5;fill:none}"
    ".open{stroke:var(--dim);stroke-width:1.5;stroke-dasharray:3 3;fill:none}"
    ".step{stroke:var(--edge);stroke-width:1.5;stroke-dasharray:6 4;fill:none}.joined{stroke-width:2;fill:none}"
    ".over{paint-order:stroke;stroke:var(--back);stroke-width:3px;stroke-linejoin:round}"
    ".pale{stroke:var(--edge);fill:var(--back);stroke-width:1.5;stroke-opacity:.7}.number{font-size:9px;font-weight:700;fill:var(--back)}.halo{stroke:var(--back);stroke-width:3;fill:none}"
    ".f0{fill:var(--dim)}.l0{stroke:var(--dim)}"
    + "".join(
        f".f{number}{{fill:var(--series-{number})}}.l{number}{{stroke:var(--series-{number})}}"
        for number in range(1, SERIES + 1)
    )
    + ".hollow{fill:var(--back);stroke-width:1.5}"
)


def svg(picture: Picture, *, standalone: bool = True, theme: Theme = "light", width: float = WIDE) -> str:
    """Return the picture as SVG.

    Args:
        picture: picture to render.
        standalone: True for a whole document with its colours; else a part of an HTML page that has
            :func:`ragrounds.ui.theme.theme_style` and :func:`picture_style`.
        theme: colours of a document.
        width: width of the document.

    Raises:
        UserError: nothing in the picture has a value.
    """
    edge = _MARGIN if standalone else 0.0
    drawing = _Drawing(picture, width - 2 * edge)
    body, height, label = "".join(drawing.parts), round(drawing.bottom + 8 + 2 * edge), escape(description(picture))
    size = f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{label}"'
    if not standalone:
        return f'<svg {size} class="picture">{body}</svg>'
    colours = palette(theme == "dark")
    style = re.sub(
        r"var\(--([a-z0-9-]+)\)",
        lambda property_match: colours[property_match[1]],
        _STYLE + ".ground{fill:var(--back)}",
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" {size}><title>{label}</title>'
        f'<style>{style}</style><rect class="ground" width="100%" height="100%"/>'
        f'<g transform="translate({edge:g} {edge:g})">{body}</g></svg>'
    )


def page_picture(picture: Picture, width: float = PAGE_WIDTH) -> str:
    """Return the picture as a part of a page that has :func:`ragrounds.ui.theme.theme_style` and :func:`picture_style`.

    A screen that is too narrow for it scrolls it.

    Raises:
        UserError: nothing in the picture has a value.
    """
    return f'<div class="scroll">{svg(picture, standalone=False, width=width)}</div>'


def picture_style() -> str:
    """Return the style of pictures, for a page that contains them and has the theme's properties."""
    scoped = "".join(f".picture {rule}}}" for rule in _STYLE.split("}") if rule)
    return f"{scoped}.picture{{display:block;width:100%;height:auto;max-width:{_MAX_WIDTH}px;min-width:{_MIN_WIDTH}px}}"


def description(picture: Picture) -> str:
    """Return a description of a picture in words: its title and its first figures."""
    figures = [
        f"{mark.group} {mark.name} {mark_text(picture, mark)}".strip() for mark in picture.marks[:_DESCRIBED_FIGURES]
    ]
    more = f"; and {len(picture.marks) - _DESCRIBED_FIGURES:,} more" if len(picture.marks) > _DESCRIBED_FIGURES else ""
    return safe(f"{picture.title}: {'; '.join(figures)}{more}")


def text_width(text: str) -> float:
    """Return an upper estimate of the width of a line of text."""
    return _LETTER_WIDTH * sum(1.8 if unicodedata.east_asian_width(letter) in "WF" else 1.0 for letter in text)


def wrapped(text: str, width: float) -> list[str]:
    """Return the text on lines of this width, broken between words."""
    lines: list[str] = []
    for word in safe(text).split():
        if lines and text_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(shorten_middle(word, width, text_width))
    return lines


class _Drawing:
    """Shapes of a picture, from the top down; `bottom` is the lower end of the last shape."""

    def __init__(self, picture: Picture, width: float) -> None:
        self.picture, self.width, self.bottom = picture, width, 0.0
        self.parts: list[str] = []
        self.values = value_axis(picture)
        self.left, self.right = 0.0, width
        self._add_lines(picture.title, "title")
        unnamed = self._add_points() if picture.points else self._add_rows()
        self._add_legend()
        for words in [*footnotes(picture), *unnamed]:
            self._add_lines(words, "quiet")

    def _add_lines(self, words: str, kind: str) -> None:
        for line in wrapped(words, self.width * 0.9):
            self.bottom += _LINE
            self.parts.append(_text(0, self.bottom, line, kind))

    def _x_of(self, axis: Axis, value: float) -> float:
        return round(self.left + axis.position_of(value) * (self.right - self.left), 1)

    def _add_axis(self, axis: Axis, ticks: Sequence[str], words: str, top: float) -> None:
        """Add the axis at the bottom: its grid up to `top`, the labels of the ticks that have room, and its title."""
        free = -100.0
        for tick, label in zip(axis.ticks, ticks, strict=True):
            x, half = self._x_of(axis, tick), text_width(label) / 2
            self.parts.append(_line("grid", x, top, x, self.bottom))
            if x - half >= free:
                self.parts.append(_text(self._move_inside(x, label), self.bottom + 16, label, anchor="middle"))
                free = x + half + 6
        self.parts.append(_line("axis", self.left, self.bottom, self.right, self.bottom))
        self.bottom += 20
        for line in wrapped(words, self.width):
            self.bottom += _LINE
            self.parts.append(
                _text(self._move_inside((self.left + self.right) / 2, line), self.bottom, line, "quiet", "middle")
            )

    def _move_inside(self, middle: float, words: str) -> float:
        """Return the position of the middle of a text, moved so that the text is inside the picture."""
        half = text_width(words) / 2
        return min(max(middle, half), self.width - half)

    def _add_legend(self) -> None:
        picture, groups = self.picture, {mark.group for mark in self.picture.marks if mark.group and mark.x is not None}
        entries = []
        for full, words in meanings(picture):
            kind = "f0" if full else "pale" if picture.points else "hollow l0"
            shape = _mark(kind, 8, 0, is_open=picture.all_open)
            entries.append((_line("step", -4, 0, 20, 0) if picture.steps and full else shape, words))
        for name, index in series(picture).items():
            if name in groups:
                entries.append((_polyline(index, [(-6, 0), (22, 0)]) + _mark(f"f{index % SERIES + 1}", 8, 0), name))
        if any(self._has_open_share(mark) for mark in picture.marks):
            entries.append((_line("open", -4, 0, 20, 0), "up to here if every open attempt were right"))
        x, y = 6.0, self.bottom + 16
        for shape, words in entries:
            label = shorten_middle(words, self.width - 40, text_width)
            if x > 6 and x + text_width(label) + 30 > self.width:
                x, y = 6.0, y + 18
            self.parts.append(f'<g transform="translate({x:g} {y:g})">{shape}{_text(28, 4, label)}</g>')
            x, self.bottom = x + text_width(label) + 46, y + 8

    def _has_open_share(self, mark: Mark) -> bool:
        """Return True if the figure that open attempts could still lead to is visible next to the mark."""
        if mark.best is None or mark.value is None:
            return False
        return self.values.position_of(mark.best) - self.values.position_of(mark.value) > _MIN_DISTANCE

    def _add_rows(self) -> list[str]:
        """Add a row for each mark: names at the left, figures at the right, the marks of a group under its name."""
        picture, width = self.picture, self.width
        figures = [mark_text(picture, mark) for mark in picture.marks]
        names = min(max(text_width(safe(mark.name)) for mark in picture.marks), width * 0.34)
        room = min(max(map(text_width, figures)), width * 0.5)
        self.left, self.right = names + 16, width - room - 14
        colours = series(picture)
        top, group, shapes = self.bottom + 8, "", []
        self.bottom = top
        for mark, figure in zip(picture.marks, figures, strict=True):
            if mark.group and mark.group != group:
                shapes.append(
                    _text(0, self.bottom + 19, shorten_middle(mark.group, width * 0.9, text_width), "strong over")
                )
                self.bottom += _ROW
            group, y = mark.group, self.bottom + _ROW / 2
            name = shorten_middle(mark.name, names, text_width)
            label = _text(names + 4, y + 4, name, anchor="end")
            shapes.append(label if name == safe(mark.name) else _with_tooltip(mark.name, label))
            shapes.append(_text(width - room, y + 4, shorten_middle(figure, room, text_width)))
            if mark.value is not None:
                listed = [colours[name] for name in (mark.name, group) if name in picture.series_names]
                number = (listed[0] if listed else colours.get(group, 0)) % SERIES + 1
                shape = self._bar(mark, number, y) if picture.bars else self._interval(mark, number, y)
                shapes.append(_with_tooltip(f"{mark.name}: {figure}", shape))
            self.bottom += _ROW
        if picture.reference is not None:
            x = self._x_of(self.values, picture.reference)
            shapes.insert(0, _line("reference", x, top, x, self.bottom))
        for low, high in [[self._x_of(self.values, end) for end in picture.band]] if picture.band else ():
            shapes.insert(0, f'<path fill="var(--line)" d="M{low:g} {top:g}H{high:g}V{self.bottom:g}H{low:g}"/>')
        self._add_axis(self.values, tick_texts(picture, self.values), picture.words, top)
        self.parts += shapes
        return []

    def _bar(self, mark: Mark, number: int, y: float) -> str:
        end, left = self._x_of(self.values, mark.value or 0.0), self.left
        shape = f'<rect class="f{number}" x="{left:g}" y="{y - 7:g}" width="{round(end - left, 1):g}" height="14"/>'
        if mark.low is None or mark.high is None:
            return shape
        low, high = self._x_of(self.values, mark.low), self._x_of(self.values, mark.high)
        return shape + _line("halo", low, y, high, y) + _capped_line((low, y), (high, y))

    def _interval(self, mark: Mark, number: int, y: float) -> str:
        x, shape = self._x_of(self.values, mark.value or 0.0), ""
        if mark.best is not None and self._has_open_share(mark):
            # Below the interval, since the open share may lie completely inside it.
            best = self._x_of(self.values, mark.best)
            shape += _line("open", x, y + 7, best, y + 7) + _line("span", best, y + 4, best, y + 10)
        if mark.low is not None or mark.high is not None:
            # A side without a bound reaches the edge.
            low = None if mark.low is None else self._x_of(self.values, mark.low)
            high = None if mark.high is None else self._x_of(self.values, mark.high)
            shape += _line("span", self.left if low is None else low, y, self.right if high is None else high, y)
            shape += "".join(_line("span", end, y - 4, end, y + 4) for end in (low, high) if end is not None)
        return shape + _mark(f"f{number}" if mark.full else f"hollow l{number}", x, y)

    def _add_points(self) -> list[str]:
        """Add points in a frame and return a sentence that names the points without room for a name."""
        picture, across, up = self.picture, across_axis(self.picture), self.values
        ticks, numbers = tick_texts(picture, up), series(picture)
        top, bottom = self.bottom + 14, self.bottom + _PLANE
        self.left, self.right = max(map(text_width, ticks)) + 30, self.width - 14

        def height(value: float) -> float:
            return round(bottom - up.position_of(value) * (bottom - top), 1)

        groups = list(dict.fromkeys(mark.group for mark in picture.marks if mark.group))
        shift = 0.0 if across.logarithmic else min(_SERIES_SHIFT, 24.0 / max(1, len(groups)))

        def left(mark: Mark, x: float) -> float:
            """Return the horizontal position of a point: points of several series do not hide each other."""
            moved = (groups.index(mark.group) - (len(groups) - 1) / 2) * shift if mark.group else 0.0
            return self._x_of(across, x) + moved

        self.bottom = bottom
        scale = ", logarithmic" if across.logarithmic else ""
        self._add_axis(across, [in_unit(tick, picture.x_unit) for tick in across.ticks], f"{picture.x}{scale}", top)
        for tick, label in zip(up.ticks, ticks, strict=True):
            self.parts.append(_line("grid", self.left, height(tick), self.right, height(tick)))
            self.parts.append(_text(self.left - 6, height(tick) + 4, label, anchor="end"))
        words = escape(shorten_middle(picture.words, bottom - top, text_width))
        turned = f'transform="translate(12 {(top + bottom) / 2:g}) rotate(-90)"'
        self.parts.append(f'<text {turned} class="quiet" text-anchor="middle">{words}</text>')
        points = named_points(
            picture,
            lambda mark, x, value: (left(mark, x), height(value)),
            fit=lambda name: shorten_middle(name, min(250.0, (self.right - self.left) * 0.55), text_width),
            wide=lambda name: 1.1 * text_width(name),
            high=14,
            gap=(9, 8),
            frame=(self.left + 2, top - 4, self.right + 10, bottom - 2),
        )
        if picture.steps:
            corners = steps(sorted(point.spot for point in points if point.mark.full), self.right)
            self.parts.append(f'<path class="step" d="M{"L".join(f"{x:g} {y:g}" for x, y in corners)}"/>')
        for group in groups:
            self.parts.append(_polyline(numbers[group], [point.spot for point in points if point.mark.group == group]))
        names, key = list[str](), list[str]()
        for point in points:
            mark, (x, y), box = point.mark, point.spot, point.box
            number, label = "" if point.colour is None else f"{point.colour % SERIES + 1}", mark_text(picture, mark, 2)
            hint = f"{mark.group or mark.name}: {label}; {picture.x} {in_unit(mark.x or 0.0, picture.x_unit)}"
            size = 5.0 if mark.group or box else 8.0 if point.number else 2.5
            self.parts += [_capped_line(*ends, f"span l{number}" if number else "span pale") for ends in point.bars]
            kind = "pale" if not number else f"f{number}" if mark.full or mark.group else f"hollow l{number}"
            self.parts.append(_with_tooltip(hint, _mark(kind, x, y, size, mark.is_open)))
            if box:
                # Anchored at the side of its point, so that the name is there in any font.
                right, on_left = box[0] >= x - 1, box[2] <= x + 1
                text_x, anchor = (
                    (box[0], "") if right else (box[2], "end") if on_left else (sum(box[::2]) / 2, "middle")
                )
                text = _text(text_x, box[3] - 3.5, point.name, f"over f{number}" + " strong" * mark.full, anchor)
                names.append(text if point.name == safe(mark.name) else _with_tooltip(mark.name, text))
            elif point.name:
                names.append(
                    _text(x, y + 3.5, point.number, f"number f{number}" if not mark.full else "number", "middle")
                )
                key.append(f"{point.number} {safe(mark.name)} {value_text(picture, mark.value)}".lstrip())
        self.parts += names
        return ["; ".join(key)] if key else []


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "") -> str:
    attributes = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{round(x, 1):g}" y="{round(y, 1):g}"{attributes}>{escape(safe(words))}</text>'


def _line(kind: str, left: float, top: float, right: float, bottom: float) -> str:
    return f'<path class="{kind}" d="M{left:g} {top:g}L{right:g} {bottom:g}"/>'


def _capped_line(start: Spot, to: Spot, kind: str = "span") -> str:
    """Return an interval, upright or level."""
    (x, y), (end, above) = start, to
    cap = "m0 -4v8" if x < end else "m-4 0h8"
    return f'<path class="{kind}" d="M{x:g} {y:g}L{end:g} {above:g}M{x:g} {y:g}{cap}M{end:g} {above:g}{cap}"/>'


def _with_tooltip(hint: str, body: str) -> str:
    """Return shapes with a tooltip."""
    return f"<g><title>{escape(safe(hint))}</title>{body}</g>"


def _mark(kind: str, x: float, y: float, size: float = 5.0, is_open: bool = False) -> str:
    if is_open:
        return f'<path class="{kind}" d="M{x - size:g} {y - size:g}L{x + size:g} {y:g}L{x - size:g} {y + size:g}z"/>'
    return f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="{size:g}"/>'


def _polyline(index: int, corners: Sequence[tuple[float, float]]) -> str:
    path, dash = " ".join(f"{x:g},{y:g}" for x, y in corners), _DASHES[index % len(_DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline class="joined l{index % SERIES + 1}" points="{path}"{dashed}/>'
