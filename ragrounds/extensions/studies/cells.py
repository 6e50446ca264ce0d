"""Carry out the cells of a study: runs in groups with shared settings, recorded replies, judges and searches.

Every kind of cell goes through the public function that a user would call for it, so that a cell is what
`ragrounds run` or `ragrounds retrieve` would give for the same settings, and shares its runs and its journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from ragrounds.api.people import judge_agreement
from ragrounds.api.run import RunResult, run
from ragrounds.api.score import judge, score
from ragrounds.api.workspace import open_store
from ragrounds.base.errors import Interrupted, UserError
from ragrounds.evals.judges.methods import judge_methods
from ragrounds.evals.judges.rescoring import refresh_scores
from ragrounds.evals.store.store import Store
from ragrounds.extensions.studies.call import Arguments, CountingListener, StudyCall
from ragrounds.extensions.studies.cells_without_runs import CellResults, figure_kind, result_of_error
from ragrounds.extensions.studies.figures import CellFigure, run_figure
from ragrounds.extensions.studies.imported_cells import imported_run
from ragrounds.extensions.studies.paper_table import CellResult
from ragrounds.extensions.studies.state import KeptCell
from ragrounds.extensions.studies.study import Settings, StudyCell, agent_text

_RUN_SETTINGS = (
    "profile", "model", "base_url", "alias", "corpus", "limit", "per_dataset", "seed", "epochs", "temperature", "top_p",
    "max_answer_tokens", "timeout",
)  # fmt: skip
_VIEW_SETTINGS = ("agent", "k", "retriever", "scorer", "where", "judge", "labels", "axis")
"""Settings by which the cells of one group may differ: other agents of one call, or another view of one run."""
_SEARCH_VIEW_SETTINGS = ("measure", "where")
JUDGED = "equivalent"
"""Judged kind of a cell that names a judge and no scorer."""


def groups(cells: Iterable[StudyCell]) -> list[list[StudyCell]]:
    """Group the cells that one call can carry out, in the order of their first cells.

    Cells of a group differ only in their agents, or in the measure.
    """
    groups_by_key: dict[bytes, list[StudyCell]] = {}
    for cell in cells:
        view_settings = _SEARCH_VIEW_SETTINGS if cell.kind == "retrieve" else _VIEW_SETTINGS
        settings = {key: value for key, value in cell.settings.items() if key not in view_settings}
        kind = type(figure_kind(cell)).__name__ if cell.kind == "retrieve" else _executor_of(cell).__name__
        key = msgspec.json.encode((kind, settings), order="sorted")
        groups_by_key.setdefault(key, []).append(cell)
    return list(groups_by_key.values())


def carry_out(cells: Sequence[StudyCell], call: StudyCall) -> CellResults:
    """Carry out the cells of one group, as far as the budget allows.

    Raises:
        Interrupted: Ctrl-C; finished work is kept.
    """
    if ended := call.budget.ended():
        return ((cell, CellResult(state="to do", why=ended)) for cell in cells)
    return _executor_of(cells[0])(cells, call)


def _executor_of(cell: StudyCell) -> Callable[[Sequence[StudyCell], StudyCall], CellResults]:
    """Return the function that carries out a cell and the others of its group."""
    if cell.kind != "retrieve":
        return _carry_out_imported if "imported" in cell.settings else _carry_out_runs
    return figure_kind(cell).carry_out


def run_arguments(settings: Settings) -> Arguments:
    """Return a run cell's settings as arguments of :func:`ragrounds.api.run.run`, without agent and benchmark."""
    return {name: settings[name] for name in _RUN_SETTINGS if name in settings}


def _carry_out_imported(cells: Sequence[StudyCell], call: StudyCall) -> CellResults:
    """Yield the results of cells with recorded replies: the replies become a run, and no model is called."""
    for cell in cells:
        path, benchmark = str(cell.settings["imported"]), str(cell.settings["benchmark"])
        try:
            with open_store(call.settings) as store:
                imported = imported_run(store, path, benchmark, call.settings.home)
                yield cell, _score_and_show(store, cell, imported.id, "", call)
        except UserError as error:
            yield cell, result_of_error(error)


