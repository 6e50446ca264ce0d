"""Consent to run code that agents' files name. Code of the user runs with a message, code of other users needs consent.

For a user's own file, one line is printed until its code has run once. Consent is needed if the agent's file or the
code belongs to another user of the machine, or is writable by everyone. Consent is given by `ragrounds trust FILE` or
the setting ``allow_code``. Code that the user names directly, without such a file, runs with a message. The digests of
code that was run or trusted are stored in the home folder. Changed code therefore needs a message, and consent, again.
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
from ragrounds.base.plugins import before_import, is_checked, warn_once
from ragrounds.base.settings import read_settings
from ragrounds.base.text import safe

_FILE_NAME = "trusted-code"
"""Name of the file in the home folder, with one digest per line."""


def announce(file: str, code: Sequence[str]) -> None:
    """Print that an agent's file names code, unless that code was run or trusted before. Register a check before its
    import.

    Args:
        file: path of the agent's file.
        code: import paths that it names.
    """
    digest, files = _digest_and_files(code)
    if digest in _trusted():
        return
    warn_once(f"{file} contains code, which is run with it: {', '.join(code)}")
    for path in code:
        before_import(path.rpartition(":")[0], file, partial(_check, file, tuple(code), digest, (Path(file), *files)))


def trust(file: str, code: Sequence[str]) -> None:
    """Consent to the current code that an agent's file names.

    Raises:
        UserError: the consent cannot be stored.
    """
    digest, _ = _digest_and_files(code)
    if digest not in _trusted():
        try:
            _remember(digest, file)
        except OSError as error:
            raise UserError(f"Cannot write {_place()}: {error.strerror}.") from error


def say_whose(name: str, target: str) -> None:
    """Report once that a system at a typed import path has code of another user. Typing the path is the consent.

    Args:
        name: the typed import path.
        target: the resolved import path.
    """
    foreign = next((reason for path in sorted(code_files(target)) if (reason := _foreign_reason(path))), "")
    if not foreign or is_checked(name.rpartition(":")[0]):
        return
    digest, _ = _digest_and_files([target])
    if digest not in _trusted():
        warn_once(f"{name} is run with your permissions, and {foreign}.")
        _note(digest, name)


def _check(file: str, code: Sequence[str], digest: str, files: Sequence[Path]) -> None:
    """Check the consent before the code is imported. Code that is not the user's own needs it."""
    if digest in _trusted():
        return
    foreign = next((reason for path in files if (reason := _foreign_reason(path))), "")
    if foreign and not read_settings().allow_code:
        raise UserError(
            f"{file} contains code, {', '.join(code)}, and {foreign}: it is not run without your consent. Read it, "
            f"then give `ragrounds trust {quote(file)}`, or set RAGROUNDS_ALLOW_CODE=true for all files."
        )
    _note(digest, file)


def _note(digest: str, file: str) -> None:
    with contextlib.suppress(OSError, UserError):  # if nothing can be written, the message is repeated next time
        _remember(digest, file)


def _foreign_reason(path: Path) -> str:
    """Return the reason why a file is not the user's own. Empty if it is, or the system does not report it."""
    try:
        status = path.stat()
    except OSError:
        return ""
    if not hasattr(os, "geteuid"):
        return ""
    if status.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user"
    return f"{path} is writable by everybody" if status.st_mode & stat.S_IWOTH else ""


def code_files(target: str) -> tuple[Path, ...]:
    """Return the file of an import path, and the files of its folder that it imports. Nothing is imported."""
    file = _module_file(target.rpartition(":")[0])
    if file is None:
        return ()
    try:
        return files_behind(file)
    except (SyntaxError, ValueError, RecursionError):  # importing raises an error with the reason
        return (file.resolve(),)


def _digest_and_files(code: Sequence[str]) -> tuple[str, tuple[Path, ...]]:
    """Return the digest of the code at import paths, and its files."""
    files = tuple(dict.fromkeys(file for path in code for file in code_files(path)))
    return text_digest(*code, *(file.read_bytes().hex() for file in files)), files


def _module_file(module: str) -> Path | None:
    """Return the file of a module, or ``None`` if it cannot be found without importing a parent package."""
    if module.endswith(".py"):
        file = Path(module).expanduser()
        return file if file.is_file() else None
    search_path: list[str] | None = [*sys.path, str(Path.cwd())]
    spec = None
    for part in module.split("."):
        spec = PathFinder.find_spec(part, search_path)
        if spec is None:
            return None
        search_path = list(spec.submodule_search_locations or [])
    path = Path(spec.origin) if spec is not None and spec.origin else None
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


def _place() -> Path:
    return read_settings().home / _FILE_NAME


def _trusted() -> set[str]:
    try:
        lines = _place().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return {line.partition(" ")[0] for line in lines}


def _remember(digest: str, file: str) -> None:
    list_path = _place()
    make_home(list_path.parent)
    with list_path.open("a", encoding="utf-8") as file_list:
        file_list.write(f"{digest} {safe(file).splitlines()[0]}\n")
