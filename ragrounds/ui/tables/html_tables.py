"""Texts and tables as HTML that needs no script; style sheets, pieces of HTML, and the one script of a page, which adds
sorting, transposing and copying.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ragrounds.ui.tables.notebook import html_text
from ragrounds.ui.tables.text_tables import Column, TextTable

_BREAKS = re.compile(r"[\[,_=:/.](?=[^\s\d])")
"""Signs inside names after which a line may end; figures are never broken."""

_UNDER = ' class="under"'
"""Class of a row that details the row above it: its first cell is indented."""
text = html_text
_DATES = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_CODE = re.compile(r"`([^`\n]+)`")


def prose(value: object) -> str:
    """Return a sentence as HTML text that breaks neither before a % nor inside a date."""
    return _DATES.sub(r'<span class="nb">\g<0></span>', text(value)).replace(" %", "\u00a0%")


def html_table(table: TextTable, links: Mapping[int, str] | None = None) -> str:
    """Return a table as HTML, under its title. It can be read without a script.

    Args:
        table: table to write; every cell is text.
        links: row, counted from 0 → target of its first cell's link.
    """
    heads = "".join(
        f'<th scope="col"{_alignment(column)}>{text(column.name)}</th>' if column.name else "<td></td>"
        for column in table.columns
    )
    rows = "".join(
        f"<tr{_UNDER if row and row[0].startswith('  ') else ''}>"
        + "".join(
            _html_cell(column, cell, index, (links or {}).get(number, "") if not index else "")
            for index, (column, cell) in enumerate(zip(table.columns, row, strict=True))
        )
        + "</tr>"
        for number, row in enumerate(table.rows)
    )
    # If the first column has no name, rows belong to the row above them and keep their order.
    fixed_order = "" if not table.columns or table.columns[0].name else " data-still"
    return (
        f'<figure class="sheet"{fixed_order}>'
        f"<figcaption>{text(table.caption)}</figcaption>"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></figure>'
    )


def breakable(name: str) -> str:
    """Return a name as HTML text that breaks only after its signs."""
    return _BREAKS.sub(r"\g<0><wbr>", text(name))


def _alignment(column: Column) -> str:
    """Return the class of a column's cells; a narrow page shows prices next to the scores, without differences."""
    kind = " price" if column.name.startswith("$") else " diff" if column.name == "diff." else ""
    return f' class="right{kind}"' if column.right else ""


def _html_cell(column: Column, cell: str, index: int, href: str) -> str:
    """Return a cell; the first cell of a row is its heading if it contains words."""
    if column.right:
        figure = text(cell).replace("≥ ", "≥\u00a0")
        return f"<td{_alignment(column)}>{figure}</td>"
    label = breakable(cell)
    inside = f'<a href="{text(href)}">{label}</a>' if href else label
    return f"<td>{inside}</td>" if index else f'<th scope="row">{inside}</th>'


def tables_and_remarks(parts: Iterable[TextTable | str]) -> str:
    """Return tables and remarks as HTML, in their order."""
    return "".join(html_table(part) if isinstance(part, TextTable) else f"<p>{coded(part)}</p>" for part in parts)


def coded(value: object) -> str:
    """Return a remark as HTML text, with text in backticks as code."""
    return _CODE.sub(r"<code>\1</code>", text(value))
