"""Studies: carry out, resume and show sets of runs that reproduce a table of a paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated

from msgspec import Struct, structs
from rich.console import Console

from ragrounds.agents.agent import open_agent
from ragrounds.api import arguments
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.compare import analyse
from ragrounds.api.execution import ServedExecution
from ragrounds.api.frames import STUDY_CELLS, Frame, Part
from ragrounds.api.progress import on_terminal
from ragrounds.api.results import Result
from ragrounds.api.workspace import chosen_settings, open_store, texts
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.settings import Settings
from ragrounds.evals.analyses.analysis import rename_runs
from ragrounds.extensions.studies.call import Arguments, StudyBudget, StudyCall, StudyDisplay, StudyListener
from ragrounds.extensions.studies.cells import carry_out, groups, stored_result
from ragrounds.extensions.studies.cells_without_runs import LABELS, CellResults, measure_of, rate
from ragrounds.extensions.studies.headings import Headings
from ragrounds.extensions.studies.imported_cells import Imported, recorded_rows
from ragrounds.extensions.studies.missing_requirements import find_missing_requirements
from ragrounds.extensions.studies.paper_table import CellPosition, CellResult, StudyFinding, StudyTable, study_table
from ragrounds.extensions.studies.projection import confirm_projection
from ragrounds.extensions.studies.state import StudyState, kept_studies, read_state
from ragrounds.extensions.studies.study import (
    Study,
    StudyCell,
    StudyLine,
    model_name,
    open_study,
    shipped_studies,
    shipped_text,
)
from ragrounds.extensions.studies.tables import print_study, study_picture
from ragrounds.ui.pictures.plot import PictureMaker
from ragrounds.ui.tables.notebook import in_notebook

_OVERRIDES = ("model", "base_url", "alias", "corpus", "retriever", "limit", "per_dataset", "epochs", "imported")
_EXECUTION_ARGUMENTS = ("journal", "concurrency", "workers", "fail_after", "server_changed")


class StudyResult(Result, frozen=True, kw_only=True):
    """Current state of a study: its table and the analyses of its runs."""

    table: StudyTable
    study: Study
    settings: Settings
    """Settings whose home folder has the runs."""
    findings: tuple[StudyFinding, ...] = ()
    asked: int = 0
    """Number of cells that this call was to carry out; computed cells are not counted."""
    done: int = 0
    """Number of these cells that are done."""
    made: int = 0
    """Number of model calls that were sent to a model."""
    reused: int = 0
    """Number of model calls that were answered from the journal."""
    paid: float | None = 0.0
    """Dollars that this call paid; ``None``: some price is unknown."""
    ended: str = ""
    """Reason for ending before the last cell; empty if all cells were reached."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the runs that its cells show."""
        return tuple(dict.fromkeys(run for cell in self.table.cells for run in cell.runs))

    def draw(self, console: Console, *, full: bool = False, reference: str = "") -> None:
        """Print the table, the published figures and deviations, the differences, the analyses; `full`: every note.

        `reference` is the study's name or file, as the user gave it.
        """
        print_study(self.table, self.findings, console, self.study.picture, full, reference)

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """Return the pictures of the table and of its analyses, by name."""
        kind = self.study.picture or "bars"
        table_picture = {
            "table": PictureMaker(partial(study_picture, self.table, kind), "no cell has a share to show yet")
        }
        results = [finding.result for finding in self.findings if finding.result is not None]
        return table_picture | {result.name: PictureMaker(partial(getattr, result, "picture")) for result in results}

    def own_frames(self) -> tuple[Frame, ...]:
        """Return the frame of cells."""
        return (STUDY_CELLS,)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """Yield a row for each cell."""
        cells = self.table.cells
        yield iter([[frame.cells(cell, study=self.table.study, runs=", ".join(cell.runs)) for cell in cells]])


_CELLS = "Settings of all cells, in place of the study's"


class StudyArguments(ServedExecution, frozen=True):
    """Arguments of `study`: the study, overrides for all its cells, and the limits on calls and cost."""

    file: Annotated[str | Path, Arg("A TOML file, or the name of a study that is shipped.", option="-")]
    rows: Annotated[str | Sequence[str], Arg("This row alone (repeatable).", option="--row", many=True)] = ()
    columns: Annotated[str | Sequence[str], Arg("This column alone (repeatable).", option="--column", many=True)] = ()
    model: Annotated[str | None, Arg("One model in place of every cell's own.", group=_CELLS)] = None
    base_url: Annotated[str | None, Arg("An OpenAI-compatible server that answers for every model.", group=_CELLS)] = (
        None
    )
    alias: arguments.Alias = None
    corpus: arguments.Corpus = None
    retriever: Annotated[
        str | None,
        Arg("One retriever for every agent that searches, but where a row or a column names its own.", group=_CELLS),
    ] = None
    limit: arguments.Limit = None
    per_dataset: Annotated[int | None, Arg("Only this many questions of each dataset.", 1, group=_CELLS)] = None
    epochs: Annotated[int | None, Arg("Times each question is asked.", 1, group=_CELLS)] = None
    imported: Annotated[
        Imported | None,
        Arg(
            "ROW=PATH: MIRAGE's recorded replies in place of asking the row's model (repeatable).",
            group=_CELLS,
            many=True,
        ),
    ] = None
    workers: arguments.Workers = "auto"
    confirmed: arguments.Confirmed = False
    listener: Annotated[
        StudyListener | None, Arg("Gets all events; none: a display in a terminal, nothing elsewhere.", option="-")
    ] = None
    progress: arguments.Displayed = None


@takes(StudyArguments)
def study(arguments: StudyArguments) -> StudyResult:
    """Carry out a study's cells within one budget, and compare them with the paper's table.

    The same call resumes: finished cells are not asked again. A cell without its data, weights or server reports so and
    how to get them; the others are carried out.

        rr.study("mirage-table6", base_url="http://127.0.0.1:8000/v1", limit=50, max_cost=20)

    Raises:
        UserError: an unknown study, a file that is no study, or a projection above a threshold without `confirmed`.
        Interrupted: Ctrl-C; finished cells are kept.
    """
    overrides = {name: value for name in _OVERRIDES if (value := getattr(arguments, name))}
    budget = StudyBudget(arguments.budget)
    with ExitStack() as exit_stack:
        resolved_settings = arguments.used_settings
        opened = _OpenStudy(
            arguments.file, overrides, resolved_settings, texts(arguments.rows), texts(arguments.columns)
        )
        opened.check()
        listener = _listener(arguments.listener, arguments.progress, exit_stack)
        state = read_state(opened.settings.home, opened.study.name, opened.file)
        state.given = opened.arguments
        execution: Arguments = {name: getattr(arguments, name) for name in _EXECUTION_ARGUMENTS}
        call = StudyCall(opened.study, opened.settings, state, listener, budget, execution, opened.missing_requirements)
        return _carry_out_cells(opened, call, arguments.confirmed)


def _listener(listener: StudyListener | None, progress: bool | None, exit_stack: ExitStack) -> StudyListener:
    """Return the given listener, a display in a terminal or notebook, or otherwise a silent listener."""
    if listener is not None:
        if not isinstance(listener, StudyListener):
            raise UserError(f"{listener!r} is not a listener of studies: expected a subclass of StudyListener.")
        return listener
    is_displayed = progress or (progress is None and (in_notebook() or on_terminal()))
    if not is_displayed:
        return StudyListener()
    display = StudyDisplay()
    exit_stack.enter_context(display)
    return display


