"""Studies: many runs that make one table of a paper, carried out, resumed and shown as one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Struct, structs
from rich.console import Console

from ragrounds.api import arguments
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.compare import analyse
from ragrounds.api.frames import STUDY_CELLS, Frame, Part, Row
from ragrounds.api.imported_cells import Imported, recorded_rows
from ragrounds.api.results import Result
from ragrounds.api.study_cells import (
    Arguments,
    CellRunner,
    StudyBudget,
    StudyListener,
    canonical_measure,
    groups,
    measure_of,
    rating_figure,
    shown_run,
)
from ragrounds.api.study_display import study_display
from ragrounds.api.study_lacks import lacking_all
from ragrounds.api.study_measures import LABELS
from ragrounds.api.study_projection import confirm_projection
from ragrounds.api.study_runs import any_attempt, attempts_left
from ragrounds.api.workspace import chosen_settings, open_store, replaced, texts
from ragrounds.errors import Interrupted, UserError, nearest
from ragrounds.evals.analyses.analysis import AnalysisResult, with_names
from ragrounds.evals.analyses.pictures import Picture
from ragrounds.evals.store.store import Store
from ragrounds.evals.studies.figures import queries_figure
from ragrounds.evals.studies.state import KeptCell, StudyState, kept_studies, read_state, write_state
from ragrounds.evals.studies.study import Study, StudyCell, open_study, shipped_studies
from ragrounds.evals.studies.table import (
    CellResult,
    Place,
    StudyDifference,
    StudyFinding,
    StudyTable,
    TableCell,
    study_differences,
    study_table,
)
from ragrounds.settings import Settings
from ragrounds.ui.notebook import in_notebook
from ragrounds.ui.plot import PictureMaker
from ragrounds.ui.report.study_page import study_page
from ragrounds.ui.study_tables import difference_table, print_study, study_picture
from ragrounds.ui.tables import print_table

_OVERRIDES = ("model", "base_url", "alias", "corpus", "limit", "per_dataset", "epochs", "imported")
_HOW = ("journal", "concurrency", "workers", "fail_after", "server_changed")


class StudyResult(Result, frozen=True, kw_only=True):
    """A study as it stands: its table, and the analyses of its runs."""

    table: StudyTable
    study: Study
    settings: Settings
    """Where its runs are."""
    stand_in: bool = False
    """Whether nothing in it is a result."""
    findings: tuple[StudyFinding, ...] = ()
    asked: int = 0
    """Cells that this call was to carry out: those that are not computed from others."""
    done: int = 0
    """Of these, those that are done."""
    made: int = 0
    """Calls that were made."""
    reused: int = 0
    """Calls that were answered from the journal."""
    paid: float | None = 0.0
    """Dollars that this call paid; ``None``: some price is not known."""
    ended: str = ""
    """Why it ended before its last cell; empty: it did not."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the runs that its cells show."""
        return tuple(dict.fromkeys(run for cell in self.table.cells for run in cell.runs))

    def draw(self, console: Console) -> None:
        """Print the table, the published figures and deviations, the differences, the analyses, the notes."""
        print_study(self.table, self.findings, console, picture=self.study.picture)

    def brief(self) -> str:
        """The title, and how many cells are done."""
        return f"{self.table.title}: {self.table.count('done'):,} of {len(self.table.cells):,} cells"

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """The table, and the pictures of its analyses by their names."""
        kind = self.study.picture or "bars"
        made = {"table": PictureMaker(partial(study_picture, self.table, kind), "no cell has a share to show yet")}
        found = [one.result for one in self.findings if one.result is not None]
        return made | {one.name: PictureMaker(partial(_of_analysis, one)) for one in found}

    def own_frames(self) -> tuple[Frame, ...]:
        """The cells."""
        return (STUDY_CELLS,)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """A row for each cell."""
        yield iter([[_cell_row(self.table, cell) for cell in self.table.cells]])


