"""What the store holds: runs listed, shown and removed, moved between stores, and calls that nothing refers to."""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from rich.console import Console

from ragrounds.api.frames import OF_RUNS, RUNS, Frame
from ragrounds.api.results import RunsResult
from ragrounds.api.workspace import (
    Progress,
    RunsGiven,
    chosen_settings,
    open_store,
    opened_runs,
    run_names,
    texts,
    unheard,
    user_settings,
)
from ragrounds.base.errors import UserError
from ragrounds.base.records import FINAL, Read, Run
from ragrounds.base.settings import Settings
from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.evals.compare.overview import RunOverview, run_overviews
from ragrounds.evals.judges.recorded import with_replies
from ragrounds.evals.store.care import garbage
from ragrounds.evals.store.care.garbage import Garbage
from ragrounds.evals.store.database import reclaim_space
from ragrounds.evals.store.leases import Lease, worker
from ragrounds.evals.store.ledger import Ledger, ledger
from ragrounds.evals.store.reads import RunDifference, reads_of, run_differences
from ragrounds.evals.store.run_names import fitting_runs, kept_names
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.run_facts import attempt_totals
from ragrounds.evals.trace.traces import Trace, trace
from ragrounds.ui.tables.notebook import html_of, text_of
from ragrounds.ui.tables.run_tables import print_run, runs_table
from ragrounds.ui.tables.text_tables import print_table


class RunDetails(Struct, frozen=True, kw_only=True):
    """All that is known of one run."""

    run: Run
    at_work: str
    """Who works at it now; empty: nobody."""
    comparison: Comparison | None
    """Its figures; ``None``: it has no attempt yet."""
    ledger: Ledger
    reads: tuple[Read, ...] = ()
    """What a system of one's own has read."""


class AttemptTrace(Trace, frozen=True):
    """Every step of one answer; ``print`` shows it, and a notebook does, with prose as Markdown."""

    def _draw(self, console: Console) -> None:
        pkgutil.resolve_name("ragrounds.ui.trace.headless:print_attempt")(self, console)  # a leaf, found by its name

    def __str__(self) -> str:
        return text_of(self._draw)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.run.id} at {self.question.id}: {self.attempt.status}>"

    def _repr_html_(self) -> str:
        return html_of(self._draw)


class LoadedRun(RunsResult, frozen=True, kw_only=True):
    """A run of the store: its facts, its frames, and every step of its answers."""

    run: Run
    statuses: Mapping[str, int]
    """How many attempts ended in which status, when the run was loaded."""
    name: str = ""
    """What it is called in tables; empty: by its agent's text."""

    @property
    def id(self) -> str:
        """The run's id."""
        return self.run.id

    @property
    def ids(self) -> tuple[str, ...]:
        """The run's id alone."""
        return (self.run.id,)

    @property
    def agent(self) -> str:
        """The agent's canonical text."""
        return self.run.agent

    def details(self) -> RunDetails:
        """Its figures, its costs, and who works at it: made anew at every call."""
        with opened_runs(self.ids, self.settings) as (store, [run]):
            return RunDetails(
                run=run,
                at_work=worker(store.engine, run.id),
                comparison=compare(store, [run]) if store.done(run) else None,
                ledger=ledger(store, [run]),
                reads=tuple(reads_of(store, run)),
            )

    def attempt(self, question: str, epoch: int = 0) -> AttemptTrace:
        """Every step of one answer: searches, messages, replies, scores.

        Raises:
            UserError: no such question or epoch.
        """
        found = show_attempt(self.id, question, epoch, self.settings)
        return AttemptTrace(*(getattr(found, name) for name in found.__struct_fields__))

    def draw(self, console: Console) -> None:
        """Print what it is, its figures and its costs."""
        found = self.details()
        print_run(found.run, found.at_work, found.comparison, found.ledger, found.reads, console)


class StoredRuns(RunsResult, frozen=True, kw_only=True):
    """The runs of a store, oldest first: a sequence of :class:`LoadedRun`."""

    loaded: tuple[LoadedRun, ...]
    place: str
    """Where the store is."""
    total: int
    """Runs that the words fit."""
    stored: int
    """Runs of the store."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the runs."""
        return tuple(run.id for run in self.loaded)

    def __len__(self) -> int:
        return len(self.loaded)

    def __iter__(self) -> Iterator[LoadedRun]:
        return iter(self.loaded)

    def __getitem__(self, place: int) -> LoadedRun:
        return self.loaded[place]

    def own_frames(self) -> tuple[Frame, ...]:
        """The runs first."""
        return (RUNS, *(frame for frame in OF_RUNS if frame is not RUNS))

    @property
    def left(self) -> str:
        """What is not among these, in a line; empty: everything is."""
        if not self.stored:
            return f"No runs yet in {self.place}. `ragrounds run` makes some."
        if not self.total:
            return f"None of the {self.stored:,} runs in {self.place} matches these words."
        shown = len(self)
        return f"{shown:,} of {self.total:,} runs; --limit {self.total} shows all." if shown < self.total else ""

    def overviews(self) -> list[RunOverview]:
        """Each run with its headline figure and what it cost, the latest first."""
        with open_store(self.settings) as store:
            return run_overviews(store, store.named(self.ids[::-1]), kept_names(store.engine))

    def draw(self, console: Console) -> None:
        """Print a line for each run, the latest first."""
        if self.loaded:
            print_table(runs_table(self.overviews(), time.time()), console)
        elif self.left:
            console.print(self.left, markup=False)


