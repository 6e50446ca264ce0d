"""Tables of text, rendered for a terminal of any width, as Markdown, or as LaTeX.

Cells are text. Markup in them is escaped; figures and ids are never cut or broken.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from ragrounds.ui.columns import Column as Column
from ragrounds.ui.columns import TextTable as TextTable
from ragrounds.ui.columns import table_of as table_of
from ragrounds.ui.columns import words as words
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.tables.table_layout import GAP, Band, folded, laid_out, stacked

_COLUMNS_OF_HALF_PAGE = 8
"""Number of columns for which a column of a two-column page has room."""
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "►": r"$\triangleright$",
    "▲": r"$\uparrow$",
    "▼": r"$\downarrow$",
    "↓": r"$\downarrow$",
    "[": r"{[}",
    "]": r"{]}",
    "\n": " ",
}
_RANGE = re.compile(r"(?<![\w.,/-])(\d[\d.,]*)-(\d[\d.,]*)(?![\w/-])")
"""A range of two bare numbers: names with numbers (``gpt-4-32k``) and dates keep their hyphens."""
_MINUS = re.compile(r"(?<![\w.-])-(?=\d[\d.,]*(?![\w-]))")


def results_console() -> Console:
    """Return the console of stdout, where results are printed. A pipe gets wide lines, so that nothing is cut."""
    return SafeConsole() if sys.stdout.isatty() else SafeConsole(width=max(160, SafeConsole().width))


def print_table(table: TextTable, console: Console) -> None:
    """Print a table under its title, laid out for the console's width (:mod:`ragrounds.ui.tables.table_layout`)."""
    print_title(table, console)
    bands, below = laid_out(table, console.width)
    for number, band in enumerate(bands):
        if number:
            console.print()
        console.print(render_band(band))
    for remark in below:
        console.print(Text(remark))
    if not bands:
        for line in stacked(table, console.width):
            console.print(Text(line), soft_wrap=True)


def print_title(table: TextTable, console: Console) -> None:
    """Print the title of a table, and the explanation of its headings."""
    if table.title:
        console.print()
        title = Text(table.title, style="bold")
        if table.about:
            title.append(f"  {table.about}", style="not bold")
        console.print(title)


def render_band(band: Band) -> Table:
    """Return a table, or a part of it, that fits."""
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column, width in zip(band.table.columns, band.widths, strict=True):
        justify: JustifyMethod = "right" if column.right else "left"
        table.add_column(Text(column.name), justify=justify, overflow="fold", width=width, vertical="top")
    for row in band.table.rows:
        cells = zip(band.table.columns, row, band.widths, strict=True)
        table.add_row(
            *(Text(cell if column.right else "\n".join(folded(cell, width))) for column, cell, width in cells)
        )
    return table


def markdown(tables: Sequence[TextTable], notes: Sequence[str] = ()) -> str:
    """Return tables of GitHub's Markdown, each under its title in bold, and notes on them."""
    return "\n\n".join([*map(_markdown_table, tables), *(f"Note: {_escape_markdown(note)}" for note in notes)]) + "\n"


def latex(tables: Sequence[TextTable], notes: Sequence[str] = (), *, narrow: bool = False) -> str:
    """Return `table` environments with rules of the booktabs package, titles as captions, then notes on them.

    With `narrow`, tables are small, for one column of a two-column page, or with many columns for its whole width.
    """
    size = "\\footnotesize\\setlength{\\tabcolsep}{3pt}" if narrow else ""
    note_lines = "".join(f"\n\\noindent Note: {_escape_latex(note)}\\par\n" for note in notes)
    return "% Needs \\usepackage{booktabs}\n" + "\n".join(_latex_table(table, size) for table in tables) + note_lines


def _markdown_table(table: TextTable) -> str:
    lines = [[_escape_markdown(column.name) for column in table.columns]]
    lines.append(["---:" if column.right else ":---" for column in table.columns])
    lines += [[_escape_markdown(cell) for cell in row] for row in table.rows]
    return f"**{_escape_markdown(table.caption)}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escape_markdown(text: str) -> str:
    # Entities for what HTML would take, backslashes for what Markdown would.
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
    return re.sub(r"([\\`*_{}\[\]|#~!])", r"\\\1", plain)


def _latex_table(table: TextTable, size: str = "") -> str:
    layout = "".join("r" if column.right else "l" for column in table.columns)
    rows = " \\\\\n".join("    " + " & ".join(_escape_latex(cell) for cell in row) for row in table.rows)
    heads = " & ".join(_escape_latex(column.name) for column in table.columns)
    label = re.sub(r"[^a-z0-9-]", "-", "-".join(filter(None, (table.key, table.scorer))))
    environment = "table*" if size and len(table.columns) > _COLUMNS_OF_HALF_PAGE else "table"
    return (
        f"\\begin{{{environment}}}[htbp]\n  \\centering{size}\n"
        f"  \\caption{{{_escape_latex(table.caption)}}}\n  \\label{{tab:{label}}}\n"
        f"  \\begin{{tabular}}{{{layout}}}\n    \\toprule\n    {heads} \\\\\n    \\midrule\n{rows} \\\\\n"
        f"    \\bottomrule\n  \\end{{tabular}}\n\\end{{{environment}}}\n"
    )


def _escape_latex(text: str) -> str:
    dashed = _MINUS.sub("\0", _RANGE.sub(r"\1--\2", text))
    return "".join(_LATEX.get(letter, letter) for letter in dashed).replace("\0", "$-$")
