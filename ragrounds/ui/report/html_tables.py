"""A table as HTML: a plain one that needs no script. The page's script adds sorting, transposing and copying to it."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ragrounds.ui.tables import TextTable
from ragrounds.ui.text import safe


def text(value: object) -> str:
    """Any text as HTML text: nothing in it is markup, controls and direction marks are written out."""
    return escape(safe(str(value)))


def html_table(table: TextTable) -> str:
    """A table as HTML, under its title."""
    heads = "".join(f'<th scope="col"{_right(column.right)}>{text(column.name)}</th>' for column in table.columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{_right(column.right)}>{text(cell)}</td>" for column, cell in zip(table.columns, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<figure class="sheet"><figcaption>{text(table.caption)}</figcaption><div class="scroll"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></figure>"
    )


def tables_and_remarks(parts: Iterable[TextTable | str]) -> str:
    """Tables and remarks as HTML, in their order."""
    return "".join(html_table(part) if isinstance(part, TextTable) else f"<p>{text(part)}</p>" for part in parts)


def _right(right: bool) -> str:
    return ' class="right"' if right else ""
