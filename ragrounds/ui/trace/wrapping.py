"""Text cut into lines of a given width, fast enough for megabytes and safe for any text.

What is shown is made safe first (:func:`ragrounds.ui.text.safe`); then no line is wider than asked, whatever stands
in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import get_character_cell_size

from ragrounds.ui.text import safe

_PER_CELL = 4
"""Characters that a cell may hold at most: piled-up combining marks are cut."""


def shown(text: str) -> str:
    """`text` as it is shown: safe, tabs as spaces, line ends as line feeds."""
    return safe(text).replace("\t", "    ")


def wrap(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each line of `text`, cut at spaces where there are any."""
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
