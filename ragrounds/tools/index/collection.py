"""A collection: the passages of one corpus, stored and versioned, with the search engines built over them.

``home/indexes/NAME/VERSION/`` is one version of an index that was built by name (``ragrounds index build NAME``): the
one that was built last is searched under the name alone. The passages of a source that is searched without naming it
(``sample``, ``beir:PATH``) are in ``home/indexes/NAME@VERSION/``. Each folder holds

* ``passages.bin`` — the records one after another, MessagePack ``[id, document, title, text]``;
* ``offsets.u64`` — where each record ends, native 64-bit;
* ``ids.u64`` / ``ids.u32`` — sorted hashes of the passages' ids with their positions, for look-up by id;
* ``documents.u64`` / ``documents.u32`` — the same of the documents' ids;
* ``manifest.json`` once they are whole, and one folder for each engine.

Passages are appended while a collection is built, and memory-mapped afterwards.

The corpus version is a hash of the stored passages in order: the same passages have the same version wherever they
were read from, and another chunker gives another version."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import BinaryIO, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.base.records import Passage

G = TypeVar("G", bound=np.generic)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, str, str, str]).decode

START = b"\0" * 16
"""Value of the hash chain before the first passage."""


def id_hash(identity: str) -> int:
    """Return the 64-bit hash of an id.

    Among 54 million ids the chance of any collision is 8e-5. A look-up compares the id too.
    """
    return int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=8).digest(), "little")


class PassageWriter:
    """Writer that appends passages to a folder, from a position known to be good."""

    def __init__(self, folder: Path, *, count: int = 0, size: int = 0, chain: bytes = START) -> None:
        self.count = count
        self.size = size
        self.chain = chain
        self._records = open_at(folder / "passages.bin", size)
        self._offsets = open_at(folder / "offsets.u64", count * 8)

    def add(self, passage: Passage) -> None:
        """Append a passage, its end and its part of the content hash. They are on the disk after :meth:`flush`."""
        record = _encode((passage.id, passage.document, passage.title, passage.text))
        self._records.write(record)
        self.size += len(record)
        self._offsets.write(self.size.to_bytes(8, "little"))
        self.count += 1
        # One link of the content hash: it depends on every record so far and their order, and a resumed build takes it
        # up from its 16 bytes.
        self.chain = hashlib.blake2b(record, digest_size=16, key=self.chain).digest()

    def flush(self) -> None:
        """Write everything added so far to the disk."""
        for file in (self._records, self._offsets):
            sync(file)

    def close(self) -> None:
        """Close the files. Unflushed passages may be lost."""
        self._records.close()
        self._offsets.close()


def sync(file: BinaryIO) -> None:
    """Flush a file to the disk itself, not only to the system."""
    file.flush()
    os.fsync(file.fileno())


def open_at(path: Path, size: int) -> BinaryIO:
    """Open a file to append after its first `size` bytes. The rest is cut off."""
    path.touch()
    file = path.open("r+b")
    file.truncate(size)  # the rest of an interrupted build after the last good position is written again
    file.seek(size)
    return file


class PassageStore:
    """Passages of a finished collection, for reading. Safe for many threads at once."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.count = count
        ends, path = folder / "offsets.u64", folder / "passages.bin"
        if missing := [file.name for file in (ends, path) if not file.is_file()]:
            raise UserError(
                f"The passages in {str(folder)!r} are not whole: {missing[0]} is missing. {_rebuild_hint(folder)}"
            )
        stored, odd = divmod(ends.stat().st_size, 8)
        self._ends: npt.NDArray[np.uint64] = np.zeros(0, np.uint64) if odd else map_array(ends, np.uint64)
        size = int(self._ends[-1]) if len(self._ends) else 0
        if stored != count or odd or path.stat().st_size != size:
            raise UserError(
                f"The passages in {str(folder)!r} are not whole: expected {count} passages and {size} bytes, "
                f"found {stored} and {path.stat().st_size}. {_rebuild_hint(folder)}"
            )
        self._records: mmap.mmap | bytes = b""
        if size:
            with path.open("rb") as file:
                self._records = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return self.count

    def raw(self, position: int) -> tuple[str, str, str, str]:
        """Return the id, document id, title and text of the passage at a position (from 0)."""
        return _decode(self.record(position))

    def record(self, position: int) -> bytes:
        """Return the passage at a position as it is stored."""
        start = int(self._ends[position - 1]) if position else 0
        return self._records[start : int(self._ends[position])]

    def passage(self, position: int, corpus: str) -> Passage:
        """Return the passage at a position, unranked."""
        identity, document, title, text = self.raw(position)
        return Passage(id=identity, document=document, title=title, text=text, corpus=corpus)

    def iterate(self) -> Iterator[tuple[str, str, str, str]]:
        """Iterate over all passages, in order."""
        return map(self.raw, range(self.count))

    def find(self, identity: str) -> int | None:
        """Return the position of a passage id; ``None`` if no passage has it."""
        return next(
            (position for position in self._positions_of_hash("ids", identity) if self.raw(position)[0] == identity),
            None,
        )

    def of_document(self, identity: str) -> list[int]:
        """Return the positions of a document's passages, in order; empty if the document does not exist."""
        return [
            position for position in self._positions_of_hash("documents", identity) if self.raw(position)[1] == identity
        ]

    def _positions_of_hash(self, kind: str, identity: str) -> list[int]:
        """Return the positions whose hash is that of an id."""
        hashes = map_array(self.folder / f"{kind}.u64", np.uint64)
        target = np.uint64(id_hash(identity))
        first, last = (int(np.searchsorted(hashes, target, side=side)) for side in ("left", "right"))
        return sorted(map_array(self.folder / f"{kind}.u32", np.uint32)[first:last].tolist())


