"""A table of text, and how it is drawn: on a terminal of any width, as Markdown, as LaTeX.

Cells are text. What would be markup in them is escaped; figures and ids are never cut or broken.
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
    "▲": r"$\uparrow$",
    "▼": r"$\downarrow$",
    "↓": r"$\downarrow$",
    "[": r"{[}",
    "]": r"{]}",
    "\n": " ",
}
_RANGE = re.compile(r"(?<![\w.,/-])(\d[\d.,]*)-(\d[\d.,]*)(?![\w/-])")
"""Two numbers and nothing else: a name that holds numbers (``gpt-4-32k``), and a date, keep their hyphens."""
_MINUS = re.compile(r"(?<![\w.-])-(?=\d[\d.,]*(?![\w-]))")


def results_console() -> Console:
    """The console of stdout, where results go. A pipe gets wide lines, so that nothing is cut where nobody looks at a
    screen."""
    return SafeConsole() if sys.stdout.isatty() else SafeConsole(width=max(160, SafeConsole().width))


def print_table(table: TextTable, console: Console) -> None:
    """Print a table under its title, laid out for the console's width (:mod:`ragrounds.ui.tables.table_layout`)."""
    print_title(table, console)
    bands, below = laid_out(table, console.width)
    for number, band in enumerate(bands):
        if number:
            console.print()
        console.print(drawn_band(band))
    for said in below:
        console.print(Text(said, style="dim"))
    if not bands:
        for line in stacked(table, console.width):
            console.print(Text(line), soft_wrap=True)


def print_title(table: TextTable, console: Console) -> None:
    """Print the title of a table, and what its headings mean."""
    if table.title:
        console.print()
        said = Text(table.title, style="bold")
        if table.about:
            said.append(f"  {table.about}", style="not bold dim")
        console.print(said)


def drawn_band(band: Band) -> Table:
    """A table, or a part of it, that fits."""
    drawn = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column, width in zip(band.table.columns, band.widths, strict=True):
        justify: JustifyMethod = "right" if column.right else "left"
        drawn.add_column(Text(column.name), justify=justify, overflow="fold", width=width, vertical="top")
    for row in band.table.rows:
        cells = zip(band.table.columns, row, band.widths, strict=True)
        drawn.add_row(
            *(Text(cell if column.right else "\n".join(folded(cell, width))) for column, cell, width in cells)
        )
    return drawn


def markdown(tables: Sequence[TextTable], notes: Sequence[str] = ()) -> str:
    """Tables of GitHub's Markdown, each under its title in bold, and what is to be said of them."""
    return "\n\n".join([*map(_markdown, tables), *(f"Note: {_md(note)}" for note in notes)]) + "\n"


def latex(tables: Sequence[TextTable], notes: Sequence[str] = (), *, narrow: bool = False) -> str:
    """`table` environments with rules of the booktabs package, titles as captions; then what is to be said of them.
    `narrow`: small, for one column of a page of two."""
    size = "\\footnotesize\\setlength{\\tabcolsep}{3pt}" if narrow else ""
    said = "".join(f"\n\\noindent Note: {_tex(note)}\\par\n" for note in notes)
    return "% Needs \\usepackage{booktabs}\n" + "\n".join(_latex(table, size) for table in tables) + said


def _markdown(table: TextTable) -> str:
    lines = [[_md(column.name) for column in table.columns]]
    lines.append(["---:" if column.right else ":---" for column in table.columns])
    lines += [[_md(cell) for cell in row] for row in table.rows]
    return f"**{_md(table.caption)}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _md(text: str) -> str:
    # Entities for what HTML would take, backslashes for what Markdown would.
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
    return re.sub(r"([\\`*_{}\[\]|#~!])", r"\\\1", plain)


def _latex(table: TextTable, size: str = "") -> str:
    layout = "".join("r" if column.right else "l" for column in table.columns)
    rows = " \\\\\n".join("    " + " & ".join(_tex(cell) for cell in row) for row in table.rows)
    heads = " & ".join(_tex(column.name) for column in table.columns)
    label = re.sub(r"[^a-z0-9-]", "-", "-".join(filter(None, (table.key, table.scorer))))
    return (
        f"\\begin{{table}}[htbp]\n  \\centering{size}\n"
        f"  \\caption{{{_tex(table.caption)}}}\n  \\label{{tab:{label}}}\n"
        f"  \\begin{{tabular}}{{{layout}}}\n    \\toprule\n    {heads} \\\\\n    \\midrule\n{rows} \\\\\n"
        "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n"
    )


def _tex(text: str) -> str:
    dashed = _MINUS.sub("\0", _RANGE.sub(r"\1--\2", text))
    return "".join(_LATEX.get(letter, letter) for letter in dashed).replace("\0", "$-$")
