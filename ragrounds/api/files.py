"""Files that commands write: whole or not at all, and never over what is there without a word."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ragrounds.errors import UserError


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
        raise UserError(f"{path} is a folder; name a file.")
    if path.exists() and not force:
        raise UserError(f"{path} is there already. Give --force to write over it, or another name.")
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