def _of_analysis(found: AnalysisResult) -> Picture:
    return found.picture


def _cell_row(table: StudyTable, cell: TableCell) -> Row:
    return STUDY_CELLS.cells(cell, study=table.study, runs=", ".join(cell.runs))


_CELLS = "What is said of all cells, in place of what the study says"


class CellArguments(Struct, frozen=True, kw_only=True):
    """What is said of all cells, in place of what the study says."""

    model: Annotated[str | None, Arg("One model in place of every cell's own.", group=_CELLS)] = None
    base_url: Annotated[str | None, Arg("An OpenAI-compatible server that answers for every model.", group=_CELLS)] = (
        None
    )
    alias: arguments.Alias = None
    corpus: arguments.Corpus = None
    limit: arguments.Limit = None
    per_dataset: Annotated[int | None, Arg("Only so many questions of each dataset.", 1, group=_CELLS)] = None
    epochs: Annotated[int | None, Arg("How often each question is asked.", 1, group=_CELLS)] = None
    imported: Annotated[
        Imported | None,
        Arg(
            "ROW=PATH: MIRAGE's recorded replies in place of asking the row's model (repeatable).",
            group=_CELLS,
            many=True,
        ),
    ] = None


class _Study(CellArguments, frozen=True):
    """What may be given without its name."""

    file: Annotated[str | Path, Arg("A TOML file, or the name of a study that is shipped.", option="-")]


class StudyArguments(_Study, frozen=True, kw_only=True):
    """Which study is carried out, what is said of all its cells, and how."""

    max_cost: arguments.MaxCost = None
    max_total_tokens: arguments.MaxTotalTokens = None
    max_time: arguments.MaxTime = None
    rows: Annotated[str | Sequence[str], Arg("This row alone (repeatable).", option="--row", many=True)] = ()
    columns: Annotated[str | Sequence[str], Arg("This column alone (repeatable).", option="--column", many=True)] = ()
    stand_in: Annotated[
        bool,
        Arg("Made-up sets and a loopback server in place of what is not here: no result, every cell runs."),
    ] = False
    concurrency: arguments.Concurrency = None
    workers: Annotated[int | None, Arg("Processes that share the work.", 1, group=arguments.HOW)] = None
    fail_after: arguments.FailAfter = "50%"
    confirmed: arguments.Confirmed = False
    journal: arguments.Journal = "reuse"
    server_changed: arguments.ServerChanged = "stop"
    listener: Annotated[
        StudyListener | None, Arg("Hears what happens; none: a display in a terminal, silence elsewhere.", option="-")
    ] = None
    progress: Annotated[
        bool | None, Arg("False: no display; True: lines also where there is no terminal.", option="-")
    ] = None
    home: arguments.Home = None
    settings: arguments.OwnSettings = None


@takes(StudyArguments)
def study(given: StudyArguments) -> StudyResult:
    """Carry out a study: every cell that can be, within one budget; print the paper's table with ours.

    The same call resumes: what a cell has is not asked again. A cell that lacks its data, weights or server says so and
    how to get them, and the others are carried out.

        rr.study("mirage-table6", base_url="http://127.0.0.1:8000/v1", limit=50, max_cost=20)

    Raises:
        UserError: no such study, a file that is none; the projection is above a threshold and not `confirmed`.
        Interrupted: Ctrl-C; what ended is kept.
    """
    over: Arguments = {name: getattr(given, name) for name in _OVERRIDES} | {"imported": given.imported or None}
    how: Arguments = {name: getattr(given, name) for name in _HOW}
    budget = StudyBudget(given.max_cost, given.max_total_tokens, given.max_time)
    chosen = chosen_settings(given.settings, given.home)
    with ExitStack() as held:
        opened = _Opened(given.file, over, texts(given.rows), texts(given.columns), given.stand_in, chosen, held)
        shown = _listener(given.listener, given.progress, held)
        conduct = _Conduct(opened, shown, budget, how)
        return conduct.carry_out(given.confirmed)


