"""The figure that a paper printed for the same agent, model and whole datasets as a run's, shown below the run's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ragrounds import hooks, plugins
from ragrounds.evals.compare.abstract import AbstractSystem, selection_words
from ragrounds.evals.compare.comparison import ScorerTable
from ragrounds.records import Run


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
    find: Callable[[Run, Sequence[str], frozenset[str], str], PrintedFigure | None]
    """From a run, its models, its datasets and a scorer to what was printed for exactly these; ``None``: nothing."""


def printed_figures(
    runs: Sequence[Run], systems: Sequence[AbstractSystem], table: ScorerTable
) -> Mapping[str, PrintedFigure]:
    """Run id → what a paper printed for it. Of a part of a dataset, and of answers made elsewhere, there is nothing."""
    kept, models = (
        {line.run: frozenset(line.datasets) for line in table.lines},
        {one.run: one.models for one in systems},
    )
    known = plugins.discover(hooks.PRINTED.folder, PrintedTables).values()
    whole = [run for run in runs if run.id in kept and run.origin == "replayed" and not selection_words(run)]
    asked = ((run, one.find(run, models[run.id], kept[run.id], table.scorer)) for run in whole for one in known)
    return {run.id: found for run, found in asked if found is not None}
