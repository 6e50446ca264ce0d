"""Text as it is laid out on the screen: blocks with the name of their style, and the lines into which they are cut.

Fast enough for megabytes, and safe for any text: what is shown is made safe first (:func:`ragrounds.ui.text.safe`);
then no line is wider than asked, whatever stands in it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from rich.cells import cell_len, get_character_cell_size, set_cell_size

from ragrounds.ui.text import safe

MARKDOWN = 50_000
"""Characters of one page that are laid out as Markdown."""
_END = 2
"""Of the lines of a folded text those that are its last: what a question asks, what a reasoning comes to."""
_PER_CELL = 4
"""Characters that a cell may hold at most: piled-up combining marks are cut."""

Cells = list[tuple[str, str]]
"""Text with the names of its styles, side by side in one line."""


class TextBlock(Struct, frozen=True):
    """A text of the detail pane, exactly as it was recorded."""

    text: str
    style: str = "plain"
    """One of the names in :data:`ragrounds.ui.trace.widgets.STYLES`."""
    indent: int = 0
    spans: tuple[tuple[int, int, str], ...] = ()
    """Begin, end, style: parts of `text` in a style of their own."""
    elsewhere: bool = False
    """Shown in the detail of another node, which a search finds."""
    more: bool = False
    """Not needed at the first look: a passage whole, what stood in earlier prompts too."""
    markdown: bool = False
    """Laid out as Markdown where texts are read, and shown as it was written where not."""
    only: Literal["", "read", "raw"] = ""
    """Shown only where texts are read, or only as they were written."""
    fold: int = 0
    """Lines of it that are shown while long texts are folded; 0: all."""
    beside: tuple[tuple[TextBlock, ...], ...] = ()
    """Blocks that stand in two columns, in the place of `text`."""

    def seen(self, raw: bool) -> bool:
        """Whether it is shown."""
        return self.only != ("read" if raw else "raw")


class LayoutLine(Struct, frozen=True):
    """A line on the screen."""

    text: str
    style: str
    spans: tuple[tuple[int, int, str], ...] = ()
    """Begin, end, style: parts in a style of their own."""


class TextLayout:
    """Blocks laid out for a width.

    Args:
        blocks: what is laid out.
        width: cells of a line.
        raw: replies as they were written, not as they are read.
        unfolds: what shows folded texts whole: a key, an option; empty: nothing is folded.
    """

    def __init__(self, blocks: Sequence[TextBlock], width: int, raw: bool = False, unfolds: str = "") -> None:
        self.lines: list[LayoutLine] = []
        self._parts: list[tuple[str, list[tuple[int, int]]]] = []
        formatted = 0
        for block in (each for each in blocks if each.seen(raw)):
            first = len(self.lines)
            if block.beside:
                half = (width - 3) // 2
                self._add_columns([TextLayout(side, half, raw, unfolds) for side in block.beside], half)
            else:
                formatted += len(block.text) * block.markdown
                if not (block.markdown and not raw and formatted <= MARKDOWN and self._add_markdown(block, width)):
                    self._add(block, width)
            if unfolds and block.fold and len(self.lines) - first > block.fold + 1:
                end = self.lines[len(self.lines) - _END * (block.fold > _END) :]
                hidden = len(self.lines) - first - block.fold
                fold = LayoutLine(f"{' ' * block.indent}⋯ {hidden} more lines ({unfolds})", "dim")
                self.lines[first + block.fold - len(end) :] = [fold, *end]

    def _add(self, block: TextBlock, width: int) -> None:
        (text, spans), pad = _shown_spans(block), " " * block.indent
        starts: list[tuple[int, int]] = []
        for begin, end in wrap(text, width - block.indent):
            starts.append((begin, len(self.lines)))
            inside = tuple(
                (max(first, begin) - begin + block.indent, min(last, end) - begin + block.indent, style)
                for first, last, style in spans
                if first < end and last > begin
            )
            self.lines.append(LayoutLine(pad + text[begin:end], block.style, inside))
        self._parts.append((text, starts))

    def _add_markdown(self, block: TextBlock, width: int) -> bool:
        from ragrounds.ui.trace.markdown import markdown_lines  # only who reads replies waits for its parser

        made = markdown_lines(shown(block.text), width - block.indent)
        if not made:
            return False
        text, starts = "", list[tuple[int, int]]()
        for line, spans in made:
            starts.append((len(text), len(self.lines)))
            text += line + "\n"
            inside = tuple((begin + block.indent, end + block.indent, style) for begin, end, style in spans)
            self.lines.append(LayoutLine(" " * block.indent + line, block.style, inside))
        self._parts.append((text, starts))
        return True

    def _add_columns(self, sides: Sequence[TextLayout], width: int) -> None:
        first = len(self.lines)
        for pair in itertools.zip_longest(*(side.lines for side in sides), fillvalue=LayoutLine("", "plain")):
            text, spans = "", list[tuple[int, int, str]]()
            for line in pair:
                text += " │ " if text else ""
                begin = len(text)
                spans += [(begin, begin + len(line.text), line.style)]
                spans += [(begin + start, begin + end, style) for start, end, style in line.spans]
                text += fit(line.text, width)
            ends = ((start, min(end, len(text)), style) for start, end, style in spans)
            self.lines.append(LayoutLine(text, "plain", tuple(ends)))
        self._parts += [
            (text, [(at, first + line) for at, line in starts]) for side in sides for text, starts in side._parts
        ]

    def find(self, text: str) -> list[int]:
        """The numbers of the lines in which `text` begins; a line end may stand inside it."""
        if not text:
            return []
        wanted = search_pattern(text)
        found: list[int] = []
        for whole, starts in self._parts:
            at = 0
            for match in wanted.finditer(whole):
                while at + 1 < len(starts) and starts[at + 1][0] <= match.start():
                    at += 1
                found.append(starts[at][1])
        return sorted(set(found))


@lru_cache(maxsize=8)
def search_pattern(text: str) -> re.Pattern[str]:
    """The pattern of a search: the text itself, whatever its case and its white space."""
    return re.compile(r"\s+".join(map(re.escape, shown(text).split())) or re.escape(text), re.IGNORECASE)


def _shown_spans(block: TextBlock) -> tuple[str, Sequence[tuple[int, int, str]]]:
    """A block's text as it is shown, and its spans in that."""
    if not block.spans:
        return shown(block.text), ()
    cuts = sorted({0, len(block.text), *(at for begin, end, _ in block.spans for at in (begin, end))})
    parts = [shown(block.text[begin:end]) for begin, end in itertools.pairwise(cuts)]
    places = dict(zip(cuts, itertools.accumulate(map(len, parts), initial=0), strict=True))
    return "".join(parts), [(places[begin], places[end], style) for begin, end, style in block.spans]


def shown(text: str) -> str:
    """`text` as it is shown: safe, with four spaces for a tab and a line feed for a line end."""
    return safe(text).replace("\t", "    ")


def wrap(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each line of `text` when it is cut to `width` cells, at spaces where there are any."""
    width = max(width, 2)
    plain = text.isascii()
    begin = 0
    while True:
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        yield from (_wrap_plain if plain else _wrap_wide)(text, begin, end, width)
        if end == len(text):
            return
        begin = end + 1


def _wrap_plain(text: str, begin: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    while end - begin > width:
        space = text.rfind(" ", begin + 1, begin + width + 1)
        if space < 0:
            yield begin, begin + width
            begin += width
        else:
            yield begin, space
            begin = space + 1
    yield begin, end


def _wrap_wide(text: str, begin: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    if text[begin:end].isascii():
        yield from _wrap_plain(text, begin, end, width)
        return
    used, space = 0, -1
    at = begin
    while at < end:
        letter = text[at]
        used += get_character_cell_size(letter)
        if used > width or at - begin >= width * _PER_CELL:
            cut = space if space > begin else at
            yield begin, cut
            begin = cut + 1 if cut == space else cut
            at, used, space = begin, 0, -1
            continue
        if letter == " ":
            space = at
        at += 1
    yield begin, end


def fit(text: str, width: int, right: bool = False) -> str:
    """`text` in exactly `width` cells: cut with an ellipsis, or padded (on the left where it stands `right`)."""
    if width <= 0:
        return ""
    text = text[: width * 4]
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…"
    pad = " " * (width - size)
    return pad + text if right else text + pad


def narrow_dollars(value: float | None) -> str:
    """Dollars for a narrow column; an unknown cost is a question mark, never 0."""
    if value is None:
        return "$?"
    return f"${value:.2f}" if value == 0 or value >= 0.1 else f"${value:.2g}" if value >= 1e-4 else f"${value:.0e}"
