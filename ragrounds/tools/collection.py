"""A collection: the passages of one corpus, stored and versioned, with the search engines built over them.

``home/indexes/NAME/`` holds

* ``passages.bin`` — the records one after another, MessagePack ``[id, document, title, text]``;
* ``offsets.u64`` — where each record ends, native 64-bit;
* ``ids.u64`` / ``ids.u32`` — sorted hashes of the passages' ids with their positions, for look-up by id;
* ``documents.u64`` / ``documents.u32`` — the same of the documents' ids;
* ``manifest.json`` once they are whole, and one folder for each engine.

Passages are appended while a collection is built, and memory-mapped afterwards. A collection is named by the user
(``ragrounds index build NAME``), or, for a source that is searched without naming it (``sample``, ``beir:PATH``), after
the source and its version.

The corpus version is a hash of the stored passages in order: the same passages have the same version wherever they
were read from, and another chunker gives another version."""

from __future__ import annotations

import hashlib
import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.errors import UserError, unknown
from ragrounds.records import Passage

G = TypeVar("G", bound=np.generic)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, str, str, str]).decode

START = b"\0" * 16
"""The chain's value before the first passage."""


def id_hash(identity: str) -> int:
    """64-bit hash of an id. Among 54 million ids the chance of any collision is 8e-5; a look-up compares the id."""
    return int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=8).digest(), "little")


class PassageWriter:
    """Appends passages to a folder, from a position known to be good."""

    def __init__(self, folder: Path, *, count: int = 0, size: int = 0, chain: bytes = START) -> None:
        self.count = count
        self.size = size
        self.chain = chain
        self._records = _open_at(folder / "passages.bin", size)
        self._offsets = _open_at(folder / "offsets.u64", count * 8)

    def add(self, passage: Passage) -> None:
        """Append a passage, its end and its part of the content hash; on the disk after :meth:`flush`."""
        record = _encode((passage.id, passage.document, passage.title, passage.text))
        self._records.write(record)
        self.size += len(record)
        self._offsets.write(self.size.to_bytes(8, "little"))
        self.count += 1
        # One link of the content hash: it depends on every record so far and their order, and a resumed build takes it
        # up from its 16 bytes.
        self.chain = hashlib.blake2b(record, digest_size=16, key=self.chain).digest()

    def flush(self) -> None:
        """Everything added so far is on the disk when this returns."""
        for file in (self._records, self._offsets):
            sync(file)

    def close(self) -> None:
        """Close the files; what was not flushed may be lost."""
        self._records.close()
        self._offsets.close()


def sync(file: BinaryIO) -> None:
    """Flush a file to the disk itself, not only to the system."""
    import os

    file.flush()
    os.fsync(file.fileno())


def _open_at(path: Path, size: int) -> BinaryIO:
    path.touch()
    file = path.open("r+b")
    file.truncate(size)  # what an interrupted build left after the last good position is written again
    file.seek(size)
    return file


class PassageStore:
    """Reads the passages of a finished collection. Safe for many threads at once."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.count = count
        self._ends: npt.NDArray[np.uint64] = map_array(folder / "offsets.u64", np.uint64)
        size = int(self._ends[-1]) if count else 0
        path = folder / "passages.bin"
        if len(self._ends) != count or path.stat().st_size != size:
            raise UserError(
                f"The passages in {str(folder)!r} are not whole: expected {count} passages and {size} bytes, "
                f"found {len(self._ends)} and {path.stat().st_size}. Remove the index and build it again."
            )
        self._records: mmap.mmap | bytes = b""
        if size:
            with path.open("rb") as file:
                self._records = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return self.count

    def raw(self, position: int) -> tuple[str, str, str, str]:
        """Id, document id, title and text of the passage at a position (from 0)."""
        start = int(self._ends[position - 1]) if position else 0
        return _decode(self._records[start : int(self._ends[position])])

    def passage(self, position: int, corpus: str) -> Passage:
        """The passage at a position, unranked."""
        identity, document, title, text = self.raw(position)
        return Passage(id=identity, document=document, title=title, text=text, corpus=corpus)

    def each(self, start: int = 0) -> Iterator[tuple[str, str, str, str]]:
        """Every passage from a position on, in order."""
        for position in range(start, self.count):
            yield self.raw(position)

    def find(self, identity: str) -> int | None:
        """The position of a passage id; ``None``: there is no such passage."""
        return next((place for place in self._at("ids", identity) if self.raw(place)[0] == identity), None)

    def of_document(self, identity: str) -> list[int]:
        """Positions of a document's passages, in order; empty: there is no such document."""
        return [place for place in self._at("documents", identity) if self.raw(place)[1] == identity]

    def _at(self, kind: str, identity: str) -> list[int]:
        """Positions whose hash is that of an id."""
        hashes = map_array(self.folder / f"{kind}.u64", np.uint64)
        wanted = np.uint64(id_hash(identity))
        first, last = (int(np.searchsorted(hashes, wanted, side=side)) for side in ("left", "right"))
        return sorted(map_array(self.folder / f"{kind}.u32", np.uint32)[first:last].tolist())


def map_array(path: Path, kind: type[G]) -> npt.NDArray[G]:
    """A raw array file, memory-mapped for reading; an empty file is an empty array."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=kind)
    return np.asarray(np.memmap(path, dtype=kind, mode="r"))  # a plain view: slicing a memmap object takes 5 µs


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
    code: str = ""
    """Digest of the code that read and cut the documents; empty: not known, before version 0.2.0."""


class Collection:
    """A whole collection, open for reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        self.corpus = f"{self.manifest.name}@{self.manifest.version}"  # as passages and runs carry them
        self.store = PassageStore(folder, self.manifest.passages)

    def document(self, id: str) -> list[Passage]:
        """The passages of a document, in its own order; empty where there is no such document."""
        return [self.store.passage(position, self.corpus) for position in self.store.of_document(id)]


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


def collection_names(home: Path) -> list[str]:
    """Names of all collections, whole or not, in alphabetical order."""
    root = indexes(home)
    if not root.is_dir():
        return []
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def collection_sizes(home: Path) -> dict[str, int]:
    """``NAME@VERSION``, as passages and runs carry it → passages, of every whole collection."""
    manifests = [read_manifest(folder) for name in collection_names(home) if is_current(folder := indexes(home) / name)]
    return {f"{manifest.name}@{manifest.version}": manifest.passages for manifest in manifests}


def open_named(name: str, home: Path) -> Collection:
    """Open the collection of that name.

    Raises:
        UserError: there is none, or its building was interrupted.
    """
    if name not in collection_names(home):
        raise unknown("index", name, [*collection_names(home), "sample"], "ragrounds index ls")
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
            f"build {folder.name} …` again to resume, or `ragrounds index rm {folder.name}`."
        )
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (msgspec.MsgspecError, RecursionError) as problem:
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

    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as file:
        file.write(content)
        sync(file)
    os.replace(beside, path)  # noqa: PTH105 - Path.replace does the same; this names the guarantee
