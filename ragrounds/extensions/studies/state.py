"""State of a study between calls: the runs that its cells show, and the figures of cells without a run.

Each study has one JSON file under the home folder. A cell is found by its settings (:attr:`StudyCell.key`): a cell
whose settings have changed is to do again. A retrieval's figure is valid for the index, code and queries that it
came from (`identity`) only.
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
    """Stored state of one cell."""

    runs: tuple[str, ...] = ()
    scorer: str = ""
    """Scorer name of a judge's verdicts."""
    figure: CellFigure | None = None
    """Figure of a cell without a run: a search, a correlation, a rating."""
    identity: str = ""
    """Digest of everything that `figure` depends on; empty if the figure is computed again from recorded calls."""


class StudyState(Struct, kw_only=True):
    """Stored state of all cells of a study."""

    format: int = FORMAT
    name: str
    file: str = ""
    """Path of the study's file; empty if it is shipped."""
    given: dict[str, str | int | dict[str, str]] = field(default_factory=dict)
    """Overrides for all cells in the last call: a model, a server, a limit."""
    cells: dict[str, KeptCell] = field(default_factory=dict)
    """Stored cells by their keys."""
    updated: float = 0.0


def state_file(home: Path, name: str, file: str = "") -> Path:
    """Return the path of a study's state.

    The file has the study's name. If another existing study of that name uses that file, a digest of the study's path
    is added to the name.

    Args:
        home: the home folder.
        name: the study's name.
        file: path of the study's file; empty if it is shipped.
    """
    path = home / "studies" / f"{name}.json"
    if path.is_file() and (other := _read(path).file) != file and (not other or Path(other).is_file()):
        return path.with_stem(f"{name}-{hashlib.sha256(file.encode()).hexdigest()[:8]}")
    return path


def read_state(home: Path, name: str, file: str | None = None) -> StudyState:
    """Read the state of a study; empty if it was never carried out.

    Args:
        home: the home folder.
        name: the study's name.
        file: path of the study's file; empty if it is shipped. ``None``: the study of that name, wherever its file is.

    Raises:
        UserError: the state has another format.
    """
    path = home / "studies" / f"{name}.json" if file is None else state_file(home, name, file)
    if not path.is_file():
        return StudyState(name=name, file=file or "")
    state = _read(path)
    state.file = state.file if file is None else file
    return state


def _read(path: Path) -> StudyState:
    try:
        state = msgspec.json.decode(path.read_bytes(), type=StudyState)
    except (msgspec.DecodeError, OSError) as error:
        raise UserError(
            f"Cannot read {path}: {error}. Remove it: runs are kept elsewhere, and are found again without a call."
        ) from error
    if state.format != FORMAT:
        raise UserError(f"{path} was written by another version of ragrounds (format {state.format}); remove it.")
    return state


def write_state(home: Path, state: StudyState) -> None:
    """Write the state of a study by replacing its file as a whole.

    Raises:
        UserError: the file cannot be written.
    """
    state.updated = time.time()
    path = state_file(home, state.name, state.file)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written to another file and renamed, so that the state is never half-written.
        temporary = path.with_suffix(f".{os.getpid()}.part")
        temporary.write_bytes(msgspec.json.encode(state))
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from error


def kept_studies(home: Path) -> Iterator[StudyState]:
    """Yield the state of every study that was carried out here, by name."""
    for path in sorted((home / "studies").glob("*.json")):
        yield _read(path)
