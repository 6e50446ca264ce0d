"""The files of a complete index.

``engine.json``, which is written last, holds their sizes, and they are compared when the index is opened.

A file that a full disk, a copy or a person cut short would otherwise give wrong results without a message: a search
that finds nothing. Only sizes are compared, so that no file is read.
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
_EXCLUDED = ("building.lock", MANIFEST, "counting.json")
"""Files of the build's state, or that are read whole in any case."""
_EXCLUDED_FOLDERS = ("run-*", "part-*")
"""Patterns of folders that only a build needs."""


class IndexManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Description of a complete index: ``engine.json``, which a build writes last."""

    format: int
    index: str
    """Settings that the index depends on, besides the corpus."""
    version: str
    """Version of the corpus it was built over."""
    passages: int
    files: dict[str, int] = {}
    """Size in bytes by path inside the folder."""
    given: bool = False
    """True if the files were made from a user's files, and cannot be built again without them."""


class _RecordedFiles(msgspec.Struct, frozen=True):
    """The part of any index's manifest that is needed to compare its files."""

    files: dict[str, int]
    given: bool


def write_manifest(folder: Path, manifest: IndexManifest) -> None:
    """Write an index's manifest with the sizes of all its files, which marks the index as complete.

    Raises:
        OSError: the manifest cannot be written.
    """
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in _index_files(folder)}
    complete = msgspec.structs.replace(manifest, files=sizes)
    write_whole(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(complete), indent=2))


def damage(folder: Path) -> str | None:
    """Return the damage of an index that has its ``engine.json``, in a few words; ``None`` if none is visible.

    Raises:
        OSError: the system refuses access, which does not show whether the index is damaged.
    """
    recorded = _read_sizes(folder)
    if recorded is None:
        return f"{MANIFEST} cannot be read"
    for name, size in recorded.files.items():
        try:
            actual_size = (folder / name).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return f"{name} is missing"
        if actual_size != size:
            return f"{name} has {actual_size:,} bytes, expected {size:,}"
    return None


def was_given(folder: Path) -> bool:
    """Return True if an index was made from a user's files."""
    recorded = _read_sizes(folder)
    return recorded is not None and recorded.given


def clear_damaged(folder: Path, *, resumes: bool) -> None:
    """Remove a damaged index, so that it is built again.

    Args:
        folder: folder of the index; the caller has locked it.
        resumes: True if its build continues after the files' contents. Files that are not longer than recorded stay.

    Raises:
        OSError: something cannot be removed.
    """
    recorded = _read_sizes(folder)
    sizes = recorded.files if recorded is not None else {}
    # Removed, not overwritten: a process that has the files open continues with its own view of them.
    for path in list(_index_files(folder)):
        actual_size = path.stat().st_size
        if not resumes or actual_size > sizes.get(str(path.relative_to(folder)), actual_size):
            path.unlink()
    path = folder / MANIFEST
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def unreadable(folder: Path, problem: Exception, wrong: str = "") -> UserError:
    """Return the error for an index that cannot be opened, nor built again by itself.

    `wrong` is the text of :func:`damage`.
    """
    flaw = f"is damaged ({safe(wrong)}) and cannot be removed" if wrong else "cannot be read"
    message = (isinstance(problem, OSError) and problem.strerror) or str(problem)
    return UserError(
        f"The index in {str(folder)!r} {flaw}: {safe(message)}. Remove it with `rm -r {shlex.quote(str(folder))}`, and "
        "give the same command again: it is built anew."
    )


def _read_sizes(folder: Path) -> _RecordedFiles | None:
    """Return the file sizes in an index's manifest; ``None`` if it cannot be read."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=_RecordedFiles)
    except (FileNotFoundError, IsADirectoryError, msgspec.MsgspecError, RecursionError):
        return None


def _index_files(folder: Path) -> Iterator[Path]:
    """Yield the files of an index, without those of a build."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        excluded = len(relative.parts) == 1 and (relative.name in _EXCLUDED or relative.suffix == ".part")
        building = len(relative.parts) > 1 and any(
            Path(relative.parts[0]).match(pattern) for pattern in _EXCLUDED_FOLDERS
        )
        if path.is_file() and not excluded and not building:
            yield path
