"""How a table is laid out on a terminal of any width.

A table that fits is drawn as it is, its words folded where need be. One that does not is turned: its rows become
columns, which is how a few agents are compared on 80 columns. Of many rows the columns are drawn in several bands, one
below the other, each with the names of the rows. Where even that does not fit, every row stands in lines of its own.
Figures are never cut or broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size

from ragrounds.ui.columns import FOLDED, Column, TextTable

GAP = 2
"""Blank columns between two columns of a table."""
_AGENT = 20
"""Columns that agents get at least where there is room."""
_NAME = 24
"""Columns to which names are shortened, where a number says which row they are of."""
_NAMED = 24
"""Columns of the names of figures in a turned table, at most."""
_WIDE = 40
"""Columns of a turned table's columns, at most, where its figures need less."""
_HEAD = 5
"""Lines of a heading in a turned table, at most: longer names stand whole below it."""
_INTERVAL = re.compile(r"\d+(\.\d+)? ?%( interval)?|interval")
"""Headings of what belongs to the column before it, and is not parted from it."""
_BREAKS = (re.compile(r"(?<=[\s,/])|(?=\[)"), re.compile(r"(?<=[_=:.\-])"))
"""Where words are broken, and where they are where that is not enough, before they are broken anywhere."""


class Band(Struct, frozen=True):
    """A table, or a part of its columns, that fits with these widths."""

    table: TextTable
    widths: tuple[int, ...]


def laid_out(table: TextTable, width: int) -> tuple[Band, ...]:
    """The parts in which a table is drawn, from the top; none: every row needs lines of its own.

    Args:
        table: with any number of rows.
        width: columns of the terminal.
    """
    whole = _fitting(table, width)
    if whole is not None:
        return (_lower(whole, _fitting(_shortened(table), width)),)
    if any(column.spare for column in table.columns):
        return _without_spare(table, width)
    turned = _turned(table, width)
    return (turned,) if turned is not None else _bands(table, width)


def stacked(table: TextTable, width: int) -> Iterator[str]:
    """Every row in lines: its first words, then its figures with their names. Lines are broken between cells only."""
    words = _keys(table)
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


def _fitting(table: TextTable, width: int) -> Band | None:
    """The table with words folded to the width; ``None``: it is too wide."""
    widths, least = [], []
    for place, column in enumerate(table.columns):
        cells = max((cell_len(line) for row in table.rows for line in row[place].split("\n")), default=0)
        wanted = max(cells, cell_len(column.name), _AGENT if column.name == "agent" else 0)
        # Headings are broken between their words.
        needed = max(cells, *(cell_len(word) for word in column.name.split() or [""]))
        widths.append(wanted)
        least.append(needed if column.right or column.whole else min(wanted, max(column.least, cell_len(column.name))))
    return _narrowed(table, widths, least, width)


def _narrowed(table: TextTable, wanted: Sequence[int], least: Sequence[int], width: int) -> Band | None:
    room = width - GAP * (len(wanted) - 1)
    if sum(least) > room:
        return None
    widths = [min(each, room) for each in wanted]
    while sum(widths) > room:
        widest = max((place for place in range(len(widths)) if widths[place] > least[place]), key=widths.__getitem__)
        widths[widest] -= 1
    return Band(table, tuple(widths))


def _without_spare(table: TextTable, width: int) -> tuple[Band, ...]:
    """The table without the columns that can be spared, as few as need be; what is alike in all their rows, and the
    names of the others, stand below it."""
    kept = list(range(len(table.columns)))
    while True:
        kept.remove(max(kept, key=lambda place: table.columns[place].spare))
        chosen = _chosen(table, kept)
        band = _fitting(chosen, width)
        if band is None and any(column.spare for column in chosen.columns):
            continue
        left = [place for place in range(len(table.columns)) if place not in kept]
        alike = {place: {row[place] for row in table.rows} for place in left}
        said = [f"{table.columns[place].name}: {next(iter(alike[place]))}" for place in left if len(alike[place]) == 1]
        others = [table.columns[place].name for place in left if len(alike[place]) != 1]
        said += [f"left out at this width: {', '.join(others)}"] if others else []
        named = replace(chosen, names=("; ".join(said),))
        return (Band(named, band.widths),) if band is not None else laid_out(named, width)


def _keys(table: TextTable) -> int:
    """How many columns from the left name a row."""
    number = 0
    while number < len(table.columns) and (not table.columns[number].right or table.columns[number].name == "#"):
        number += 1
    return number


