"""A table of text, and how it is drawn: on a terminal of any width, as Markdown, as LaTeX.

Cells are text. What would be markup in them is escaped; figures and ids are never cut or broken.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

from msgspec import Struct
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from ragrounds.ui.console import SafeConsole

_GAP = 2
"""Blank columns between two columns of a table."""
_AGENT = 20
"""Columns that agents get at least where there is room."""
_FOLDED = 16
"""Columns to which words are folded at most; a table that needs narrower ones is stacked."""
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
    "[": r"{[}",
    "]": r"{]}",
    "\n": " ",
}
_RANGE = re.compile(r"(?<=\d)-(?=\d)")
_MINUS = re.compile(r"(?<![\w.-])-(?=\d)")


class Column(Struct, frozen=True):
    """A heading; figures stand to the right, words to the left."""

    name: str
    right: bool = True
    whole: bool = False
    """Words that are not folded on a narrow screen: ids, so that they can be copied."""


class TextTable(Struct, frozen=True, kw_only=True):
    """A table of text. Nothing in it is markup."""

    key: str
    """What the table is of: ``scores``, ``outcomes``, ``pairs``, ``group``, ``frontier``, ``prices`` …"""
    scorer: str = ""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


def results_console() -> Console:
    """The console of stdout, where results go. A pipe gets wide lines, so that nothing is cut where nobody looks at a
    screen."""
    return SafeConsole() if sys.stdout.isatty() else SafeConsole(width=max(160, SafeConsole().width))


def print_table(table: TextTable, console: Console) -> None:
    """Print a table under its title. Words are folded to the console's width; where even that is too wide, every row
    stands in lines of its own."""
    if table.title:
        console.print()
        console.print(Text(table.title, style="bold"), soft_wrap=True)
    widths = _widths(table, console.width)
    if widths is None:
        for line in _stacked(table, console.width):
            console.print(Text(line), soft_wrap=True)
        return
    drawn = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for column, width in zip(table.columns, widths, strict=True):
        justify: JustifyMethod = "right" if column.right else "left"
        drawn.add_column(Text(column.name), justify=justify, overflow="fold", width=width)
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    console.print(drawn)


def markdown(tables: Sequence[TextTable], notes: Sequence[str] = ()) -> str:
    """Tables of GitHub's Markdown, each under its title in bold, and what is to be said of them."""
    return "\n\n".join([*map(_markdown, tables), *(f"Note: {_md(note)}" for note in notes)]) + "\n"


def latex(tables: Sequence[TextTable], notes: Sequence[str] = ()) -> str:
    """`table` environments with rules of the booktabs package, titles as captions; then what is to be said of them."""
    said = "".join(f"\n\\noindent Note: {_tex(note)}\\par\n" for note in notes)
    return "% Needs \\usepackage{booktabs}\n" + "\n".join(map(_latex, tables)) + said


def _widths(table: TextTable, width: int) -> list[int] | None:
    """The columns of the console that each column of the table gets; ``None``: the table does not fit."""
    widths, least = [], []
    for place, column in enumerate(table.columns):
        cells = max((cell_len(line) for row in table.rows for line in row[place].split("\n")), default=0)
        wanted = max(cells, cell_len(column.name), _AGENT if column.name == "agent" else 0)
        # Headings are broken between their words.
        needed = max(cells, *(cell_len(word) for word in column.name.split() or [""]))
        widths.append(wanted)
        least.append(needed if column.right or column.whole else min(wanted, max(_FOLDED, cell_len(column.name))))
    room = width - _GAP * (len(widths) - 1)
    if sum(least) > room:
        return None
    widths = [min(wanted, room) for wanted in widths]
    while sum(widths) > room:
        widest = max((place for place in range(len(widths)) if widths[place] > least[place]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _stacked(table: TextTable, width: int) -> Iterator[str]:
    """Every row in lines: its first words, then its figures with their names. Lines are broken between cells only."""
    words = 0
    while words < len(table.columns) and (not table.columns[words].right or table.columns[words].name == "#"):
        words += 1
    for row in table.rows:
        cells = [" ".join(cell.split()) for cell in row]
        figures = zip(table.columns[words:], cells[words:], strict=True)
        yield from _filled([cell for cell in cells[:words] if cell], width, "")
        yield from _filled([f"{column.name}: {cell}" for column, cell in figures if cell], width, "  ")


def _filled(parts: Sequence[str], width: int, indent: str) -> Iterator[str]:
    line = ""
    for part in parts:
        longer = f"{line}{' ' * _GAP}{part}" if line else indent + part
        if line and cell_len(longer) > width:
            yield line
            longer = "  " + part
        line = longer
    if line:
        yield line


def _markdown(table: TextTable) -> str:
    lines = [[_md(column.name) for column in table.columns]]
    lines.append(["---:" if column.right else ":---" for column in table.columns])
    lines += [[_md(cell) for cell in row] for row in table.rows]
    return f"**{_md(table.title)}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _md(text: str) -> str:
    # Entities for what HTML would take, backslashes for what Markdown would.
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
    return re.sub(r"([\\`*_{}\[\]|#~!])", r"\\\1", plain)


def _latex(table: TextTable) -> str:
    layout = "".join("r" if column.right else "l" for column in table.columns)
    rows = " \\\\\n".join("    " + " & ".join(_tex(cell) for cell in row) for row in table.rows)
    heads = " & ".join(_tex(column.name) for column in table.columns)
    label = "-".join(part for part in (table.key, table.scorer) if part)
    return (
        "\\begin{table}[htbp]\n  \\centering\n"
        f"  \\caption{{{_tex(table.title)}}}\n  \\label{{tab:{re.sub(r'[^a-z0-9-]', '-', label)}}}\n"
        f"  \\begin{{tabular}}{{{layout}}}\n    \\toprule\n    {heads} \\\\\n    \\midrule\n{rows} \\\\\n"
        "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n"
    )


def _tex(text: str) -> str:
    dashed = _MINUS.sub("\0", _RANGE.sub("--", text))
    return "".join(_LATEX.get(letter, letter) for letter in dashed).replace("\0", "$-$")
