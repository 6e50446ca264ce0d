"""A table's columns, each described once: its name, its value in a row, how that is written, and what it means.

From one description are drawn the tables of text (terminal, Markdown, LaTeX, HTML), CSV, and the frames of pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.ui.text import UNKNOWN, safe

ColumnType = Literal["", "text", "whole", "real", "truth", "time"]
"""In pandas: ``string``, ``Int64``, ``float64`` (not known is NaN), ``boolean``, ``datetime64[us, UTC]``.
Empty: the column is in no frame."""
FOLDED = 16
"""Columns of a terminal to which words are folded at most."""


def written(value: object) -> str:
    """A value as text: whole numbers with commas, texts made safe, what is not known as a dash."""
    if value is None:
        return UNKNOWN
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else safe(str(value))


class Column(Struct, frozen=True):
    """A column. What is not known is null in frames, never 0."""

    name: str
    """In frames and CSV; also in text, unless there is a `heading`."""
    value: Callable[[Any], object] | str = ""
    """What stands in a row: a function of it, a path of attributes (``usage.input``), or its attribute `name`."""
    text: Callable[[Any], str] = written
    """How a value is written."""
    right: bool = True
    """Figures stand to the right, words to the left."""
    whole: bool = False
    """Words that are not folded on a narrow screen: ids, so that they can be copied."""
    least: int = FOLDED
    """Columns of a terminal to which its words are folded at most."""
    spare: int = 0
    """Above 0: left out where the table would be too wide with it, the highest first."""
    heading: str = ""
    """In tables of text."""
    least_where: str = ""
    """An attribute of rows: where it is above 0, a figure is the least that it can be, and `≥` stands before it."""
    where: str = ""
    """An attribute of rows: the column is in tables of text where some row has it."""
    csv: str = ""
    """Its name in a tidy CSV; empty: it is not there."""
    type: ColumnType = ""
    null: bool = False
    """Empty is not known, in frames."""
    words: str = ""
    """What it means, in frames."""
    unit: str = ""

    def of(self, row: Any) -> Any:
        """Its value in a row; ``None`` where the path to it ends early."""
        if callable(self.value):
            return self.value(row)
        for part in (self.value or self.name).split("."):
            row = row.get(part) if isinstance(row, Mapping) else getattr(row, part) if row is not None else None
        return row

    def cell(self, row: Any) -> str:
        """What is written of a row."""
        mark = "≥ " if self.least_where and getattr(row, self.least_where) else ""
        return mark + self.text(self.of(row))


class TextTable(Struct, frozen=True, kw_only=True):
    """A table of text. Nothing in it is markup."""

    key: str
    """What the table is of: ``scores``, ``outcomes``, ``pairs``, ``group``, ``frontier``, ``prices`` …"""
    scorer: str = ""
    title: str = ""
    about: str = ""
    """What its headings mean."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def caption(self) -> str:
        """The title with what the headings mean."""
        return f"{self.title} ({self.about})" if self.about else self.title


def words(name: str, value: Callable[[Any], object] | str = "", **more: Any) -> Column:
    """A column of words, which stand to the left."""
    return Column(name, value, right=False, **more)


def table_of(key: str, rows: Iterable[Any], columns: Iterable[Column | None], **about: Any) -> TextTable:
    """Rows as a table of text.

    Args:
        key: what the table is of.
        rows: of any kind: the columns read them.
        columns: ``None``: none here; one with a `where` is drawn where some row has that.
        about: what else a :class:`TextTable` says.
    """
    made = list(rows)
    shown = [
        one for one in columns if one is not None and (not one.where or any(getattr(row, one.where) for row in made))
    ]
    cells = tuple(tuple(one.cell(row) for one in shown) for row in made)
    return TextTable(
        key=key, columns=tuple(replace(one, name=one.heading or one.name) for one in shown), rows=cells, **about
    )