def runs(
    words: str | Iterable[str] = (),
    *,
    limit: int | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> StoredRuns:
    """The runs of the store, oldest first.

        rr.runs("pubmedqa").to_pandas()
        rr.compare(rr.runs())

    Args:
        words: only runs that have all of these in id, agent, name, benchmark or model, whatever their case.
        limit: only so many, the newest.
        home, settings: the folder of the store, and all settings; ``None``: the user's.

    Raises:
        UserError: the store cannot be opened.
    """
    chosen, wanted = chosen_settings(settings, home), [word.casefold() for word in texts(words)]
    with open_store(chosen) as store:
        names, stored = kept_names(store.engine), store.runs()
        fitting = [run for run in stored if all(word in _said(run, names) for word in wanted)]
        loaded = tuple(_loaded(store, run, chosen, names) for run in fitting[-limit if limit else None :])
        return StoredRuns(settings=chosen, loaded=loaded, place=store.place, total=len(fitting), stored=len(stored))


def _said(run: Run, names: Mapping[str, str]) -> str:
    models = run.identity.get("models")
    asked = models.values() if isinstance(models, Mapping) else ()
    return "\n".join([run.id, run.agent, names.get(run.id, ""), run.benchmark, *map(str, asked)]).casefold()


def load(run: RunsGiven, *, home: str | Path | None = None, settings: Settings | None = None) -> LoadedRun:
    """A run of the store.

        rr.load("vanilla_rag[top_k=8]").to_pandas("passages")

    Args:
        run: its id, the beginning of one, an agent's text (then the newest complete one of that agent), or a result of
            one run.
        home, settings: the folder of the store, and all settings; ``None``: the user's.

    Raises:
        UserError: no such run, or several.
    """
    chosen, names = chosen_settings(settings, home), run_names(run)
    if len(names) != 1:
        raise UserError(f"{len(names):,} runs were given, and only one can be loaded: {', '.join(names) or 'none'}.")
    with opened_runs(names, chosen) as (store, [found]):
        return _loaded(store, found, chosen, kept_names(store.engine))


def _loaded(store: Store, run: Run, settings: Settings, names: Mapping[str, str]) -> LoadedRun:
    made = attempt_totals(store, run).statuses
    return LoadedRun(settings=settings, run=run, statuses=made, name=names.get(run.id, ""))


def show_attempt(reference: str, question: str, epoch: int = 0, settings: Settings | None = None) -> Trace:
    """Every step of one answer: searches, messages, replies, scores.

    Raises:
        UserError: no such run, question or epoch.
    """
    with opened_runs([reference], settings) as (store, [run]):
        return with_replies(store, trace(store, run, question, epoch))


def diff_runs(first: str, second: str, settings: Settings | None = None) -> list[RunDifference]:
    """In what two runs differ: their agents, models, parameters and questions, and what systems of one's own have read.

    Raises:
        UserError: no such run.
    """
    with opened_runs([first, second], settings) as (store, [one, other]):
        return run_differences(store, one, other)


def remove_run(
    reference: str, settings: Settings | None = None, message: Callable[[str], None] = lambda text: None
) -> Run:
    """Remove a run with its attempts, scores and counterfactuals; recorded calls stay.

    Raises:
        UserError: no such run, an agent's text with several runs, or somebody works at it.
    """
    with opened_runs([reference], settings) as (store, [run]):
        if len(fitting_runs(reference, store.runs(), kept_names(store.engine))) > 1:
            raise UserError(f"{reference!r} has several runs: give the id of the one to remove, such as {run.id}.")
        with Lease(store.engine, [run.id], message):
            for one in (*store.counterfactuals(run), run):
                store.remove(one)
    return run


def collect_garbage(
    *,
    seconds: float,
    outside: bool,
    remove: bool = False,
    settings: Settings | None = None,
    progress: Progress = unheard,
    message: Callable[[str], None] = lambda text: None,
) -> tuple[Garbage, str]:
    """Recorded calls and texts that no run, arena or judged score refers to; and, where they were removed, why the file
    of the store did not get smaller (empty: it did).

    Args:
        seconds: calls that were recorded less than this ago do not count.
        outside: count calls that no run made, too: of retrieve, build.
        remove: remove them, in one transaction, and give their space back.
        settings: where the store is; ``None``: the user's.
        progress, message: are told how far it is, and that somebody is waited for.

    Raises:
        UserError: somebody works at a run of the store, and they are to be removed.
    """
    with open_store(settings or user_settings()) as store:
        hours, ids = seconds / 3600, [run.id for run in store.runs(counterfactuals=True)]
        if not remove:
            return garbage.collect_garbage(store.engine, FINAL, hours=hours, outside=outside, report=progress), ""
        with Lease(store.engine, ids, message):
            found = garbage.collect_garbage(
                store.engine, FINAL, hours=hours, outside=outside, remove=True, runs=ids, report=progress
            )
        return found, reclaim_space(store.engine)
