"""A table's columns, each described once: its name, its value in a row, how the value is written, and its meaning.

Tables of text (terminal, Markdown, LaTeX, HTML), CSV, and pandas frames are all rendered from this one description.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.ui.text import UNKNOWN, safe

ColumnType = Literal["", "text", "whole", "real", "truth", "time"]
"""Column type in pandas: ``string``, ``Int64``, ``float64`` (NaN if not known), ``boolean``, ``datetime64[us, UTC]``.

Empty if the column is in no frame.
"""
FOLDED = 16
"""Width in terminal columns to which words are folded by default."""


def format_value(value: object) -> str:
    """Return a value as text: whole numbers with commas, texts made safe, a dash if not known."""
    if value is None:
        return UNKNOWN
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else safe(str(value))


def at_least(text: str, is_lower_bound: object = True) -> str:
    """Return a figure's text, after `≥` if it is a lower bound."""
    return f"≥ {text}" if is_lower_bound else text


class Column(Struct, frozen=True):
    """Column of a table. A value that is not known is null in frames, never 0."""

    name: str
    """Name in frames and CSV; also in tables of text if `heading` is empty."""
    value: Callable[[Any], object] | str = ""
    """Value in a row: a function of the row, a path of attributes (``usage.input``); by default its attribute
    `name`.
    """
    text: Callable[[Any], str] = format_value
    """Function that writes a value as text."""
    right: bool = True
    """True if values are aligned to the right, as figures are; words are aligned to the left."""
    unfolded: bool = False
    """True if the words are not folded on a narrow screen: ids, so that they can be copied."""
    least: int = FOLDED
    """Width in terminal columns below which the words are not folded."""
    spare: int = 0
    """Order in which columns are left out of a table that is too wide, the highest first; never if 0."""
    listed: int = 0
    """The same order (`spare`) in lists of runs; 0 if these do not have the column."""
    heading: str = ""
    """Heading in tables of text."""
    least_where: Callable[[Any], object] | str = ""
    """Function or attribute of rows: if it is above 0, a figure is a lower bound and is written after `≥`."""
    where: str = ""
    """Attribute of rows: the column is in tables of text if some row has it."""
    csv: str = ""
    """Name in a tidy CSV; empty if the column is not in it."""
    type: ColumnType = ""
    null: bool = False
    """True if an empty value means "not known" in frames."""
    words: str = ""
    """Description of the column in frames."""
    unit: str = ""

    def value_in(self, row: Any) -> Any:
        """Return the column's value in a row; ``None`` if the path to it ends early."""
        if callable(self.value):
            return self.value(row)
        for part in (self.value or self.name).split("."):
            row = row.get(part) if isinstance(row, Mapping) else getattr(row, part) if row is not None else None
        return row

    def cell(self, row: Any) -> str:
        """Return the column's value in a row as text."""
        value, where = self.value_in(row), self.least_where
        is_least = value is not None and where and (where(row) if callable(where) else getattr(row, where))
        return at_least(self.text(value), is_least)


class TextTable(Struct, frozen=True, kw_only=True):
    """Table of text. No cell contains markup."""

    key: str
    """Kind of table: ``scores``, ``outcomes``, ``pairs``, ``group``, ``frontier``, ``prices`` …"""
    scorer: str = ""
    title: str = ""
    about: str = ""
    """Explanation of the headings."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def caption(self) -> str:
        """Return the title with the explanation of the headings."""
        return f"{self.title} ({self.about})" if self.about else self.title


def words(name: str, value: Callable[[Any], object] | str = "", **more: Any) -> Column:
    """Return a column of words, which are aligned to the left."""
    return Column(name, value, right=False, **more)


def visible_columns(columns: Iterable[Column | None], rows: Collection[Any]) -> list[Column]:
    """Return the columns that a table of these rows has: those without a `where`, or with it in some row."""
    return [
        column
        for column in columns
        if column is not None and (not column.where or any(getattr(row, column.where) for row in rows))
    ]


def table_of(key: str, rows: Iterable[Any], columns: Iterable[Column | None], **about: Any) -> TextTable:
    """Render rows as a table of text.

    Args:
        key: kind of the table.
        rows: rows of any type that the columns can read.
        columns: ``None`` is skipped; a column with a `where` is shown if some row has that attribute.
        about: further fields of the :class:`TextTable`.
    """
    table_rows = list(rows)
    visible = visible_columns(columns, table_rows)
    cells = tuple(tuple(column.cell(row) for column in visible) for row in table_rows)
    return TextTable(
        key=key,
        columns=tuple(replace(column, name=column.heading or column.name) for column in visible),
        rows=cells,
        **about,
    )
