"""Runs of the store: listed, shown and removed, moved between stores; and calls that nothing refers to."""

from __future__ import annotations

import pkgutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from rich.console import Console

from ragrounds.api.frames import OF_RUNS, RUNS, Frame
from ragrounds.api.results import RunsResult
from ragrounds.api.resume import without_defaults
from ragrounds.api.workspace import (
    Progress,
    RunsGiven,
    chosen_settings,
    open_selected_runs,
    open_store,
    run_names,
    texts,
    unheard,
)
from ragrounds.base.errors import UserError
from ragrounds.base.records import FINAL, Read, Run
from ragrounds.base.settings import Settings, read_settings
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
from ragrounds.evals.trace import text_index
from ragrounds.evals.trace.traces import Trace, trace
from ragrounds.ui.tables.notebook import html_of, text_of
from ragrounds.ui.tables.run_tables import print_run, runs_table
from ragrounds.ui.tables.text_tables import print_table


class RunDetails(Struct, frozen=True, kw_only=True):
    """Details of one run."""

    run: Run
    at_work: str
    """Process that is using it; empty if none."""
    comparison: Comparison | None
    """Figures of the run; ``None`` if it has no attempt yet."""
    ledger: Ledger
    reads: tuple[Read, ...] = ()
    """Dependencies that a user's system has read."""


class AttemptTrace(Trace, frozen=True):
    """Trace of one answer with every step; ``print`` and notebooks show it, notebooks with prose as Markdown."""

    def _draw(self, console: Console) -> None:
        # Found by its name, as no other module imports it.
        pkgutil.resolve_name("ragrounds.ui.trace.headless:print_attempt")(self, console)

    def __str__(self) -> str:
        return text_of(self._draw)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.run.id} at {self.question.id}: {self.attempt.status}>"

    def _repr_html_(self) -> str:
        return html_of(self._draw)


class LoadedRun(RunsResult, frozen=True, kw_only=True):
    """Run of the store: its facts, its frames, and every step of its answers."""

    run: Run
    statuses: Mapping[str, int]
    """Number of attempts by status, when the run was loaded."""
    name: str = ""
    """Name in tables; if empty, the agent's text is shown."""

    @property
    def id(self) -> str:
        """Return the run's id."""
        return self.run.id

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the run's id as a tuple of one."""
        return (self.run.id,)

    @property
    def agent(self) -> str:
        """Return the agent's canonical text."""
        return self.run.agent

    def details(self) -> RunDetails:
        """Return the figures, the costs, and the process that is using the run; computed again by every call."""
        with open_selected_runs(self.ids, self.settings) as (store, [run]):
            return RunDetails(
                run=run,
                at_work=worker(store.engine, run.id),
                comparison=compare(store, [run]) if store.done(run) else None,
                ledger=ledger(store, [run]),
                reads=tuple(reads_of(store, run)),
            )

    def attempt(self, question: str, epoch: int = 0) -> AttemptTrace:
        """Return every step of one answer: searches, messages, replies, scores.

        Raises:
            UserError: the run has no such question or epoch.
        """
        attempt_trace = show_attempt(self.id, question, epoch, self.settings)
        return AttemptTrace(*(getattr(attempt_trace, name) for name in attempt_trace.__struct_fields__))

    def draw(self, console: Console, *, full: bool = False) -> None:
        """Print the run's figures; with `full`, also all that its fingerprint covers, and its ledger."""
        details = self.details()
        print_run(
            without_defaults(details.run, self.settings),
            details.at_work,
            details.comparison,
            details.ledger,
            details.reads,
            console,
            full=full,
        )


class StoredRuns(RunsResult, frozen=True, kw_only=True):
    """Runs of a store, oldest first: a sequence of :class:`LoadedRun`."""

    loaded: tuple[LoadedRun, ...]
    place: str
    """Location of the store."""
    total: int
    """Number of runs that match the words."""
    stored: int
    """Number of runs in the store."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the runs."""
        return tuple(run.id for run in self.loaded)

    def __len__(self) -> int:
        return len(self.loaded)

    def __iter__(self) -> Iterator[LoadedRun]:
        return iter(self.loaded)

    def __getitem__(self, index: int) -> LoadedRun:
        return self.loaded[index]

    def own_frames(self) -> tuple[Frame, ...]:
        """Return the frames of the runs, the list of runs first."""
        return (RUNS, *(frame for frame in OF_RUNS if frame is not RUNS))

    @property
    def left(self) -> str:
        """Return a line on the runs that are not in this list; empty if all are."""
        if not self.stored:
            return f"No runs yet in {self.place}. `ragrounds run` makes some."
        if not self.total:
            return f"None of the {self.stored:,} runs in {self.place} matches these words."
        listed = len(self)
        return f"{listed:,} of {self.total:,} runs; --limit {self.total} shows all." if listed < self.total else ""

    def overviews(self) -> list[RunOverview]:
        """Return each run with its headline figure and its cost, the latest first."""
        with open_store(self.settings) as store:
            return run_overviews(store, store.select_runs(self.ids[::-1]), kept_names(store.engine))

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
    """List the runs of the store, oldest first.

        rr.runs("pubmedqa").to_pandas()
        rr.compare(rr.runs())

    Args:
        words: words that a run must have in its id, agent, name, benchmark or model, in any case.
        limit: maximum number of runs, the newest.
        home, settings: the folder of the store, and all settings; by default the user's.

    Raises:
        UserError: the store cannot be opened.
    """
    used_settings, search_words = chosen_settings(settings, home), [word.casefold() for word in texts(words)]
    with open_store(used_settings) as store:
        names, stored = kept_names(store.engine), store.runs()
        fitting = [run for run in stored if all(word in _said(run, names) for word in search_words)]
        loaded = tuple(_loaded(store, run, used_settings, names) for run in fitting[-limit if limit else None :])
        return StoredRuns(
            settings=used_settings, loaded=loaded, place=store.location, total=len(fitting), stored=len(stored)
        )


