"""A folder of files that are made together and take their places together.

New files are written into a folder inside it, and moved when all are there: until then every former file stays as it
was. The last to be moved is the way in (``index.html``), so that each of its links leads to a file at every moment.
Where a writer was killed while it moved them, the next one makes all of them again.

The file ``.ragrounds-site.json`` says which files are ours, with their hashes: only these are replaced or removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from ragrounds.api.workspace import make_folder
from ragrounds.errors import UserError

MARK = ".ragrounds-site.json"
_STAGE = ".ragrounds-new"
_LOCK = "lock"
_FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
_HOSTING = frozenset({"CNAME", "README.md", "LICENSE"})
"""Files, beside hidden ones, that may lie in a folder that is to become a site."""


class SiteFile(Struct, frozen=True):
    """A file of a site."""

    sha256: str
    bytes: int
    key: str = ""
    """Of what it was made of: a file of the same key need not be made again. Empty: it always is."""


class _Mark(Struct, frozen=True, kw_only=True):
    made_by: str = "ragrounds publish"
    format: int = _FORMAT
    files: dict[str, SiteFile]
    whole: bool = True
    """False while files are moved: these are ours, whatever is in them."""


class SiteFolder:
    """The files of a site while they are made; by :func:`site_folder`."""

    def __init__(self, folder: Path, former: dict[str, SiteFile], force: bool) -> None:
        self._folder, self._former, self._force = folder, former, force
        self._stage = folder / _STAGE
        self.files: dict[str, SiteFile] = {}
        """The files that the site will have, by name."""

    @contextmanager
    def file(self, name: str, key: str = "") -> Iterator[IO[bytes]]:
        """A new file, to be written whole.

        Raises:
            UserError: somebody else's file has this name; it cannot be written.
        """
        _checked_name(name)
        there = self._folder / name
        if there.is_dir() and not there.is_symlink():
            raise UserError(f"{there} is a folder, and a page is to have this name; remove it, or name another folder.")
        if name not in self._former and os.path.lexists(there) and not self._force:
            raise UserError(f"{there} is not of `ragrounds publish`. Give --force to write over it, or another folder.")
        with _written(there), (self._stage / name).open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            self.files[name] = SiteFile(digest, file.tell(), key)

    def keep(self, name: str, key: str) -> bool:
        """Whether the file of this name that is there was made of the same: then the site has it again."""
        known = self._former.get(name)
        if not key or known is None or known.key != key or _hash(self._folder / name) != known.sha256:
            return False
        self.files[name] = known
        return True

    def commit(self, last: Sequence[str]) -> None:
        """Move the files to their places, those of `last` after all others, and remove what the site has no more."""
        made = [name for name in self.files if (self._stage / name).exists()]
        with _written(self._folder):
            # Before the first file is moved, so that a writer that comes after a killed one knows whose they are.
            _write_mark(self._folder, _Mark(files=self._former | self.files, whole=False))
            for name in sorted(made, key=lambda name: name in last):
                (self._stage / name).replace(self._folder / name)
            for name in self._former.keys() - self.files.keys():
                (self._folder / name).unlink(missing_ok=True)
            _write_mark(self._folder, _Mark(files=self.files))


@contextmanager
def site_folder(folder: Path, last: Sequence[str], *, force: bool = False) -> Iterator[SiteFolder]:
    """The files of a folder, replaced together at the end of the block; where it ends by an error, none is.

    Args:
        folder: made where there is none.
        last: the files that are moved after all others.
        force: write among files of others, and over those that were changed.

    Raises:
        UserError: it holds files that nobody made here, or that were changed since; somebody is writing it; it cannot
            be written.
    """
    new = not folder.exists()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; name a folder.")
    _refuse_foreign(folder, force)
    make_folder(folder)
    with _locked(folder):
        try:
            for left in (folder / _STAGE).iterdir():  # of a writer that was killed
                if left.name != _LOCK:
                    left.unlink()
            former = _former(folder, force)
            site = SiteFolder(folder, former, force)
            yield site
            site.commit(last)
        finally:
            shutil.rmtree(folder / _STAGE, ignore_errors=True)
            with suppress(OSError):
                if new:
                    folder.rmdir()  # only where nothing was written into it


def _refuse_foreign(folder: Path, force: bool) -> None:
    """Refuse a folder with files of somebody else, before anything is written into it."""
    if force or not folder.exists() or (folder / MARK).exists():
        return
    names = sorted(one.name for one in folder.iterdir() if not one.name.startswith(".") and one.name not in _HOSTING)
    if names:
        more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
        raise UserError(
            f"{folder} holds files that `ragrounds publish` did not make ({', '.join(names[:3])}{more}). Name an empty "
            "folder, or a new one; --force publishes among them."
        )


def _former(folder: Path, force: bool) -> dict[str, SiteFile]:
    """The files that an earlier call made.

    Raises:
        UserError: one was changed since, or the list of them cannot be read.
    """
    path = folder / MARK
    if not path.exists():
        return {}
    try:
        mark = msgspec.json.decode(path.read_bytes(), type=_Mark)
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(f"Cannot read {path}: {error}. Name a new folder.") from error
    if mark.format != _FORMAT:
        raise UserError(
            f"{path} was written by another version of ragrounds (format {mark.format}); name a new folder."
        )
    for name in mark.files:
        _checked_name(name)
    if not mark.whole:
        return dict.fromkeys(mark.files, SiteFile("", 0))
    changed = [name for name, made in mark.files.items() if _hash(folder / name) not in ("", made.sha256)]
    if changed and not force:
        raise UserError(
            f"{folder / changed[0]} was changed after `ragrounds publish` made it. Give --force to write over it, or "
            "name another folder."
        )
    return mark.files


def _checked_name(name: str) -> str:
    """A name that stays inside the folder.

    Raises:
        UserError: it is none.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} is no name of a page: expected letters, digits, dots and dashes.")
    return name


def _write_mark(folder: Path, mark: _Mark) -> None:
    beside = folder / _STAGE / MARK
    with beside.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(mark), indent=1))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(folder / MARK)


def _hash(path: Path) -> str:
    """The SHA-256 of a file; empty: there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder while the block lasts.

    Raises:
        UserError: another process holds it, or it cannot be written.
    """
    stage = folder / _STAGE
    with _written(folder):
        stage.mkdir(exist_ok=True)
        lock = (stage / _LOCK).open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.fstat(lock.fileno()).st_nlink > 0  # else its holder has just removed it
        except OSError:
            held = False
        if not held:
            raise UserError(f"Another `ragrounds publish` is writing {folder}; wait until it is done.")
        yield


@contextmanager
def _written(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error


def total_bytes(files: Collection[SiteFile]) -> int:
    """How large these files are together."""
    return sum(one.bytes for one in files)
