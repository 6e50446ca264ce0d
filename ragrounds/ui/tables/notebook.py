"""Console output as text, and as HTML for notebooks: real tables, all of it escaped.

Results are rendered once, on a console of rich's. :func:`text_of` and :func:`html_of` render them on consoles that keep
the output.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from html import escape
from textwrap import dedent
from typing import Any

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ragrounds.ui.console import SafeConsole
from ragrounds.ui.pictures.chart_text import PictureText
from ragrounds.ui.text import one_line, safe
from ragrounds.ui.theme import notebook_colours

Draw = Callable[[Console], None]
"""Function that prints something on a console."""
_TEXT_WIDTH = 160
"""Width in columns of a text that no terminal limits."""
_FOLD_FROM = 300
"""Number of characters of prose from which on a notebook folds it."""
_STYLE = """<style>
.ragrounds{color:inherit;font-size:.92em;line-height:1.45}
.ragrounds table{border-collapse:collapse;margin:.3em 0 1em;background:transparent;color:inherit}
.ragrounds caption{caption-side:top;text-align:left;font-weight:600;padding:.2em 0;white-space:normal;color:inherit}
.ragrounds th,.ragrounds td{padding:.2em .8em .2em 0;text-align:left;vertical-align:top;white-space:pre-line;
 border:0;border-bottom:1px solid rgba(128,128,128,.35);background:transparent;color:inherit}
.ragrounds th{font-weight:600;border-bottom:1px solid rgba(128,128,128,.8)}
.ragrounds td:first-child{white-space:nowrap}
.ragrounds .right{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.ragrounds p{margin:.2em 0}.ragrounds .bold{font-weight:600;margin-top:.8em}
.ragrounds pre{background:transparent;color:inherit;line-height:1.2;font-size:.95em;overflow-x:auto}
.ragrounds .scroll{overflow-x:auto}
"""


class Prose(Text):
    """Text of a model or a document. A notebook renders its Markdown, and folds it if it is long."""


def in_notebook() -> bool:
    """Return True if this process is a notebook's kernel."""
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    running = shell.get_ipython()
    return running is not None and hasattr(running, "kernel")


def text_of(draw: Draw) -> str:
    """Return console output as plain text, as wide as the terminal; 160 columns if there is no terminal."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = SafeConsole().width if terminal else _TEXT_WIDTH
    file = io.StringIO()
    draw(SafeConsole(file=file, width=width, color_system=None, highlight=False))
    return "\n".join(line.rstrip() for line in file.getvalue().strip("\n").split("\n"))


def html_of(draw: Draw) -> str:
    """Return console output as HTML in the colours of the page. Nothing in it is markup."""
    console = _HtmlConsole()
    draw(console)
    return page_part("".join(console.parts))


def page_part(body: str) -> str:
    """Return a part of a page with the style of our tables."""
    style = ""
    if "<svg" in body:
        colours = ";".join(f"--{name}:{colour}" for name, colour in notebook_colours().items())
        # Imported here, since only a notebook renders pictures with it.
        from ragrounds.ui.pictures.chart_svg import picture_style

        style = f".ragrounds{{{colours}}}{picture_style()}"
    return f'{_STYLE}{style}</style><div class="ragrounds">{body}</div>'


class _HtmlConsole(SafeConsole):
    """Console that keeps tables and texts as HTML. It is very wide, so that nothing is folded: a page scrolls."""

    def __init__(self) -> None:
        super().__init__(file=io.StringIO(), width=10_000, color_system=None)
        self.parts: list[str] = []

    def print(self, *objects: Any, **_: Any) -> None:
        """Keep the printed objects as HTML."""
        for printed in objects:
            if isinstance(printed, Table):
                self.parts.append(_table_html(printed))
            elif isinstance(printed, Rule):
                self.parts.append(f'<p class="bold">{html_text(printed.title)}</p>')
            elif isinstance(printed, PictureText):
                from ragrounds.ui.pictures.chart_svg import page_picture

                self.parts.append(page_picture(printed.picture))
            elif isinstance(printed, Prose) and printed.plain.strip():
                self.parts.append(_prose_html(printed.plain))
            elif isinstance(printed, Text) and printed.plain.strip():
                self.parts.append(_text_html(printed))
            elif isinstance(printed, str) and printed.strip():
                self.parts.append(f"<p>{html_text(printed)}</p>")


def html_text(text: object) -> str:
    """Return any text as HTML text: nothing in it is markup, controls and direction marks are written out."""
    return escape(safe(str(text)))


def _prose_html(text: str) -> str:
    """Return Markdown as HTML. Tags, addresses and pictures are shown as they were written.

    Indentation shared by all lines comes from the printed layout and is removed.
    """
    from markdown_it import MarkdownIt  # rich's own parser; imported here, so that only printed prose waits for it

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    html: str = parser.disable(["link", "image", "autolink", "reference", "entity", "escape"]).render(
        safe(dedent(text))
    )
    if len(text) <= _FOLD_FROM:
        return html
    return f"<details><summary>{html_text(one_line(text))}</summary>{html}</details>"


def _text_html(text: Text) -> str:
    plain = text.plain.strip("\n")
    if "\n" in plain:
        return f"<pre>{html_text(plain)}</pre>"
    return f'<p class="bold">{html_text(plain)}</p>' if "bold" in str(text.style) else f"<p>{html_text(plain)}</p>"


def _table_html(table: Table) -> str:
    columns = table.columns
    rows = zip(*([_cell(cell) for cell in column.cells] for column in columns), strict=True)
    names = [_cell(column.header) for column in columns]
    right = [' class="right"' if column.justify == "right" else "" for column in columns]
    heads = "".join(f'<th scope="col"{side}>{name}</th>' for name, side in zip(names, right, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{side}>{cell}</td>" for cell, side in zip(row, right, strict=True)) + "</tr>"
        for row in rows
    )
    title = f"<caption>{_cell(table.title)}</caption>" if table.title else ""
    head = f"<thead><tr>{heads}</tr></thead>" if table.show_header and any(names) else ""
    note = f"<p>{_cell(table.caption)}</p>" if table.caption else ""
    return f'<div class="scroll"><table>{title}{head}<tbody>{body}</tbody></table>{note}</div>'


def _cell(cell: object) -> str:
    if isinstance(cell, ProgressBar):
        return f'<progress max="{cell.total or 1:g}" value="{cell.completed:g}"></progress>'
    return html_text(cell.plain if isinstance(cell, Text) else cell)
