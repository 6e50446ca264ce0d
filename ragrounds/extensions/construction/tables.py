"""Tables of a built benchmark: its stages, and their costs."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from ragrounds.extensions.construction.card import BuiltCard, StageCount
from ragrounds.ui.columns import Column, table_of, words
from ragrounds.ui.tables.text_tables import print_table, results_console
from ragrounds.ui.text import UNKNOWN, dollars, number_of, one_line, tokens


def print_built(card: BuiltCard, out: Path) -> None:
    """Print the results of each stage, the usage of each model, and the benchmark's folder."""
    provenance, console = card.made, results_console()

    def dropped(line: StageCount) -> str:
        """Return the numbers of dropped items, with the reasons."""
        return ", ".join(f"{count:,} {one_line(reason)}" for reason, count in line.dropped.items()) or UNKNOWN

    columns = (words("stage"), Column("entered"), Column("kept"), words("dropped, and why", dropped))
    print_table(table_of("stages", provenance.stages, columns), console)
    for model, bill in provenance.by_model.items():
        name = one_line(model, 120)
        used = f"{tokens(bill.usage.input)} tokens in, {tokens(bill.usage.output)} out" if bill.usage else "tokens -"
        console.print(
            Text(f"{name}: {number_of(bill.calls, 'model call')}, {used}, full price {dollars(bill.cost_uncached)}")
        )
    for note in provenance.notes:
        console.print(Text(f"Note: {one_line(note, 400)}"), soft_wrap=True)
    console.print(Text(f"{card.benchmark.size:,} kept: {out}"), soft_wrap=True)
