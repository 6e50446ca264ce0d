"""Figures that papers printed for the same agent, model and whole datasets as a run's, shown below the run's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ragrounds.base import hooks, plugins
from ragrounds.base.records import Run
from ragrounds.evals.compare.abstract import ComparedSystem, selection_words
from ragrounds.evals.compare.comparison import Comparison, RunFigures, ScorerTable


class PrintedFigure(Struct, frozen=True):
    """A figure in a paper's table."""

    source: str
    """Reference to the paper and its table."""
    row: str
    value: float
    """Value in the table's unit: percentages are from 0 to 100."""


class PrintedTables(Struct, frozen=True):
    """Tables of papers."""

    name: str
    find: Callable[[Run, Sequence[str], RunFigures, str], PrintedFigure | None]
    """Function from a run, its models, its figures and their scorer to the figure printed for exactly these, or
    ``None``."""


def printed_figures(
    runs: Sequence[Run], systems: Sequence[ComparedSystem], comparison: Comparison, table: ScorerTable
) -> Mapping[str, PrintedFigure]:
    """Return the figures that papers printed, by run id.

    Runs with a part of the attempts, with missing scores, or with answers made elsewhere have none.
    """
    attempts_made = {row.run: row.made for row in comparison.rows}
    complete_lines = {line.run: line for line in table.lines if not line.overall.missing}
    models = {system.run: system.models for system in systems}
    table_sets = plugins.discover(hooks.PRINTED, PrintedTables).values()
    replayed = [
        run for run in runs if run.id in complete_lines and run.origin == "replayed" and not selection_words(run)
    ]
    complete_runs = [run for run in replayed if attempts_made[run.id] == run.count * run.epochs]
    candidates = (
        (run, table_set.find(run, models[run.id], complete_lines[run.id], table.scorer))
        for run in complete_runs
        for table_set in table_sets
    )
    return {run.id: printed for run, printed in candidates if printed is not None}
