"""The cells of a study, carried out: runs in groups that share what they need, retrievals, judges, the arena.

Every kind of cell goes through the public function that a user would call for it, so that a cell is what
`ragrounds run` or `ragrounds retrieve` would give for the same settings, and shares its runs and its journal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import msgspec

from ragrounds.agents.agent import open_agent
from ragrounds.api.arena import arena
from ragrounds.api.imported_cells import imported_run
from ragrounds.api.progress import RunListener
from ragrounds.api.retrieve import retrieval_identity, retrieve
from ragrounds.api.run import RunResult
from ragrounds.api.score import judge, score
from ragrounds.api.study_measures import (
    CORRELATIONS,
    LABELS,
    label_figures,
    similarity_figures,
    similarity_identity,
)
from ragrounds.api.study_runs import attempts_left, remove_unasked
from ragrounds.api.workspace import JournalMode, open_store
from ragrounds.contracts import FinishedAttempt
from ragrounds.errors import Interrupted, StopRun, UserError
from ragrounds.evals.engine.progress import Projection, ReplayProgress
from ragrounds.evals.judges.methods import judge_methods
from ragrounds.evals.judges.rescoring import refresh_scores
from ragrounds.evals.retrieval.measures import canonical
from ragrounds.evals.store.store import Store
from ragrounds.evals.studies.figures import CellFigure, queries_figure, run_figure
from ragrounds.evals.studies.state import KeptCell, KeptValues
from ragrounds.evals.studies.study import Settings as CellSettings
from ragrounds.evals.studies.study import Study, StudyCell
from ragrounds.evals.studies.table import CellResult
from ragrounds.settings import Settings
from ragrounds.specs import Value, parse

Arguments: TypeAlias = dict[str, Any]
"""Arguments of a public function, by name."""
_VIEW = ("agent", "k", "retriever", "scorer", "where", "judge", "axis")
"""Settings by which the cells of one group may differ: other agents of one call, or another view of one run."""
_SEARCH_VIEW = ("measure", "where")
_OF_RUN = (
    "profile", "model", "base_url", "alias", "corpus", "limit", "per_dataset", "seed", "epochs", "temperature", "top_p",
    "max_answer_tokens", "timeout",
)  # fmt: skip
JUDGED = "equivalent"
"""How answers are judged where a cell names a judge and no scorer."""


class StudyBudget:
    """What a study may use in all, and what it has used: dollars, tokens, seconds."""

    def __init__(self, cost: float | None, tokens: int | None, seconds: float | None) -> None:
        self.cost, self.tokens, self.seconds = cost, tokens, seconds
        self.paid, self.used, self.began = 0.0, 0, time.monotonic()
        self.unknown = False
        """Whether some call had no known price."""

    def left(self) -> Arguments:
        """What is left, as the arguments of :func:`ragrounds.api.run.run`."""
        seconds = None if self.seconds is None else max(0.0, self.seconds - (time.monotonic() - self.began))
        return {
            "max_cost": None if self.cost is None else max(0.0, self.cost - self.paid),
            "max_total_tokens": None if self.tokens is None else max(0, self.tokens - self.used),
            "max_time": seconds,
        }

    def ended(self) -> str:
        """What is used up; empty: nothing is."""
        left = self.left()
        words = {"max_cost": "--max-cost", "max_total_tokens": "--max-total-tokens", "max_time": "--max-time"}
        return next((f"{words[name]} is used up" for name, one in left.items() if one is not None and one <= 0), "")

    def add(self, cost: float | None, tokens: int) -> None:
        """Count what was used."""
        self.unknown = self.unknown or cost is None
        self.paid += cost or 0.0
        self.used += tokens


class StudyListener(RunListener):
    """Hears how a study goes on. Nothing is shown unless a method is overridden."""

    def begun(self, study: Study, cells: int) -> None:
        """It begins, with so many cells to carry out."""

    def group(self, cells: Sequence[StudyCell]) -> None:
        """These cells are carried out next."""

    def cell(self, cell: StudyCell, result: CellResult) -> None:
        """A cell is as far as it comes in this call."""

    def attempts(self, done: int, total: int) -> None:
        """How many attempts of the cells at work are there."""

    def spent(self, paid: float, unknown: bool) -> None:
        """Dollars that this call has paid so far; `unknown`: some calls have no known price."""


class CountingListener(RunListener):
    """Passes on what a run tells, and counts what it uses."""

    def __init__(
        self, outer: StudyListener, budget: StudyBudget, begun: Callable[[list[str]], None] | None = None
    ) -> None:
        self._outer, self._budget, self._begun = outer, budget, begun
        self.projection: Projection | None = None

    def message(self, text: str) -> None:
        """Pass it on."""
        self._outer.message(text)

    def reading(self, what: str, count: int) -> None:
        """Pass it on."""
        self._outer.reading(what, count)

    @contextmanager
    def progress(self, progress: ReplayProgress, *, pilot: bool = False) -> Iterator[Callable[[FinishedAttempt], None]]:
        """Count, and tell how far the cells at work are."""
        before = _used(progress)
        if self._begun is not None:
            self._begun(list(progress.runs))

        def hear(finished: FinishedAttempt) -> None:
            """Count an attempt that ended."""
            progress.observe(finished)
            total = sum(run.total for run in progress.runs.values())
            self._outer.attempts(total - progress.left, total)

        try:
            yield hear
        finally:
            after = _used(progress)
            known = before[0] is not None and after[0] is not None
            self._budget.add(after[0] - before[0] if known else None, after[1] - before[1])  # type: ignore[operator]
            self._outer.spent(self._budget.paid, self._budget.unknown)

    def projected(self, projection: Projection) -> None:
        """Keep it: a study tells the sum."""
        self.projection = projection


def _used(progress: ReplayProgress) -> tuple[float | None, int]:
    costs = [run.cost_paid for run in progress.runs.values()]
    tokens = sum(run.tokens for run in progress.runs.values())
    return None if None in costs else math.fsum(one for one in costs if one is not None), tokens


def groups(cells: Iterable[StudyCell]) -> list[list[StudyCell]]:
    """Cells that one call carries out, in the order of their first cells: those that differ in agents alone, or in the
    measure."""
    found: dict[bytes, list[StudyCell]] = {}
    for cell in cells:
        apart = _SEARCH_VIEW if cell.kind == "retrieve" else _VIEW
        settings = {key: value for key, value in cell.settings.items() if key not in apart}
        kind = "retrieve" if cell.kind == "retrieve" else "run"
        found.setdefault(msgspec.json.encode((kind, settings), order="sorted"), []).append(cell)
    return list(found.values())


def agent_text(settings: CellSettings) -> str:
    """The agent of a run's cell as one would type it: with its retriever, its k and its further parameters.

    Raises:
        UserError: an unknown agent, or a parameter that it does not have.
    """
    spec = parse(str(settings["agent"]))
    agent, given = open_agent(spec), dict[str, Value]()
    if "retriever" in settings and agent.card.searches:
        given["retriever"] = parse(str(settings["retriever"]))
    if isinstance(k := settings.get("k"), int) and "top_k" in agent.parameters:
        given["top_k"] = k
    return str(spec.having(**{key: value for key, value in given.items() if key not in spec.parameters}))


def judged_kind(scorer: str) -> str:
    """The way of judging that gives a scorer its verdicts; the name itself where it is that of one, or of none."""
    known = judge_methods()
    ways = [name for name, way in known.items() if scorer in [one.name for one in way.scorers]]
    return scorer if scorer in known or not ways else min(ways, key=lambda name: len(known[name].scorers))


class CellRunner:
    """Carries out the cells of one study."""

    def __init__(
        self,
        study: Study,
        settings: Settings,
        *,
        listener: StudyListener,
        budget: StudyBudget,
        journal: JournalMode,
        concurrency: int | None,
        workers: int | None,
        fail_after: str | int,
        server_changed: str,
        kept: Callable[[str], KeptCell | None],
        lacks: Callable[[StudyCell], str],
        save: Callable[[], None],
    ) -> None:
        self._study, self._settings, self._listener, self._budget = study, settings, listener, budget
        self._how: Arguments = {
            "journal": journal, "concurrency": concurrency, "workers": workers, "fail_after": fail_after,
            "server_changed": server_changed,
        }  # fmt: skip
        self._kept, self._lacks, self._save = kept, lacks, save
        self.made = 0
        """Calls that were made."""
        self.reused = 0
        """Calls that were answered from the journal."""
        self.keep: dict[str, KeptCell] = {}
        """What is to be kept of cells, by their keys."""
        self.gone: set[str] = set()
        """Keys of cells whose run was removed again, because no attempt of it could be made."""
        self._dead: dict[tuple[str, str], str] = {}
        """Model and server → why no call to it can succeed in this call."""
        self.arena_runs: dict[str, str] = {}
        """Row → the run that plays for it."""

    def carry_out(self, cells: Sequence[StudyCell]) -> Iterator[tuple[StudyCell, CellResult]]:
        """Carry out the cells of one group, as far as the budget goes.

        Raises:
            Interrupted: Ctrl-C; what ended is kept.
        """
        if ended := self._budget.ended():
            yield from ((cell, CellResult(state="to do", why=ended)) for cell in cells)
        elif cells[0].kind == "retrieve":
            yield from self._retrieved(cells)
        else:
            yield from self._run(cells)

    # Runs

    def _recorded(self, cell: StudyCell) -> CellResult:
        """A cell that shows recorded replies: they become a run, and no model is asked."""
        path, benchmark = str(cell.settings["imported"]), str(cell.settings["benchmark"])
        try:
            with open_store(self._settings) as store:
                run = imported_run(store, path, benchmark, self._settings.home)
                return self._view(store, cell, run.id, 0, "")
        except UserError as error:
            return CellResult(state="lacks", why=str(error))

    def _run(self, cells: Sequence[StudyCell]) -> Iterator[tuple[StudyCell, CellResult]]:
        if "imported" in cells[0].settings:
            yield from ((cell, self._recorded(cell)) for cell in cells)
            return
        texts: dict[str, list[StudyCell]] = {}
        for cell in cells:
            try:
                texts.setdefault(agent_text(cell.settings), []).append(cell)
            except UserError as error:
                yield cell, CellResult(state="lacks", why=str(error))
        if not texts:
            return
        outcome = self._asked(cells[0].settings, texts)
        if len(texts) == 1 or (not isinstance(outcome, CellResult) and len(outcome.runs) == len(texts)):
            yield from self._shown(outcome, texts)
            return
        # One of them may be at fault, or was left out: each by itself then, which says why.
        for text, alone in texts.items():
            yield from self._shown(self._asked(cells[0].settings, {text: alone}), {text: alone})

    def _began(self, ids: Sequence[str], texts: Mapping[str, Sequence[StudyCell]]) -> None:
        """Keep which runs the cells at work show, so that what is broken off is shown as far as it came."""
        if len(ids) != len(texts):
            return
        for run_id, cells in zip(ids, texts.values(), strict=True):
            for cell in cells:
                before = self._kept(cell.key)
                if before is None or before.runs != (run_id,):
                    self.keep[cell.key] = KeptCell(runs=(run_id,), made=time.time())
        self._save()

    def _asked(self, settings: CellSettings, texts: Mapping[str, Sequence[StudyCell]]) -> RunResult | CellResult:
        """The runs of some agents; or why there are none."""
        from ragrounds.api.run import run

        server = (str(settings.get("model", "")), str(settings.get("base_url", "")))
        if server in self._dead:
            return CellResult(state="failed", why=self._dead[server])
        ids, since = list[str](), time.time()

        def began(started: list[str]) -> None:
            """Keep which runs the cells show."""
            ids.extend(started)
            self._began(started, texts)

        listener = CountingListener(self._listener, self._budget, began)
        try:
            made = run(
                str(settings["benchmark"]),
                list(texts),
                **arguments(settings),
                **self._how,
                **self._budget.left(),
                confirmed=True,
                listener=listener,
                settings=self._settings,
            )
        except UserError as error:
            amiss = _amiss(error)
            self._withdraw(ids, since, texts)
            if amiss.state == "failed":
                self._dead[server] = amiss.why
            return amiss
        self.made += made.made
        self.reused += made.reused
        return made

    def _withdraw(self, ids: Sequence[str], since: float, texts: Mapping[str, Sequence[StudyCell]]) -> None:
        """Remove the runs that this call began and that no attempt was made of: there is nothing to show of them."""
        if not ids:
            return
        with open_store(self._settings) as store:
            empty = remove_unasked(store, ids, since)
        for cell in (cell for cells in texts.values() for cell in cells):
            kept = self.keep.get(cell.key)
            if kept is not None and empty.intersection(kept.runs):
                del self.keep[cell.key]
                self.gone.add(cell.key)
        self._save()

    def _shown(
        self, outcome: RunResult | CellResult, texts: Mapping[str, Sequence[StudyCell]]
    ) -> Iterator[tuple[StudyCell, CellResult]]:
        if isinstance(outcome, CellResult):
            for cell in (cell for cells in texts.values() for cell in cells):
                yield cell, self._lacking(cell, outcome)
            return
        with open_store(self._settings) as store:
            for run, cells in zip(outcome.runs, texts.values(), strict=True):
                left = attempts_left(store, run.id)
                for cell in cells:
                    yield cell, self._view(store, cell, run.id, left, outcome.ended)

    def _lacking(self, cell: StudyCell, outcome: CellResult) -> CellResult:
        """What a cell says that could not be carried out: all that it lacks, where that can be told."""
        why = self._lacks(cell) if outcome.state == "lacks" else ""
        return CellResult(state=outcome.state, why=why or outcome.why)

    def _view(self, store: Store, cell: StudyCell, run_id: str, left: int, ended: str) -> CellResult:
        """A cell that shows a run, which has so many attempts left."""
        kept = KeptCell(runs=(run_id,), made=time.time())
        self.keep[cell.key] = kept
        if cell.kind == "arena":
            self.arena_runs[cell.row] = run_id
            why = f"{left:,} attempts left" if left else ""
            return CellResult(state="part" if left else "to do", why=why, runs=(run_id,))
        return shown_run(store, cell, run_id, left, ended, kept, self._supplied)

    def _supplied(self, cell: StudyCell, run_id: str) -> str:
        """See to it that a run has the scores that its cell shows; gives the scorer that they stand under, empty where
        it is the headline's."""
        if "judge" in cell.settings:
            return self._judged(cell, run_id)
        scorer = str(cell.settings.get("scorer", ""))
        if scorer:
            with open_store(self._settings) as store:
                there = any(True for _ in store.scores(store.run(run_id), scorer))
            if not there:
                score(run_id, scorers=scorer, settings=self._settings)
        return scorer

    def _judged(self, cell: StudyCell, run_id: str) -> str:
        """Have the cell's judge judge a run; gives the scorer that its verdicts stand under."""
        where, left = cell.settings.get("base_url"), self._budget.left()
        made = judge(
            run_id,
            judged_kind(str(cell.settings.get("scorer", JUDGED))),
            judges=str(cell.settings["judge"]),
            base_url=str(where) if where else None,
            alias=str(cell.settings["alias"]) if where and "alias" in cell.settings else None,
            max_cost=left["max_cost"],
            max_time=left["max_time"],
            journal=self._how["journal"],
            progress=False,
            settings=self._settings,
        )
        return made.judged.runs[0].scorers[0]

    # Retrievals

    def _retrieved(self, cells: Sequence[StudyCell]) -> Iterator[tuple[StudyCell, CellResult]]:
        whole = [cell for cell in cells if measure_of(cell) in (*CORRELATIONS, *LABELS)]
        by_query = [cell for cell in cells if cell not in whole]
        if whole:
            yield from self._of_whole_set(whole)
        if by_query:
            yield from self._searched(by_query)

    def _of_whole_set(self, cells: Sequence[StudyCell]) -> Iterator[tuple[StudyCell, CellResult]]:
        """Cells whose figure is a correlation, or a count of labels."""
        settings, home = cells[0].settings, self._settings.home
        known: dict[str, CellFigure] = {}
        identity = ""
        try:
            if any(measure_of(cell) in CORRELATIONS for cell in cells):
                identity = similarity_identity(settings, home)
                kept = [self._kept(cell.key) for cell in cells]
                if all(one is not None and one.identity == identity and one.figure is not None for one in kept):
                    known = {one.figure.measure: one.figure for one in kept if one and one.figure}
                else:
                    known = similarity_figures(settings, home)
            else:
                how = {key: self._how[key] for key in ("journal", "concurrency", "server_changed")}
                heard = CountingListener(self._listener, self._budget)
                known = label_figures(settings, {**how, **self._budget.left()}, heard, self._settings)
        except UserError as error:
            amiss = _amiss(error)
            yield from ((cell, amiss) for cell in cells)
            return
        for cell in cells:
            figure = known[measure_of(cell)]
            self.keep[cell.key] = KeptCell(figure=figure, identity=identity, made=time.time())
            yield cell, CellResult(state="done", figure=figure)

    def _searched(self, cells: Sequence[StudyCell]) -> Iterator[tuple[StudyCell, CellResult]]:
        settings, measures = cells[0].settings, list(dict.fromkeys(measure_of(cell) for cell in cells))
        given = search_arguments(settings)
        try:
            identity = retrieval_identity(given, measures, self._settings)
            found = self._known(cells, identity) if identity else None
            if found is None:
                result = retrieve(
                    **given,
                    measures=measures,
                    per_query=True,
                    journal=self._how["journal"],
                    progress=lambda what, done: self._listener.attempts(done, done),
                    message=self._listener.message,
                    settings=self._settings,
                )
                entry = result.entries[-1]
                found = {name: dict(entry["per_query"][name]) for name in result.measures}
                self._budget.add(entry.get("generation_cost_paid", 0.0), 0)
        except UserError as error:
            amiss = _amiss(error)
            yield from ((cell, amiss) for cell in cells)
            return
        for cell in cells:
            values = found[canonical_measure(measure_of(cell))]
            self.keep[cell.key] = KeptCell(
                retrieval=KeptValues(identity=identity, values={measure_of(cell): values}), made=time.time()
            )
            yield cell, CellResult(state="done", figure=queries_figure(values, measure_of(cell), _set(cell)))

    def _known(self, cells: Sequence[StudyCell], identity: str) -> dict[str, dict[str, float]] | None:
        """The values of an earlier call by the same code on the same index; ``None``: some are not there."""
        values: dict[str, dict[str, float]] = {}
        for cell in cells:
            kept = self._kept(cell.key)
            if kept is None or kept.retrieval is None or kept.retrieval.identity != identity:
                return None
            values[canonical_measure(measure_of(cell))] = kept.retrieval.values[measure_of(cell)]
        return values

    # The arena

    def arena(self, cells: Sequence[StudyCell]) -> Iterator[tuple[StudyCell, CellResult]]:
        """Play the rows' runs against each other, once all of them are there, and give each axis its ratings."""
        axes = list(dict.fromkeys(str(cell.settings["axis"]) for cell in cells))
        names = {run: row for row, run in self.arena_runs.items()}
        try:
            played = arena(
                list(names),
                **{"axes": axes, **self._study.arena},
                names=names,
                journal=self._how["journal"],
                max_cost=self._budget.left()["max_cost"],
                max_time=self._budget.left()["max_time"],
                progress=False,
                settings=self._settings,
            )
        except UserError as error:
            amiss = _amiss(error)
            yield from ((cell, amiss) for cell in cells)
            return
        self.made += played.made
        self.reused += played.reused
        ratings = {
            (axis.axis, row.system): (row.rating, row.low, row.high)
            for axis in played.report.axes
            if axis.ratings is not None
            for row in axis.ratings.rows
        }
        withheld = {axis.axis: axis.withheld for axis in played.report.axes}
        for cell in cells:
            axis, run_id = str(cell.settings["axis"]), self.arena_runs[cell.row]
            rating = ratings.get((axis, cell.row))
            self.keep[cell.key] = KeptCell(runs=(run_id,), rating=rating, made=time.time())
            if rating is None:
                why = withheld.get(axis) or "it has no matches"
                yield cell, CellResult(state="failed", why=f"no rating: {why}", runs=(run_id,))
            else:
                yield cell, CellResult(state="done", figure=rating_figure(rating, axis), runs=(run_id,))


