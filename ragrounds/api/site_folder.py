"""A folder of files that are made together and take their places together.

New files are written into a folder inside it, and moved when all are there: until then every former file stays as it
was. The last to be moved is the way in (``index.html``), so that each of its links leads to a file at every moment. A
list of what is to be moved is written before, so that the next writer finishes what a killed one has begun.

The file ``.ragrounds-site.json`` says which files are ours, with their hashes: only these are replaced or removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from ragrounds.api.workspace import make_folder
from ragrounds.errors import UserError

MARK = ".ragrounds-site.json"
_STAGE = ".ragrounds-new"
_COMMIT = "commit.json"
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


class _Commit(Struct, frozen=True, kw_only=True):
    """What is left to do when all files are written."""

    files: dict[str, SiteFile]
    move: tuple[str, ...]
    drop: tuple[str, ...]


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
        moved = [name for name in self.files if (self._stage / name).exists()]
        ordered = [*(name for name in moved if name not in last), *(name for name in last if name in moved)]
        drop = tuple(name for name in self._former if name not in self.files)
        plan = _Commit(files=self.files, move=tuple(ordered), drop=drop)
        with _written(self._folder):
            _write(self._stage / _COMMIT, msgspec.json.encode(plan))
            _carry_out(self._folder, plan)


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
            _finish(folder)
            former = _former(folder, force)
            site = SiteFolder(folder, former, force)
            yield site
            site.commit(last)
        finally:
            if not (folder / _STAGE / _COMMIT).exists():
                shutil.rmtree(folder / _STAGE, ignore_errors=True)
                with suppress(OSError):
                    if new:
                        folder.rmdir()  # only where nothing was written into it


def _refuse_foreign(folder: Path, force: bool) -> None:
    """Refuse a folder with files of somebody else, before anything is written into it."""
    if force or not folder.exists() or (folder / MARK).exists() or (folder / _STAGE / _COMMIT).exists():
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


def _finish(folder: Path) -> None:
    """Finish what a killed writer had begun to move; else remove what it left."""
    stage = folder / _STAGE
    plan = stage / _COMMIT
    if plan.exists():
        with suppress(msgspec.MsgspecError), _written(folder):
            _carry_out(folder, msgspec.json.decode(plan.read_bytes(), type=_Commit))
    for left in stage.iterdir():
        if left.name != _LOCK:
            left.unlink()


def _carry_out(folder: Path, plan: _Commit) -> None:
    """Move and remove files, and say which are ours. Each step can be done twice, so that Ctrl-C does not end it in the
    middle."""
    stage = folder / _STAGE
    for name in (*plan.move, *plan.drop):
        _checked_name(name)
    steps: list[Callable[[], None]] = [lambda name=name: _move(stage / name, folder / name) for name in plan.move]  # type: ignore[misc]
    steps += [lambda name=name: (folder / name).unlink(missing_ok=True) for name in plan.drop]  # type: ignore[misc]
    mark = msgspec.json.format(msgspec.json.encode(_Mark(files=plan.files)), indent=1)
    steps += [
        lambda: _write(stage / MARK, mark),
        lambda: _move(stage / MARK, folder / MARK),
        lambda: (stage / _COMMIT).unlink(missing_ok=True),
    ]
    stopped: KeyboardInterrupt | None = None
    for step in steps:
        try:
            step()
        except KeyboardInterrupt as error:
            stopped = error
            step()
    if stopped is not None:
        raise stopped


def _move(source: Path, target: Path) -> None:
    if source.exists():
        source.replace(target)


def _write(path: Path, data: bytes) -> None:
    """Write a small file whole."""
    beside = path.with_name(f"{path.name}.part")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


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
