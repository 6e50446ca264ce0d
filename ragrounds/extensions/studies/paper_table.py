"""The table of a study: every cell with the published figure and the deviation beside it, averages, differences.

Pure: from the figures of the cells that were carried out (:mod:`ragrounds.extensions.studies.figures`) to what is
printed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.evals.analyses.analysis import AnalysisResult
from ragrounds.evals.stats import Estimate
from ragrounds.extensions.studies.figures import CellFigure, cohort_of, column_weights, mean_of
from ragrounds.extensions.studies.study import Study, StudyAnalysis, StudyCorrelation, StudyLine

State = Literal["done", "part", "to do", "lacks", "failed"]
"""A cell: all of it is there; some attempts are; nothing was begun; something it needs is not here; it went wrong."""
_ORDER: tuple[State, ...] = ("done", "part", "to do", "lacks", "failed")
Place = tuple[str, str]
"""Row and column."""
Combine = Callable[[Mapping[str, CellFigure]], CellFigure]
"""From the figures of some cells, by name, to one."""


class CellResult(Struct, frozen=True, kw_only=True):
    """What became of a cell that is carried out."""

    state: State
    why: str = ""
    """What it lacks and how to get it, what went wrong, or how much of it is there."""
    figure: CellFigure | None = None
    runs: tuple[str, ...] = ()
    """The ids of the runs that it shows."""


class StudyFinding(Struct, frozen=True, kw_only=True):
    """An analysis of a study's runs."""

    asked: StudyAnalysis
    result: AnalysisResult | None
    why: str = ""
    """Why there is no result."""


class TableCell(Struct, frozen=True, kw_only=True):
    """A cell of the table. Figures are in the unit of the paper: percents are from 0 to 100."""

    row: str
    column: str
    state: State
    why: str = ""
    value: float | None = None
    low: float | None = None
    """95 % interval."""
    high: float | None = None
    spread: float | None = None
    """What stands after ±, by the study's `spread`."""
    n: int = 0
    missing: int = 0
    failed: int = 0
    """Attempts that an error ended; they count as 0 but for `failed_right`."""
    failed_right: int = 0
    """Of these, those with a text that the scorer yet reads as right."""
    imported: bool = False
    """The answers were made elsewhere: nobody can be asked again."""
    computed: bool = False
    """Made from other cells, not carried out itself."""
    measure: str = ""
    published: float | None = None
    published_spread: float | None = None
    deviation: float | None = None
    """Ours minus the published figure."""
    difference: float | None = None
    """This row minus the study's baseline row, on the same questions."""
    difference_low: float | None = None
    difference_high: float | None = None
    runs: tuple[str, ...] = ()


class TableRow(Struct, frozen=True, kw_only=True):
    """A row of the table, in the order of its columns."""

    name: str
    group: str
    cells: tuple[TableCell, ...]


class StudyTable(Struct, frozen=True, kw_only=True):
    """The table of a study as it stands."""

    study: str
    title: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    digits: int
    spread: str
    baseline: str
    notes: tuple[str, ...] = ()
    """What a reader must know."""

    @property
    def cells(self) -> tuple[TableCell, ...]:
        """All cells, row by row."""
        return tuple(cell for row in self.rows for cell in row.cells)

    def count(self, state: State) -> int:
        """How many cells are in a state."""
        return sum(cell.state == state for cell in self.cells)

    @property
    def carried(self) -> StudyTable:
        """The same with the cells alone that are carried out; those made from others are left out."""
        rows = (replace(row, cells=tuple(cell for cell in row.cells if not cell.computed)) for row in self.rows)
        return replace(self, rows=tuple(rows))


def study_table(
    study: Study,
    results: Mapping[Place, CellResult],
    said: Mapping[str, object] | None = None,
    *,
    only_rows: Collection[str] = (),
    only_columns: Collection[str] = (),
) -> StudyTable:
    """The table of a study from its cells' results; what has none is still to do.

    Args:
        study: whose.
        results: of its cells.
        said: what a call said of all cells, which readers are told: the figures are of that, and not of what the
            study's file says.
        only_rows, only_columns: names of those to show; none: all. What is said of all of them is then left out.
    """
    where = {"retriever": " (where they search and their row names none)"}
    told = {name: value for name, value in (said or {}).items() if name in _TOLD}
    overrides = ", ".join(f"{name} = {value}{where.get(name, '')}" for name, value in told.items())
    made = _Cells(study, results)
    shown = [one for one in study.columns if not one.hidden and (not only_columns or one.name in only_columns)]
    rows = [
        TableRow(name=row.name, group=row.group, cells=tuple(made.cell(row, column) for column in shown))
        for row in study.rows
        if not row.hidden and (not only_rows or row.name in only_rows)
    ]
    correlations = () if only_rows or only_columns else study.correlations
    return StudyTable(
        study=study.name,
        title=study.title,
        source=study.source,
        columns=tuple(column.name for column in shown),
        rows=tuple(rows),
        digits=study.digits,
        spread=study.spread,
        baseline=study.baseline,
        notes=(
            *([f"In place of what the study says, all cells have {overrides}."] if overrides else ()),
            *(_correlation_note(one, study, rows) for one in correlations),
            *([study.note] if study.note else ()),
        ),
    )


_TOLD = ("model", "corpus", "retriever", "limit", "per_dataset", "epochs")


