"""Table of a study: every cell with the published figure, our deviation from it, averages and differences.

A pure computation from the figures of the cells that were carried out (:mod:`ragrounds.extensions.studies.figures`)
to the printed table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.evals.analyses.analysis import AnalysisResult
from ragrounds.evals.stats import Estimate
from ragrounds.extensions.studies.figures import CellFigure, cohort_of, column_weights, mean_of
from ragrounds.extensions.studies.headings import Headings, ShownLine
from ragrounds.extensions.studies.study import Study, StudyAnalysis, StudyCorrelation, StudyLine

State = Literal["done", "part", "to do", "lacks", "failed", "published"]
"""State of a cell: complete; some attempts done; not begun; missing a requirement; failed.

``published``: the paper's figure alone, because the call replaced the model or the corpus that the line names.
"""
_ORDER: tuple[State, ...] = ("done", "part", "to do", "lacks", "failed")
CellPosition = tuple[str, str]
"""Row and column."""
Combine = Callable[[Mapping[str, CellFigure]], CellFigure]
"""Function that combines the figures of some cells, by name, into one."""


class CellResult(Struct, frozen=True, kw_only=True):
    """Result of a cell that is carried out."""

    state: State
    why: str = ""
    """Missing requirements and how to get them, the error, or how much is done."""
    figure: CellFigure | None = None
    runs: tuple[str, ...] = ()
    """Ids of the runs that it shows."""


class StudyFinding(Struct, frozen=True, kw_only=True):
    """Analysis of a study's runs."""

    asked: StudyAnalysis
    result: AnalysisResult | None
    why: str = ""
    """Reason if there is no result."""


class TableCell(Struct, frozen=True, kw_only=True):
    """Cell of the table. Figures are in the unit of the paper: percents are from 0 to 100."""

    row: str
    """Heading of its row."""
    column: str
    """Heading of its column."""
    state: State
    why: str = ""
    value: float | None = None
    low: float | None = None
    """Lower end of the 95 % interval."""
    high: float | None = None
    spread: float | None = None
    """Number after ±, by the study's `spread`."""
    n: int = 0
    missing: int = 0
    failed: int = 0
    """Number of attempts that ended with an error; they count as 0 except `failed_right`."""
    failed_right: int = 0
    """Number of failed attempts with a text that the scorer still reads as right."""
    imported: bool = False
    """True if the answers were made elsewhere and cannot be asked for again."""
    computed: bool = False
    """True if computed from other cells instead of carried out."""
    measure: str = ""
    published: float | None = None
    published_spread: float | None = None
    deviation: float | None = None
    """Our figure minus the published figure."""
    difference: float | None = None
    """Difference of this row from the study's baseline row, on the same questions."""
    difference_low: float | None = None
    difference_high: float | None = None
    runs: tuple[str, ...] = ()


class TableRow(Struct, frozen=True, kw_only=True):
    """Row of the table, with its cells in the order of the columns."""

    name: str
    group: str
    cells: tuple[TableCell, ...]


class StudyTable(Struct, frozen=True, kw_only=True):
    """Current table of a study."""

    study: str
    title: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    digits: int
    spread: str
    baseline: str
    notes: tuple[str, ...] = ()
    """Notes for the reader."""

    @property
    def cells(self) -> tuple[TableCell, ...]:
        """Cells of the table, row by row."""
        return tuple(cell for row in self.rows for cell in row.cells)

    def count(self, state: State) -> int:
        """Return the number of cells in a state."""
        return sum(cell.state == state for cell in self.cells)

    @property
    def carried(self) -> StudyTable:
        """Table with only the cells that are carried out, without those computed from others or only published."""
        rows = (
            replace(row, cells=tuple(cell for cell in row.cells if not cell.computed and cell.state != "published"))
            for row in self.rows
        )
        return replace(self, rows=tuple(rows))


