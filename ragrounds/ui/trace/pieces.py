"""What a pane shows, as plain data: pieces of text with a name for their style, and the lines they are laid out in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from ragrounds.ui.trace.wrapping import shown, wrap

LONGEST_MARKDOWN = 100_000
"""Characters up to which Markdown is laid out; longer text is shown as it is."""

Cells = list[tuple[str, str]]
"""Text with the names of its styles, side by side in one line."""


class Piece(Struct, frozen=True):
    """A text of the detail pane. `text` is exactly what was recorded."""

    text: str
    style: str = "plain"
    """One of the names in :data:`ragrounds.ui.trace.lines.STYLES`."""
    indent: int = 0
    markdown: bool = False
    """May be shown as Markdown."""


class Line(Struct, frozen=True):
    """A line on the screen."""

    text: str
    style: str
    spans: tuple[tuple[int, int, str], ...] = ()
    """Begin, end, style: parts in a style of their own."""


class Page:
    """Pieces laid out for a width."""

    def __init__(self, pieces: Sequence[Piece], width: int, markdown: bool = False) -> None:
        self.lines: list[Line] = []
        self._parts: list[tuple[str, list[tuple[int, int]]]] = []
        for piece in pieces:
            if markdown and piece.markdown and len(piece.text) <= LONGEST_MARKDOWN:
                for line in _markdown(piece.text, width - piece.indent, piece.indent):
                    self._parts.append((line.text, [(0, len(self.lines))]))
                    self.lines.append(line)
                continue
            text, pad = shown(piece.text), " " * piece.indent
            starts: list[tuple[int, int]] = []
            for begin, end in wrap(text, width - piece.indent):
                starts.append((begin, len(self.lines)))
                self.lines.append(Line(pad + text[begin:end], piece.style))
            self._parts.append((text, starts))

    def find(self, text: str) -> list[int]:
        """Numbers of the lines in which `text` begins, whatever the case; a line end may stand inside it."""
        if not text:
            return []
        wanted = searching(text)
        found: list[int] = []
        for whole, starts in self._parts:
            at = 0
            for match in wanted.finditer(whole):
                while at + 1 < len(starts) and starts[at + 1][0] <= match.start():
                    at += 1
                found.append(starts[at][1])
        return sorted(set(found))


@lru_cache(maxsize=8)
def searching(text: str) -> re.Pattern[str]:
    """The pattern of a search: the text itself, whatever its case."""
    return re.compile(re.escape(shown(text)), re.IGNORECASE)


def _markdown(text: str, width: int, indent: int) -> list[Line]:
    """Markdown laid out by Rich, as text with emphasis: no links that open, no codes."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=max(width, 20), color_system=None, force_terminal=False, legacy_windows=False)
    made: list[Line] = []
    for segments in console.render_lines(Markdown(shown(text), hyperlinks=False), pad=False):
        line, spans = " " * indent, []
        for segment in segments:
            # An entity such as &#27; has become the character itself by now.
            part = shown(segment.text.rstrip("\n")).replace("\n", " ")
            if segment.style and (segment.style.bold or segment.style.italic or segment.style.underline):
                spans.append((len(line), len(line) + len(part), "strong"))
            line += part
        made.append(Line(line.rstrip(), "plain", tuple(spans)))
    return made
