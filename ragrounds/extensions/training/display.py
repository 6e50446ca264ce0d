"""Display of a training: a line now and then on standard error, and the table of the trained pairs."""

from __future__ import annotations

import sys
import time

from ragrounds.extensions.retrieval.tables import pair_table
from ragrounds.extensions.training.evaluation import PairTable, RetrievalQuality
from ragrounds.extensions.training.functions import TrainingResult
from ragrounds.extensions.training.loop import StageCost, TrainingStep
from ragrounds.ui.columns import Column, table_of, words
from ragrounds.ui.tables.text_tables import print_table, results_console
from ragrounds.ui.text import UNKNOWN, duration, number_of, safe, size

_SECONDS_BETWEEN_LINES = 15.0
"""Seconds between lines."""


class TrainingDisplay:
    """Display of a training: a line now and then on standard error."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def doing(self, task: str, done: int) -> None:
        """Report the current task, and how many of its elements are done."""
        self._say(f"{task}: {done:,}", False)

    def step(self, done: TrainingStep) -> None:
        """Report a step of a stage, with its loss."""
        loss = f", loss {done.loss:.4f}" if done.loss is not None else ""
        self._say(f"{done.stage}: step {done.step:,} of {done.steps:,}{loss}", done.step == done.steps)

    def _say(self, line: str, last: bool) -> None:
        if last or time.monotonic() - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            sys.stderr.write(f"{safe(line)}\n")


def print_costs(result: TrainingResult) -> None:
    """Print what each stage took; a stage that recipes share is in the row of the first."""
    costs: dict[str, tuple[str, StageCost]] = {}
    for pair in result.pairs:
        for stage, cost in pair.stages.items():
            costs.setdefault(stage, (pair.recipe, cost))
    rows = [(recipe, stage.rpartition("-")[0], cost) for stage, (recipe, cost) in costs.items()]
    columns = (
        words("recipe", lambda row: safe(row[0])),
        words("stage", lambda row: safe(row[1])),
        Column("steps", lambda row: f"{row[2].steps:,}"),
        Column("examples", lambda row: f"{row[2].examples:,}"),
        Column("tokens", lambda row: f"{row[2].tokens:,}"),
        Column("time", lambda row: duration(row[2].seconds)),
        Column("hours", lambda row: f"{row[2].seconds / 3600:.2f}"),
        Column("processor", lambda row: duration(row[2].processor)),
        Column("memory", lambda row: size(row[2].peak)),
        Column("GPU memory", lambda row: size(row[2].device_peak)) if any(row[2].device_peak for row in rows) else None,
    )
    title = f"{safe(result.name)}: what training took on {safe(result.device)}"
    print_table(table_of("training costs", rows, columns, title=title), results_console())


def print_pairs(table: PairTable) -> None:
    """Print pairs with their figures, then their comparisons on each benchmark."""
    console = results_console()

    def quality(benchmark: RetrievalQuality) -> Column:
        """Return the column of a benchmark: nDCG@10, and its share of the teacher's."""
        values, first = benchmark.values, benchmark.values[table.rows[0].name]
        notes = [benchmark.split, number_of(benchmark.queries, "query")]
        notes += ["selection"] if benchmark.selection else []
        notes += ["transductive"] if benchmark.transductive else []
        notes += [f"{benchmark.queries_trained} queries trained on"] if benchmark.queries_trained else []
        heading = safe(f"{benchmark.benchmark} {', '.join(notes)}")
        return Column(heading, lambda row: f"{values[row.name]:.4f} ({values[row.name] / first:.1%})")

    columns = (
        words("pair", "name"),
        *map(quality, table.quality),
        Column("query parameters", lambda row: f"{row.query_parameters / 1e6:.1f} M"),
        Column("queries/s one by one", lambda row: f"{row.speed.single:,.0f}" if row.speed else UNKNOWN),
        Column("to the teacher", lambda row: f"{row.speed.ratio:.2f}" if row.speed else UNKNOWN),
        Column("training", "seconds", duration),
    )
    title = f"{safe(table.name)}: nDCG@10 and query encoding"
    print_table(table_of("trained", table.rows, columns, title=title), console)
    if table.rounds:
        console.print(
            f"Queries per second: medians of {table.rounds} rounds, {table.threads} thread(s), encoders in turn; "
            "the ratio is the median of the rounds' ratios, one query at a time."
        )
    for benchmark in table.quality:
        if benchmark.comparisons:
            title = f"{safe(benchmark.benchmark)}, {benchmark.split}: nDCG@10, 1st minus 2nd"
            print_table(pair_table(benchmark.comparisons, title), console)
