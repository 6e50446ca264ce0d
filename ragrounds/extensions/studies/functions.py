"""Studies: many runs that make one table of a paper, carried out, resumed and shown as one."""

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
from ragrounds.api.frames import STUDY_CELLS, Frame, Part
from ragrounds.api.progress import on_terminal
from ragrounds.api.results import Result
from ragrounds.api.workspace import chosen_settings, open_store, texts
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.settings import Settings
from ragrounds.evals.analyses.analysis import with_names
from ragrounds.extensions.studies.call import Arguments, StudyBudget, StudyCall, StudyDisplay, StudyListener
from ragrounds.extensions.studies.cells import carry_out, groups, shown
from ragrounds.extensions.studies.cells_without_runs import LABELS, Carried, measure_of, rate
from ragrounds.extensions.studies.imported_cells import Imported, recorded_rows
from ragrounds.extensions.studies.missing_requirements import lacking
from ragrounds.extensions.studies.paper_table import CellResult, Place, StudyFinding, StudyTable, study_table
from ragrounds.extensions.studies.projection import confirm_projection
from ragrounds.extensions.studies.state import StudyState, kept_studies, read_state
from ragrounds.extensions.studies.study import Study, StudyCell, open_study, shipped_studies, shipped_text
from ragrounds.extensions.studies.tables import print_study, study_picture
from ragrounds.ui.pictures.plot import PictureMaker
from ragrounds.ui.tables.notebook import in_notebook

_OVERRIDES = ("model", "base_url", "alias", "corpus", "retriever", "limit", "per_dataset", "epochs", "imported")
_HOW = ("journal", "concurrency", "workers", "fail_after", "server_changed")


class StudyResult(Result, frozen=True, kw_only=True):
    """A study as it stands: its table, and the analyses of its runs."""

    table: StudyTable
    study: Study
    settings: Settings
    """Where its runs are."""
    findings: tuple[StudyFinding, ...] = ()
    asked: int = 0
    """Cells that this call was to carry out: those that are not computed from others."""
    done: int = 0
    """Of these, those that are done."""
    made: int = 0
    """Model calls that were made."""
    reused: int = 0
    """Model calls that were answered from the journal."""
    paid: float | None = 0.0
    """Dollars that this call paid; ``None``: some price is not known."""
    ended: str = ""
    """Why it ended before its last cell; empty: it did not."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the runs that its cells show."""
        return tuple(dict.fromkeys(run for cell in self.table.cells for run in cell.runs))

    def draw(self, console: Console, *, full: bool = False) -> None:
        """Print the table, the published figures and deviations, the differences, the analyses; `full`: every note."""
        print_study(self.table, self.findings, console, picture=self.study.picture, full=full)

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """The table, and the pictures of its analyses by their names."""
        kind = self.study.picture or "bars"
        made = {"table": PictureMaker(partial(study_picture, self.table, kind), "no cell has a share to show yet")}
        found = [one.result for one in self.findings if one.result is not None]
        return made | {one.name: PictureMaker(partial(getattr, one, "picture")) for one in found}

    def own_frames(self) -> tuple[Frame, ...]:
        """The cells."""
        return (STUDY_CELLS,)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """A row for each cell."""
        cells = self.table.cells
        yield iter([[frame.cells(cell, study=self.table.study, runs=", ".join(cell.runs)) for cell in cells]])


_CELLS = "What is said of all cells, in place of what the study says"


class CellArguments(Struct, frozen=True, kw_only=True):
    """What is said of all cells, in place of what the study says."""

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


class StudyArguments(CellArguments, frozen=True):
    """Which study is carried out, what is said of all its cells, and how."""

    file: Annotated[str | Path, Arg("A TOML file, or the name of a study that is shipped.", option="-")]
    max_cost: arguments.MaxCost = None
    max_total_tokens: arguments.MaxTotalTokens = None
    max_time: arguments.MaxTime = None
    rows: Annotated[str | Sequence[str], Arg("This row alone (repeatable).", option="--row", many=True)] = ()
    columns: Annotated[str | Sequence[str], Arg("This column alone (repeatable).", option="--column", many=True)] = ()
    concurrency: arguments.Concurrency = None
    workers: arguments.Workers = "auto"
    fail_after: arguments.FailAfter = "50%"
    confirmed: arguments.Confirmed = False
    journal: arguments.Journal = "reuse"
    server_changed: arguments.ServerChanged = "stop"
    listener: Annotated[
        StudyListener | None, Arg("Gets all events; none: a display in a terminal, nothing elsewhere.", option="-")
    ] = None
    progress: arguments.Displayed = None
    home: arguments.Home = None
    settings: arguments.OwnSettings = None


