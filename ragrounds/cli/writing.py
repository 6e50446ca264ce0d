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
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file.")
    if path.exists() and not force:
        raise UserError(f"{path} is there already. Give --force to write over it, or another name.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from error
    finally:
        Path(name).unlink(missing_ok=True)
