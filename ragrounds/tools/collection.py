"""A collection: the passages of one corpus, stored and versioned, with the search engines built over them.

``home/indexes/NAME/`` holds generations (:mod:`ragrounds.tools.generations`): folders of which ``current.json`` names
the one that is searched. Of a source that is searched without naming it the folder itself is the only one. A
generation's folder holds

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

import asyncio
import fcntl
import hashlib
import mmap
import os
import re
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.errors import UserError, nearest, unknown
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
        self._records = open_at(folder / "passages.bin", size)
        self._offsets = open_at(folder / "offsets.u64", count * 8)

    def add(self, passage: Passage) -> None:
        """Append a passage, its end and its part of the content hash; on the disk after :meth:`flush`."""
        self.add_record(record_of(passage))

    def add_record(self, record: bytes) -> None:
        """:meth:`add` for a passage as another collection stores it."""
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


def record_of(passage: Passage) -> bytes:
    """A passage as it is stored."""
    return _encode((passage.id, passage.document, passage.title, passage.text))


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
    """Digest of the code that read and cut the documents; empty: documents of several codes."""
    origins: tuple[str, ...] = ()
    """What was read, as ``family:PATH``: that of the build, then those that were added; empty: it was not named."""
    stamp: str = ""
    """Digest of the source's files with their sizes and times: a source of the same stamp gives the same. Empty: a file
    was changed too shortly before to tell, or the index was changed since it was built."""


class Collection:
    """A whole collection, open for reading. While it is open nobody removes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        weakref.finalize(self, os.close, _in_use(folder))
        self.corpus = f"{self.manifest.name}@{self.manifest.version}"  # as passages and runs carry them
        self.store = PassageStore(folder, self.manifest.passages)

    def earlier(self) -> list[Collection]:
        """The other generations of the same index, newest first: what was computed for their passages can be taken
        over."""
        found = []
        for folder in reversed(generation_folders(index_of(self.folder))):
            if folder != self.folder:
                with suppress(UserError, FileNotFoundError):  # one that is damaged has nothing to give
                    found.append(Collection(folder))
        return found

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


class CollectionSearcher(ABC):
    """Searches one collection, several queries with one call of a model; see :class:`ragrounds.contracts.Searcher`. An
    empty query finds nothing."""

    def __init__(self, collection: Collection, spec: str) -> None:
        self._collection, self.spec, self.corpus = collection, spec, collection.corpus

    @abstractmethod
    def hits(self, queries: list[str], k: int) -> Sequence[Sequence[tuple[int, float]]]:
        """For each query, none of which is empty, positions and scores of the `k` best, best first."""

    def document(self, id: str) -> list[Passage]:
        """The passages of a document, in its own order."""
        return self._collection.document(id)

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages, best first."""
        return await asyncio.to_thread(self.find, query, k)

    def find(self, query: str, k: int) -> list[Passage]:
        """:meth:`search`, in this thread."""
        return self.find_many([query], k)[0]

    async def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """:meth:`search` for several queries."""
        return await asyncio.to_thread(self.find_many, queries, k)

    def find_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """:meth:`search_many`, in this thread.

        Raises:
            UserError: `k` is below 1.
        """
        if k < 1:
            raise UserError(f"Cannot search for {k} passages: expected 1 or more.")
        asked = [query for query in queries if query.strip()]
        found = iter(self.hits(asked, k) if asked else ())
        return [self._collection.passages(next(found), self.spec) if query.strip() else [] for query in queries]


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
    folders = [folder for name in collection_names(home) for folder in generation_folders(indexes(home) / name)]
    manifests = [read_manifest(folder) for folder in folders if is_current(folder)]
    return {f"{manifest.name}@{manifest.version}": manifest.passages for manifest in manifests}


def open_named(name: str, home: Path) -> Collection:
    """Open the collection of that name: its current generation, or with ``NAME@VERSION`` the one of that version.

    Raises:
        UserError: there is none, or its building was interrupted.
    """
    stem, at, version = name.rpartition("@")
    known = collection_names(home)
    if name in known:
        return _opened(indexes(home) / name, "")
    if at and stem in known:
        return _opened(indexes(home) / stem, version)
    raise unknown("index", name, [*known, "sample"], "ragrounds index ls")


def _opened(root: Path, version: str) -> Collection:
    """A generation of an index; a newer one may appear, and an old one go, while it is looked for."""
    for _ in range(3):
        folder = generation_of(root, version) if version else current_generation(root)
        with suppress(FileNotFoundError):
            return Collection(folder)
    raise UserError(damage(root) or f"The index {root.name!r} is being removed by another process.")


POINTER = "current.json"


class CurrentGeneration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which generation of an index is searched: ``current.json``."""

    generation: int


