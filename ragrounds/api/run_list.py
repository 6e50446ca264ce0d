"""Runs in a list: chosen by words, sorted by a column, each with its headline figure and its cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from ragrounds.api.frames import RUNS, Frame
from ragrounds.api.results import RunsResult
from ragrounds.api.workspace import chosen_settings, one_of, open_store
from ragrounds.evals.compare.overview import RunOverview, run_overviews
from ragrounds.evals.store.run_names import kept_names
from ragrounds.records import Run
from ragrounds.settings import Settings
from ragrounds.ui.run_tables import runs_table
from ragrounds.ui.tables import print_table

_FIGURES: Mapping[str, Callable[[RunOverview], float | None]] = {
    "age": lambda one: one.run.created,
    "score": lambda one: one.score,
    "paid": lambda one: one.cost_paid,
    "uncached": lambda one: one.cost_uncached,
    "failed": lambda one: one.failed,
    "done": lambda one: one.made,
    "time": lambda one: one.seconds,
}
"""Column → its figure; ``None``: not known."""
_WORDS: Mapping[str, Callable[[RunOverview], str]] = {
    "agent": lambda one: one.name or one.run.agent,
    "benchmark": lambda one: one.run.benchmark,
    "model": lambda one: ", ".join(one.models),
}


class RunList(RunsResult, frozen=True, kw_only=True):
    """Runs of a store in a list; its frames are those of these runs."""

    runs: tuple[RunOverview, ...]
    total: int
    """Runs that the words fit."""
    stored: int
    """Runs of the store."""
    place: str
    """Where the store is."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the runs in the list, in its order."""
        return tuple(one.run.id for one in self.runs)

    def own_frames(self) -> tuple[Frame, ...]:
        """The frames of the runs, the one with a row a run first."""
        return (RUNS, *(frame for frame in super().own_frames() if frame is not RUNS))

    @property
    def left(self) -> str:
        """What is not in the list, in a line; empty: everything is."""
        if not self.stored:
            return f"No runs yet in {self.place}. `ragrounds run` makes some."
        if not self.total:
            return f"None of the {self.stored:,} runs in {self.place} has these words."
        shown = len(self.runs)
        return f"{shown:,} of {self.total:,} runs; --limit {self.total} shows all." if shown < self.total else ""

    def draw(self, console: Console) -> None:
        """Print a line for each run."""
        _draw(self.runs, console)


def list_runs(
    words: str | Iterable[str] = (),
    *,
    sort: str = "age",
    reverse: bool = False,
    limit: int | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> RunList:
    """The runs of the store in a list, the latest first.

        rr.list_runs("pubmedqa", sort="score")

    Args:
        words: runs that have all of these in id, agent, name, benchmark or model, whatever their case.
        sort: age, score, paid, uncached, failed, done, time, agent, benchmark or model. Figures go from the highest
            down; what is not known stands last.
        reverse: sort the other way round.
        limit: runs at most.
        home, settings: the folder of the store, and all settings; ``None``: the user's.

    Raises:
        UserError: an unknown column, or the store cannot be opened.
    """
    one_of("--sort", sort, (*_FIGURES, *_WORDS))
    wanted = [word.casefold() for word in ([words] if isinstance(words, str) else words)]
    chosen = chosen_settings(settings, home)
    with open_store(chosen) as store:
        names = kept_names(store.engine)
        stored = store.runs()
        runs = [run for run in reversed(stored) if all(word in _text(run, names) for word in wanted)]
        total = len(runs)
        if sort == "age" and not reverse:
            runs = runs[:limit]
        found = _sorted(run_overviews(store, runs, names), sort, reverse)[:limit]
        return RunList(settings=chosen, runs=tuple(found), total=total, stored=len(stored), place=store.place)


def drawn_runs(ids: Sequence[str], settings: Settings, console: Console) -> None:
    """Print a line for each of these runs, in their order."""
    with open_store(settings) as store:
        _draw(run_overviews(store, store.named(ids), kept_names(store.engine)), console)


def _sorted(found: Sequence[RunOverview], sort: str, reverse: bool) -> list[RunOverview]:
    """Words from A on, figures from the highest down; what is not known stands last."""
    if sort in _WORDS:
        return sorted(found, key=_WORDS[sort], reverse=reverse)
    figures = [(value, one) for one in found if (value := _FIGURES[sort](one)) is not None]
    known = [one for _, one in sorted(figures, key=lambda each: each[0], reverse=not reverse)]
    return [*known, *(one for one in found if _FIGURES[sort](one) is None)]


def _draw(runs: Sequence[RunOverview], console: Console) -> None:
    print_table(runs_table(runs, time.time()), console)


def _text(run: Run, names: Mapping[str, str]) -> str:
    models = run.identity.get("models")
    asked = models.values() if isinstance(models, Mapping) else ()
    return "\n".join([run.id, run.agent, names.get(run.id, ""), run.benchmark, *map(str, asked)]).casefold()
