"""A screen of a terminal as SVG that asks nothing of the web, small enough to be kept beside a page.

Cells of one look are one text, its length fixed, so that every monospaced font stands in its columns; whole lines of
ground are rectangles. Colours a terminal chooses itself come from a palette, dark or light.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme

CELL, LINE, FONT = 8.43, 16.5, 14
"""Pixels of a cell's width, of a line, and of the letters: those of DejaVu Sans Mono, whose frames then join."""

DARK = TerminalTheme(
    (17, 19, 24), (228, 230, 235),
    [(48, 52, 60), (255, 123, 134), (108, 195, 108), (240, 180, 64),
     (111, 168, 255), (208, 140, 230), (84, 196, 206), (228, 230, 235)],
    [(138, 145, 158), (255, 154, 162), (131, 214, 131), (247, 200, 96),
     (156, 196, 255), (222, 170, 240), (128, 218, 226), (255, 255, 255)],
)  # fmt: skip
LIGHT = TerminalTheme(
    (251, 251, 250), (27, 30, 36),
    [(27, 30, 36), (179, 32, 46), (28, 107, 42), (122, 82, 0),
     (11, 92, 173), (128, 48, 150), (0, 105, 115), (85, 91, 102)],
    [(85, 91, 102), (160, 24, 38), (20, 89, 31), (105, 70, 0),
     (45, 74, 148), (110, 40, 130), (0, 90, 100), (27, 30, 36)],
)  # fmt: skip


def terminal_svg(lines: Sequence[Iterable[Segment]], width: int, theme: TerminalTheme, title: str) -> str:
    """Lines of segments as a picture.

    Args:
        lines: from top to bottom.
        width: columns of the terminal.
        theme: the colours that segments leave to the terminal.
        title: what a reader who cannot see it is told.
    """
    looks: dict[str, str] = {}
    grounds, texts = [], []
    for number, line in enumerate(lines):
        at, y = 0, number * LINE
        row = []
        for segment in Segment.simplify(line):
            if segment.control:
                continue
            size, (front, behind, bold, underline) = segment.cell_length, _look(segment.style, theme)
            if behind != _hex(theme.background_color):
                grounds.append((round(at * CELL, 1), y, round(size * CELL, 1), behind))
            for begin, part in _parts(segment.text):
                look = f"fill:{front}" + ";font-weight:bold" * bold + ";text-decoration:underline" * underline
                name = looks.setdefault(look, f"c{len(looks)}")
                x, length = round((at + begin) * CELL, 1), round(Segment(part).cell_length * CELL, 1)
                row.append(f'<tspan x="{x}" textLength="{length}" class="{name}">{escape(part)}</tspan>')
            at += size
        if row:
            texts.append(f'<text y="{round(y + LINE * 0.78, 1)}">{"".join(row)}</text>')
    wide, high = round(width * CELL, 1), round(len(lines) * LINE, 1)
    rules = "".join(f".{name}{{{look}}}" for look, name in looks.items())
    rects = "".join(
        f'<rect x="{x}" y="{y}" width="{size}" height="{LINE + 0.3}" fill="{color}"/>' for x, y, size, color in grounds
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 {wide + 16} {high + 16}" width="{wide + 16}" '
        f'role="img" aria-label="{escape(title, quote=True)}"><title>{escape(title)}</title>'
        f"<style>text{{font:{FONT}px 'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}}{rules}</style>"
        f'<rect x="-8" y="-8" width="{wide + 16}" height="{high + 16}" rx="6" fill="{_hex(theme.background_color)}"/>'
        f"<g shape-rendering='crispEdges'>{rects}</g>{''.join(texts)}</svg>\n"
    )


def _parts(text: str) -> Iterable[tuple[int, str]]:
    """Where each part without wide gaps begins, in cells, and the part: blanks between columns need no letters."""
    begin = 0
    while begin < len(text):
        if text[begin] == " ":
            begin += 1
            continue
        end = text.find("   ", begin)
        end = len(text) if end < 0 else end
        part = text[begin:end].rstrip(" ")
        yield Segment(text[:begin]).cell_length, part
        begin = end


def _look(style: Style | None, theme: TerminalTheme) -> tuple[str, str, bool, bool]:
    style = style or Style()
    front = _color(style.color, theme, True)
    behind = _color(style.bgcolor, theme, False)
    if style.reverse:
        front, behind = behind, front
    if style.dim:
        front = tuple((one * 6 + other * 4) // 10 for one, other in zip(front, behind, strict=True))
    return _hex(front), _hex(behind), bool(style.bold), bool(style.underline)


def _color(color: Color | None, theme: TerminalTheme, foreground: bool) -> tuple[int, ...]:
    if color is None or color.is_default:
        return tuple(theme.foreground_color if foreground else theme.background_color)
    return tuple(color.get_truecolor(theme, foreground))


def _hex(color: Iterable[int]) -> str:
    return "#" + "".join(f"{part:02x}" for part in color)