@takes(StudyArguments)
def study(given: StudyArguments) -> StudyResult:
    """Carry out a study: every cell that can be, within one budget; print the paper's table with ours.

    The same call resumes: what a cell has is not asked again. A cell without its data, weights or server says so and
    how to get them, and the others are carried out.

        rr.study("mirage-table6", base_url="http://127.0.0.1:8000/v1", limit=50, max_cost=20)

    Raises:
        UserError: no such study, a file that is none; the projection is above a threshold and not `confirmed`.
        Interrupted: Ctrl-C; what ended is kept.
    """
    over = {name: value for name in _OVERRIDES if (value := getattr(given, name))}
    budget = StudyBudget(given.max_cost, given.max_total_tokens, given.max_time)
    with ExitStack() as held:
        chosen = chosen_settings(given.settings, given.home)
        opened = _Opened(given.file, over, chosen, texts(given.rows), texts(given.columns))
        opened.check()
        listener = _listener(given.listener, given.progress, held)
        state = read_state(opened.settings.home, opened.study.name, opened.file)
        state.given = opened.given
        how: Arguments = {name: getattr(given, name) for name in _HOW}
        call = StudyCall(opened.study, opened.settings, state, listener, budget, how, opened.lacks)
        return _carried_out(opened, call, given.confirmed)


def _listener(listener: StudyListener | None, progress: bool | None, held: ExitStack) -> StudyListener:
    """Who hears: the listener that was given, or the one that fits where this runs."""
    if listener is not None:
        if not isinstance(listener, StudyListener):
            raise UserError(f"{listener!r} is not a listener of studies: expected a subclass of StudyListener.")
        return listener
    wanted = progress or (progress is None and (in_notebook() or on_terminal()))
    if not wanted:
        return StudyListener()
    display = StudyDisplay()
    held.enter_context(display)
    return display


class _Opened:
    """A study with what the call says of all its cells."""

    def __init__(
        self,
        file: str | Path,
        given: Arguments,
        settings: Settings,
        rows: Sequence[str] = (),
        columns: Sequence[str] = (),
    ) -> None:
        self.study, self.rows, self.columns = open_study(file), rows, columns
        self.file = "" if str(file) in shipped_studies() else str(Path(file).expanduser().resolve())
        for noun, names, lines in (("row", rows, self.study.rows), ("column", columns, self.study.columns)):
            known = [line.name for line in lines]
            if wrong := [name for name in names if name not in known]:
                raise UserError(f"The study {self.study.name!r} has no {noun} {wrong[0]!r}.{nearest(wrong[0], known)}")
        self.given = given
        if recorded := given.get("imported"):
            self.given = given | {"imported": recorded_rows(recorded, self.study)}
        self.settings = settings
        self._lacks: dict[str, str] = {}

    @cached_property
    def cells(self) -> tuple[StudyCell, ...]:
        """The cells, with what the call says in place of what the study says."""
        return tuple(map(self._over, self.study.cells()))

    @property
    def wanted(self) -> list[StudyCell]:
        """Those that the call carries out."""
        rows, columns = self.rows, self.columns
        return [c for c in self.cells if (not rows or c.row in rows) and (not columns or c.column in columns)]

    def lacks(self, cell: StudyCell) -> str:
        """What it lacks here; that of equal cells is looked for once."""
        if cell.key not in self._lacks:
            self._lacks[cell.key] = lacking(cell, self.settings)
        return self._lacks[cell.key]

    def check(self) -> None:
        """See that a retriever that the call names is for some cell.

        Raises:
            UserError: it is for none.
        """
        named = self.given.get("retriever")
        if named and not any(self._searches(cell) for cell in self.wanted):
            raise UserError(
                f"The retriever {named} changes nothing: no agent of these cells searches, or their rows or columns "
                "set their own retrievers. Leave it out, or change them in a copy: `ragrounds study copy NAME`."
            )

    def _searches(self, cell: StudyCell) -> bool:
        """Whether its agent searches with what the study, its profile or the call says."""
        lines = (*self.study.rows, *self.study.columns)
        own = any("retriever" in line.settings for line in lines if line.name in (cell.row, cell.column))
        return "agent" in cell.settings and not own and open_agent(str(cell.settings["agent"])).card.searches

    def _over(self, cell: StudyCell) -> StudyCell:
        left_out = {"imported"}
        if "retriever" in self.given and not self._searches(cell):
            left_out.add("retriever")
        if cell.kind == "retrieve":
            left_out |= {"epochs"} if measure_of(cell) in LABELS else {"epochs", "limit", "per_dataset"}
        settings = {**cell.settings, **{key: value for key, value in self.given.items() if key not in left_out}}
        recorded = self.given.get("imported", {})
        if cell.kind == "run" and cell.row in recorded:
            settings["imported"] = recorded[cell.row]
        return structs.replace(cell, settings=settings)


