"""A comparison as tables for the terminal.

Sheets as Markdown and as LaTeX. Cells are text: what would be markup in them is escaped.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from ragrounds.evals.compare.comparison import Comparison
from ragrounds.ui.comparison_tables import TextTable, agent_names, distinct_tables, numbered, sheets
from ragrounds.ui.text import safe

_GAP = 2
_AGENT = 20
"""Columns that agents get at least where there is room."""
_FOLDED = 16
"""Columns that words are folded to at most before a table is given up."""


def print_comparison(
    comparison: Comparison, scorers: Sequence[str] = (), console: Console | None = None, *, frontier: bool = False
) -> None:
    """Accuracy by scorer, outcomes and cost, paired differences, groups; with `frontier` also its picture."""
    console = console or results_console()
    for sheet in sheets(comparison, scorers):
        print_table(sheet, console)
    if frontier:
        _frontiers(comparison, scorers, console)
    for note in comparison.notes:
        console.print(Text(f"Note: {safe(note)}", style="yellow"), soft_wrap=True)


def results_console() -> Console:
    """Where results go: stdout. A pipe gets wide lines, so that nothing is cut where nobody looks at a screen."""
    return Console() if sys.stdout.isatty() else Console(width=max(160, Console().width))


def print_table(sheet: TextTable, console: Console) -> None:
    """One sheet under its title. Figures and ids are never cut or broken: words are folded, and where the console is
    too narrow for that, every row stands in lines of its own."""
    if sheet.title:
        console.print()
        console.print(Text(sheet.title, style="bold"), soft_wrap=True)
    widths = _widths(sheet, console.width)
    if widths is None:
        for line in _stacked(sheet, console.width):
            console.print(Text(line), soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for column, width in zip(sheet.columns, widths, strict=True):
        justify: JustifyMethod = "right" if column.right else "left"
        table.add_column(Text(column.name), justify=justify, overflow="fold", width=width)
    for row in sheet.rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _widths(sheet: TextTable, width: int) -> list[int] | None:
    """What each column gets of the console's width; ``None``: a table does not fit."""
    widths, least = [], []
    for place, column in enumerate(sheet.columns):
        cells = max((cell_len(line) for row in sheet.rows for line in row[place].split("\n")), default=0)
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


def _stacked(sheet: TextTable, width: int) -> Iterator[str]:
    """Every row in lines: what it is about, then its figures with their names. Lines are broken between cells only."""
    about = 0
    while about < len(sheet.columns) and (not sheet.columns[about].right or sheet.columns[about].name == "#"):
        about += 1
    for row in sheet.rows:
        cells = [" ".join(cell.split()) for cell in row]
        figures = zip(sheet.columns[about:], cells[about:], strict=True)
        yield from _filled([cell for cell in cells[:about] if cell], width, "")
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


def _frontiers(comparison: Comparison, scorers: Sequence[str], console: Console) -> None:
    from ragrounds.ui.chart_text import draw_frontier
    from ragrounds.ui.frontier import frontier_tables

    numbers, agents = numbered(comparison), agent_names(comparison)
    for table, _ in distinct_tables(comparison, scorers):
        found = table.frontier
        if found is None or len(comparison.rows) < 2:
            continue
        for sheet in frontier_tables(found, table.scorer, numbers, agents):
            print_table(sheet, console)
        console.print()
        console.print(draw_frontier(found, numbers, width=min(console.width, 100)))
        if found.left_out:
            named = ", ".join(f"#{numbers[run]}" for run in found.left_out)
            console.print(Text(f"Not placed, because their cost is not known: {named}."), soft_wrap=True)


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


def markdown(sheets: Sequence[TextTable]) -> str:
    """Tables of GitHub's Markdown, each under its title in bold."""
    return "\n\n".join(_markdown(sheet) for sheet in sheets) + "\n"


def latex(sheets: Sequence[TextTable]) -> str:
    """`table` environments with rules of the booktabs package, titles as captions."""
    return "% Needs \\usepackage{booktabs}\n" + "\n".join(_latex(sheet) for sheet in sheets)


def _markdown(sheet: TextTable) -> str:
    lines = [[_md(column.name) for column in sheet.columns]]
    lines.append(["---:" if column.right else ":---" for column in sheet.columns])
    lines += [[_md(cell) for cell in row] for row in sheet.rows]
    return f"**{_md(sheet.title)}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _md(text: str) -> str:
    # Entities for what HTML would take, backslashes for what Markdown would.
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
    return re.sub(r"([\\`*_{}\[\]|#~!])", r"\\\1", plain)


def _latex(sheet: TextTable) -> str:
    layout = "".join("r" if column.right else "l" for column in sheet.columns)
    rows = " \\\\\n".join("    " + " & ".join(_tex(cell) for cell in row) for row in sheet.rows)
    heads = " & ".join(_tex(column.name) for column in sheet.columns)
    label = "-".join(part for part in (sheet.key, sheet.scorer) if part)
    return (
        "\\begin{table}[htbp]\n  \\centering\n"
        f"  \\caption{{{_tex(sheet.title)}}}\n  \\label{{tab:{re.sub(r'[^a-z0-9-]', '-', label)}}}\n"
        f"  \\begin{{tabular}}{{{layout}}}\n    \\toprule\n    {heads} \\\\\n    \\midrule\n{rows} \\\\\n"
        "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n"
    )


def _tex(text: str) -> str:
    dashed = _MINUS.sub("\0", _RANGE.sub("--", text))
    return "".join(_LATEX.get(letter, letter) for letter in dashed).replace("\0", "$-$")
