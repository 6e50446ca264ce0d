"""A comparison as tables for the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ragrounds.evals.comparison import Comparison
from ragrounds.ui.naming import agent_names
from ragrounds.ui.sheets import Sheet, distinct_tables, numbered, sheets
from ragrounds.ui.text import safe


def print_comparison(
    comparison: Comparison, protocols: Sequence[str] = (), console: Console | None = None, *, frontier: bool = False
) -> None:
    """Accuracy by protocol, outcomes and cost, paired differences, groups; with `frontier` also its picture."""
    console = console or results_console()
    for sheet in sheets(comparison, protocols):
        print_sheet(sheet, console)
    if frontier:
        _frontiers(comparison, protocols, console)
    for note in comparison.notes:
        console.print(Text(f"Note: {safe(note)}", style="yellow"), soft_wrap=True)


def results_console() -> Console:
    """Where results go: stdout. A pipe gets wide lines, so that nothing is cut where nobody looks at a screen."""
    return Console() if sys.stdout.isatty() else Console(width=max(160, Console().width))


def print_sheet(sheet: Sheet, console: Console) -> None:
    """One sheet under its title."""
    console.print()
    console.print(Text(sheet.title, style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in sheet.columns:
        if column.name == "agent":
            table.add_column(column.name, overflow="fold", min_width=20)
        else:
            table.add_column(Text(column.name), justify="right" if column.right else "left")
    for row in sheet.rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _frontiers(comparison: Comparison, protocols: Sequence[str], console: Console) -> None:
    from ragrounds.ui.frontier_sheet import frontier_sheets
    from ragrounds.ui.frontier_text import draw

    numbers, agents = numbered(comparison), agent_names(comparison)
    for table, _ in distinct_tables(comparison, protocols):
        found = table.frontier
        if found is None or len(comparison.rows) < 2:
            continue
        for sheet in frontier_sheets(found, table.protocol, numbers, agents):
            print_sheet(sheet, console)
        console.print()
        console.print(draw(found, numbers, width=min(console.width, 100)))
        if found.left_out:
            named = ", ".join(f"#{numbers[run]}" for run in found.left_out)
            console.print(Text(f"Not placed, because their cost is not known: {named}."), soft_wrap=True)