def map_array(path: Path, kind: type[G]) -> npt.NDArray[G]:
    """Map a raw array file into memory for reading. An empty file gives an empty array."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=kind)
    return np.asarray(np.memmap(path, dtype=kind, mode="r"))  # a plain view: slicing a memmap object takes 5 µs


FORMAT = 3
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Description of a complete collection, ``manifest.json``."""

    format: int = FORMAT
    name: str
    version: str
    """Twelve hexadecimal digits of the content hash."""
    passages: int
    documents: int
    chunker: str
    source: str
    skipped: int = 0
    """Number of lines of the source that could not be read and were skipped at the user's wish."""
    size: int = 0
    """Bytes of the passages."""
    built: float = 0.0
    """Seconds since the epoch."""
    code: str = ""
    """Digest of the code that read and cut the documents."""
    stamp: str = ""
    """Digest of the source's files with their sizes and times.

    A source with the same stamp gives the same collection. It is empty if a file was changed so shortly before that a
    further change could go unnoticed.
    """


class Collection:
    """A complete collection, open for reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        self.corpus = f"{self.manifest.name}@{self.manifest.version}"  # as passages and runs carry them
        self.store = PassageStore(folder, self.manifest.passages)

    def earlier(self) -> list[Collection]:
        """Return the other versions of the same index, newest first. Vectors made for their passages can be reused."""
        if self.folder.parent.parent.name != "indexes":
            return []
        with suppress(UserError):  # a damaged version cannot be reused
            return [Collection(folder) for folder in reversed(versions(self.folder.parent)) if folder != self.folder]
        return []

    def passages(self, hits: Sequence[tuple[int, float]], retriever: str) -> list[Passage]:
        """Return the passages of hits, given as positions and scores, best first. Ranks count from 1."""
        passages = []
        for rank, (position, score) in enumerate(hits, 1):
            identity, document, title, text = self.store.raw(position)
            passages.append(
                Passage(
                    id=identity, document=document, title=title, text=text, corpus=self.corpus, score=score, rank=rank,
                    retriever=retriever,
                )
            )  # fmt: skip
        return passages

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document, in its own order; empty if the document does not exist."""
        return [self.store.passage(position, self.corpus) for position in self.store.of_document(id)]


def indexes(home: Path) -> Path:
    """Return the folder of all collections."""
    return home / "indexes"


