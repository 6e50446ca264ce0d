"""What pictures are put together from: text of known width, lines, marks that differ in shape, hatching, one style.

Colours are those of the theme, by class: on a page its custom properties, in a picture that stands by itself the
colours themselves. No font comes from outside: Helvetica, or one of those that are as wide (Arial, Liberation Sans).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from html import escape
from os.path import commonprefix

from msgspec import Struct

from ragrounds.ui.text import safe
from ragrounds.ui.theme import SERIES, Theme, palette

SIZE = 12.0
"""Of text."""
WIDE = 720.0
"""Of pictures."""
_LEAST = 560
"""Width below which a picture on a page is not shrunk: there the page scrolls it."""
_WIDTHS = {
    "'ijl": 0.222,
    ' !,./:;I[\\]ft|()-r`{}"*': 0.333,
    "Jcksvxyz": 0.5,
    "+<=>~": 0.584,
    "FTZ": 0.611,
    "&ABEKPSVXY": 0.667,
    "CDHNRUw": 0.722,
    "GOQ": 0.778,
    "Mm": 0.833,
    "%": 0.889,
    "@W": 1.015,
}
"""Width of letters in Helvetica, in heights; all others 0.556. Narrow ones are taken as the widest of their group."""
_EM = {letter: width for letters, width in _WIDTHS.items() for letter in letters}
_SPARE = 1.22
"""Where none of our fonts is, another is wider, such as DejaVu Sans."""
BOLD = 1.1
"""How much wider bold letters are."""
_STYLE = (
    'text{font:12px Helvetica,Arial,"Liberation Sans",sans-serif;fill:var(--ink)}'
    ".title{font-weight:700;font-size:13px}.strong{font-weight:700}.quiet{fill:var(--dim)}"
    ".grid{stroke:var(--line);fill:none}.axis{stroke:var(--edge);fill:none}"
    ".reference{stroke:var(--ink);stroke-dasharray:2 3;fill:none}.span{stroke:var(--ink);stroke-width:1.5;fill:none}"
    ".open{stroke:var(--dim);stroke-width:1.5;stroke-dasharray:3 3;fill:none}"
    ".step{stroke:var(--series-3);stroke-width:2;stroke-dasharray:6 4;fill:none}"
    ".over{paint-order:stroke;stroke:var(--back);stroke-width:3px;stroke-linejoin:round}"
    ".leader{stroke:var(--dim);stroke-width:.75;fill:none}.halo{stroke:var(--back);stroke-width:3;fill:none}"
    ".hollow{fill:var(--back);stroke-width:1.5}.hatch{stroke:var(--back);stroke-width:1.5;fill:none}"
    + "".join(
        f".f{number}{{fill:var(--series-{number})}}.l{number}{{stroke:var(--series-{number})}}"
        for number in range(1, SERIES + 1)
    )
)
DASHES = ("", "7 4", "2 3", "10 3 2 3", "5 2", "1 2", "12 4", "6 2 2 2")
"""Of the lines of series, so that they differ without colour too; the first is unbroken."""


class Box(Struct, frozen=True):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def over(self, other: Box) -> float:
        """The area that both cover."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide * high if wide > 0 and high > 0 else 0.0


def text_width(text: str, size: float = SIZE) -> float:
    """How wide a line of text is, about."""
    em = sum(_EM.get(letter, 1.0 if unicodedata.east_asian_width(letter) in "WF" else 0.556) for letter in text)
    return em * size * _SPARE


def shortened(text: str, width: float, size: float = SIZE) -> str:
    """The text on one safe line of this width; what is too long loses its middle, since names differ at their ends."""
    flat = safe(" ".join(text.split()))
    if text_width(flat, size) <= width:
        return flat
    low, high = 0, len(flat)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text_width(_without_middle(flat, middle), size) <= width else (low, middle - 1)
    return _without_middle(flat, low)