class _OpenStudy:
    """Study with the overrides of a call applied to all its cells."""

    def __init__(
        self,
        file: str | Path,
        arguments: Arguments,
        settings: Settings,
        rows: Sequence[str] = (),
        columns: Sequence[str] = (),
    ) -> None:
        self.study, self.rows, self.columns = open_study(file), rows, columns
        self.file = "" if str(file) in shipped_studies() else str(Path(file).expanduser().resolve())
        for noun, names, lines in (("row", rows, self.study.rows), ("column", columns, self.study.columns)):
            existing = [line.name for line in lines]
            if wrong := [name for name in names if name not in existing]:
                raise UserError(
                    f"The study {self.study.name!r} has no {noun} {wrong[0]!r}.{nearest(wrong[0], existing)}"
                )
        self.arguments = arguments
        if imported := arguments.get("imported"):
            self.arguments = arguments | {"imported": recorded_rows(imported, self.study)}
        self.settings = settings
        self._missing_by_key: dict[str, str] = {}

    @cached_property
    def cells(self) -> tuple[StudyCell, ...]:
        """Cells, with the overrides of the call applied."""
        return tuple(map(self._with_overrides, self.study.cells()))

    @property
    def cells_to_compute(self) -> list[StudyCell]:
        """Cells that the call carries out."""
        rows, columns = self.rows, self.columns
        return [c for c in self.cells if (not rows or c.row in rows) and (not columns or c.column in columns)]

    def missing_requirements(self, cell: StudyCell) -> str:
        """Return the missing requirements of a cell; equal cells are checked once."""
        if cell.key not in self._missing_by_key:
            self._missing_by_key[cell.key] = find_missing_requirements(cell, self.settings)
        return self._missing_by_key[cell.key]

    def check(self) -> None:
        """Check that a retriever given in the call applies to some cell.

        Raises:
            UserError: it applies to none.
        """
        override = self.arguments.get("retriever")
        if override and not any(self._searches(cell) for cell in self.cells_to_compute):
            raise UserError(
                f"The retriever {override} changes nothing: no agent of these cells searches, or their rows or columns "
                "set their own retrievers. Leave it out, or change them in a copy: `ragrounds study copy NAME`."
            )

    def _searches(self, cell: StudyCell) -> bool:
        """Return True if the cell's agent searches, and its row and column set no retriever of their own."""
        sets_retriever = any("retriever" in line.settings for line in self._lines_of(cell))
        return "agent" in cell.settings and not sets_retriever and open_agent(str(cell.settings["agent"])).card.searches

    def _with_overrides(self, cell: StudyCell) -> StudyCell:
        left_out = {"imported"}
        if "retriever" in self.arguments and not self._searches(cell):
            left_out.add("retriever")
        if cell.kind == "retrieve":
            left_out |= {"epochs"} if measure_of(cell) in LABELS else {"epochs", "limit", "per_dataset"}
        settings = {**cell.settings, **{key: value for key, value in self.arguments.items() if key not in left_out}}
        imported = self.arguments.get("imported", {})
        if cell.kind == "run" and cell.row in imported:
            settings["imported"] = imported[cell.row]
        return structs.replace(cell, settings=settings, replaced=self._replaced(cell, settings))

    def _replaced(self, cell: StudyCell, settings: Mapping[str, object]) -> dict[str, str]:
        """Return the model and corpus of the call that differ from what the table says of the cell."""
        if "imported" in settings or not self.arguments.keys() & {"model", "corpus"}:
            return {}
        named = {key for line in self._lines_of(cell) for key in line.settings}
        replaced = {}
        if "model" in cell.settings and model_name(str(settings["model"])) != model_name(str(cell.settings["model"])):
            replaced["model"] = str(settings["model"]).partition("[")[0]
        if "corpus" in named and settings["corpus"] != cell.settings["corpus"]:
            replaced["corpus"] = str(settings["corpus"])
        return replaced

    def _lines_of(self, cell: StudyCell) -> list[StudyLine]:
        """Return the row and the column of a cell."""
        return [line for line in (*self.study.rows, *self.study.columns) if line.name in (cell.row, cell.column)]

    @cached_property
    def row_headings(self) -> Headings:
        """Rows as they are shown."""
        return Headings(self.study, self.cells, "row", self.rows)

    @cached_property
    def column_headings(self) -> Headings:
        """Columns as they are shown."""
        return Headings(self.study, self.cells, "column", self.columns)


