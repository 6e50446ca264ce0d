"""Common parts of the API's functions: the user's store and models, and files that are written atomically."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Protocol

from ragrounds.base.contracts import Model
from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.base.settings import Settings, read_settings
from ragrounds.evals.judges.rescoring import refresh_scores
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.models.traffic import forget_idle
from ragrounds.recorder.reads import leave_out
from ragrounds.ui.text import safe

Progress = Callable[[str, int], None]
"""Function that gets the current step, and how many are done."""


def unheard(task: str, done: int) -> None:
    """Ignore the progress."""


def open_store(settings: Settings | None = None, say: Callable[[str], None] | None = None) -> Store:
    """Open the store that the settings name, by default the user's: PostgreSQL, or a SQLite file in the home folder.

    `say` gets a message if the store does not answer and is waited for, and on the run that is used if a name fits
    several; by default it is printed on standard error. Files of the store are never recorded as dependencies of a
    system.
    """
    settings = settings or read_settings()
    leave_out(str(settings.home))
    return Store(settings.home, settings.store, timeout=settings.store_timeout, say=say or _say)


def _say(text: str) -> None:
    print(safe(text, 2000), file=sys.stderr, flush=True)  # noqa: T201


class HasRuns(Protocol):
    """Object that names stored runs: a result, a loaded run."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the runs."""


RunsGiven = str | Run | HasRuns | Iterable[str | Run | HasRuns]
"""Reference to runs: an id, the beginning of one, an agent's text, a result or a loaded run; or several of these."""


def run_names(runs: RunsGiven) -> list[str]:
    """Return references to runs as texts.

    Raises:
        UserError: a reference has another type.
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
    return [name for reference in runs for name in run_names(reference)]


def texts(values: str | Iterable[str]) -> tuple[str, ...]:
    """Return one text or several as a tuple."""
    return (values,) if isinstance(values, str) else tuple(values)


def chosen_settings(settings: Settings | None = None, home: str | Path | None = None) -> Settings:
    """Return these settings, or else the user's; with `home` as their folder.

    Raises:
        UserError: `settings` are no :class:`Settings`.
    """
    used_settings = read_settings() if settings is None else settings
    if not isinstance(used_settings, Settings):
        raise UserError(f"settings {settings!r} are not rr.Settings. Give a folder as home={str(settings)!r}.")
    return used_settings if home is None else used_settings.model_copy(update={"home": Path(home).expanduser()})


@contextmanager
def open_selected_runs(
    references: RunsGiven,
    settings: Settings | None = None,
    *,
    newest: bool = False,
    suits: Callable[[Store, Run], bool] | None = None,
) -> Iterator[tuple[Store, list[Run]]]:
    """Open the user's store, and yield it with the referenced runs, in their order.

    With `newest`, a name that fits several runs means the newest, complete or not; with `suits`, only runs that suit
    count, if any does. Scores by an older version of a scorer are computed again, if that asks no model.

    Raises:
        UserError: a name fits no run or several.
    """
    names = run_names(references)
    with open_store(settings) as store:
        runs = store.select_runs(names, newest=newest, suits=suits)
        for run in runs:
            refresh_scores(store, run)
        yield store, runs


@asynccontextmanager
async def closing(models: Sequence[Model], journal: StoreJournal) -> AsyncIterator[None]:
    """Close the models and the journal when the block ends, even after an error."""
    try:
        yield
    finally:
        for model in models:
            await model.close()
        journal.close()
        forget_idle()


@contextmanager
def replaced(path: Path, force: bool) -> Iterator[IO[bytes]]:
    """Open a file that takes its name once everything is written.

    Raises:
        UserError: the path exists and `force` is not set, or the folder cannot be written.
    """
    with replaced_file(path, force) as beside, beside.open("wb") as file:
        yield file


@contextmanager
def replaced_file(path: Path, force: bool) -> Iterator[Path]:
    """Yield the path of an empty file next to `path`, with the same ending.

    It replaces `path` at the end, or is removed after an error.

    Raises:
        UserError: the path exists and `force` is not set, or the folder cannot be written.
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
        # A temporary file can be read only by its owner; a result has the permissions of the user's umask.
        mask = os.umask(0)
        os.umask(mask)
        beside.chmod(0o666 & ~mask)
        beside.replace(path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        beside.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Create a folder and its parents.

    Raises:
        UserError: it cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot make the folder {path}: {error.strerror}.") from error
