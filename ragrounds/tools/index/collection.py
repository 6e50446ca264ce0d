"""A collection: the passages of one corpus, stored and versioned, with the search engines built over them.

``home/indexes/NAME/VERSION/`` is one version of an index that was built by name (``ragrounds index build NAME``): the
one that was built last is searched under the name alone. What was stored of a source that is searched without naming it
(``sample``, ``beir:PATH``) is ``home/indexes/NAME@VERSION/``. Each folder holds

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
        self._records = open_at(folder / "passages.bin", size)
        self._offsets = open_at(folder / "offsets.u64", count * 8)

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
    file.flush()
    os.fsync(file.fileno())


def open_at(path: Path, size: int) -> BinaryIO:
    """Open a file to append after its first `size` bytes; what follows them is cut off."""
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
        ends, path = folder / "offsets.u64", folder / "passages.bin"
        if missing := [one.name for one in (ends, path) if not one.is_file()]:
            raise UserError(f"The passages in {str(folder)!r} are not whole: {missing[0]} is missing. {_anew(folder)}")
        held, odd = divmod(ends.stat().st_size, 8)
        self._ends: npt.NDArray[np.uint64] = np.zeros(0, np.uint64) if odd else map_array(ends, np.uint64)
        size = int(self._ends[-1]) if len(self._ends) else 0
        if held != count or odd or path.stat().st_size != size:
            raise UserError(
                f"The passages in {str(folder)!r} are not whole: expected {count} passages and {size} bytes, "
                f"found {held} and {path.stat().st_size}. {_anew(folder)}"
            )
        self._records: mmap.mmap | bytes = b""
        if size:
            with path.open("rb") as file:
                self._records = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return self.count

    def raw(self, position: int) -> tuple[str, str, str, str]:
        """Id, document id, title and text of the passage at a position (from 0)."""
        return _decode(self.record(position))

    def record(self, position: int) -> bytes:
        """The passage at a position as it is stored."""
        start = int(self._ends[position - 1]) if position else 0
        return self._records[start : int(self._ends[position])]

    def passage(self, position: int, corpus: str) -> Passage:
        """The passage at a position, unranked."""
        identity, document, title, text = self.raw(position)
        return Passage(id=identity, document=document, title=title, text=text, corpus=corpus)

    def each(self) -> Iterator[tuple[str, str, str, str]]:
        """Every passage, in order."""
        return map(self.raw, range(self.count))

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


FORMAT = 3
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
    """Digest of the code that read and cut the documents."""
    stamp: str = ""
    """Digest of the source's files with their sizes and times: a source of the same stamp gives the same. Empty: a file
    was changed too shortly before to tell."""


class Collection:
    """A whole collection, open for reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        self.corpus = f"{self.manifest.name}@{self.manifest.version}"  # as passages and runs carry them
        self.store = PassageStore(folder, self.manifest.passages)

    def earlier(self) -> list[Collection]:
        """The other versions of the same index, newest first: what was made for their passages can be taken over."""
        if self.folder.parent.parent.name != "indexes":
            return []
        with suppress(UserError):  # what is damaged has nothing to give
            return [Collection(one) for one in reversed(versions(self.folder.parent)) if one != self.folder]
        return []

    def passages(self, hits: Sequence[tuple[int, float]], retriever: str) -> list[Passage]:
        """The passages that a retriever found, given as positions and scores, best first; ranks from 1."""
        found = []
        for rank, (position, score) in enumerate(hits, 1):
            identity, document, title, text = self.store.raw(position)
            found.append(
                Passage(
                    id=identity, document=document, title=title, text=text, corpus=self.corpus, score=score, rank=rank,
                    retriever=retriever,
                )
            )  # fmt: skip
        return found

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
    found: dict[str, int] = {}
    for name in collection_names(home):
        with suppress(UserError):
            for manifest in map(read_manifest, versions(indexes(home) / name)):
                found[f"{manifest.name}@{manifest.version}"] = manifest.passages
    return found


def open_named(name: str, home: Path) -> Collection:
    """Open the collection of that name: of an index the version that was built last, with ``NAME@VERSION`` that one.

    Raises:
        UserError: there is none, its building was interrupted, or it is damaged.
    """
    folder = find_named(name, home)
    if not (found := versions(folder)):
        raise UserError(
            f"The index {name!r} is half-built: its building was interrupted. Give the same `ragrounds index "
            f"build {quote(name)} …` again to resume, or `ragrounds index rm {quote(name)}`."
        )
    return Collection(found[-1])


def find_named(name: str, home: Path) -> Path:
    """The folder of an index, or with ``NAME@VERSION`` of a version of it.

    Raises:
        UserError: there is none; names the nearest.
    """
    stem, at, version = name.rpartition("@")
    known = collection_names(home)
    if at and stem in known:
        held = sorted(path.parent.name for path in (indexes(home) / stem).glob("[!.]*/manifest.json"))
        if version not in held:
            raise UserError(
                f"The index {stem!r} has no version {version!r}.{nearest(version, held)} "
                f"It has {', '.join(held) or 'none'}: `ragrounds index show {quote(stem)}`."
            )
        return indexes(home) / stem / version
    if name not in known:
        raise unknown("index", name, [*known, "sample"], "ragrounds index ls")
    return indexes(home) / name


def versions(root: Path) -> list[Path]:
    """The whole versions in the folder of an index, the one that was built last at the end. The folder itself may be
    the only one.

    Raises:
        UserError: what one of them says of itself cannot be read.
    """
    if (root / "manifest.json").is_file():
        return [root]
    whole = (path.parent for path in root.glob("[!.]*/manifest.json"))
    return sorted(whole, key=lambda folder: read_manifest(folder).built)


def read_manifest(folder: Path) -> Manifest:
    """Read what a whole collection says of itself.

    Raises:
        UserError: it cannot be read, or was written by another version of this package.
    """
    path = folder / "manifest.json"
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise UserError(f"Cannot read {str(path)!r}: {problem}. {_anew(folder)}") from None
    if manifest.format != FORMAT:
        raise UserError(f"{str(folder)!r} has the format {manifest.format}, expected {FORMAT}. {_anew(folder)}")
    return manifest


def _anew(folder: Path) -> str:
    """What helps where a collection cannot be read."""
    version = folder.parent.parent.name == "indexes"
    name = f"{folder.parent.name}@{folder.name}" if version else folder.name
    return f"Remove it with `ragrounds index rm {quote(name)}` and build it again."


def collection_damage(root: Path) -> str:
    """Why an index cannot be read, and what helps; empty: it can, or nothing is whole yet. Of its passages only the
    lengths are compared."""
    try:
        for folder in versions(root)[-1:]:
            PassageStore(folder, read_manifest(folder).passages)
    except OSError as problem:
        return f"Cannot read {str(problem.filename)!r}: {problem.strerror}. {_anew(root)}"
    except UserError as problem:
        return str(problem)
    return ""


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file so that it is either there in full or not there at all."""
    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as file:
        file.write(content)
        sync(file)
    os.replace(beside, path)  # noqa: PTH105 - Path.replace does the same; this names the guarantee
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """What was renamed in a folder is so on the disk, too, where the file system lets folders be flushed."""
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(held)
        finally:
            os.close(held)