def _carry_out_cells(opened: _OpenStudy, call: StudyCall, confirmed: bool) -> StudyResult:
    """Carry out all cells and return the study with its table.

    Raises:
        Interrupted: Ctrl-C; finished cells are kept.
    """
    requested, results = opened.cells_to_compute, dict[CellPosition, CellResult]()
    call.listener.begun(call.study, len(requested))
    if not confirmed:
        confirm_projection(requested, call)
    call.save()

    def record(outcomes: CellResults) -> None:
        for cell, result in outcomes:
            results[cell.row, cell.column] = result
            call.listener.cell(cell, result)
        call.save()

    try:
        for group in groups(requested):
            call.listener.group(group)
            record(carry_out(group, call))
        axes = [cell for cell in requested if cell.kind == "arena"]
        if axes and all(cell.row in call.players for cell in axes):
            record(rate(axes, call))
    finally:
        call.save()
    with open_store(opened.settings) as store:
        for cell in opened.cells:
            result, stored = results.get((cell.row, cell.column)), call.state.cells.get(cell.key)
            if result is None or (result.state == "to do" and stored is not None):
                results[cell.row, cell.column] = stored_result(store, cell, stored, opened.missing_requirements)
    study_result = _result(opened, results)
    return structs.replace(
        study_result,
        asked=len(requested),
        done=sum(results[cell.row, cell.column].state == "done" for cell in requested),
        made=call.budget.calls_made,
        reused=call.budget.reused,
        paid=call.budget.paid,
        ended=call.budget.ended() if study_result.table.count("to do") or study_result.table.count("part") else "",
    )


def _result(opened: _OpenStudy, results: Mapping[CellPosition, CellResult]) -> StudyResult:
    """Build the result with its analyses.

    If only a part of the cells was requested, analyses without runs among them are left out.
    """
    requested = {(cell.row, cell.column): results[cell.row, cell.column] for cell in opened.cells_to_compute}
    findings = _findings(opened, requested)
    return StudyResult(
        table=_table(opened, results),
        study=opened.study,
        settings=opened.settings,
        findings=tuple(
            finding for finding in findings if finding.result is not None or len(requested) == len(opened.cells)
        ),
    )


def _table(opened: _OpenStudy, results: Mapping[CellPosition, CellResult]) -> StudyTable:
    return study_table(opened.study, results, opened.arguments, opened.row_headings, opened.column_headings)


def _findings(opened: _OpenStudy, results: Mapping[CellPosition, CellResult]) -> Iterator[StudyFinding]:
    """Yield the analyses that the study requests, with its cells' runs named after their cells."""
    for request in opened.study.analyses:
        cells_by_run: dict[str, CellPosition] = {}
        for (row, column), result in results.items():
            if (not request.rows or row in request.rows) and (not request.columns or column in request.columns):
                for run in result.runs:
                    cells_by_run.setdefault(run, (row, column))
        rows, columns = opened.row_headings.by_name, opened.column_headings.by_name
        cells_by_run = {run: (rows[row], columns[column]) for run, (row, column) in cells_by_run.items()}
        run_rows = [row for row, _ in cells_by_run.values()]
        # A row's only run gets the name of the row, because a paper's figures are printed under that name.
        names = {
            run: row if run_rows.count(row) == 1 else f"{row} · {column}" for run, (row, column) in cells_by_run.items()
        }
        try:
            if not names:
                raise UserError("no run of these rows exists")
            options: Arguments = dict(request.options)
            analysis = analyse(request.name, list(names), **options, settings=opened.settings)
        except UserError as error:
            yield StudyFinding(asked=request, result=None, why=str(error))
            continue
        yield StudyFinding(asked=request, result=rename_runs(analysis.result, names))


def show_study(file: str | Path, *, home: str | Path | None = None, settings: Settings | None = None) -> StudyResult:
    """Return a study from its stored results, with the arguments of its last call.

    Nothing is asked, searched or judged.

        show_study("mirage-table6")

    Args:
        file: a TOML file, or the name of a study that is shipped or was carried out here.
        home, settings: the folder of runs and journal, and all settings; ``None``: the user's.

    Raises:
        UserError: no such study.
    """
    return _result(*_stored(file, chosen_settings(settings, home)))


def stored_table(file: str | Path, settings: Settings) -> StudyTable:
    """Return the table of :func:`show_study`, without the analyses.

    Raises:
        UserError: no such study.
    """
    return _table(*_stored(file, settings))


def _stored(file: str | Path, settings: Settings) -> tuple[_OpenStudy, dict[CellPosition, CellResult]]:
    """Return a study with the arguments of its last call, and the stored results of its cells."""
    shipped, path = str(file) in shipped_studies(), Path(file)
    study_path = "" if shipped else str(path.expanduser().resolve()) if path.suffix else None
    state = read_state(settings.home, path.stem if path.suffix else str(file), study_path)
    # A name alone finds a study that was carried out here from any file.
    study_file = state.file if state.file and not path.suffix and not shipped else file
    opened = _OpenStudy(study_file, state.given, settings)
    with open_store(opened.settings) as store:
        results = {
            (cell.row, cell.column): stored_result(store, cell, state.cells.get(cell.key), opened.missing_requirements)
            for cell in opened.cells
        }
    return opened, results


def copy_study(name: str, out: str | Path | None = None) -> Path:
    """Write a copy of a shipped study's file that can be edited: other models, rows, prompts.

        copy_study("mirage-table6", "mine.toml")

    Args:
        name: name of a shipped study.
        out: path of the copy; by default ``NAME.toml`` in the current folder.

    Raises:
        UserError: no such study, or the file exists already.
    """
    path = Path(f"{name}.toml" if out is None else out).expanduser()
    text = shipped_text(name)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}. Give another file: --out FILE.") from error
    return path


class ListedStudy(Struct, frozen=True, kw_only=True):
    """Listing of a study that is shipped, or was carried out here."""

    name: str
    title: str
    source: str
    cells: int
    kept: int
    """Number of cells with stored results."""
    updated: float | None
    """Seconds since 1970; ``None`` if it was never carried out here."""
    file: str
    """Path of the study's file; empty if it is shipped."""


def list_studies(*, home: str | Path | None = None, settings: Settings | None = None) -> tuple[ListedStudy, ...]:
    """List the studies that are shipped, and those that were carried out here.

    Args:
        home, settings: the folder of runs and journal, and all settings; ``None``: the user's.
    """
    resolved_settings = chosen_settings(settings, home)
    states = list(kept_studies(resolved_settings.home))
    shipped = {state.name: state for state in states if not state.file}
    listed = [_list_study(name, shipped.get(name), resolved_settings) for name in shipped_studies()]
    for state in states:
        if not state.file:
            continue
        try:
            listed.append(_list_study(state.file, state, resolved_settings))
        except UserError as error:
            reason = str(error) if Path(state.file).is_file() else "its file was removed"
            listed.append(
                ListedStudy(
                    name=state.name, title=reason, source="", cells=0, kept=len(state.cells),
                    updated=state.updated, file=state.file,
                )
            )  # fmt: skip
    return tuple(listed)


def _list_study(name: str, state: StudyState | None, settings: Settings) -> ListedStudy:
    opened = _OpenStudy(name, state.given if state else {}, settings)
    definition, cells = opened.study, opened.cells
    stored_count = sum(cell.key in state.cells for cell in cells) if state else 0
    return ListedStudy(
        name=definition.name,
        title=definition.title,
        source=definition.source,
        cells=len(cells),
        kept=stored_count,
        updated=state.updated if state else None,
        file=opened.file,
    )