def study_table(
    study: Study,
    results: Mapping[CellPosition, CellResult],
    overrides: Mapping[str, object] | None = None,
    row_headings: Headings | None = None,
    column_headings: Headings | None = None,
) -> StudyTable:
    """Build the table of a study from its cells' results; cells without a result are still to do.

    Args:
        study: the study.
        results: results of its cells.
        overrides: a call's overrides for all cells, which the table's notes list, because the figures then differ from
            the study's file.
        row_headings, column_headings: rows and columns to show; ``None``: all, as the study has them. If some are left
            out, correlations over all rows are left out, too.
    """
    scopes = {"retriever": " (where they search and their row names none)"}
    reported = {name: value for name, value in (overrides or {}).items() if name in _REPORTED_OVERRIDES}
    overrides_text = ", ".join(f"{name} = {value}{scopes.get(name, '')}" for name, value in reported.items())
    row_headings = row_headings or Headings(study, list(study.cells()), "row")
    column_headings = column_headings or Headings(study, list(study.cells()), "column")
    cells = _Cells(study, results, row_headings.by_name)
    columns = column_headings.lines
    rows = [
        TableRow(
            name=row.heading,
            group=row.line.group if row.has_published else "",
            cells=tuple(cells.cell(row, column) for column in columns),
        )
        for row in row_headings.lines
    ]
    measured_rows = [row for shown, row in zip(row_headings.lines, rows, strict=True) if not shown.line.mean]
    correlations = () if row_headings.is_partial or column_headings.is_partial else study.correlations
    equal = "; ".join(
        " = ".join(map(repr, names)) for headings in (row_headings, column_headings) for names in headings.equal
    )
    return StudyTable(
        study=study.name,
        title=study.title,
        source=study.source,
        columns=tuple(column.heading for column in columns),
        rows=tuple(rows),
        digits=study.digits,
        spread=study.spread,
        baseline=row_headings.by_name.get(study.baseline, ""),
        notes=(
            *([f"In place of what the study says, all cells have {overrides_text}."] if overrides_text else ()),
            *([f"These are equal in this call, so their figures are shown once: {equal}."] if equal else ()),
            *(_correlation_note(correlation, measured_rows) for correlation in correlations),
            *([study.note] if study.note else ()),
        ),
    )


_REPORTED_OVERRIDES = ("model", "corpus", "retriever", "limit", "per_dataset", "epochs")


def _correlation_note(correlation: StudyCorrelation, rows: Sequence[TableRow]) -> str:
    """Return a sentence on the correlation of two columns."""
    pairs = []
    for row in rows:
        values = [next((cell.value for cell in row.cells if cell.column == name), None) for name in correlation.columns]
        if None not in values:
            pairs.append(values)
    first, second = correlation.columns
    lead = f"{correlation.kind}'s correlation of {first} and {second} over {len(pairs):,} rows: "
    printed = "" if correlation.published is None else f"; published {correlation.published:g}"
    if len(pairs) < _MIN_ROWS or any(len({values[side] for values in pairs}) < 2 for side in (0, 1)):
        return f"{lead}not defined{printed}."
    from scipy.stats import pearsonr, spearmanr

    value = (spearmanr if correlation.kind == "Spearman" else pearsonr)(*zip(*pairs, strict=True)).statistic
    return f"{lead}{value:.3f}{printed}."


_MIN_ROWS = 3
"""Smallest number of rows of a correlation."""


_FIGURE_FIELDS = ("n", "missing", "failed", "failed_right", "imported", "measure")