def _amiss(error: UserError) -> CellResult:
    """What a cell is that met an error: it failed where no further call can succeed, else it lacks something.

    Raises:
        Interrupted: the error is one.
    """
    if isinstance(error, Interrupted):
        raise error
    return CellResult(state="failed" if isinstance(error, StopRun) else "lacks", why=str(error))


def arguments(settings: CellSettings) -> Arguments:
    """The settings of a run's cell as :func:`ragrounds.api.run.run` takes them, its agent apart."""
    return {name: settings[name] for name in _OF_RUN if name in settings}


def shown_run(
    store: Store,
    cell: StudyCell,
    run_id: str,
    left: int,
    ended: str,
    kept: KeptCell,
    supply: Callable[[StudyCell, str], str] | None,
) -> CellResult:
    """What a cell shows of a stored run. `supply` sees to its scores, and may ask a judge; ``None``: only what is there
    is shown."""
    where = cell.settings.get("where")
    scorer = str(cell.settings.get("scorer", ""))
    try:
        if supply is not None and not left:
            kept.scorer = supply(cell, run_id)
        scorer = kept.scorer or scorer
        run = store.run(run_id)
        refresh_scores(store, run)
        figure = run_figure(store, run, scorer, where if isinstance(where, dict) else None)
    except Interrupted:
        raise
    except UserError as error:
        return CellResult(state="part" if left else "failed", why=str(error), runs=(run_id,))
    why = f"{left:,} attempts left" + (f": {ended}" if ended else "") if left else ""
    return CellResult(state="part" if left else "done", why=why, figure=figure, runs=(run_id,))


def rating_figure(rating: tuple[float, float | None, float | None], axis: str) -> CellFigure:
    """An arena's rating on one axis."""
    return CellFigure(value=rating[0], low=rating[1], high=rating[2], unit="points", measure=axis)


def measure_of(cell: StudyCell) -> str:
    """The measure that a retrieval's cell shows."""
    return str(cell.settings.get("measure", "nDCG@10"))


def canonical_measure(name: str) -> str:
    """A measure's name as results have it."""
    return canonical(name)


def _set(cell: StudyCell) -> str:
    return str(cell.settings["benchmark"])


def search_arguments(settings: CellSettings) -> Arguments:
    """The settings of a retrieval's cell as :func:`ragrounds.api.retrieve.retrieve` takes them."""
    retriever = str(settings["retriever"])
    given: Arguments = {"benchmark": str(settings["benchmark"]), "retrievers": [retriever]}
    given |= {name: settings[name] for name in ("corpus", "split", "model", "base_url", "alias") if name in settings}
    if "depth" in settings:
        given["k"] = settings["depth"]
    if "query_generation" in settings:
        given["query_generation"] = [str(settings["query_generation"])]
    return given