def folder_of(name: str, home: Path) -> Path:
    """Return the folder of a collection that the user names.

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
    """Return the names of all collections, complete or not, in alphabetical order."""
    root = indexes(home)
    if not root.is_dir():
        return []
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def collection_sizes(home: Path) -> dict[str, int]:
    """Return the number of passages of every complete collection, by ``NAME@VERSION`` as passages and runs carry it."""
    sizes: dict[str, int] = {}
    for name in collection_names(home):
        with suppress(UserError):
            for manifest in map(read_manifest, versions(indexes(home) / name)):
                sizes[f"{manifest.name}@{manifest.version}"] = manifest.passages
    return sizes


def open_named(name: str, home: Path) -> Collection:
    """Open the collection of that name: the version that was built last, or the named one with ``NAME@VERSION``.

    Raises:
        UserError: the collection does not exist, its building was interrupted, or it is damaged.
    """
    folder = find_named(name, home)
    if not (complete := versions(folder)):
        raise UserError(
            f"The index {name!r} is half-built: its building was interrupted. Give the same `ragrounds index "
            f"build {quote(name)} …` again to resume, or `ragrounds index rm {quote(name)}`."
        )
    return Collection(complete[-1])


def find_named(name: str, home: Path) -> Path:
    """Return the folder of an index, or with ``NAME@VERSION`` the folder of a version.

    Raises:
        UserError: the index or version does not exist. The message names the nearest.
    """
    stem, separator, version = name.rpartition("@")
    names = collection_names(home)
    if separator and stem in names:
        known_versions = sorted(path.parent.name for path in (indexes(home) / stem).glob("[!.]*/manifest.json"))
        if version not in known_versions:
            raise UserError(
                f"The index {stem!r} has no version {version!r}.{nearest(version, known_versions)} "
                f"It has {', '.join(known_versions) or 'none'}: `ragrounds index show {quote(stem)}`."
            )
        return indexes(home) / stem / version
    if name not in names:
        raise unknown("index", name, [*names, "sample"], "ragrounds index ls")
    return indexes(home) / name


def versions(root: Path) -> list[Path]:
    """Return the folders of an index's complete versions, the one that was built last at the end.

    The folder itself may be the only one.

    Raises:
        UserError: a manifest cannot be read.
    """
    if (root / "manifest.json").is_file():
        return [root]
    complete = (path.parent for path in root.glob("[!.]*/manifest.json"))
    return sorted(complete, key=lambda folder: read_manifest(folder).built)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a complete collection.

    Raises:
        UserError: it cannot be read, or was written by another version of this package.
    """
    path = folder / "manifest.json"
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise UserError(f"Cannot read {str(path)!r}: {problem}. {_rebuild_hint(folder)}") from None
    if manifest.format != FORMAT:
        raise UserError(f"{str(folder)!r} has the format {manifest.format}, expected {FORMAT}. {_rebuild_hint(folder)}")
    return manifest


def _rebuild_hint(folder: Path) -> str:
    """Return advice for a collection that cannot be read."""
    version = folder.parent.parent.name == "indexes"
    name = f"{folder.parent.name}@{folder.name}" if version else folder.name
    return f"Remove it with `ragrounds index rm {quote(name)}` and build it again."


def collection_damage(root: Path) -> str:
    """Return why an index cannot be read, and what helps.

    The text is empty if it can be read, or if nothing is complete yet. Only the lengths of the passages are compared.
    """
    try:
        for folder in versions(root)[-1:]:
            PassageStore(folder, read_manifest(folder).passages)
    except OSError as problem:
        return f"Cannot read {str(problem.filename)!r}: {problem.strerror}. {_rebuild_hint(root)}"
    except UserError as problem:
        return str(problem)
    return ""


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file so that it is either there in full or not there at all."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        file.write(content)
        sync(file)
    # The name appears only when the content is on the disk, so that an interrupted write leaves no half file.
    os.replace(temporary, path)  # noqa: PTH105 - Path.replace does the same; this names the guarantee
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder's renames to the disk, if the file system lets folders be flushed."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