def _turned(table: TextTable, width: int) -> Band | None:
    """Rows as columns, headed by what names them; ``None``: they are too many."""
    keys = _keys(table)
    if not table.turns or not keys or len(table.columns) - keys < 2 or not table.rows:
        return None
    figures = table.columns[keys:]
    rows = tuple((column.name, *(row[keys + place] for row in table.rows)) for place, column in enumerate(figures))
    label = max(min(_NAMED, cell_len(column.name)) for column in figures)
    cells = [max(cell_len(line) for row in rows for line in row[place].split("\n")) for place in range(1, len(rows[0]))]
    heads = [_head(table, row[:keys]) for row in table.rows]
    words = [max(map(cell_len, map(str.strip, _parts(head, FOLDED)))) for head in heads]
    whole = [place for place in range(keys) if table.columns[place].whole]
    ids = [max((cell_len(row[place]) for place in whole), default=0) for row in table.rows]
    least = [max(cell, id, min(word, FOLDED)) for cell, id, word in zip(cells, ids, words, strict=True)]
    wanted = max(max(map(cell_len, head.split("\n"))) for head in heads)
    # Columns of one width are easier to compare; the room that is left is not filled for its own sake.
    least, even = [max(least)] * len(least), [max(*least, min(wanted, _WIDE))] * len(least)
    band = _narrowed(table, [label, *even], [label, *least], width)
    if band is None:
        return None
    lines_of, cut = list[list[str]](), list[str]()
    for head, each in zip(heads, band.widths[1:], strict=True):
        lines = folded(head, each)
        if len(lines) > _HEAD and _numbered(table):
            cut.append("  ".join(head.split("\n")))
            lines = [*lines[: _HEAD - 1], f"{lines[_HEAD - 1][: each - 1]}…"]
        lines_of.append(lines)
    height = max(map(len, lines_of))
    named = [Column("\n".join(lines + [""] * (height - len(lines)))) for lines in lines_of]
    turned = replace(table, columns=(Column("", right=False), *named), rows=rows, names=tuple(cut))
    return Band(turned, band.widths)


def _head(table: TextTable, cells: Sequence[str]) -> str:
    """What names a row, as a heading: its number, then its words, each from a line of its own."""
    parts = zip(table.columns, cells, strict=False)
    return "\n".join(f"#{cell}" if column.name == "#" and cell.isdigit() else cell for column, cell in parts if cell)


def _bands(table: TextTable, width: int) -> tuple[Band, ...]:
    """The columns in bands, each with the names of the rows; none: that does not fit, or takes more lines than the rows
    one after the other."""
    keys = _keys(table)
    if not keys:
        return ()
    named = _shortened(table)
    found: list[Band] = []
    groups = _groups(table.columns, keys)
    while groups:
        for count in range(len(groups), 0, -1):
            places = [*range(keys), *(place for group in groups[:count] for place in group)]
            band = _fitting(_chosen(named, places), width)
            if band is not None:
                found.append(band)
                groups = groups[count:]
                break
        else:
            return ()
    if not _numbered(table) and sum(map(_height, found)) > sum(1 for _ in stacked(table, width)):
        return ()
    return tuple(found)


def _groups(columns: Sequence[Column], start: int) -> list[list[int]]:
    """The places of the figures, an interval with the figure that it is of."""
    groups: list[list[int]] = []
    for place in range(start, len(columns)):
        if groups and _INTERVAL.fullmatch(columns[place].name):
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _numbered(table: TextTable) -> bool:
    return bool(table.columns) and table.columns[0].name == "#"


def _shortened(table: TextTable) -> TextTable:
    """The table with names of one line, where a number says of which row they are; what it leaves out are its
    `names`."""
    if not _numbered(table):
        return table
    keys = range(_keys(table))
    cut = [f"#{row[0]}  {row[place]}" for row in table.rows for place in keys if cell_len(row[place]) > _NAME]
    rows = tuple((*(_middle_out(row[place]) for place in keys), *row[len(keys) :]) for row in table.rows)
    columns = tuple(replace(column, whole=True) for column in table.columns)
    return replace(table, columns=columns, rows=rows, names=tuple(cut))


def _middle_out(text: str) -> str:
    """A name without its middle, where it is long: its end tells it from others."""
    if cell_len(text) <= _NAME:
        return text
    start = _NAME // 3
    return f"{set_cell_size(text, start)}…{text[len(text) - (_NAME - start - 1) :]}"


def _chosen(table: TextTable, places: Sequence[int]) -> TextTable:
    columns = tuple(table.columns[place] for place in places)
    return replace(table, columns=columns, rows=tuple(tuple(row[place] for place in places) for row in table.rows))


def _lower(one: Band, other: Band | None) -> Band:
    """The one of fewer lines, the first where both have as many."""
    return one if other is None or _height(one) <= _height(other) else other


def _height(band: Band) -> int:
    """Lines of a part of a table, with the names below it."""
    rows = (max(map(len, map(folded, row, band.widths))) for row in band.table.rows)
    return 1 + sum(rows) + len(band.table.names)


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
