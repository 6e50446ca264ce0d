"""The files of a whole index: their sizes are written down when it is built, and looked at when it is opened.

A file that a full disk, a copy or a person cut short would otherwise give wrong results without a word: a search that
finds nothing. Only sizes are compared: a look at each file, and no reading. An index whose build died before they were
written down is opened as it is.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ragrounds.errors import UserError
from ragrounds.text import safe
from ragrounds.tools.collection import write_whole

_NOTE = "files.json"
_PASSING = ("building.lock", "engine.json", _NOTE, "counting.json")
"""Files that say how a build goes, or are read whole in any case."""
_PASSING_FOLDERS = ("run-*", "part-*", "chroma")
"""What only a build needs, and a store that changes its files by itself."""


class EngineFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``files.json`` holds, beside ``engine.json``."""

    sizes: dict[str, int]
    """Path inside the folder → bytes."""
    given: bool = False
    """They were made of files of others, and cannot be built again without them."""


def note_files(folder: Path, *, given: bool = False) -> None:
    """Write down the sizes of all files of an index that has just become whole.

    Raises:
        OSError: it cannot be written.
    """
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in _files(folder)}
    write_whole(folder / _NOTE, msgspec.json.format(msgspec.json.encode(EngineFiles(sizes, given)), indent=2))


def damage(folder: Path) -> str | None:
    """What is wrong with an index that has its ``engine.json``, in a few words; ``None``: nothing that can be seen.

    Raises:
        OSError: the system refuses a look at it, which says nothing of what is there.
    """
    try:
        msgspec.json.decode((folder / "engine.json").read_bytes(), type=dict[str, object])
    except (FileNotFoundError, IsADirectoryError, msgspec.MsgspecError):
        return "engine.json cannot be read"
    try:
        noted = _noted(folder)
    except (IsADirectoryError, msgspec.MsgspecError):
        return f"{_NOTE} cannot be read"
    for name, size in noted.sizes.items() if noted is not None else ():
        try:
            found = (folder / name).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return f"{name} is missing"
        if found != size:
            return f"{name} has {found:,} bytes, expected {size:,}"
    return None


def was_given(folder: Path) -> bool:
    """Whether an index was made of files of others."""
    try:
        noted = _noted(folder)
    except (OSError, msgspec.MsgspecError):
        return False
    return noted is not None and noted.given


def clear_damaged(folder: Path, *, resumes: bool) -> None:
    """Remove a damaged index, so that it is built again.

    Args:
        folder: where it is; the caller holds it.
        resumes: Its build goes on after what the files hold: those that are not longer than they were stay.

    Raises:
        OSError: something cannot be removed.
    """
    try:
        noted = _noted(folder)
    except (OSError, msgspec.MsgspecError):
        noted = None
    sizes = noted.sizes if noted is not None else {}
    # Removed, not written over: a process that has them open goes on with what it has.
    for path in list(_files(folder)):
        held = path.stat().st_size
        if not resumes or held > sizes.get(str(path.relative_to(folder)), held):
            path.unlink()
    for name in (_NOTE, "engine.json"):
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def unreadable(folder: Path, problem: Exception, wrong: str = "") -> UserError:
    """What to say of an index that cannot be opened, nor built again by itself; `wrong` as :func:`damage` says it."""
    why = f"is damaged ({safe(wrong)}) and cannot be removed" if wrong else "cannot be read"
    said = (isinstance(problem, OSError) and problem.strerror) or str(problem)
    return UserError(
        f"The index in {str(folder)!r} {why}: {safe(said)}. Remove it with `rm -r {shlex.quote(str(folder))}`, and "
        "give the same command again: it is built anew."
    )


def forget_files(folder: Path) -> None:
    """Remove the sizes of an earlier build.

    Raises:
        OSError: they cannot be removed.
    """
    (folder / _NOTE).unlink(missing_ok=True)


def _noted(folder: Path) -> EngineFiles | None:
    path = folder / _NOTE
    return msgspec.json.decode(path.read_bytes(), type=EngineFiles) if path.exists() else None


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        within = path.relative_to(folder)
        passing = len(within.parts) == 1 and (within.name in _PASSING or within.suffix == ".part")
        building = len(within.parts) > 1 and any(Path(within.parts[0]).match(one) for one in _PASSING_FOLDERS)
        if path.is_file() and not passing and not building:
            yield path
