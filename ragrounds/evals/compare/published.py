"""The figure that a paper printed for the same agent, model and whole datasets as a run's, shown below the run's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ragrounds.base import hooks, plugins
from ragrounds.base.records import Run
from ragrounds.evals.compare.abstract import AbstractSystem, selection_words
from ragrounds.evals.compare.comparison import Comparison, RunFigures, ScorerTable


class PrintedFigure(Struct, frozen=True):
    """A figure in a paper's table."""

    source: str
    """The paper and its table."""
    row: str
    value: float
    """In the table's unit: percents are from 0 to 100."""


class PrintedTables(Struct, frozen=True):
    """Tables of papers."""

    name: str
    find: Callable[[Run, Sequence[str], RunFigures, str], PrintedFigure | None]
    """From a run, its models, its figures and their scorer to what was printed for exactly these; ``None``: nothing."""


def printed_figures(
    runs: Sequence[Run], systems: Sequence[AbstractSystem], comparison: Comparison, table: ScorerTable
) -> Mapping[str, PrintedFigure]:
    """Run id → what a paper printed for it. Of a part of its attempts, of one that lacks scores, and of answers made
    elsewhere, there is nothing."""
    made = {row.run: row.made for row in comparison.rows}
    kept = {line.run: line for line in table.lines if not line.overall.missing}
    models = {one.run: one.models for one in systems}
    known = plugins.discover(hooks.PRINTED, PrintedTables).values()
    replayed = [run for run in runs if run.id in kept and run.origin == "replayed" and not selection_words(run)]
    whole = [run for run in replayed if made[run.id] == run.count * run.epochs]
    asked = ((run, one.find(run, models[run.id], kept[run.id], table.scorer)) for run in whole for one in known)
    return {run.id: found for run, found in asked if found is not None}