def generation_folder(root: Path, number: int) -> Path:
    """Where a generation of an index is kept; 0 is the index' own folder."""
    return root / "generations" / f"{number:04}" if number else root


def current_number(root: Path) -> int | None:
    """The generation of an index that is searched; ``None``: none is whole.

    Raises:
        UserError: what names it cannot be read.
    """
    path = root / POINTER
    try:
        return msgspec.json.decode(path.read_bytes(), type=CurrentGeneration).generation
    except FileNotFoundError:
        return 0 if (root / "manifest.json").is_file() else None
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise UserError(
            f'Cannot read {str(path)!r}: {problem}. Write {{"generation": NUMBER}} into it, a folder under '
            f"{str(root / 'generations')!r}, or remove the index with `ragrounds index rm {root.name}` and build it "
            "again."
        ) from None


def current_generation(root: Path) -> Path:
    """The folder of an index that is searched; the index's own, where nothing is whole yet."""
    number = current_number(root)
    return generation_folder(root, number or 0)


def generation_numbers(root: Path) -> list[int]:
    """All generations of an index whose passages are whole, oldest first."""
    found = [0] if (root / "manifest.json").is_file() else []
    for entry in sorted((root / "generations").glob("[0-9]*")):
        if entry.name.isdigit() and (entry / "manifest.json").is_file():
            found.append(int(entry.name))
    return sorted(found)


def generation_folders(root: Path) -> list[Path]:
    """The folders of :func:`generation_numbers`."""
    return [generation_folder(root, number) for number in generation_numbers(root)]


def generation_of(root: Path, version: str) -> Path:
    """The generation of an index that has a version.

    Raises:
        UserError: none has; names those that there are.
    """
    versions = {read_manifest(folder).version: folder for folder in generation_folders(root) if is_current(folder)}
    if version not in versions:
        raise UserError(
            f"The index {root.name!r} has no version {version!r}.{nearest(version, versions)} "
            f"It has {', '.join(versions) or 'none'}: `ragrounds index show {root.name}`."
        )
    return versions[version]


def index_of(folder: Path) -> Path:
    """The folder of the index that a generation is of."""
    return folder.parent.parent if folder.parent.name == "generations" else folder


def _in_use(folder: Path) -> int:
    """Hold a collection against its removal; the system lets go when the file descriptor or the process ends."""
    held = os.open(folder / "manifest.json", os.O_RDONLY)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return held


def is_used(folder: Path) -> bool:
    """Whether some process has a collection open."""
    with (folder / "manifest.json").open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return False


def read_manifest(folder: Path) -> Manifest:
    """Read what a collection says of itself.

    Raises:
        UserError: it is half-built, or was written by another version of this package.
    """
    path = folder / "manifest.json"
    name = index_of(folder).name
    if not path.is_file():
        raise UserError(
            f"The index {name!r} is half-built: its building was interrupted. Give the same `ragrounds index "
            f"build {name} …` again to resume, or `ragrounds index rm {name}`."
        )
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise UserError(f"Cannot read {str(path)!r}: {problem}. {_anew(folder)}") from None
    if manifest.format != FORMAT:
        raise UserError(f"The index {name!r} has format {manifest.format}, expected {FORMAT}. {_anew(folder)}")
    return manifest


def _anew(folder: Path) -> str:
    """What helps where a generation cannot be read."""
    return f"Remove the index with `ragrounds index rm {index_of(folder).name}` and build it again."


def damage(root: Path) -> str:
    """Why the generation of an index that is searched cannot be read, and what helps; empty: it can, or none is whole
    yet. Its passages are not read, only their lengths are compared."""
    try:
        number = current_number(root)
        if number is None:
            return ""
        folder = generation_folder(root, number)
        if not (folder / "manifest.json").is_file():
            return f"Generation {number}, which {POINTER} names, is not whole. {_anew(folder)}"
        PassageStore(folder, read_manifest(folder).passages)
    except OSError as problem:
        return f"Cannot read {str(problem.filename)!r}: {problem.strerror}. {_anew(root)}"
    except UserError as problem:
        return str(problem)
    return ""


def is_current(folder: Path) -> bool:
    """Whether a folder holds a whole collection of this version of the package."""
    try:
        read_manifest(folder)
    except UserError:
        return False
    return True


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