def _listener(listener: StudyListener | None, progress: bool | None, held: ExitStack) -> StudyListener:
    """Who hears: the listener that was given, or the one that fits where this runs."""
    if listener is not None:
        if not isinstance(listener, StudyListener):
            raise UserError(f"{listener!r} is no listener of studies: expected a subclass of StudyListener.")
        return listener
    wanted = progress or in_notebook() or (sys.stderr is not None and sys.stderr.isatty())
    if progress is False or not wanted:
        return StudyListener()
    return held.enter_context(study_display())


class _Opened:
    """A study with what the call says of all its cells, on the stand-in where that is asked for."""

    def __init__(
        self,
        file: str | Path,
        given: Arguments,
        rows: Sequence[str],
        columns: Sequence[str],
        stand_in: bool,
        settings: Settings,
        held: ExitStack | None,
    ) -> None:
        self.study = open_study(file)
        self.file = "" if str(file) in shipped_studies() else str(Path(file).expanduser().resolve())
        self.stand_in = stand_in
        for noun, names, known in (
            ("row", rows, [row.name for row in self.study.rows]),
            ("column", columns, [column.name for column in self.study.columns]),
        ):
            for name in names:
                if name not in known:
                    raise UserError(f"The study {self.study.name!r} has no {noun} {name!r}.{nearest(name, known)}")
        self.rows, self.columns = rows, columns
        self.given = {key: value for key, value in given.items() if value is not None}
        if recorded := self.given.get("imported"):
            self.given["imported"] = recorded_rows(recorded, self.study)
        self._replace: Callable[[StudyCell], StudyCell] = lambda cell: cell
        self.settings = settings
        if stand_in:
            self.settings = settings.model_copy(update={"home": settings.home / "stand-in", "store": None})
            self._stand_in(held)

    def _stand_in(self, held: ExitStack | None) -> None:
        from ragrounds.evals.studies.stand_in import stand_in
        from ragrounds.models.stand_in_server import ALIAS, stand_in_server

        url = held.enter_context(stand_in_server()) if held is not None else "http://127.0.0.1:9/v1"
        folder = self.settings.home / "sets"
        folder.mkdir(parents=True, exist_ok=True)
        self._replace = lambda cell: structs.replace(
            cell, settings=stand_in(cell.settings, folder, url, self.settings.home)
        )
        arena = dict(self.study.arena)
        if arena:
            arena |= {"judges": ["openai:stand-in-judge"], "base_url": url, "alias": ALIAS, "min_matches": 4}
        self.study = structs.replace(self.study, arena=arena)

    def cells(self) -> list[StudyCell]:
        """The cells, with what the call says in place of what the study says."""
        return [self._replace(self._over(cell)) for cell in self.study.cells()]

    def wanted(self, cell: StudyCell) -> bool:
        """Whether this call carries it out."""
        return (not self.rows or cell.row in self.rows) and (not self.columns or cell.column in self.columns)

    def _over(self, cell: StudyCell) -> StudyCell:
        takes = {key: value for key, value in self.given.items() if cell.kind != "retrieve" or key != "epochs"}
        if cell.kind == "retrieve" and measure_of(cell) not in LABELS:
            takes = {key: value for key, value in takes.items() if key not in ("limit", "per_dataset")}
        recorded = takes.pop("imported", {})
        if cell.kind == "run" and cell.row in recorded:
            takes["imported"] = recorded[cell.row]
        return structs.replace(cell, settings={**cell.settings, **takes}) if takes else cell