class _Cells:
    """Results of all cells, each computed once."""

    def __init__(
        self, study: Study, results: Mapping[CellPosition, CellResult], row_headings: Mapping[str, str]
    ) -> None:
        self._study, self._row_headings = study, row_headings
        self._rows = {row.name: row for row in study.rows}
        self._columns = {column.name: column for column in study.columns}
        self._results = dict(results)

    def result(self, row: StudyLine, column: StudyLine) -> CellResult:
        """Return the result of a cell; a computed cell is computed on the first call."""
        position = (row.name, column.name)
        if position not in self._results:
            self._results[position] = self._compute(row, column)
        return self._results[position]

    def _compute(self, row: StudyLine, column: StudyLine) -> CellResult:
        if column.mean:
            return self._combine_columns(row, column.mean, mean_of)
        if column.change or column.difference:
            return self._combine_columns(
                row, column.change or column.difference, lambda figures: _change_or_difference(column, figures)
            )
        if row.mean:
            parts = {name: self.result(self._rows[name], column) for name in row.mean}
            hidden = {name for name in row.mean if self._rows[name].hidden}
            return _combine_parts(parts, lambda figures: cohort_of(list(figures.values())), hidden)
        return CellResult(state="to do")

    def _combine_columns(self, row: StudyLine, names: Sequence[str], combine: Combine) -> CellResult:
        hidden = {name for name in names if self._columns[name].hidden}
        return _combine_parts({name: self.result(row, self._columns[name]) for name in names}, combine, hidden)

    def cell(self, shown_row: ShownLine, shown_column: ShownLine) -> TableCell:
        """Return a cell as it is printed."""
        row, column = shown_row.line, shown_column.line
        published = None
        if shown_row.has_published and shown_column.has_published:
            published = self._study.published(row.name, column.name)
        result = CellResult(state="published")
        if has_figures := shown_row.has_figures and shown_column.has_figures:
            result = self.result(row, column)
        figure = result.figure or CellFigure(value=None, measure="")
        scale = 100.0 if figure.unit == "percent" else 1.0
        value = _times(figure.value, scale)
        spreads = {"binomial": figure.error, "epochs": figure.sd, "orders": figure.order_sd}
        baseline_difference = self._difference(row, column) if has_figures else None
        return TableCell(
            row=shown_row.heading,
            column=shown_column.heading,
            state=result.state,
            why=result.why,
            value=value,
            low=_times(figure.low, scale),
            high=_times(figure.high, scale),
            spread=_times(spreads.get(self._study.spread), scale),
            **{name: getattr(figure, name) for name in _FIGURE_FIELDS},
            computed=bool(column.made_of or row.mean),
            published=published.value if published else None,
            published_spread=published.spread if published else None,
            deviation=value - published.value if published and value is not None else None,
            difference=_times(baseline_difference.value, scale) if baseline_difference else None,
            difference_low=_times(baseline_difference.low, scale) if baseline_difference else None,
            difference_high=_times(baseline_difference.high, scale) if baseline_difference else None,
            runs=result.runs,
        )

    def _difference(self, row: StudyLine, column: StudyLine) -> Estimate | None:
        """Return the difference of this row from the baseline, if both are means over the same questions."""
        if not self._study.baseline or column.change or column.difference:
            return None
        if self._row_headings[row.name] == self._row_headings[self._study.baseline]:
            return None
        row_figure, baseline = (self.result(line, column).figure for line in (row, self._rows[self._study.baseline]))
        if row_figure is None or baseline is None or row_figure.sample is None or baseline.sample is None:
            return None
        if row_figure.measure != baseline.measure:
            return None
        weights = None
        if column.mean:
            parts = {name: self.result(row, self._columns[name]).figure for name in column.mean}
            weights = column_weights({name: figure for name, figure in parts.items() if figure is not None})
        return row_figure.sample.minus(baseline.sample, weights)


def _combine_parts(parts: Mapping[str, CellResult], combine: Combine, hidden: Collection[str]) -> CellResult:
    """Combine cells that are all done into one result.

    If some are not done, the result names them. It gives the reasons of hidden cells, because these are printed nowhere
    else.
    """
    runs = tuple(dict.fromkeys(run for part in parts.values() for run in part.runs))
    unfinished = [name for name, part in parts.items() if part.state != "done"]
    if unfinished:
        worst = max((parts[name].state for name in unfinished), key=_ORDER.index)
        hidden_reasons = [parts[name].why for name in unfinished if name in hidden and parts[name].why]
        return CellResult(state=worst, why="\n".join(hidden_reasons) or f"needs {', '.join(unfinished)}", runs=runs)
    figures = {name: part.figure for name, part in parts.items() if part.figure is not None}
    return CellResult(state="done", figure=combine(figures) if len(figures) == len(parts) else None, runs=runs)


def _change_or_difference(column: StudyLine, figures: Mapping[str, CellFigure]) -> CellFigure:
    """Return the change from the first column to the second in percent, or their difference.

    A difference has the columns' unit, and an interval.
    """
    if column.change:
        base, value = (figures[name].value for name in column.change)
        change = 100 * (value - base) / base if base and value is not None else None
        return CellFigure(value=change, unit="percent of the first", measure="change")
    first, second = (figures[name] for name in column.difference)
    paired = second.sample.minus(first.sample) if first.sample and second.sample else None
    return CellFigure(
        value=None if first.value is None or second.value is None else second.value - first.value,
        low=paired.low if paired else None,
        high=paired.high if paired else None,
        n=min(first.n, second.n),
        unit=first.unit,
        measure="difference",
    )


def _times(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale
