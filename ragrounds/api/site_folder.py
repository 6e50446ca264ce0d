"""A folder of files that are made together and take their places together.

New files are written into a folder inside it, and moved when all are there: until then every former file stays as it
was. The last to be moved is the way in (``index.html``), so that each of its links leads to a file at every moment.

The file ``.ragrounds-site.json`` names the files that are ours: only these are replaced or removed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from ragrounds.api.workspace import make_folder
from ragrounds.errors import UserError

MARK = ".ragrounds-site.json"
_STAGE = ".ragrounds-new"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
_HOSTING = frozenset({"CNAME", "README.md", "LICENSE"})
"""Files, beside hidden ones, that may lie in a folder that is to become a site."""


class SiteFolder:
    """The files of a site while they are made; by :func:`site_folder`."""

    def __init__(self, folder: Path, former: frozenset[str], force: bool) -> None:
        self._folder, self._former, self._force = folder, former, force
        self.files: dict[str, int] = {}
        """The files that the site will have, by name, with their bytes."""

    @contextmanager
    def file(self, name: str) -> Iterator[IO[bytes]]:
        """A new file, to be written whole.

        Raises:
            UserError: somebody else's file has this name; it cannot be written.
        """
        there = self._folder / _checked_name(name)
        if there.is_dir() and not there.is_symlink():
            raise UserError(f"{there} is a folder, and a page is to have this name; remove it, or name another folder.")
        if name not in self._former and os.path.lexists(there) and not self._force:
            raise UserError(f"{there} is not of `ragrounds publish`. Give --force to write over it, or another folder.")
        with _written(there), (self._folder / _STAGE / name).open("wb") as file:
            yield file
            self.files[name] = file.tell()

    def commit(self, last: Sequence[str]) -> None:
        """Move the files to their places, those of `last` after all others, and remove what the site has no more."""
        with _written(self._folder):
            # Before the first is moved: whoever comes after a writer that was killed knows whose they are.
            self._mark(self._former | self.files.keys())
            for name in sorted(self.files, key=lambda name: name in last):
                (self._folder / _STAGE / name).replace(self._folder / name)
            for name in self._former - self.files.keys():
                (self._folder / name).unlink(missing_ok=True)
            self._mark(self.files.keys())

    def _mark(self, names: Collection[str]) -> None:
        beside = self._folder / _STAGE / MARK
        beside.write_bytes(msgspec.json.encode({"made_by": "ragrounds publish", "files": sorted(names)}))
        beside.replace(self._folder / MARK)


@contextmanager
def site_folder(folder: Path, last: Sequence[str], *, force: bool = False) -> Iterator[SiteFolder]:
    """The files of a folder, replaced together at the end of the block; where it ends by an error, none is.

    Args:
        folder: made where there is none.
        last: the files that are moved after all others.
        force: write among files of others.

    Raises:
        UserError: it holds files that nobody made here; somebody is writing it; it cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; name a folder.")
    new, former = not folder.exists(), _former(folder, force)
    make_folder(folder)
    with _written(folder):
        held = os.open(folder, os.O_RDONLY)
    try:
        with _written(folder):
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"Another `ragrounds publish` is writing {folder}; wait until it is done.") from None
            shutil.rmtree(folder / _STAGE, ignore_errors=True)  # of a writer that was killed
            (folder / _STAGE).mkdir()
        try:
            site = SiteFolder(folder, former, force)
            yield site
            site.commit(last)
        finally:
            shutil.rmtree(folder / _STAGE, ignore_errors=True)
            with suppress(OSError):
                if new:
                    folder.rmdir()  # only where nothing was written into it
    finally:
        os.close(held)


def _former(folder: Path, force: bool) -> frozenset[str]:
    """The files that an earlier call made.

    Raises:
        UserError: the folder holds files of somebody else alone, or the list of ours cannot be read.
    """
    path = folder / MARK
    if path.exists():
        try:
            held = msgspec.json.decode(path.read_bytes(), type=dict[str, str | list[str]])
        except (OSError, msgspec.MsgspecError) as error:
            raise UserError(f"Cannot read {path}: {error}. Name a new folder.") from error
        return frozenset(map(_checked_name, held.get("files", ())))
    there = folder.iterdir() if folder.exists() and not force else ()
    if names := sorted(one.name for one in there if not one.name.startswith(".") and one.name not in _HOSTING):
        more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
        raise UserError(
            f"{folder} holds files that `ragrounds publish` did not make ({', '.join(names[:3])}{more}). Name an empty "
            "folder, or a new one; --force publishes among them."
        )
    return frozenset()


def _checked_name(name: str) -> str:
    """A name that stays inside the folder.

    Raises:
        UserError: it is none.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} is no name of a page: expected letters, digits, dots and dashes.")
    return name


@contextmanager
def _written(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error