class _Conduct:
    """One call of :func:`study`, from its first cell to its table."""

    def __init__(self, opened: _Opened, listener: StudyListener, budget: StudyBudget, how: Arguments) -> None:
        self._opened, self._listener, self._budget = opened, listener, budget
        self._state = read_state(opened.settings.home, opened.study.name, opened.file)
        self._state.given = opened.given
        self._how = how
        self._cells = opened.cells()
        self._results: dict[Place, CellResult] = {}
        self._lacks = lacking_all(opened.settings)
        self._runner = CellRunner(
            opened.study,
            opened.settings,
            listener=listener,
            budget=budget,
            kept=self._state.cells.get,
            lacks=self._lacks,
            save=self._keep,
            **how,
        )

    def carry_out(self, confirmed: bool) -> StudyResult:
        """All cells, and the table.

        Raises:
            Interrupted: Ctrl-C; what ended is kept.
        """
        wanted = [cell for cell in self._cells if self._opened.wanted(cell)]
        self._listener.begun(self._opened.study, len(wanted))
        if not confirmed:
            confirm_projection(wanted, self._opened.settings, self._budget, self._listener, self._how)
        self._keep()
        try:
            for group in groups(wanted):
                self._listener.group(group)
                self._take(self._runner.carry_out(group))
            axes = [cell for cell in wanted if cell.kind == "arena"]
            if axes and all(cell.row in self._runner.arena_runs for cell in axes):
                self._take(self._runner.arena(axes))
        except Interrupted:
            self._keep()
            raise
        with open_store(self._opened.settings) as store:
            for cell in self._cells:
                known, kept = self._results.get((cell.row, cell.column)), self._state.cells.get(cell.key)
                if known is None or (known.state == "to do" and kept is not None):
                    self._results[cell.row, cell.column] = _kept_result(store, cell, kept, self._lacks)
        table = study_table(
            self._opened.study, self._results, self._opened.stand_in, self._opened.given,
            only_rows=self._opened.rows, only_columns=self._opened.columns,
        )  # fmt: skip
        return StudyResult(
            table=table,
            asked=len(wanted),
            done=sum(self._results[cell.row, cell.column].state == "done" for cell in wanted),
            study=self._opened.study,
            settings=self._opened.settings,
            stand_in=self._opened.stand_in,
            findings=tuple(self._findings(wanted)),
            made=self._runner.made,
            reused=self._runner.reused,
            paid=None if self._budget.unknown else self._budget.paid,
            ended=self._budget.ended() if table.count("to do") or table.count("part") else "",
        )

    def _findings(self, wanted: Sequence[StudyCell]) -> Iterator[StudyFinding]:
        """The analyses; of a part of the cells those that these have runs for."""
        if len(wanted) == len(self._cells):
            yield from _findings(self._opened, self._results)
            return
        part = {(cell.row, cell.column): self._results[cell.row, cell.column] for cell in wanted}
        yield from (one for one in _findings(self._opened, part) if one.result is not None)

    def _take(self, found: Iterator[tuple[StudyCell, CellResult]]) -> None:
        for cell, result in found:
            self._results[cell.row, cell.column] = result
            self._listener.cell(cell, result)
        self._keep()

    def _keep(self) -> None:
        while self._runner.gone:
            self._state.cells.pop(self._runner.gone.pop(), None)
        self._state.cells.update(self._runner.keep)
        write_state(self._opened.settings.home, self._state)


def _findings(opened: _Opened, results: Mapping[Place, CellResult]) -> Iterator[StudyFinding]:
    """The analyses that the study asks for, of the runs that its cells show, under the names of their cells."""
    for asked in opened.study.analyses:
        places: dict[str, Place] = {}
        for (row, column), result in results.items():
            if (not asked.rows or row in asked.rows) and (not asked.columns or column in asked.columns):
                for run in result.runs:
                    places.setdefault(run, (row, column))
        rows = [row for row, _ in places.values()]
        # A row with one run is called as the row is, which is what a paper's figures of it are printed under.
        named = {run: row if rows.count(row) == 1 else f"{row} · {column}" for run, (row, column) in places.items()}
        if not named:
            yield StudyFinding(asked=asked, result=None, why="no run of these rows is there")
            continue
        options: Arguments = dict(asked.options)
        try:
            made = analyse(asked.name, list(named), **options, settings=opened.settings)
        except UserError as error:
            yield StudyFinding(asked=asked, result=None, why=str(error))
            continue
        yield StudyFinding(asked=asked, result=with_names(made.result, named))


