"""Code that agents' files name: said when such a file is opened, and not run unasked where it is somebody else's.

A file of one's own is run, and the line says so until it was run once. Where the agent's file or the code belongs to
another user of the machine, or can be written by every one of them, a yes is needed: `ragrounds trust FILE`, or
the setting ``allow_code``; code that the user names without such a file is run then, with a line. What was run or
trusted is known by the digest of the code, under the home folder, so that code that changes is said, and asked for,
anew.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Sequence
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from shlex import quote

from ragrounds.base.digests import files_behind, text_digest
from ragrounds.base.errors import UserError
from ragrounds.base.files import make_home
from ragrounds.base.plugins import before_import, is_checked, say_once
from ragrounds.base.settings import read_settings
from ragrounds.base.text import safe

_LIST = "trusted-code"
"""The file under the home folder: a digest a line."""


def announce(file: str, code: Sequence[str]) -> None:
    """Say that an agent's file names code, unless that very code was run or trusted before; and have it checked before
    it is imported.

    Args:
        file: of the agent.
        code: the import paths that it names.
    """
    digest, files = _behind(code)
    if digest in _trusted():
        return
    say_once(f"{file} contains code, which is run with it: {', '.join(code)}")
    for path in code:
        before_import(path.rpartition(":")[0], file, partial(_check, file, tuple(code), digest, (Path(file), *files)))


def trust(file: str, code: Sequence[str]) -> None:
    """Say yes to the code that an agent's file names, as it is now.

    Raises:
        UserError: that cannot be written down.
    """
    digest, _ = _behind(code)
    if digest not in _trusted():
        try:
            _remember(digest, file)
        except OSError as error:
            raise UserError(f"Cannot write {_place()}: {error.strerror}.") from error


def say_whose(name: str, target: str) -> None:
    """Say once of a system that the user named by its place where its code is not the user's own: naming it is the yes.

    Args:
        name: of the place.
        target: where it leads.
    """
    foreign = next((reason for path in sorted(code_files(target)) if (reason := _foreign(path))), "")
    if not foreign or is_checked(name.rpartition(":")[0]):
        return
    digest, _ = _behind([target])
    if digest not in _trusted():
        say_once(f"{name} is run with your permissions, and {foreign}.")
        _note(digest, name)


def _check(file: str, code: Sequence[str], digest: str, files: Sequence[Path]) -> None:
    """Called before the code is imported: a yes is needed for what is not the user's own."""
    if digest in _trusted():
        return
    foreign = next((reason for path in files if (reason := _foreign(path))), "")
    if foreign and not read_settings().allow_code:
        raise UserError(
            f"{file} contains code, {', '.join(code)}, and {foreign}: it is not run without your consent. Read it, "
            f"then give `ragrounds trust {quote(file)}`, or set RAGROUNDS_ALLOW_CODE=true for all files."
        )
    _note(digest, file)


def _note(digest: str, file: str) -> None:
    with contextlib.suppress(OSError, UserError):  # where nothing can be written, it is said again the next time
        _remember(digest, file)


def _foreign(path: Path) -> str:
    """Why a file is not the user's own; empty: it is, or its system does not say."""
    try:
        found = path.stat()
    except OSError:
        return ""
    if not hasattr(os, "geteuid"):
        return ""
    if found.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user"
    return f"{path} is writable by everybody" if found.st_mode & stat.S_IWOTH else ""


def code_files(target: str) -> tuple[Path, ...]:
    """The file of a place, and those beside it that it imports. Nothing is imported for it."""
    file = _file_of(target.rpartition(":")[0])
    if file is None:
        return ()
    try:
        return files_behind(file)
    except (SyntaxError, ValueError, RecursionError):  # importing says what is wrong
        return (file.resolve(),)


def _behind(code: Sequence[str]) -> tuple[str, tuple[Path, ...]]:
    """The digest of the code that import paths name, and its files."""
    files = tuple(dict.fromkeys(file for path in code for file in code_files(path)))
    return text_digest(*code, *(file.read_bytes().hex() for file in files)), files


def _file_of(place: str) -> Path | None:
    """The file of a module; ``None``: there is none that can be found without importing what stands above it."""
    if place.endswith(".py"):
        file = Path(place).expanduser()
        return file if file.is_file() else None
    where: list[str] | None = [*sys.path, str(Path.cwd())]
    found = None
    for part in place.split("."):
        found = PathFinder.find_spec(part, where)
        if found is None:
            return None
        where = list(found.submodule_search_locations or [])
    path = Path(found.origin) if found is not None and found.origin else None
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


def _place() -> Path:
    return read_settings().home / _LIST


def _trusted() -> set[str]:
    try:
        lines = _place().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return {line.partition(" ")[0] for line in lines}


def _remember(digest: str, file: str) -> None:
    place = _place()
    make_home(place.parent)
    with place.open("a", encoding="utf-8") as listed:
        listed.write(f"{digest} {safe(file).splitlines()[0]}\n")
