"""What every function of the API stands on: the user's store and models, and files that are written whole."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Literal, Protocol

from ragrounds.base.contracts import Model
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Run
from ragrounds.base.settings import Settings, read_settings
from ragrounds.evals.judges.rescoring import refresh_scores
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.models.prices import Price, read_prices
from ragrounds.models.traffic import forget_idle
from ragrounds.recorder.reads import leave_out
from ragrounds.ui.text import safe

JournalMode = Literal["reuse", "replay", "fresh"]
"""What is done with recorded calls: answered from, demanded (a miss is an error, nothing is sent), or made anew."""
Progress = Callable[[str, int], None]
"""Is told what is being done, and how many are done."""


def unheard(what: str, done: int) -> None:
    """A progress that nobody hears."""


def one_of(name: str, text: str, known: Sequence[str]) -> str:
    """`text`, where it is among `known`.

    Raises:
        UserError: it is not; names the nearest and all that are known.
    """
    if text not in known:
        raise UserError(f"{name} {text!r} is unknown.{nearest(text, known)} Known: {', '.join(known)}.")
    return text


def user_settings() -> Settings:
    """The user's settings: the environment over the settings file."""
    return read_settings()


def open_store(settings: Settings, say: Callable[[str], None] | None = None) -> Store:
    """The store that the settings name: PostgreSQL, or a SQLite file in the home folder. `say` gets a line where it
    does not answer any more and is waited for, and which of several runs a name was taken for; by default standard
    error does. Nothing that is read there is ever a system's."""
    leave_out(str(settings.home))
    return Store(settings.home, settings.store, timeout=settings.store_timeout, say=say or _say)


def _say(text: str) -> None:
    print(safe(text, 2000), file=sys.stderr, flush=True)  # noqa: T201


class HasRuns(Protocol):
    """What names stored runs: a result, a loaded run."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the runs."""


RunsGiven = str | Run | HasRuns | Iterable[str | Run | HasRuns]
"""How runs are named: an id, the beginning of one, an agent's text, a result or a loaded run; or several of these."""


def run_names(runs: RunsGiven) -> list[str]:
    """The runs that are meant, as texts.

    Raises:
        UserError: something else was given.
    """
    if isinstance(runs, str):
        return [runs]
    if isinstance(runs, Run):
        return [runs.id]
    ids = getattr(runs, "ids", None)
    if isinstance(ids, tuple):
        return list(ids)
    if not isinstance(runs, Iterable):
        raise UserError(
            f"{runs!r} is not a run: expected an id, the beginning of one, an agent's text, a result or a loaded "
            "run, or several of these."
        )
    return [name for one in runs for name in run_names(one)]


def texts(given: str | Iterable[str]) -> tuple[str, ...]:
    """One text or several, as several."""
    return (given,) if isinstance(given, str) else tuple(given)


def chosen_settings(settings: Settings | None = None, home: str | Path | None = None) -> Settings:
    """These settings, or else the user's; with `home` in place of their folder.

    Raises:
        UserError: `settings` are none.
    """
    chosen = user_settings() if settings is None else settings
    if not isinstance(chosen, Settings):
        raise UserError(f"settings {settings!r} are not rr.Settings. Give a folder as home={str(settings)!r}.")
    return chosen if home is None else chosen.model_copy(update={"home": Path(home).expanduser()})


@contextmanager
def opened_runs(
    references: RunsGiven,
    settings: Settings | None = None,
    *,
    newest: bool = False,
    suits: Callable[[Store, Run], bool] | None = None,
) -> Iterator[tuple[Store, list[Run]]]:
    """The user's store while the block lasts, and the runs that are named, in their order; `newest`: of several that a
    name fits the newest, complete or not; `suits`: those of these that suit, where any does.

    Scores that another version of a scorer made are made again, where that asks no model.

    Raises:
        UserError: a name that no run or several runs answer to.
    """
    names = run_names(references)
    with open_store(settings or user_settings()) as store:
        found = store.named(names, newest=newest, suits=suits)
        for run in found:
            refresh_scores(store, run)
        yield store, found


def user_prices(settings: Settings) -> Mapping[str, Price]:
    """The prices that the user set in ``prices.toml`` of the home folder."""
    return read_prices(settings.home / "prices.toml")


@asynccontextmanager
async def closing(models: Sequence[Model], journal: StoreJournal) -> AsyncIterator[None]:
    """Close the models, each once, and the journal when the block ends, however it ends."""
    try:
        yield
    finally:
        closed: set[int] = set()
        for model in models:
            if id(model) not in closed:
                closed.add(id(model))
                await model.close()
        journal.close()
        forget_idle()


@contextmanager
def replaced(path: Path, force: bool) -> Iterator[IO[bytes]]:
    """A file that takes its name once everything is written.

    Raises:
        UserError: something is there and `force` is not set, or the folder cannot be written.
    """
    with made_beside(path, force) as beside, beside.open("wb") as file:
        yield file


@contextmanager
def made_beside(path: Path, force: bool) -> Iterator[Path]:
    """The path of an empty file beside `path`, with the same ending; it becomes `path` at the end, or goes away.

    Raises:
        UserError: something is there and `force` is not set, or the folder cannot be written.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder; give a file.")
    if path.exists() and not force:
        raise UserError(f"{path} already exists. Give --force to overwrite it, or another name.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from error
    beside = Path(name)
    try:
        yield beside
        # A temporary file is for its owner alone; a result is for whom the user's umask says.
        mask = os.umask(0)
        os.umask(mask)
        beside.chmod(0o666 & ~mask)
        beside.replace(path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        beside.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it.

    Raises:
        UserError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot make the folder {path}: {error.strerror}.") from error
