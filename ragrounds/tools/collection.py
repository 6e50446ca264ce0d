"""A collection: the passages of one corpus, stored and versioned, with the search engines built over them.

``home/indexes/NAME/`` holds the passages (:mod:`ragrounds.tools.storing`), ``manifest.json`` once they are whole, and
one folder for each engine. A collection is named by the user (``ragrounds index build NAME``), or, for a source that is
searched without naming it (``sample``, ``beir:PATH``), after the source and its version.

The corpus version is a hash of the stored passages in order: the same passages have the same version wherever they
were read from, and another chunker gives another version.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ragrounds.errors import UserError, unknown
from ragrounds.records import Passage
from ragrounds.tools.storing import PassageStore

FORMAT = 2
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a whole collection says of itself."""

    format: int = FORMAT
    name: str
    version: str
    """Twelve hexadecimal digits of the content hash."""
    passages: int
    documents: int
    chunker: str
    source: str
    skipped: int = 0
    """Lines of the source that could not be read and were passed over at the user's wish."""
    size: int = 0
    """Bytes of the passages."""
    built: float = 0.0
    """Seconds since the epoch."""


class Collection:
    """A whole collection, open for reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        self.store = PassageStore(folder, self.manifest.passages)

    def document(self, id: str) -> list[Passage]:
        """The passages of a document, in its own order; empty where there is no such document."""
        return [self.store.passage(position, self.corpus) for position in self.store.of_document(id)]

    @property
    def corpus(self) -> str:
        """Name and version, as passages and runs carry them."""
        return f"{self.manifest.name}@{self.manifest.version}"


def indexes(home: Path) -> Path:
    """The folder of all collections."""
    return home / "indexes"


def folder_of(name: str, home: Path) -> Path:
    """The folder of a collection that the user names.

    Raises:
        UserError: the text cannot be a name. Names become folders, so nothing but letters, digits and ``._-`` is taken.
    """
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r} cannot name an index: expected letters, digits, '.', '_' and '-', beginning with a letter "
            "or a digit."
        )
    return indexes(home) / name


def names(home: Path) -> list[str]:
    """Names of all collections, whole or not, in alphabetical order."""
    root = indexes(home)
    if not root.is_dir():
        return []
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def named(name: str, home: Path) -> Collection:
    """Open the collection of that name.

    Raises:
        UserError: there is none, or its building was interrupted.
    """
    if name not in names(home):
        raise unknown("index", name, [*names(home), "sample"], "ragrounds index ls")
    return Collection(indexes(home) / name)


def read_manifest(folder: Path) -> Manifest:
    """Read what a collection says of itself.

    Raises:
        UserError: it is half-built, or was written by another version of this package.
    """
    path = folder / "manifest.json"
    if not path.is_file():
        raise UserError(
            f"The index {folder.name!r} is half-built: its building was interrupted. Give the same `ragrounds index "
            f"build {folder.name} …` again to go on, or `ragrounds index rm {folder.name}`."
        )
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except msgspec.MsgspecError as problem:
        raise UserError(f"Cannot read {str(path)!r}: {problem}. Remove the index and build it again.") from None
    if manifest.format != FORMAT:
        raise UserError(f"The index {folder.name!r} has format {manifest.format}, expected {FORMAT}: build it again.")
    return manifest


def is_current(folder: Path) -> bool:
    """Whether a folder holds a whole collection of this version of the package."""
    try:
        read_manifest(folder)
    except UserError:
        return False
    return True


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file so that it is either there in full or not there at all."""
    import os

    from ragrounds.tools.storing import sync

    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as file:
        file.write(content)
        sync(file)
    os.replace(beside, path)  # noqa: PTH105 - Path.replace does the same; this names the guarantee
