"""A training on the screen: a line now and then on standard error; and the table of the pairs that were trained."""

from __future__ import annotations

import sys
import time

from rich.console import Console

from ragrounds.train.evaluation import PairTable, RetrievalQuality
from ragrounds.train.loop import TrainingStep
from ragrounds.ui.tables import Column, TextTable, print_table, results_console
from ragrounds.ui.text import TOO_FEW, UNKNOWN, duration, number_of, safe

_EVERY = 15.0
"""Seconds between lines."""


class TrainingDisplay:
    """What a training tells: a line now and then on standard error."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def doing(self, what: str, done: int) -> None:
        """What is prepared or encoded, and how many are done."""
        self._say(f"{what}: {done:,}", False)

    def step(self, told: TrainingStep) -> None:
        """A step of a stage, with its loss."""
        loss = f", loss {told.loss:.4f}" if told.loss is not None else ""
        self._say(f"{told.stage}: step {told.step:,} of {told.steps:,}{loss}", told.step == told.steps)

    def _say(self, line: str, last: bool) -> None:
        if last or time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            sys.stderr.write(f"{safe(line)}\n")


def print_pairs(table: PairTable) -> None:
    """Print pairs with their figures, then how they compare on each benchmark."""
    console = results_console()
    first = table.rows[0].name
    heads = [f"{each.benchmark} {_note(each)}" for each in table.quality]
    heads += ["query parameters", "queries/s one by one", "to the teacher", "training"]
    rows = []
    for row in table.rows:
        cells = [
            f"{each.values[row.name]:.4f} ({each.values[row.name] / each.values[first]:.1%})" for each in table.quality
        ]
        speed = row.speed
        fast = (f"{speed.single:,.0f}", f"{speed.ratio:.2f}") if speed else (UNKNOWN,) * 2
        rows.append((safe(row.name), *cells, f"{row.query_parameters / 1e6:.1f} M", *fast, duration(row.seconds)))
    sheet = TextTable(
        key="trained",
        title=f"{safe(table.name)}: nDCG@10 and query encoding",
        columns=(Column("pair", right=False), *(Column(safe(head)) for head in heads)),
        rows=tuple(rows),
    )
    print_table(sheet, console)
    if table.rounds:
        console.print(
            f"Queries per second: medians of {table.rounds} rounds, {table.threads} thread(s), encoders in turn; "
            "the ratio is the median of the rounds' ratios, one query at a time."
        )
    for each in table.quality:
        _pairs(console, each)


def _note(each: RetrievalQuality) -> str:
    notes = [each.split, number_of(each.queries, "query")]
    notes += ["selection"] if each.selection else []
    notes += ["transductive"] if each.transductive else []
    notes += [f"{each.queries_trained} queries trained on"] if each.queries_trained else []
    return ", ".join(notes)


def _pairs(console: Console, each: RetrievalQuality) -> None:
    rows = []
    for pair in each.comparisons:
        ends = TOO_FEW
        if pair.low is not None and pair.high is not None:
            ends = f"{-pair.high:+.4f} to {-pair.low:+.4f}"
        rows.append(
            (
                safe(f"{pair.second} - {pair.first}"),
                f"{-pair.difference:+.4f}",
                ends,
                f"{pair.p:.4f}",
                f"{pair.holm:.4f}",
                *(f"{count:,}" for count in (pair.losses, pair.ties, pair.wins)),
            )
        )
    sheet = TextTable(
        key="differences",
        title=f"{safe(each.benchmark)}, {each.split}: differences of nDCG@10",
        about="95 %: none where queries are too few; p: randomisation test, two-sided; Holm p: over the table's pairs",
        columns=(
            Column("pair", right=False),
            *map(Column, ("difference", "95 %", "p", "Holm p", "won", "tied", "lost")),
        ),
        rows=tuple(rows),
    )
    print_table(sheet, console)
