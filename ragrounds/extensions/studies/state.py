"""What is kept of a study between calls: which runs its cells show, and the figures of those that are no runs.

One JSON file a study under the home folder. A cell is found by its settings (:attr:`StudyCell.key`): one whose settings
changed in the study's file is to do again. A retrieval's figure holds for the index, the code and the queries that it
came from (`identity`), and for nothing else.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct, field

from ragrounds.base.errors import UserError
from ragrounds.extensions.studies.figures import CellFigure

FORMAT = 2


class KeptCell(Struct, kw_only=True):
    """What is kept of one cell."""

    runs: tuple[str, ...] = ()
    scorer: str = ""
    """The scorer that a judge's verdicts stand under."""
    figure: CellFigure | None = None
    """Of a cell that is no run's: a search, a correlation, a rating."""
    identity: str = ""
    """What `figure` holds for; empty: it is made anew from what was recorded."""


class StudyState(Struct, kw_only=True):
    """All cells of a study that something is known of."""

    format: int = FORMAT
    name: str
    file: str = ""
    """Where the study was read; empty: it is shipped."""
    given: dict[str, str | int | dict[str, str]] = field(default_factory=dict)
    """What the last call said of all cells: a model, a server, a limit."""
    cells: dict[str, KeptCell] = field(default_factory=dict)
    """By the key of the cell."""
    updated: float = 0.0


def state_file(home: Path, name: str, file: str = "") -> Path:
    """Where a study's state is kept: under its name; where another study of that name, which is still there, has that
    place, under its name and its file's digest.

    Args:
        home: the home folder.
        name: the study's.
        file: where it was read; empty: it is shipped.
    """
    path = home / "studies" / f"{name}.json"
    if path.is_file() and (other := _read(path).file) != file and (not other or Path(other).is_file()):
        return path.with_stem(f"{name}-{hashlib.sha256(file.encode()).hexdigest()[:8]}")
    return path


def read_state(home: Path, name: str, file: str | None = None) -> StudyState:
    """What is known of a study; nothing where it was never carried out.

    Args:
        home: the home folder.
        name: the study's.
        file: where it is read; empty: it is shipped. ``None``: the one of that name, wherever its file is.

    Raises:
        UserError: the file is not of that form.
    """
    path = home / "studies" / f"{name}.json" if file is None else state_file(home, name, file)
    if not path.is_file():
        return StudyState(name=name, file=file or "")
    made = _read(path)
    made.file = made.file if file is None else file
    return made


def _read(path: Path) -> StudyState:
    try:
        made = msgspec.json.decode(path.read_bytes(), type=StudyState)
    except (msgspec.DecodeError, OSError) as error:
        raise UserError(
            f"Cannot read {path}: {error}. Remove it: runs are kept elsewhere, and are found again without a call."
        ) from error
    if made.format != FORMAT:
        raise UserError(f"{path} was written by another version of ragrounds (format {made.format}); remove it.")
    return made


def write_state(home: Path, state: StudyState) -> None:
    """Keep what is known of a study: the file is replaced whole.

    Raises:
        UserError: it cannot be written.
    """
    state.updated = time.time()
    path = state_file(home, state.name, state.file)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}.part")
        beside.write_bytes(msgspec.json.encode(state))
        beside.replace(path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from error


def kept_studies(home: Path) -> Iterator[StudyState]:
    """The studies that were carried out here, by name."""
    for path in sorted((home / "studies").glob("*.json")):
        yield _read(path)
