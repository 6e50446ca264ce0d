"""The cells of a study, carried out: runs in groups that share what they need, recorded replies, judges, searches.

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
from ragrounds.extensions.studies.cells_without_runs import Carried, amiss, figure_kind
from ragrounds.extensions.studies.figures import CellFigure, run_figure
from ragrounds.extensions.studies.imported_cells import imported_run
from ragrounds.extensions.studies.paper_table import CellResult
from ragrounds.extensions.studies.state import KeptCell
from ragrounds.extensions.studies.study import Settings, StudyCell, agent_text

_OF_RUN = (
    "profile", "model", "base_url", "alias", "corpus", "limit", "per_dataset", "seed", "epochs", "temperature", "top_p",
    "max_answer_tokens", "timeout",
)  # fmt: skip
_VIEW = ("agent", "k", "retriever", "scorer", "where", "judge", "labels", "axis")
"""Settings by which the cells of one group may differ: other agents of one call, or another view of one run."""
_SEARCH_VIEW = ("measure", "where")
JUDGED = "equivalent"
"""How answers are judged where a cell names a judge and no scorer."""


def groups(cells: Iterable[StudyCell]) -> list[list[StudyCell]]:
    """Cells that one call carries out, in the order of their first cells: those that differ in agents alone, or in the
    measure."""
    found: dict[bytes, list[StudyCell]] = {}
    for cell in cells:
        apart = _SEARCH_VIEW if cell.kind == "retrieve" else _VIEW
        settings = {key: value for key, value in cell.settings.items() if key not in apart}
        kind = type(figure_kind(cell)).__name__ if cell.kind == "retrieve" else _carry(cell).__name__
        key = msgspec.json.encode((kind, settings), order="sorted")
        found.setdefault(key, []).append(cell)
    return list(found.values())


def carry_out(cells: Sequence[StudyCell], call: StudyCall) -> Carried:
    """Carry out the cells of one group, as far as the budget goes.

    Raises:
        Interrupted: Ctrl-C; what ended is kept.
    """
    if ended := call.budget.ended():
        return ((cell, CellResult(state="to do", why=ended)) for cell in cells)
    return _carry(cells[0])(cells, call)


def _carry(cell: StudyCell) -> Callable[[Sequence[StudyCell], StudyCall], Carried]:
    """What carries out a cell, with others of its group."""
    if cell.kind != "retrieve":
        return _imported if "imported" in cell.settings else _answers
    return figure_kind(cell).carry_out


def run_arguments(settings: Settings) -> Arguments:
    """The settings of a run's cell as :func:`ragrounds.api.run.run` takes them, its agent and benchmark apart."""
    return {name: settings[name] for name in _OF_RUN if name in settings}


def _imported(cells: Sequence[StudyCell], call: StudyCall) -> Carried:
    """Cells that show recorded replies: they become a run, and no model is asked."""
    for cell in cells:
        path, benchmark = str(cell.settings["imported"]), str(cell.settings["benchmark"])
        try:
            with open_store(call.settings) as store:
                made = imported_run(store, path, benchmark, call.settings.home)
                yield cell, _of_run(store, cell, made.id, "", call)
        except UserError as error:
            yield cell, amiss(error)


def _answers(cells: Sequence[StudyCell], call: StudyCall) -> Carried:
    """Cells that show runs: one call for all of their agents."""
    texts: dict[str, list[StudyCell]] = {}
    for cell in cells:
        try:
            texts.setdefault(agent_text(cell.settings), []).append(cell)
        except UserError as error:
            yield cell, amiss(error)
    if not texts:
        return
    outcome = _asked(cells[0].settings, texts, call)
    if len(texts) == 1 or (isinstance(outcome, RunResult) and len(outcome.runs) == len(texts)):
        yield from _shown_all(outcome, texts, call)
        return
    # One of them may be at fault, or was left out: each by itself then, which says why.
    for text, alone in texts.items():
        yield from _shown_all(_asked(cells[0].settings, {text: alone}, call), {text: alone}, call)


def _asked(settings: Settings, texts: Mapping[str, Sequence[StudyCell]], call: StudyCall) -> RunResult | CellResult:
    """The runs of some agents; or why there are none."""
    server = (str(settings.get("model", "")), str(settings.get("base_url", "")))
    if server in call.dead:
        return CellResult(state="failed", why=call.dead[server])
    kept, ids, since = call.state.cells, list[str](), time.time()

    def began(started: list[str]) -> None:
        """Keep which runs the cells at work show, so that what is broken off is shown as far as it came."""
        ids.extend(started)
        for run_id, cells in zip(started, texts.values(), strict=False) if len(started) == len(texts) else ():
            for cell in cells:
                if cell.key not in kept or kept[cell.key].runs != (run_id,):
                    kept[cell.key] = KeptCell(runs=(run_id,))
        call.save()

    try:
        made = run(
            str(settings["benchmark"]),
            list(texts),
            **run_arguments(settings),
            **call.how,
            **call.budget.left(),
            confirmed=True,
            listener=CountingListener(call.listener, call.budget, began),
            settings=call.settings,
        )
    except UserError as error:
        result = amiss(error)
        with open_store(call.settings) as store:
            empty = remove_unasked(store, ids, since)
        for cell in (cell for cells in texts.values() for cell in cells):
            if cell.key in kept and empty.intersection(kept[cell.key].runs):
                del kept[cell.key]
        call.save()
        if result.state == "failed":
            call.dead[server] = result.why
        return result
    call.made += made.made
    call.reused += made.reused
    return made