def _carry_out_runs(cells: Sequence[StudyCell], call: StudyCall) -> CellResults:
    """Yield the results of cells that show runs, with one call for all of their agents."""
    cells_by_agent: dict[str, list[StudyCell]] = {}
    for cell in cells:
        try:
            cells_by_agent.setdefault(agent_text(cell.settings), []).append(cell)
        except UserError as error:
            yield cell, result_of_error(error)
    if not cells_by_agent:
        return
    outcome = _run_agents(cells[0].settings, cells_by_agent, call)
    if len(cells_by_agent) == 1 or (isinstance(outcome, RunResult) and len(outcome.runs) == len(cells_by_agent)):
        yield from _shown_all(outcome, cells_by_agent, call)
        return
    # One agent may be at fault, or was left out. Each is called separately, so that its own error is reported.
    for agent, agent_cells in cells_by_agent.items():
        yield from _shown_all(_run_agents(cells[0].settings, {agent: agent_cells}, call), {agent: agent_cells}, call)


def _run_agents(
    settings: Settings, cells_by_agent: Mapping[str, Sequence[StudyCell]], call: StudyCall
) -> RunResult | CellResult:
    """Run the agents of a group; if no run is possible, return a result with the reason."""
    server = (str(settings.get("model", "")), str(settings.get("base_url", "")))
    if server in call.dead:
        return CellResult(state="failed", why=call.dead[server])
    stored, run_ids, started_at = call.state.cells, list[str](), time.time()

    def began(started_ids: list[str]) -> None:
        """Store the run of each current cell, so that an interrupted call shows how far it came."""
        run_ids.extend(started_ids)
        for run_id, cells in (
            zip(started_ids, cells_by_agent.values(), strict=False) if len(started_ids) == len(cells_by_agent) else ()
        ):
            for cell in cells:
                if cell.key not in stored or stored[cell.key].runs != (run_id,):
                    stored[cell.key] = KeptCell(runs=(run_id,))
        call.save()

    try:
        run_result = run(
            str(settings["benchmark"]),
            list(cells_by_agent),
            **run_arguments(settings),
            **call.how,
            **call.budget.left(),
            confirmed=True,
            listener=CountingListener(call.listener, call.budget, began),
            settings=call.settings,
        )
    except UserError as error:
        result = result_of_error(error)
        with open_store(call.settings) as store:
            empty = remove_unasked(store, run_ids, started_at)
        for cell in (cell for cells in cells_by_agent.values() for cell in cells):
            if cell.key in stored and empty.intersection(stored[cell.key].runs):
                del stored[cell.key]
        call.save()
        if result.state == "failed":
            call.dead[server] = result.why
        return result
    return run_result


def remove_unasked(store: Store, ids: Sequence[str], since: float) -> set[str]:
    """Remove the runs among `ids` that were begun after `since` and have no attempts; return their ids."""
    empty = [run for run in store.runs() if run.id in ids and run.created >= since and not store.done(run)]
    for empty_run in empty:
        store.remove(empty_run)
    return {run.id for run in empty}


def _shown_all(
    outcome: RunResult | CellResult, cells_by_agent: Mapping[str, Sequence[StudyCell]], call: StudyCall
) -> CellResults:
    if isinstance(outcome, CellResult):
        for cell in (cell for cells in cells_by_agent.values() for cell in cells):
            # List all missing requirements of the cell if they can be determined, not only the first error.
            missing = call.missing_requirements(cell) if outcome.state == "lacks" else ""
            yield cell, CellResult(state=outcome.state, why=missing or outcome.why)
        return
    with open_store(call.settings) as store:
        for agent_run, cells in zip(outcome.runs, cells_by_agent.values(), strict=True):
            for cell in cells:
                yield cell, _score_and_show(store, cell, agent_run.id, outcome.ended, call)


def _score_and_show(store: Store, cell: StudyCell, run_id: str, ended: str, call: StudyCall) -> CellResult:
    """Store the run of a cell and return its result, after adding the scores that the cell needs."""
    stored = call.state.cells[cell.key] = KeptCell(runs=(run_id,))
    if cell.kind == "arena":
        call.players[cell.row] = run_id
    elif not _left(store, run_id):
        try:
            stored.scorer = _ensure_scores(store, cell, run_id, call)
        except Interrupted:
            raise
        except UserError as error:
            return CellResult(state="failed", why=str(error), runs=stored.runs)
        if "labels" in cell.settings:
            try:
                stored.figure = _agreement(cell, run_id, call)
            except UserError as error:
                sheet = f"`ragrounds judge sheet {run_id} --kind {_judged_kind(cell)}` writes what people label"
                return CellResult(state="lacks", why=f"{error} {sheet}.", runs=stored.runs)
    return stored_result(store, cell, stored, call.missing_requirements, ended)


