"""The analyses that a report was asked for, as sheets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragrounds.evals.analyses.naming import Choices, analyse
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.store.store import Store
from ragrounds.records import Run
from ragrounds.ui.figures import UNKNOWN, percent
from ragrounds.ui.sheets import Column, Sheet, interval
from ragrounds.ui.text import safe

Cell = str | float | int | Figure | None


def analysis_parts(
    store: Store, runs: Sequence[Run], names: Sequence[str], scorer: str, seed: int
) -> Iterator[Sheet | str]:
    """Each analysis as a sheet, with its note.

    Raises:
        UserError: an unknown analysis, or runs that lack what it needs.
    """
    for name in names:
        table = analyse(name, store, runs, Choices(scorer=scorer, seed=seed)).table
        numeric = [all(not isinstance(row[place], str) for row in table.rows) for place, _ in enumerate(table.columns)]
        yield Sheet(
            key="analysis",
            scorer=scorer,
            title=table.title,
            columns=tuple(Column(safe(name), right) for name, right in zip(table.columns, numeric, strict=True)),
            rows=tuple(tuple(cell(one) for one in row) for row in table.rows),
        )
        if table.note:
            yield table.note


def cell(value: Cell) -> str:
    """A cell of an analysis: figures in percent with their interval, what is not known as a dash."""
    if value is None:
        return UNKNOWN
    if isinstance(value, Figure):
        return percent(value.value) + (f" ({interval(value)})" if value.low is not None else "")
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else safe(value)