def _without_middle(text: str, kept: int) -> str:
    front = (2 * kept + 2) // 3
    return f"{text[:front]}…{text[len(text) - (kept - front) :] if kept > front else ''}"


def short_names(names: Sequence[str], width: float) -> dict[str, str]:
    """Names on one line of this width each. What too long ones lose is of the beginning that they share, so that what
    tells them apart is left, or else of their middle."""
    flat = {name: safe(" ".join(name.split())) for name in names}
    # By letters, not by parts of paths.
    shared = commonprefix([text for text in flat.values() if text_width(text) > width])  # noqa: RUF071
    shared = shared[: max(shared.rfind(mark) + 1 for mark in "[,=:/ (")] if len(set(flat.values())) > 1 else ""
    made = {}
    for name, text in flat.items():
        rest = text[len(shared) :]
        kept = len(shared)
        while kept > 0 and text_width(f"{shared[:kept]}…{rest}") > width:
            kept -= 1
        fits = text_width(text) <= width or not shared
        made[name] = shortened(text if fits else f"{shared[:kept]}…{rest}", width)
    return made


def wrapped(text: str, width: float, size: float = SIZE) -> list[str]:
    """The text on lines of this width, broken between words."""
    lines: list[str] = []
    for word in safe(text).split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(shortened(word, width, size))
    return lines


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "") -> str:
    """A line of text; `anchor` is ``middle`` or ``end``."""
    chosen = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:g}" y="{y:g}"{chosen}>{escape(safe(words))}</text>'


def upright_text(x: float, y: float, words: str, kind: str = "") -> str:
    """A line of text that is read from below, with its middle here: the title of an axis upwards."""
    chosen = f' class="{kind}"' if kind else ""
    turned = f'transform="translate({x:g} {y:g}) rotate(-90)"'
    return f'<text {turned}{chosen} text-anchor="middle">{escape(safe(words))}</text>'


def line(kind: str, left: float, top: float, right: float, bottom: float) -> str:
    """A straight line."""
    return f'<path class="{kind}" d="M{left:g} {top:g}L{right:g} {bottom:g}"/>'


def upright(x: float, top: float, bottom: float, kind: str = "span") -> str:
    """An interval upwards, with its ends."""
    return f'<path class="{kind}" d="M{x:g} {top:g}V{bottom:g}M{x - 4:g} {top:g}h8M{x - 4:g} {bottom:g}h8"/>'


def level(y: float, left: float, right: float, kind: str = "span") -> str:
    """An interval across, with its ends."""
    return f'<path class="{kind}" d="M{left:g} {y:g}H{right:g}M{left:g} {y - 4:g}v8M{right:g} {y - 4:g}v8"/>'


def titled(hint: str, body: str) -> str:
    """Shapes with what a pointer that rests on them is told."""
    return f"<g><title>{escape(safe(hint))}</title>{body}</g>"


def mark(index: int, x: float, y: float, size: float = 5.0, *, hollow: bool = False) -> str:
    """The mark of a series, from 0: eight shapes, each in its colour; hollow ones are filled with the page."""
    number = index % SERIES + 1
    kind = f"hollow l{number}" if hollow else f"f{number}"
    return f'<path class="{kind}" d="{_outline(index % SERIES, x, y, size)}"/>'


