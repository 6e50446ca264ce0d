"""How a table is laid out on a terminal of any width.

A table that fits is drawn as it is, its words folded where need be. One that does not loses the columns that can be
spared; then its columns are drawn in several bands, one below the other, each with the names of the rows. Where even
that does not fit, every row stands in lines of its own. Figures are never cut or broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size

from ragrounds.ui.columns import TextTable

GAP = 2
"""Blank columns between two columns of a table."""
_INTERVAL = re.compile(r"\d+(\.\d+)? ?%( interval)?|interval")
"""Headings of what belongs to the column before it, and is not parted from it."""
_BREAKS = (re.compile(r"(?<=[\s,/])|(?=\[)"), re.compile(r"(?<=[_=:.\-])"))
"""Where words are broken, and where they are where that is not enough, before they are broken anywhere."""


class Band(Struct, frozen=True):
    """A table, or a part of its columns, that fits with these widths."""

    table: TextTable
    widths: tuple[int, ...]


def laid_out(table: TextTable, width: int) -> tuple[tuple[Band, ...], list[str]]:
    """The parts in which a table is drawn, from the top; none: every row needs lines of its own. And what is said below
    them: of the columns that are spared those that are alike in all rows, and the names of the others.

    Args:
        table: with any number of rows.
        width: columns of the terminal.
    """
    kept, spared = list(range(len(table.columns))), list[int]()
    while (whole := _fitting(table, kept, width)) is None and any(table.columns[place].spare for place in kept):
        spared.append(max(kept, key=lambda place: table.columns[place].spare))
        kept.remove(spared[-1])
    below, others = list[str](), list[str]()
    for place in sorted(spared):
        name, cells = table.columns[place].name, {row[place] for row in table.rows}
        (below if len(cells) == 1 else others).append(f"{name}: {cells.pop()}" if len(cells) == 1 else name)
    below += [f"left out at this width: {', '.join(others)}"] if others else []
    said = ["; ".join(below)] if below else []
    return ((whole,) if whole is not None else _bands(table, kept, width)), said


def stacked(table: TextTable, width: int) -> Iterator[str]:
    """Every row in lines: its first words, then its figures with their names. Lines are broken between cells only."""
    words = len(_keys(table, range(len(table.columns))))
    for row in table.rows:
        cells = [" ".join(cell.split()) for cell in row]
        figures = zip(table.columns[words:], cells[words:], strict=True)
        yield from _filled([cell for cell in cells[:words] if cell], width, "")
        yield from _filled([f"{column.name}: {cell}" for column, cell in figures if cell], width, "  ")


def folded(text: str, width: int) -> list[str]:
    """A text in lines of at most `width` columns, broken after spaces and commas, and before brackets, where it can be;
    the parts put together are the text, apart from blanks at line ends."""
    lines: list[str] = []
    for given in text.split("\n"):
        line = ""
        for part in _parts(given, width):
            if cell_len(line) + cell_len(part.rstrip()) <= width:
                line += part
                continue
            lines += [line.rstrip()] if line.strip() else []
            line = part
            while cell_len(line) > width:
                head = set_cell_size(line, width).rstrip() if width > 1 else line[:1]
                lines.append(head)
                line = line[len(head) :]
        lines.append(line.rstrip())
    return lines


def _parts(text: str, width: int) -> Iterator[str]:
    """What is kept together as long as it can be."""
    for part in _BREAKS[0].split(text):
        yield from [part] if cell_len(part.rstrip()) <= width else _BREAKS[1].split(part)


def _fitting(table: TextTable, places: Sequence[int], width: int) -> Band | None:
    """These columns of the table, with words folded to the width; ``None``: they are too wide."""
    widths, least = [], []
    for place in places:
        column = table.columns[place]
        cells = max((cell_len(line) for row in table.rows for line in row[place].split("\n")), default=0)
        # Headings are broken between their words.
        needed = max(cells, *(cell_len(word) for word in column.name.split() or [""]))
        widths.append(max(cells, cell_len(column.name)))
        least.append(needed if column.right or column.whole else min(widths[-1], max(column.least, len(column.name))))
    room = width - GAP * (len(places) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widest = max((place for place in range(len(widths)) if widths[place] > least[place]), key=widths.__getitem__)
        widths[widest] -= 1
    columns = tuple(table.columns[place] for place in places)
    rows = tuple(tuple(row[place] for place in places) for row in table.rows)
    return Band(replace(table, columns=columns, rows=rows), tuple(widths))


def _keys(table: TextTable, places: Sequence[int]) -> list[int]:
    """The columns from the left that name a row."""
    figures = (at for at, place in enumerate(places) if table.columns[place].right and table.columns[place].name != "#")
    return list(places[: next(figures, len(places))])


def _bands(table: TextTable, places: Sequence[int], width: int) -> tuple[Band, ...]:
    """The columns in bands, each with the names of the rows; none: that does not fit."""
    keys = _keys(table, places)
    groups = list[list[int]]()
    for place in places[len(keys) :]:
        if groups and _INTERVAL.fullmatch(table.columns[place].name):
            groups[-1].append(place)
        else:
            groups.append([place])
    found, taken = list[Band](), list(keys)
    for group in groups:
        wider = _fitting(table, [*taken, *group], width)
        if wider is not None and len(taken) > len(keys):
            found[-1] = wider
        elif (wider := _fitting(table, [*keys, *group], width)) is not None:
            found.append(wider)
            taken = list(keys)
        else:
            return ()
        taken += group
    return tuple(found) if keys else ()


def _filled(parts: Sequence[str], width: int, indent: str) -> Iterator[str]:
    line = ""
    for part in parts:
        longer = f"{line}{' ' * GAP}{part}" if line else indent + part
        if line and cell_len(longer) > width:
            yield line
            longer = "  " + part
        line = longer
    if line:
        yield line
