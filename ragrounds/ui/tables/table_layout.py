"""The layout of a table on a terminal of any width.

A table that fits is printed whole, with its words folded if needed. A table that does not fit loses its optional
columns; then its columns are printed in several bands, one below the other, each with the names of the rows. If even
that does not fit, every row gets lines of its own. Figures are never cut or broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size

from ragrounds.ui.columns import TextTable

GAP = 2
"""Number of blank columns between two columns of a table."""
_INTERVAL = re.compile(r"\d+(\.\d+)? ?%( interval)?|interval")
"""Headings of columns that belong to the column before them and are kept next to it."""
_BREAKS = (re.compile(r"(?<=[\s,/])|(?=\[)"), re.compile(r"(?<=[_=:.\-])"))
"""Positions at which words are broken: preferred ones first, then further ones. Other positions are the last resort."""


class Band(Struct, frozen=True):
    """Table, or a part of its columns, that fits with these widths."""

    table: TextTable
    widths: tuple[int, ...]

    @property
    def heading_lines(self) -> int:
        """Number of lines of its headings, which are broken between words."""
        headings = zip(self.table.columns, self.widths, strict=True)
        return max(len(folded(column.name, width)) for column, width in headings)


def laid_out(table: TextTable, width: int) -> tuple[tuple[Band, ...], list[str]]:
    """Split a table into parts that fit, from the top, and return them with the remark below them.

    There are no parts if every row needs lines of its own. The remark is about the columns that were left out: the
    values of those that are the same in all rows, and the names of the others.

    Args:
        table: a table with any number of rows.
        width: columns of the terminal.
    """
    remaining, spared = list(range(len(table.columns))), list[int]()
    while (band := _fit_columns(table, remaining, width)) is None and any(
        table.columns[index].spare for index in remaining
    ):
        spared.append(max(remaining, key=lambda index: table.columns[index].spare))
        remaining.remove(spared[-1])
    below, varying = list[str](), list[str]()
    for index in sorted(spared):
        name, cells = table.columns[index].name, {row[index] for row in table.rows}
        (below if len(cells) == 1 else varying).append(f"{name}: {cells.pop()}" if len(cells) == 1 else name)
    below += [f"left out at this width: {', '.join(varying)}"] if varying else []
    remarks = ["; ".join(below)] if below else []
    return ((band,) if band is not None else _split_into_bands(table, remaining, width)), remarks


def stacked(table: TextTable, width: int) -> Iterator[str]:
    """Yield every row in lines: its first words, then its figures with their names.

    Lines are broken only between cells.
    """
    words = len(_name_columns(table, range(len(table.columns))))
    for row in table.rows:
        cells = [" ".join(cell.split()) for cell in row]
        figures = zip(table.columns[words:], cells[words:], strict=True)
        yield from _fill_lines([cell for cell in cells[:words] if cell], width, "")
        yield from _fill_lines([f"{column.name}: {cell}" for column, cell in figures if cell], width, "  ")


def folded(text: str, width: int) -> list[str]:
    """Return a text in lines of at most `width` columns, broken after spaces and commas and before brackets if
    possible.

    The joined parts are the text, apart from blanks at line ends.
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for part in _break_text(paragraph, width):
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


def _break_text(text: str, width: int) -> Iterator[str]:
    """Yield the parts of a text that are kept together as long as possible."""
    for part in _BREAKS[0].split(text):
        yield from [part] if cell_len(part.rstrip()) <= width else _BREAKS[1].split(part)


def _fit_columns(table: TextTable, indexes: Sequence[int], width: int) -> Band | None:
    """Return these columns of the table, with words folded to the width; ``None`` if they are too wide."""
    widths, minimum = [], []
    for index in indexes:
        column = table.columns[index]
        cells = max((cell_len(line) for row in table.rows for line in row[index].split("\n")), default=0)
        # Headings are broken between their words.
        needed = max(cells, *(cell_len(word) for word in column.name.split() or [""]))
        widths.append(max(cells, cell_len(column.name)))
        minimum.append(
            needed if column.right or column.unfolded else min(widths[-1], max(column.least, len(column.name)))
        )
    room = width - GAP * (len(indexes) - 1)
    if sum(minimum) > room:
        return None
    while sum(widths) > room:
        widest = max((index for index in range(len(widths)) if widths[index] > minimum[index]), key=widths.__getitem__)
        widths[widest] -= 1
    columns = tuple(table.columns[index] for index in indexes)
    rows = tuple(tuple(row[index] for index in indexes) for row in table.rows)
    return Band(replace(table, columns=columns, rows=rows), tuple(widths))


def _name_columns(table: TextTable, indexes: Sequence[int]) -> list[int]:
    """Return the columns from the left that name a row."""
    figures = (
        position
        for position, index in enumerate(indexes)
        if table.columns[index].right and table.columns[index].name != "#"
    )
    return list(indexes[: next(figures, len(indexes))])


def _split_into_bands(table: TextTable, indexes: Sequence[int], width: int) -> tuple[Band, ...]:
    """Return the columns in bands, each with the names of the rows; empty if that does not fit."""
    keys = _name_columns(table, indexes)
    groups = list[list[int]]()
    for index in indexes[len(keys) :]:
        if groups and _INTERVAL.fullmatch(table.columns[index].name):
            groups[-1].append(index)
        else:
            groups.append([index])
    bands, band_columns = list[Band](), list(keys)
    for group in groups:
        wider = _fit_columns(table, [*band_columns, *group], width)
        if wider is not None and len(band_columns) > len(keys):
            bands[-1] = wider
        elif (wider := _fit_columns(table, [*keys, *group], width)) is not None:
            bands.append(wider)
            band_columns = list(keys)
        else:
            return ()
        band_columns += group
    return tuple(bands) if keys else ()


def _fill_lines(parts: Sequence[str], width: int, indent: str) -> Iterator[str]:
    line = ""
    for part in parts:
        longer = f"{line}{' ' * GAP}{part}" if line else indent + part
        if line and cell_len(longer) > width:
            yield line
            longer = "  " + part
        line = longer
    if line:
        yield line