def _said(run: Run, names: Mapping[str, str]) -> str:
    models = run.identity.get("models")
    model_names = models.values() if isinstance(models, Mapping) else ()
    return "\n".join([run.id, run.agent, names.get(run.id, ""), run.benchmark, *map(str, model_names)]).casefold()


def load(run: RunsGiven, *, home: str | Path | None = None, settings: Settings | None = None) -> LoadedRun:
    """Load a run of the store.

        rr.load("vanilla_rag[top_k=8]").to_pandas("passages")

    Args:
        run: its id, the beginning of one, an agent's text (for its newest complete run in the setting of the last
            command), or a result of one run.
        home, settings: the folder of the store, and all settings; by default the user's.

    Raises:
        UserError: no run matches, or several do that differ in questions, models or corpus.
    """
    used_settings, names = chosen_settings(settings, home), run_names(run)
    if len(names) != 1:
        raise UserError(f"{len(names):,} runs were given, and only one can be loaded: {', '.join(names) or 'none'}.")
    with open_selected_runs(names, used_settings) as (store, [stored_run]):
        return _loaded(store, stored_run, used_settings, kept_names(store.engine))


def show(
    run: RunsGiven,
    question: str,
    epoch: int = 0,
    *,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> AttemptTrace:
    """Return every step of one answer: searches, messages, replies, scores.

        rr.show("vanilla_rag[top_k=8]", "sample/c01")

    Args:
        run: as :func:`load` takes it.
        question: its id, or its end: ``12377809`` for ``pubmedqa/12377809``.
        epoch: from 0.
        home, settings: as for :func:`load`.

    Raises:
        UserError: no such run, question or epoch.
    """
    return load(run, home=home, settings=settings).attempt(question, epoch)


def _loaded(store: Store, run: Run, settings: Settings, names: Mapping[str, str]) -> LoadedRun:
    statuses = Counter(store.done(run).values())
    return LoadedRun(settings=settings, run=run, statuses=statuses, name=names.get(run.id, ""))


def show_attempt(reference: str, question: str, epoch: int = 0, settings: Settings | None = None) -> Trace:
    """Return every step of one answer: searches, messages, replies, scores.

    Raises:
        UserError: no such run, question or epoch.
    """
    return show_attempts([reference], question, epoch, settings)[0]


def show_attempts(
    references: Sequence[str], question: str, epoch: int = 0, settings: Settings | None = None
) -> list[Trace]:
    """Return every step of the answers of several runs to one question.

    Raises:
        UserError: no such run, question or epoch.
    """
    with open_selected_runs(references, settings) as (store, runs):
        return [with_replies(store, trace(store, run, question, epoch)) for run in runs]


def diff_runs(first: str, second: str, settings: Settings | None = None) -> list[RunDifference]:
    """Return the differences of two runs: agents, models, parameters, questions, and dependencies of users' systems.

    Raises:
        UserError: a run is unknown.
    """
    with open_selected_runs([first, second], settings) as (store, [first_run, second_run]):
        return run_differences(store, first_run, second_run)


def remove_run(
    reference: str, settings: Settings | None = None, message: Callable[[str], None] = lambda text: None
) -> Run:
    """Remove a run with its attempts, scores, counterfactuals and repetition; recorded calls stay.

    Raises:
        UserError: the run is unknown, an agent's text matches several runs, or another process is using the run.
    """
    with open_selected_runs([reference], settings) as (store, [run]):
        if len(fitting_runs(reference, store.runs(), kept_names(store.engine))) > 1:
            raise UserError(f"{reference!r} has several runs: give the id of the one to remove, such as {run.id}.")
        with Lease(store.engine, [run.id], message):
            for stored_run in filter(None, (*store.counterfactuals(run), store.repetition(run), run)):
                store.remove(stored_run)
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
    """Count recorded calls and texts that no run, arena or judged score refers to, and remove them with `remove`.

    The second value is the reason why the file of the store did not get smaller; empty if it did.

    Args:
        seconds: minimum age of the calls that count.
        outside: True to count calls that no run made, too: those of retrieve and build.
        remove: True to remove them, in one transaction, and to give their space back.
        settings: settings that lead to the store; by default the user's.
        progress, message: functions that get the progress, and a message if another process is waited for.

    Raises:
        UserError: another process is using a run of the store, and `remove` is set.
    """
    with open_store(settings or read_settings()) as store:
        hours, ids = seconds / 3600, [run.id for run in store.runs(counterfactuals=True)]
        if not remove:
            return garbage.collect_garbage(store.engine, FINAL, hours=hours, outside=outside, report=progress), ""
        with Lease(store.engine, ids, message):
            removed = garbage.collect_garbage(
                store.engine, FINAL, hours=hours, outside=outside, remove=True, runs=ids, report=progress
            )
        (store.home / text_index.FILE).unlink(missing_ok=True)  # it has the words of what was removed
        return removed, reclaim_space(store.engine)
