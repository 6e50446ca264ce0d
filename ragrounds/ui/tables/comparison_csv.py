"""A comparison as one tidy CSV table: one row per figure, at full precision, empty if not known."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import asdict

from ragrounds.base.files import guarded
from ragrounds.base.text import safe
from ragrounds.evals.compare.comparison import Comparison, ScorerTable
from ragrounds.evals.compare.figures import Figure, PairedFigure
from ragrounds.ui.tables.comparison_columns import TOTALS

COLUMNS = (
    *("figure", "scorer", "run", "agent", "against", "part", "n", "missing", "value", "error", "low", "high", "best"),
    *("first_only", "second_only", "p_mcnemar", "p_holm", "mde", "p_always", "measure", "pooled", "name"),
)
"""Columns of the table.

`figure` is the kind of a row: ``score``, ``difference`` (run minus against), ``total``. `part` is the dataset, the
group (``subject=Cardiology``), or empty for the whole.
"""
Row = dict[str, object]


def as_csv(comparison: Comparison, scorers: Sequence[str] = ()) -> str:
    """Return scores, differences and totals as CSV, by the given scorers or by all.

    The frontier is in ``--json`` only.
    """
    rows: list[Row] = []
    agents = {row.run: row.agent for row in comparison.rows}
    names = {row.run: row.name or row.agent for row in comparison.rows}
    for table in comparison.tables:
        if scorers and table.scorer not in scorers:
            continue
        for row in _table_rows(table):
            run = str(row["run"])
            rows.append({**row, "scorer": table.scorer, "agent": agents[run], "name": names[run]})
    rows += [{**row, "name": names[str(row["run"])]} for row in _total_rows(comparison)]
    return csv_text([COLUMNS, *([row.get(name) for name in COLUMNS] for row in rows)])


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV. ``None`` is empty. A text that a spreadsheet would take for a formula gets an apostrophe."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(map(_csv_cell, row) for row in rows)
    return out.getvalue()


def _csv_cell(value: object) -> object:
    if isinstance(value, float):
        return value + 0.0  # -0.0 is 0.0
    if isinstance(value, list):
        return guarded(safe(" ".join(map(str, value))))
    return "" if value is None else guarded(safe(value)) if isinstance(value, str) else value


def _table_rows(table: ScorerTable) -> Iterator[Row]:
    for line in table.lines:
        for dataset, figure in line.datasets.items():
            yield _figure_row(line.run, dataset, figure)
        yield _figure_row(line.run, "", line.overall)
    for pair in table.pairs:
        yield _difference_row(pair.second, pair.first, "", pair.tests, pair.p_holm)
    for grouped in table.groups:
        for group in grouped.groups:
            part = f"{grouped.by}={group.name}"
            for run, figure in group.figures.items():
                yield _figure_row(run, part, figure)
            for inside in group.pairs:
                yield _difference_row(inside.second, inside.first, part, inside.tests, inside.p_holm)


def _figure_row(run: str, part: str, figure: Figure) -> Row:
    return {"figure": "score", "run": run, "part": part, **asdict(figure)}


def _difference_row(run: str, against: str, part: str, tests: PairedFigure, p_holm: float | None) -> Row:
    about = {"figure": "difference", "run": run, "against": against, "part": part}
    return {**asdict(tests), **about, "value": tests.difference, "p_holm": p_holm}


def _total_rows(comparison: Comparison) -> Iterator[Row]:
    for row in comparison.rows:
        for column in TOTALS:
            if column.csv and (not column.where or getattr(row, column.where)):
                yield {
                    "figure": "total",
                    "run": row.run,
                    "agent": row.agent,
                    "measure": column.csv,
                    "value": column.value_in(row),
                }