def _agreement(cell: StudyCell, run_id: str, call: StudyCall) -> CellFigure:
    """Measure the agreement of a run's judge with people's labels.

    Raises:
        UserError: as :func:`ragrounds.api.people.judge_agreement`.
    """
    comparison = judge_agreement(run_id, str(cell.settings["labels"]), kind=_judged_kind(cell), settings=call.settings)
    accuracy, judge_figures = comparison.agreement.judge.accuracy, comparison.agreement.judge
    return CellFigure(
        value=accuracy.value,
        low=accuracy.low,
        high=accuracy.high,
        n=judge_figures.n,
        missing=judge_figures.missing,
        measure="agreement",
    )


def _judged_kind(cell: StudyCell) -> str:
    """Return the kind of verdict by which the cell's answers are judged."""
    return judged_kind(str(cell.settings.get("scorer", "")) or JUDGED)


def _left(store: Store, run_id: str) -> int:
    """Return the number of attempts of a run that are still to be made."""
    stored_run = store.run(run_id)
    return stored_run.count * stored_run.epochs - len(store.done(stored_run))


def _ensure_scores(store: Store, cell: StudyCell, run_id: str, call: StudyCall) -> str:
    """Add the scores that a cell shows to its run, and return the scorer's name; empty for the headline scorer."""
    scorer = str(cell.settings.get("scorer", ""))
    if "judge" in cell.settings:
        base_url = cell.settings.get("base_url")
        judge_result = judge(
            run_id,
            _judged_kind(cell),
            judges=str(cell.settings["judge"]),
            base_url=str(base_url) if base_url else None,
            alias=str(cell.settings["alias"]) if base_url and "alias" in cell.settings else None,
            **call.budget.left(),
            journal=call.how["journal"],
            progress=False,
            settings=call.settings,
        )
        (judged_run,) = judge_result.judged.runs
        paid, earlier = judged_run.cost_paid, judged_run.cost_paid_earlier
        paid_now = None if paid is None or earlier is None else max(0.0, paid - earlier)
        call.budget.add(paid_now, 0, paid_now)
        call.budget.add_calls(judged_run.calls - judged_run.reused, judged_run.reused)
        return judged_run.scorers[0]
    if scorer and not any(True for _ in store.scores(store.run(run_id), scorer)):
        score(run_id, scorers=scorer, settings=call.settings)
    return scorer


def judged_kind(scorer: str) -> str:
    """Return the kind of verdict that a scorer's scores come from.

    A scorer that is a kind itself, or that no kind produces, is returned unchanged. If several kinds produce it, the
    one with the fewest scorers is taken.
    """
    methods = judge_methods()
    matching = [
        name for name, method in methods.items() if scorer in [scorer_record.name for scorer_record in method.scorers]
    ]
    return scorer if scorer in methods or not matching else min(matching, key=lambda name: len(methods[name].scorers))


def stored_result(
    store: Store,
    cell: StudyCell,
    stored_cell: KeptCell | None,
    missing_requirements: Callable[[StudyCell], str],
    ended: str = "",
) -> CellResult:
    """Return the result of a cell from its stored state; nothing is asked or scored."""
    if stored_cell is None:
        reason = missing_requirements(cell)
        return CellResult(state="lacks" if reason else "to do", why=reason)
    if stored_cell.figure is not None:
        return CellResult(state="done", figure=stored_cell.figure, runs=stored_cell.runs)
    try:
        stored_run = store.run(stored_cell.runs[0])
    except UserError:
        return CellResult(state="to do", why="its run was removed")
    attempts_left, where = _left(store, stored_run.id), cell.settings.get("where")
    if attempts_left == stored_run.count * stored_run.epochs and (reason := missing_requirements(cell)):
        return CellResult(state="lacks", why=reason)
    reason = f"{attempts_left:,} attempts left" + (f": {ended}" if ended else "") if attempts_left else ""
    if cell.kind == "arena":
        return CellResult(state="part", why=reason, runs=stored_cell.runs)
    scorer = stored_cell.scorer or str(cell.settings.get("scorer", ""))
    try:
        refresh_scores(store, stored_run)
        figure = run_figure(store, stored_run, scorer, where if isinstance(where, dict) else None)
    except Interrupted:
        raise
    except UserError as error:
        return CellResult(state="part" if attempts_left else "failed", why=str(error), runs=stored_cell.runs)
    return CellResult(state="part" if attempts_left else "done", why=reason, figure=figure, runs=stored_cell.runs)