def _carried_out(opened: _Opened, call: StudyCall, confirmed: bool) -> StudyResult:
    """All cells, and the table.

    Raises:
        Interrupted: Ctrl-C; what ended is kept.
    """
    wanted, results = opened.wanted, dict[Place, CellResult]()
    call.listener.begun(call.study, len(wanted))
    if not confirmed:
        confirm_projection(wanted, call)
    call.save()

    def take(found: Carried) -> None:
        for cell, result in found:
            results[cell.row, cell.column] = result
            call.listener.cell(cell, result)
        call.save()

    try:
        for group in groups(wanted):
            call.listener.group(group)
            take(carry_out(group, call))
        axes = [cell for cell in wanted if cell.kind == "arena"]
        if axes and all(cell.row in call.players for cell in axes):
            take(rate(axes, call))
    finally:
        call.save()
    with open_store(opened.settings) as store:
        for cell in opened.cells:
            known, kept = results.get((cell.row, cell.column)), call.state.cells.get(cell.key)
            if known is None or (known.state == "to do" and kept is not None):
                results[cell.row, cell.column] = shown(store, cell, kept, opened.lacks)
    made = _result(opened, results)
    return structs.replace(
        made,
        asked=len(wanted),
        done=sum(results[cell.row, cell.column].state == "done" for cell in wanted),
        made=call.made,
        reused=call.reused,
        paid=None if call.budget.unknown else call.budget.paid,
        ended=call.budget.ended() if made.table.count("to do") or made.table.count("part") else "",
    )


def _result(opened: _Opened, results: Mapping[Place, CellResult]) -> StudyResult:
    """The table with its analyses; of a part of the cells those analyses that these have runs for."""
    part = {(cell.row, cell.column): results[cell.row, cell.column] for cell in opened.wanted}
    findings = _findings(opened, part)
    return StudyResult(
        table=study_table(opened.study, results, opened.given, only_rows=opened.rows, only_columns=opened.columns),
        study=opened.study,
        settings=opened.settings,
        findings=tuple(one for one in findings if one.result is not None or len(part) == len(opened.cells)),
    )


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
        try:
            if not named:
                raise UserError("no run of these rows exists")
            options: Arguments = dict(asked.options)
            made = analyse(asked.name, list(named), **options, settings=opened.settings)
        except UserError as error:
            yield StudyFinding(asked=asked, result=None, why=str(error))
            continue
        yield StudyFinding(asked=asked, result=with_names(made.result, named))


def show_study(file: str | Path, *, home: str | Path | None = None, settings: Settings | None = None) -> StudyResult:
    """The table of a study from what is kept of it, as its last call said: nothing is asked, searched or judged.

        show_study("mirage-table6")

    Args:
        file: a TOML file, or the name of a study that is shipped or was carried out here.
        home, settings: the folder of runs and journal, and all settings; ``None``: the user's.

    Raises:
        UserError: no such study.
    """
    chosen = chosen_settings(settings, home)
    shipped, path = str(file) in shipped_studies(), Path(file)
    where = "" if shipped else str(path.expanduser().resolve()) if path.suffix else None
    state = read_state(chosen.home, path.stem if path.suffix else str(file), where)
    # Its name is enough, wherever its file is.
    found = state.file if state.file and not path.suffix and not shipped else file
    opened = _Opened(found, state.given, chosen)
    with open_store(opened.settings) as store:
        results = {
            (cell.row, cell.column): shown(store, cell, state.cells.get(cell.key), opened.lacks)
            for cell in opened.cells
        }
    return _result(opened, results)


def copy_study(name: str, out: str | Path | None = None) -> Path:
    """Write a shipped study's file, to be changed: other models, rows, prompts.

        copy_study("mirage-table6", "mine.toml")

    Args:
        name: a shipped study's.
        out: the file; by default ``NAME.toml`` in this folder.

    Raises:
        UserError: no such study, or the file is there already.
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
            why = str(error) if Path(state.file).is_file() else "its file was removed"
            found.append(
                ListedStudy(
                    name=state.name, title=why, source="", cells=0, kept=len(state.cells),
                    updated=state.updated, file=state.file,
                )
            )  # fmt: skip
    return tuple(found)


def _listed(name: str, state: StudyState | None, settings: Settings) -> ListedStudy:
    opened = _Opened(name, state.given if state else {}, settings)
    made, cells = opened.study, opened.cells
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
