"""The table of `ragrounds train evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragrounds.train.evaluation import Quality, Table


def show(table: Table, against: Sequence[str]) -> None:
    """Print pairs with their figures, then the comparisons with the rows `against`."""
    from rich.table import Table as Drawn
    from rich.text import Text

    from ragrounds.ui.tables import results_console

    console = results_console()
    drawn = Drawn(title=Text(f"{table.name}: nDCG@10 and query encoding"), title_justify="left")
    drawn.add_column("pair", overflow="fold")
    for each in table.quality:
        drawn.add_column(Text(f"{each.benchmark}\n{_note(each)}"), justify="right")
    for heading in (
        "query\nparameters",
        "queries/s\none by one",
        "to the\nteacher",
        "queries/s\nin 32s",
        "training\nminutes",
    ):
        drawn.add_column(heading, justify="right")
    first = table.rows[0].name
    for row in table.rows:
        cells = [
            f"{each.values[row.name]:.4f} ({each.values[row.name] / each.values[first]:.1%})" for each in table.quality
        ]
        speed = row.speed
        drawn.add_row(
            Text(row.name),
            *cells,
            f"{row.query_parameters / 1e6:.1f} M",
            *((f"{speed.single:,.0f}", f"{speed.ratio:.2f}", f"{speed.batched:,.0f}") if speed else ("—", "—", "—")),
            f"{row.seconds / 60:.1f}",
        )
    console.print(drawn)
    if table.rounds:
        console.print(
            f"Queries per second: medians of {table.rounds} rounds, {table.threads} thread(s), encoders in turn; "
            "the ratio is the median of the rounds' ratios, one query at a time."
        )
    for each in table.quality:
        _pairs(console, each, against)


def _note(each: Quality) -> str:
    notes = [each.split, f"{each.queries:,} queries"]
    notes += ["selection"] if each.selection else []
    notes += ["transductive"] if each.transductive else []
    notes += [f"{each.queries_trained} queries trained on"] if each.queries_trained else []
    return ", ".join(notes)


def _pairs(console: object, each: Quality, against: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    shown = [pair for pair in each.comparisons if pair.first in against or pair.second in against]
    if not shown or not isinstance(console, Console):
        return
    drawn = Drawn(
        title=Text(f"{each.benchmark}, {each.split}: differences of nDCG@10"),
        title_justify="left",
        caption="interval: paired bootstrap, 95 %; p: randomisation test, two-sided; Holm: over all pairs of the table",
        caption_justify="left",
    )
    drawn.add_column("pair", overflow="fold")
    for heading in ("difference", "interval", "p", "Holm", "won", "tied", "lost"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for pair in shown:
        sign, first, second = (1, pair.first, pair.second)
        if pair.first in against and pair.second not in against:
            sign, first, second = (-1, pair.second, pair.first)
        low, high = sorted((sign * pair.low, sign * pair.high))
        won, lost = (pair.wins, pair.losses) if sign == 1 else (pair.losses, pair.wins)
        drawn.add_row(
            Text(f"{first} - {second}"),
            f"{sign * pair.difference:+.4f}",
            f"{low:+.4f} {high:+.4f}",
            f"{pair.p:.4f}",
            f"{pair.holm:.4f}",
            *(str(count) for count in (won, pair.ties, lost)),
        )
    console.print(drawn)