def show_study(
    file: str | Path,
    *,
    stand_in: bool = False,
    home: str | Path | None = None,
    settings: Settings | None = None,
    **given: str | int | None,
) -> StudyResult:
    """The table of a study from what is kept of it: nothing is asked, searched or judged.

        show_study("mirage-table6")

    Args:
        file: a TOML file, or the name of a study that is shipped or was carried out here.
        stand_in: what was made on the stand-in.
        home, settings: the folder of runs and journal, and all settings; ``None``: the user's.
        given: of all cells, as for :func:`study`: `model`, `limit` …; by default as the last call said.

    Raises:
        UserError: no such study, or another argument than these.
    """
    if wrong := [name for name in given if name not in _OVERRIDES]:
        raise UserError(f"{wrong[0]!r} is not said of all cells: {', '.join(_OVERRIDES)}.")
    chosen = chosen_settings(settings, home)
    opened = _kept(file, given, chosen, stand_in)
    results = _kept_results(opened)
    table = study_table(opened.study, results, stand_in, opened.given)
    findings = tuple(_findings(opened, results))
    return StudyResult(table=table, study=opened.study, settings=opened.settings, stand_in=stand_in, findings=findings)


def _kept_results(opened: _Opened) -> dict[Place, CellResult]:
    state = read_state(opened.settings.home, opened.study.name, opened.file)
    lacks = lacking_all(opened.settings)
    with open_store(opened.settings) as store:
        return {
            (cell.row, cell.column): _kept_result(store, cell, state.cells.get(cell.key), lacks)
            for cell in opened.cells()
        }


class StudyDiff(Result, frozen=True, kw_only=True):
    """Two studies set against each other."""

    first: str
    second: str
    cells: tuple[StudyDifference, ...]

    def draw(self, console: Console) -> None:
        """Print a line for each cell that both have."""
        print_table(difference_table(self.first, self.second, self.cells), console)

    def brief(self) -> str:
        """The two, and how many cells both have."""
        return f"{self.second} against {self.first}: {len(self.cells):,} cells"


def diff_studies(
    first: str | Path,
    second: str | Path,
    *,
    stand_in: bool = False,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> StudyDiff:
    """Set two studies that were carried out here against each other, cell by cell, by the names of rows and columns.

        diff_studies("before.toml", "after.toml")

    Args:
        first, second: TOML files, or names of studies that are shipped or were carried out here.
        stand_in: what was made on the stand-in.
        home, settings: the folder of runs and journal, and all settings; ``None``: the user's.

    Raises:
        UserError: no such study, or they have no cell in common.
    """
    chosen = chosen_settings(settings, home)
    one, other = (_kept(file, {}, chosen, stand_in) for file in (first, second))
    cells = study_differences((one.study, other.study), (_kept_results(one), _kept_results(other)))
    if not cells:
        raise UserError(
            f"{one.study.name!r} and {other.study.name!r} have no row and column of the same name; see "
            "`ragrounds study show` of each."
        )
    return StudyDiff(first=one.study.name, second=other.study.name, cells=cells)


def _kept(file: str | Path, given: Arguments, settings: Settings, stand_in: bool) -> _Opened:
    """A study that was carried out here, with what its last call said of all cells, unless `given` says otherwise. Its
    name is enough, wherever its file is."""
    home = settings.home / "stand-in" if stand_in else settings.home
    shipped = str(file) in shipped_studies()
    where = "" if shipped else str(Path(file).expanduser().resolve())
    state = read_state(home, Path(file).stem, where) if shipped or Path(file).suffix else read_state(home, str(file))
    found = state.file if state.file and not Path(file).suffix and not shipped else file
    return _Opened(found, {**state.given, **given}, (), (), stand_in, settings, None)


def _kept_result(store: Store, cell: StudyCell, kept: KeptCell | None, lacks: Callable[[StudyCell], str]) -> CellResult:
    if kept is None:
        why = lacks(cell)
        return CellResult(state="lacks" if why else "to do", why=why)
    if kept.retrieval is not None:
        values = kept.retrieval.values.get(measure_of(cell), {})
        figure = queries_figure(values, canonical_measure(measure_of(cell)), str(cell.settings["benchmark"]))
        return CellResult(state="done", figure=figure)
    if kept.figure is not None:
        return CellResult(state="done", figure=kept.figure)
    if cell.kind == "arena":
        axis = str(cell.settings["axis"])
        rating = rating_figure(kept.rating, axis) if kept.rating else None
        return CellResult(state="done" if rating else "part", figure=rating, runs=kept.runs)
    try:
        left = attempts_left(store, kept.runs[0])
    except UserError:
        return CellResult(state="to do", why="its run was removed")
    if not any_attempt(store, kept.runs[0]) and (why := lacks(cell)):
        return CellResult(state="lacks", why=why)
    return shown_run(store, cell, kept.runs[0], left, "", kept, None)


class ListedStudy(Struct, frozen=True, kw_only=True):
    """A study that is shipped, or was carried out here."""

    name: str
    title: str
    source: str
    cells: int
    kept: int
    """Cells that something is kept of."""
    updated: float | None
    """Seconds since 1970; ``None``: it was never carried out here."""
    file: str
    """Empty: it is shipped."""


def list_studies(*, home: str | Path | None = None, settings: Settings | None = None) -> tuple[ListedStudy, ...]:
    """The studies that are shipped, and those that were carried out here.

    Args:
        home, settings: the folder of runs and journal, and all settings; ``None``: the user's.
    """
    chosen = chosen_settings(settings, home)
    states = list(kept_studies(chosen.home))
    shipped = {state.name: state for state in states if not state.file}
    found = [_listed(name, shipped.get(name), chosen) for name in shipped_studies()]
    for state in states:
        if not state.file:
            continue
        try:
            found.append(_listed(state.file, state, chosen))
        except UserError as error:
            why = str(error) if Path(state.file).is_file() else "its file is gone"
            found.append(
                ListedStudy(
                    name=state.name, title=why, source="", cells=0, kept=len(state.cells),
                    updated=state.updated, file=state.file,
                )
            )  # fmt: skip
    return tuple(found)


def _listed(name: str, state: StudyState | None, settings: Settings) -> ListedStudy:
    opened = _Opened(name, state.given if state else {}, (), (), False, settings, None)
    made, cells = opened.study, opened.cells()
    kept = sum(cell.key in state.cells for cell in cells) if state else 0
    return ListedStudy(
        name=made.name,
        title=made.title,
        source=made.source,
        cells=len(cells),
        kept=kept,
        updated=state.updated if state else None,
        file=opened.file,
    )


def study_report(made: StudyResult, out: str | Path, *, force: bool = False) -> Path:
    """Write one self-contained HTML file about a study; gives its path.

        from ragrounds.api.study import study_report
        study_report(rr.study("mirage-table6", base_url="http://127.0.0.1:8000/v1", limit=20), "table6.html")

    Args:
        made: what :func:`study` or :func:`show_study` gave.
        out: the file.
        force: write over a file that is there.

    Raises:
        UserError: a file that is there, or cannot be written.
    """
    path = Path(out)
    with open_store(made.settings) as store, replaced(path, force) as file:
        runs = [run for run in store.runs() if run.id in made.ids and any_attempt(store, run.id)]
        file.write(study_page(made.table, made.findings, runs, made.study.picture).encode("utf-8", "replace"))
    return path