def _correlation_note(asked: StudyCorrelation, study: Study, rows: Sequence[TableRow]) -> str:
    """How two columns go together, in a sentence."""
    means = {row.name for row in study.rows if row.mean}
    pairs = []
    for row in rows:
        values = [next((cell.value for cell in row.cells if cell.column == name), None) for name in asked.columns]
        if row.name not in means and None not in values:
            pairs.append(values)
    first, second = asked.columns
    said = f"{asked.kind}'s correlation of {first} and {second} over {len(pairs):,} rows: "
    printed = "" if asked.published is None else f"; published {asked.published:g}"
    if len(pairs) < _FEWEST or any(len({values[side] for values in pairs}) < 2 for side in (0, 1)):
        return f"{said}not defined{printed}."
    from scipy.stats import pearsonr, spearmanr

    value = (spearmanr if asked.kind == "Spearman" else pearsonr)(*zip(*pairs, strict=True)).statistic
    return f"{said}{value:.3f}{printed}."


_FEWEST = 3
"""Rows of a correlation at least."""


_OF_FIGURE = ("n", "missing", "failed", "failed_right", "imported", "measure")


class _Cells:
    """The results of all cells, those that are computed too, each once."""

    def __init__(self, study: Study, results: Mapping[Place, CellResult]) -> None:
        self._study = study
        self._rows = {row.name: row for row in study.rows}
        self._columns = {column.name: column for column in study.columns}
        self._known = dict(results)

    def result(self, row: StudyLine, column: StudyLine) -> CellResult:
        """The result of a cell, computed where it is one that is."""
        place = (row.name, column.name)
        if place not in self._known:
            self._known[place] = self._computed(row, column)
        return self._known[place]

    def _computed(self, row: StudyLine, column: StudyLine) -> CellResult:
        if column.mean:
            return self._joined(row, column.mean, mean_of)
        if column.change or column.difference:
            return self._joined(row, column.change or column.difference, lambda figures: _changed(column, figures))
        if row.mean:
            parts = {name: self.result(self._rows[name], column) for name in row.mean}
            hidden = {name for name in row.mean if self._rows[name].hidden}
            return _of_parts(parts, lambda figures: cohort_of(list(figures.values())), hidden)
        return CellResult(state="to do")

    def _joined(self, row: StudyLine, names: Sequence[str], combine: Combine) -> CellResult:
        hidden = {name for name in names if self._columns[name].hidden}
        return _of_parts({name: self.result(row, self._columns[name]) for name in names}, combine, hidden)

    def cell(self, row: StudyLine, column: StudyLine) -> TableCell:
        """A cell as it is printed."""
        result, published = self.result(row, column), self._study.published(row.name, column.name)
        figure = result.figure
        scale = 100.0 if figure is not None and figure.unit == "percent" else 1.0
        value = _times(figure.value, scale) if figure else None
        against = self._difference(row, column)
        return TableCell(
            row=row.name,
            column=column.name,
            state=result.state,
            why=result.why,
            value=value,
            low=_times(figure.low, scale) if figure else None,
            high=_times(figure.high, scale) if figure else None,
            spread=_times(self._spread(figure), scale) if figure else None,
            **{name: getattr(figure, name) for name in _OF_FIGURE if figure},
            computed=bool(column.made_of or row.mean),
            published=published.value if published else None,
            published_spread=published.spread if published else None,
            deviation=value - published.value if published and value is not None else None,
            difference=_times(against.value, scale) if against else None,
            difference_low=_times(against.low, scale) if against else None,
            difference_high=_times(against.high, scale) if against else None,
            runs=result.runs,
        )

    def _spread(self, figure: CellFigure | None) -> float | None:
        known = {"binomial": figure.error, "epochs": figure.sd} if figure else {}
        return known.get(self._study.spread)

    def _difference(self, row: StudyLine, column: StudyLine) -> Estimate | None:
        """This row minus the baseline, where both are means over the same questions."""
        if not self._study.baseline or row.name == self._study.baseline or column.change or column.difference:
            return None
        mine, base = (self.result(each, column).figure for each in (row, self._rows[self._study.baseline]))
        if mine is None or base is None or mine.sample is None or base.sample is None:
            return None
        if mine.measure != base.measure:
            return None
        weights = None
        if column.mean:
            parts = {name: self.result(row, self._columns[name]).figure for name in column.mean}
            weights = column_weights({name: one for name, one in parts.items() if one is not None})
        return mine.sample.minus(base.sample, weights)


def _of_parts(parts: Mapping[str, CellResult], combine: Combine, hidden: Collection[str]) -> CellResult:
    """What is computed from cells that are all done; of others it says which are not, and why where that stands
    nowhere else, because they are hidden."""
    runs = tuple(dict.fromkeys(run for one in parts.values() for run in one.runs))
    open_ = [name for name, one in parts.items() if one.state != "done"]
    if open_:
        worst = max((parts[name].state for name in open_), key=_ORDER.index)
        unseen = [parts[name].why for name in open_ if name in hidden and parts[name].why]
        return CellResult(state=worst, why="\n".join(unseen) or f"needs {', '.join(open_)}", runs=runs)
    figures = {name: one.figure for name, one in parts.items() if one.figure is not None}
    return CellResult(state="done", figure=combine(figures) if len(figures) == len(parts) else None, runs=runs)


def _changed(column: StudyLine, figures: Mapping[str, CellFigure]) -> CellFigure:
    """The second of two columns over the first: in percent of it, or in their own unit with an interval."""
    if column.change:
        base, value = (figures[name].value for name in column.change)
        change = 100 * (value - base) / base if base and value is not None else None
        return CellFigure(value=change, unit="percent of the first", measure="change")
    one, other = (figures[name] for name in column.difference)
    paired = other.sample.minus(one.sample) if one.sample and other.sample else None
    return CellFigure(
        value=None if one.value is None or other.value is None else other.value - one.value,
        low=paired.low if paired else None,
        high=paired.high if paired else None,
        n=min(one.n, other.n),
        unit=one.unit,
        measure="difference",
    )


def _times(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale
