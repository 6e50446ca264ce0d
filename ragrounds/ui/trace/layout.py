"""Layout of text on the screen: blocks with a named style, and the lines into which they are cut.

It is fast enough for megabytes and safe for any text: text is made safe first (:func:`ragrounds.ui.text.safe`), so that
no line is wider than requested.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from rich.cells import cell_len, get_character_cell_size, set_cell_size

from ragrounds.ui.text import dollars, safe

MARKDOWN = 50_000
"""Characters of one page that are laid out as Markdown."""
_END = 2
"""Last lines of a folded text that stay visible: a question's demand, a reasoning's conclusion."""
_NOT_FIRST, _MAX_MOVED = frozenset("。，、；：？！）】」』》〉”’…"), 2
"""Punctuation that begins no line of Chinese or Japanese, and the number of letters by which a cut is moved for it."""
_BEFORE_UNIT = re.compile(r" (?<=\d )(?=(?:%|ms|s|min|h|d|k|M|G|kB|MB|GB)(?!\w))")
_PER_CELL = 4
"""Maximal characters per cell: longer piles of combining marks are cut."""

Cells = list[tuple[str, str]]
"""Parts of one line, each with the name of its style."""


class TextBlock(Struct, frozen=True):
    """Text of the detail pane, exactly as it was recorded."""

    text: str
    style: str = "plain"
    """Name of a style in :data:`ragrounds.ui.trace.widgets.STYLES`."""
    indent: int = 0
    spans: tuple[tuple[int, int, str], ...] = ()
    """Begin, end, style: parts of `text` with another style."""
    markdown: bool = False
    """True to lay it out as Markdown in the reading mode; the raw mode shows it as it was written."""
    only: Literal["", "read", "raw"] = ""
    """Mode in which it is shown: only the reading mode or only the raw mode; empty: both."""
    fold: int = 0
    """Lines that are shown while long texts are folded; 0: all."""
    beside: tuple[tuple[TextBlock, ...], ...] = ()
    """Blocks shown in two columns in place of `text`."""

    def seen(self, raw: bool) -> bool:
        """Return True if the block is shown in this mode."""
        return self.only != ("read" if raw else "raw")


class LayoutLine(Struct, frozen=True):
    """Line on the screen."""

    text: str
    style: str
    spans: tuple[tuple[int, int, str], ...] = ()
    """Begin, end, style: parts with another style."""


class TextLayout:
    """Blocks laid out for a width.

    Args:
        blocks: blocks to lay out.
        width: cells of a line.
        raw: True for replies as they were written, False for the reading mode.
        unfolds: key or option that shows folded texts in full; empty: nothing is folded.
    """

    def __init__(self, blocks: Sequence[TextBlock], width: int, raw: bool = False, unfolds: str = "") -> None:
        self.lines: list[LayoutLine] = []
        self._parts: list[tuple[str, list[tuple[int, int]]]] = []
        formatted = 0
        for block in (candidate for candidate in blocks if candidate.seen(raw)):
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
        from ragrounds.ui.trace.markdown import (
            markdown_lines,
        )  # imported late: only readers of replies wait for the parser

        formatted_lines = markdown_lines(shown_text(block.text), width - block.indent)
        if not formatted_lines:
            return False
        text, starts = "", list[tuple[int, int]]()
        for line, spans in formatted_lines:
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
            (text, [(offset, first + line) for offset, line in starts])
            for side in sides
            for text, starts in side._parts
        ]

    def find(self, text: str) -> list[int]:
        """Return the numbers of the lines in which `text` begins; `text` may span several lines."""
        if not text:
            return []
        pattern = search_pattern(text)
        line_numbers: list[int] = []
        for part_text, starts in self._parts:
            index = 0
            for match in pattern.finditer(part_text):
                while index + 1 < len(starts) and starts[index + 1][0] <= match.start():
                    index += 1
                line_numbers.append(starts[index][1])
        return sorted(set(line_numbers))


@lru_cache(maxsize=8)
def search_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a search: the text, ignoring case and differences in white space."""
    return re.compile(r"\s+".join(map(re.escape, shown_text(text).split())) or re.escape(text), re.IGNORECASE)


def _shown_spans(block: TextBlock) -> tuple[str, Sequence[tuple[int, int, str]]]:
    """Return a block's text as it is shown, and its spans in that text."""
    if not block.spans:
        return shown_text(block.text), ()
    cuts = sorted({0, len(block.text), *(edge for begin, end, _ in block.spans for edge in (begin, end))})
    parts = [shown_text(block.text[begin:end]) for begin, end in itertools.pairwise(cuts)]
    offsets = dict(zip(cuts, itertools.accumulate(map(len, parts), initial=0), strict=True))
    return "".join(parts), [(offsets[begin], offsets[end], style) for begin, end, style in block.spans]


def shown_text(text: str) -> str:
    """Return `text` as it is shown: safe, with four spaces for a tab and a line feed for a line end."""
    return safe(text).replace("\t", "    ")


def wrap(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each line of `text`, cut to `width` cells, at spaces if possible.

    A figure and its unit stay together.
    """
    width, text = max(width, 2), _BEFORE_UNIT.sub("_", text)
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
    index = begin
    while index < end:
        letter = text[index]
        used += get_character_cell_size(letter)
        if used > width or index - begin >= width * _PER_CELL:
            cut = space if space > begin else index
            while cut != space and text[cut] in _NOT_FIRST and cut > max(begin + 1, index - _MAX_MOVED):
                cut -= 1
            yield begin, cut
            begin = cut + 1 if cut == space else cut
            index, used, space = begin, 0, -1
            continue
        if letter == " ":
            space = index
        index += 1
    yield begin, end


def fit(text: str, width: int, right: bool = False) -> str:
    """Return `text` in exactly `width` cells: cut with an ellipsis, or padded (on the left if `right`)."""
    if width <= 0:
        return ""
    text = text[: width * 4]
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…"
    pad = " " * (width - size)
    return pad + text if right else text + pad


def narrow_dollars(value: float | None) -> str:
    """Return dollars for a narrow column; an unknown cost is a question mark, never 0."""
    return "$?" if value is None else dollars(value)