def remove_unasked(store: Store, ids: Sequence[str], since: float) -> set[str]:
    """Remove those of these runs that were begun after a time and that no attempt was made of: there is nothing to show
    of them; gives their ids."""
    empty = [run for run in store.runs() if run.id in ids and run.created >= since and not store.done(run)]
    for one in empty:
        store.remove(one)
    return {one.id for one in empty}


def _shown_all(outcome: RunResult | CellResult, texts: Mapping[str, Sequence[StudyCell]], call: StudyCall) -> Carried:
    if isinstance(outcome, CellResult):
        for cell in (cell for cells in texts.values() for cell in cells):
            # All that it lacks, where that can be told.
            why = call.lacks(cell) if outcome.state == "lacks" else ""
            yield cell, CellResult(state=outcome.state, why=why or outcome.why)
        return
    with open_store(call.settings) as store:
        for made, cells in zip(outcome.runs, texts.values(), strict=True):
            for cell in cells:
                yield cell, _of_run(store, cell, made.id, outcome.ended, call)


def _of_run(store: Store, cell: StudyCell, run_id: str, ended: str, call: StudyCall) -> CellResult:
    """Keep which run a cell shows; gives what it shows, once that has the scores that the cell asks for."""
    kept = call.state.cells[cell.key] = KeptCell(runs=(run_id,))
    if cell.kind == "arena":
        call.players[cell.row] = run_id
    elif not _left(store, run_id):
        try:
            kept.scorer = _supplied(store, cell, run_id, call)
        except Interrupted:
            raise
        except UserError as error:
            return CellResult(state="failed", why=str(error), runs=kept.runs)
        if "labels" in cell.settings:
            try:
                kept.figure = _agreement(cell, run_id, call)
            except UserError as error:
                sheet = f"`ragrounds judge sheet {run_id} --kind {_kind(cell)}` writes what people label"
                return CellResult(state="lacks", why=f"{error} {sheet}.", runs=kept.runs)
    return shown(store, cell, kept, call.lacks, ended)


def _agreement(cell: StudyCell, run_id: str, call: StudyCall) -> CellFigure:
    """On how many answers of a run its judge and people agree.

    Raises:
        UserError: as :func:`ragrounds.api.people.judge_agreement`.
    """
    found = judge_agreement(run_id, str(cell.settings["labels"]), kind=_kind(cell), settings=call.settings)
    share, judged = found.agreement.judge.accuracy, found.agreement.judge
    return CellFigure(
        value=share.value, low=share.low, high=share.high, n=judged.n, missing=judged.missing, measure="agreement"
    )


def _kind(cell: StudyCell) -> str:
    """How its answers are judged."""
    return judged_kind(str(cell.settings.get("scorer", "")) or JUDGED)


def _left(store: Store, run_id: str) -> int:
    """Attempts of a run that are still to be made."""
    found = store.run(run_id)
    return found.count * found.epochs - len(store.done(found))


def _supplied(store: Store, cell: StudyCell, run_id: str, call: StudyCall) -> str:
    """See to it that a run has the scores that its cell shows; gives the scorer that they stand under, empty where it
    is the headline's."""
    scorer = str(cell.settings.get("scorer", ""))
    if "judge" in cell.settings:
        where, left = cell.settings.get("base_url"), call.budget.left()
        made = judge(
            run_id,
            _kind(cell),
            judges=str(cell.settings["judge"]),
            base_url=str(where) if where else None,
            alias=str(cell.settings["alias"]) if where and "alias" in cell.settings else None,
            max_cost=left["max_cost"],
            max_time=left["max_time"],
            journal=call.how["journal"],
            progress=False,
            settings=call.settings,
        )
        return made.judged.runs[0].scorers[0]
    if scorer and not any(True for _ in store.scores(store.run(run_id), scorer)):
        score(run_id, scorers=scorer, settings=call.settings)
    return scorer


def judged_kind(scorer: str) -> str:
    """The way of judging that gives a scorer its verdicts; the name itself where it is that of one, or of none."""
    known = judge_methods()
    ways = [name for name, way in known.items() if scorer in [one.name for one in way.scorers]]
    return scorer if scorer in known or not ways else min(ways, key=lambda name: len(known[name].scorers))


def shown(
    store: Store, cell: StudyCell, kept: KeptCell | None, lacks: Callable[[StudyCell], str], ended: str = ""
) -> CellResult:
    """What a cell shows of what is kept of it; nothing is asked or scored for it."""
    if kept is None:
        why = lacks(cell)
        return CellResult(state="lacks" if why else "to do", why=why)
    if kept.figure is not None:
        return CellResult(state="done", figure=kept.figure, runs=kept.runs)
    try:
        found = store.run(kept.runs[0])
    except UserError:
        return CellResult(state="to do", why="its run was removed")
    left, where = _left(store, found.id), cell.settings.get("where")
    if left == found.count * found.epochs and (why := lacks(cell)):
        return CellResult(state="lacks", why=why)
    why = f"{left:,} attempts left" + (f": {ended}" if ended else "") if left else ""
    if cell.kind == "arena":
        return CellResult(state="part", why=why, runs=kept.runs)
    scorer = kept.scorer or str(cell.settings.get("scorer", ""))
    try:
        refresh_scores(store, found)
        figure = run_figure(store, found, scorer, where if isinstance(where, dict) else None)
    except Interrupted:
        raise
    except UserError as error:
        return CellResult(state="part" if left else "failed", why=str(error), runs=kept.runs)
    return CellResult(state="part" if left else "done", why=why, figure=figure, runs=kept.runs)
