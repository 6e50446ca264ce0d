"""Texts and tables as HTML that needs no script; style sheets, pieces of HTML, and the one script of a page, which
adds sorting, transposing and copying."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ragrounds.ui.tables.notebook import html_text
from ragrounds.ui.tables.text_tables import Column, TextTable

_BREAKS = re.compile(r"[\[,_=:/.](?=[^\s\d])")
"""Signs inside of names behind which a line may end; figures are never broken."""

_RIGHT, _UNDER = ' class="right"', ' class="under"'
"""Of figures; of a row that says more of the one above it: its first cell is indented."""
text = html_text
_DATES = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_CODE = re.compile(r"`([^`\n]+)`")


def prose(value: object) -> str:
    """A sentence as HTML text that breaks neither before a % nor inside of a date."""
    return _DATES.sub(r'<span class="nb">\g<0></span>', text(value)).replace(" %", "\u00a0%")


def html_table(table: TextTable, links: Mapping[int, str] | None = None) -> str:
    """A table as HTML, under its title. It can be read without a script.

    Args:
        table: what to write; every cell of it is text.
        links: row, from 0 → where its first cell leads.
    """
    heads = "".join(
        f'<th scope="col"{_RIGHT * column.right}>{text(column.name)}</th>' if column.name else "<td></td>"
        for column in table.columns
    )
    rows = "".join(
        f"<tr{_UNDER if row and row[0].startswith('  ') else ''}>"
        + "".join(
            _cell(column, cell, place, (links or {}).get(number, "") if not place else "")
            for place, (column, cell) in enumerate(zip(table.columns, row, strict=True))
        )
        + "</tr>"
        for number, row in enumerate(table.rows)
    )
    # Of a table whose first column has no name, rows belong to the row above them: they keep their order.
    still = "" if not table.columns or table.columns[0].name else " data-still"
    return (
        f'<figure class="sheet"{still}>'
        f"<figcaption>{text(table.caption)}</figcaption>"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></figure>'
    )


def breakable(name: str) -> str:
    """A name as HTML text that breaks behind its signs alone."""
    return _BREAKS.sub(r"\g<0><wbr>", text(name))


def _cell(column: Column, cell: str, place: int, href: str) -> str:
    """A cell; the first of a row is its heading where it holds words."""
    if column.right:
        return f"<td{_RIGHT}>{text(cell)}</td>"
    shown = breakable(cell)
    inside = f'<a href="{text(href)}">{shown}</a>' if href else shown
    return f"<td>{inside}</td>" if place else f'<th scope="row">{inside}</th>'


def tables_and_remarks(parts: Iterable[TextTable | str]) -> str:
    """Tables and remarks as HTML, in their order."""
    return "".join(html_table(part) if isinstance(part, TextTable) else f"<p>{coded(part)}</p>" for part in parts)


def coded(value: object) -> str:
    """A remark as HTML text, with what stands in backticks as code."""
    return _CODE.sub(r"<code>\1</code>", text(value))
