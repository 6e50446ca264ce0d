"""A comparison as tables for the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from ragrounds.evals.compare.comparison import Comparison
from ragrounds.ui.naming import agent_names
from ragrounds.ui.sheets import Sheet, distinct_tables, numbered, sheets
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
        print_sheet(sheet, console)
    if frontier:
        _frontiers(comparison, scorers, console)
    for note in comparison.notes:
        console.print(Text(f"Note: {safe(note)}", style="yellow"), soft_wrap=True)


def results_console() -> Console:
    """Where results go: stdout. A pipe gets wide lines, so that nothing is cut where nobody looks at a screen."""
    return Console() if sys.stdout.isatty() else Console(width=max(160, Console().width))


def print_sheet(sheet: Sheet, console: Console) -> None:
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


def _widths(sheet: Sheet, width: int) -> list[int] | None:
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


def _stacked(sheet: Sheet, width: int) -> Iterator[str]:
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
    from ragrounds.ui.frontier_sheet import frontier_sheets
    from ragrounds.ui.frontier_text import draw

    numbers, agents = numbered(comparison), agent_names(comparison)
    for table, _ in distinct_tables(comparison, scorers):
        found = table.frontier
        if found is None or len(comparison.rows) < 2:
            continue
        for sheet in frontier_sheets(found, table.scorer, numbers, agents):
            print_sheet(sheet, console)
        console.print()
        console.print(draw(found, numbers, width=min(console.width, 100)))
        if found.left_out:
            named = ", ".join(f"#{numbers[run]}" for run in found.left_out)
            console.print(Text(f"Not placed, because their cost is not known: {named}."), soft_wrap=True)
