"""The files of a whole index: ``engine.json``, which is written last, says their sizes, and they are looked at when it
is opened.

A file that a full disk, a copy or a person cut short would otherwise give wrong results without a word: a search that
finds nothing. Only sizes are compared: a look at each file, and no reading.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ragrounds.base.errors import UserError
from ragrounds.base.text import safe
from ragrounds.tools.index.collection import write_whole

MANIFEST = "engine.json"
_PASSING = ("building.lock", MANIFEST, "counting.json")
"""Files that say how a build goes, or are read whole in any case."""
_PASSING_FOLDERS = ("run-*", "part-*")
"""What only a build needs."""


class IndexManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a whole index says of itself: ``engine.json``, which a build writes last."""

    format: int
    index: str
    """What the index depends on beside the corpus."""
    version: str
    """Version of the corpus it was built over."""
    passages: int
    files: dict[str, int] = {}
    """Path inside the folder → bytes."""
    given: bool = False
    """Its files were made of files of others, and cannot be built again without them."""


class _Files(msgspec.Struct, frozen=True):
    """What of any index' manifest is read to look at its files."""

    files: dict[str, int]
    given: bool


def write_manifest(folder: Path, manifest: IndexManifest) -> None:
    """Say of an index that it is whole, with the sizes of all its files.

    Raises:
        OSError: it cannot be written.
    """
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in _files(folder)}
    whole = msgspec.structs.replace(manifest, files=sizes)
    write_whole(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(whole), indent=2))


def damage(folder: Path) -> str | None:
    """What is wrong with an index that has its ``engine.json``, in a few words; ``None``: nothing that can be seen.

    Raises:
        OSError: the system refuses a look at it, which says nothing of what is there.
    """
    noted = _noted(folder)
    if noted is None:
        return f"{MANIFEST} cannot be read"
    for name, size in noted.files.items():
        try:
            found = (folder / name).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return f"{name} is missing"
        if found != size:
            return f"{name} has {found:,} bytes, expected {size:,}"
    return None


def was_given(folder: Path) -> bool:
    """Whether an index was made of files of others."""
    noted = _noted(folder)
    return noted is not None and noted.given


def clear_damaged(folder: Path, *, resumes: bool) -> None:
    """Remove a damaged index, so that it is built again.

    Args:
        folder: where it is; the caller holds it.
        resumes: Its build goes on after what the files hold: those that are not longer than they were stay.

    Raises:
        OSError: something cannot be removed.
    """
    noted = _noted(folder)
    sizes = noted.files if noted is not None else {}
    # Removed, not written over: a process that has them open goes on with what it has.
    for path in list(_files(folder)):
        held = path.stat().st_size
        if not resumes or held > sizes.get(str(path.relative_to(folder)), held):
            path.unlink()
    path = folder / MANIFEST
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


def _noted(folder: Path) -> _Files | None:
    """What an index says of its files; ``None``: nothing that can be read."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=_Files)
    except (FileNotFoundError, IsADirectoryError, msgspec.MsgspecError, RecursionError):
        return None


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        within = path.relative_to(folder)
        passing = len(within.parts) == 1 and (within.name in _PASSING or within.suffix == ".part")
        building = len(within.parts) > 1 and any(Path(within.parts[0]).match(one) for one in _PASSING_FOLDERS)
        if path.is_file() and not passing and not building:
            yield path