def _outline(shape: int, x: float, y: float, size: float) -> str:
    if shape == 0:
        return f"M{x - size:g} {y:g}a{size:g} {size:g} 0 1 0 {2 * size:g} 0a{size:g} {size:g} 0 1 0 {-2 * size:g} 0Z"
    if shape == 4:  # a cross
        arm = size * 0.4
        return (
            f"M{x - arm:g} {y - size:g}h{2 * arm:g}v{size - arm:g}h{size - arm:g}v{2 * arm:g}h{arm - size:g}"
            f"v{size - arm:g}h{-2 * arm:g}v{arm - size:g}h{arm - size:g}v{-2 * arm:g}h{size - arm:g}Z"
        )
    corners: dict[int, Sequence[tuple[float, float]]] = {
        1: ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        2: ((0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
        3: ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
        5: ((0, 1.15), (1.1, -0.85), (-1.1, -0.85)),
        6: ((-1.25, -0.6), (1.25, -0.6), (1.25, 0.6), (-1.25, 0.6)),
        7: ((-0.6, -1.25), (0.6, -1.25), (0.6, 1.25), (-0.6, 1.25)),
    }
    return "M" + "L".join(f"{x + size * right:g} {y + size * down:g}" for right, down in corners[shape]) + "Z"


def bar(index: int, left: float, top: float, width: float, height: float) -> str:
    """A bar in the colour of a series, hatched from the second on, so that bars differ without colour too."""
    number = index % SERIES + 1
    shape = f'<rect class="f{number}" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}"/>'
    lines = _hatching(index % SERIES, left, top, width, height)
    return shape + (f'<path class="hatch" d="{lines}"/>' if lines else "")


def _hatching(kind: int, left: float, top: float, width: float, height: float) -> str:
    """Lines over a rectangle: none, falling, upright, rising, level, and each of these wider apart."""
    if kind == 0 or width < 3:
        return ""
    step = 7.0 if kind < 5 else 14.0
    slope = {1: 1.0, 5: 1.0, 2: 0.0, 6: 0.0, 3: -1.0, 7: -1.0}.get(kind)
    if slope is None:
        return "".join(f"M{left:g} {top + at * height:g}h{width:g}" for at in (0.3, 0.7))
    made, at = [], left - height + step / 2
    while at < left + width:
        # From (at, top) to (at + slope × height, bottom), as much of it as lies inside.
        start = at if slope >= 0 else at + height
        ends = []
        for down in (0.0, height):
            ends.append((start + slope * down, top + down))
        ends = _inside(ends, left, left + width)
        if ends:
            made.append("M" + "L".join(f"{round(x, 1):g} {round(y, 1):g}" for x, y in ends))
        at += step
    return "".join(made)


def _inside(ends: Sequence[tuple[float, float]], left: float, right: float) -> list[tuple[float, float]]:
    """What of a line lies between two uprights."""
    (x, y), (to_x, to_y) = ends
    if x == to_x:
        return list(ends) if left < x < right else []
    shares = sorted(((left - x) / (to_x - x), (right - x) / (to_x - x)))
    low, high = max(0.0, shares[0]), min(1.0, shares[1])
    if low >= high:
        return []
    return [(x + share * (to_x - x), y + share * (to_y - y)) for share in (low, high)]


def document(parts: Sequence[str], width: float, height: float, description: str, theme: Theme | None) -> str:
    """A picture around its parts.

    Args:
        parts: shapes and texts.
        width: of the picture.
        height: of it.
        description: what it shows, for those who do not see it.
        theme: of a document of its own; ``None``: a part of a page that has :func:`style`.
    """
    said = escape(safe(description))
    size = f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{said}"'
    if theme is None:
        return f'<svg {size} class="picture">{"".join(parts)}</svg>'
    ground = '<rect class="ground" width="100%" height="100%"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" {size}><title>{said}</title>'
        f"<style>{style(theme)}</style>{ground}{''.join(parts)}</svg>"
    )


def style(theme: Theme | None = None) -> str:
    """The style of pictures: with a theme's colours, or (``None``) for a page that has the theme's properties, for
    what stands in a picture alone."""
    if theme is None:
        scoped = "".join(f".picture {rule}}}" for rule in _STYLE.split("}") if rule)
        return f"{scoped}.picture{{display:block;width:100%;height:auto;max-width:{WIDE:g}px;min-width:{_LEAST}px}}"
    colours = palette(theme == "dark")
    return re.sub(r"var\(--([a-z0-9-]+)\)", lambda found: colours[found[1]], _STYLE + ".ground{fill:var(--back)}")
