"""Builds a collection from a stream of passages. A build that was killed resumes, and memory does not grow with the
corpus's text.

Every :data:`STRIDE` documents the position is written down. Of each passage
only a 64-bit hash of its id stays in memory, to find ids given twice (54 million passages: 430 MB).
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.digests import code_digest, code_unless_first, text_digest
from ragrounds.errors import StopRun, UserError
from ragrounds.text import file_name
from ragrounds.tools.chunkers import Chunker
from ragrounds.tools.collection import (
    START,
    Collection,
    Manifest,
    PassageStore,
    PassageWriter,
    id_hash,
    indexes,
    is_current,
    open_named,
    sync,
    write_whole,
)
from ragrounds.tools.corpora import BadLine, CorpusSource, UnreadableLine, corpus_source, is_source, passages

STRIDE = 20_000
_READERS = "ragrounds.tools.documents"
_CHUNKERS = "ragrounds.tools.chunkers"

Count = Callable[[int], None]
"""Called now and then with how many passages are done."""
Progress = Callable[[str, int], None]
"""Called now and then with what is being done and how many passages are done."""


def reading_code() -> str:
    """The digest of the code that reads the files of a corpus."""
    return code_digest("ragrounds.tools.corpora", within=(_READERS,))


def building_code(chunker: str) -> str:
    """The digest of the code that reads documents and, unless `chunker` is ``none``, cuts them."""
    return text_digest(reading_code(), *([] if chunker == "none" else [code_digest(_CHUNKERS)]))


def open_collection(corpus: str, home: Path, *, progress: Progress | None = None) -> Collection:
    """Open the passages of a corpus; those of a source are stored first where they are not yet.

    A source whose files have the paths, sizes and times of an earlier reading is taken to be unchanged.
    """
    if not is_source(corpus):
        return open_named(corpus, home)
    origin = corpus_source(corpus)
    # What reads the files decides the passages, too.
    reading = code_unless_first("corpora", "read", reading_code())
    if origin.root is not None:  # what is read of documents has changed since the first release
        reading += code_digest(_READERS)
    stamp = hashlib.blake2b((origin.stamp() + reading).encode(), digest_size=8).hexdigest()
    known = indexes(home) / ".stamps" / stamp
    folder = indexes(home) / known.read_text() if known.is_file() else None
    if folder is None or not is_current(folder):
        folder = _store(origin, stamp, home, progress)
        known.parent.mkdir(parents=True, exist_ok=True)
        write_whole(known, folder.name.encode())
    return Collection(folder)


def _store(origin: CorpusSource, stamp: str, home: Path, progress: Progress | None) -> Path:
    """Store a source's passages in a folder that carries their version; equal passages share one."""
    building = indexes(home) / f".building-{stamp}"
    count = partial(progress, "reading") if progress else None
    manifest = build_collection(building, origin, name=origin.name, progress=count)
    folder = indexes(home) / f"{file_name(origin.name, instead='-', kept='._-')}@{manifest.version}"
    if folder.is_dir() and not is_current(folder):  # written by an older version of this package
        shutil.rmtree(folder)
    try:
        building.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(building, ignore_errors=True)  # the same passages are there already, from another path
    return folder


class _Place(msgspec.Struct, frozen=True):
    """Where a build stood when it was last written down."""

    stamp: str
    chunker: str
    at: tuple[int, int]
    count: int
    documents: int
    size: int
    chain: bytes
    skipped: int


def build_collection(
    folder: Path,
    source: CorpusSource,
    *,
    name: str,
    chunker: str = "none",
    chunk: Chunker | None = None,
    bad: list[BadLine] | None = None,
    progress: Count | None = None,
) -> Manifest:
    """Build the collection `name` in `folder`, or resume a build that was interrupted.

    Args:
        folder: Where the collection is kept; made if it does not exist.
        source: The corpus.
        name: What the collection calls itself.
        chunker: Canonical text of the chunker; a build begun with another one is begun anew.
        chunk: Cuts one passage into several; ``None``: as they are.
        bad: As for :func:`ragrounds.tools.corpora.passages`.
        progress: Called now and then with how many passages are stored.

    Raises:
        Unreadable: a line or a document, and there is no list of `bad` ones.
        UserError: other bad input; an empty corpus; another process is building the same.
        StopRun: the disk is full. What is built is kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_build(folder):
        try:
            return _collect(folder, source, name, chunker, chunk, bad, progress)
        except OSError as problem:
            raise disk_error(folder, problem) from None


def _collect(
    folder: Path,
    source: CorpusSource,
    name: str,
    chunker: str,
    chunk: Chunker | None,
    bad: list[BadLine] | None,
    progress: Count | None,
) -> Manifest:
    (folder / "manifest.json").unlink(missing_ok=True)
    place = _resume(folder, source.stamp(), chunker)
    skipped = place.skipped
    writer = PassageWriter(folder, count=place.count, size=place.size, chain=place.chain)
    seen = _Ids(folder, place.documents)
    documents, at = place.documents, place.at
    before = len(bad) if bad is not None else 0
    try:
        for passage, after in passages(source, bad=bad, start=place.at):
            if not seen.take(passage.id):
                file = source.files[min(after[0], len(source.files) - 1)]
                wrong = BadLine(str(file), after[1], f"the id {passage.id!r} was given before")
                if bad is None:
                    raise UnreadableLine(f"Cannot read {wrong}. Ids must differ.")
                bad.append(wrong)
                continue
            for piece in chunk(passage) if chunk else (passage,):
                writer.add(piece)
            documents, at = documents + 1, after
            if documents % STRIDE == 0:
                writer.flush()
                seen.flush()
                lost = skipped + (len(bad) - before if bad is not None else 0)
                here = _Place(place.stamp, chunker, at, writer.count, documents, writer.size, writer.chain, lost)
                write_whole(folder / "progress.json", msgspec.json.encode(here))
                if progress:
                    progress(writer.count)
        writer.flush()
    finally:
        writer.close()
        seen.close()
    if writer.count == 0:
        raise UserError(f"The corpus {source.name!r} is empty: no passage was found in {_listed(source)}.")
    _index_ids(folder)
    manifest = Manifest(
        name=name,
        version=writer.chain.hex()[:12],
        passages=writer.count,
        documents=documents,
        chunker=chunker,
        source=_listed(source),
        skipped=skipped + (len(bad) - before if bad is not None else 0),
        size=writer.size,
        built=time.time(),
        code=building_code(chunker),
    )
    write_whole(folder / "manifest.json", msgspec.json.format(msgspec.json.encode(manifest), indent=2))
    (folder / "progress.json").unlink(missing_ok=True)
    if progress:
        progress(writer.count)
    return manifest


class _Ids:
    """Hashes of the ids given so far: a sorted array, with the newest in a set beside it until they are many. They are
    also appended to a file, for a build that is resumed."""

    def __init__(self, folder: Path, documents: int) -> None:
        path = folder / "seen.u64"
        path.touch()
        self._file = path.open("r+b")
        self._file.truncate(documents * 8)
        self._old: npt.NDArray[np.uint64] = np.sort(np.frombuffer(self._file.read(), dtype="<u8").astype(np.uint64))
        self._new: set[int] = set()
        self._file.seek(documents * 8)

    def take(self, identity: str) -> bool:
        """Remember an id; false: it was given before."""
        value = id_hash(identity)
        if value in self._new:
            return False
        at = int(np.searchsorted(self._old, np.uint64(value)))
        if at < len(self._old) and int(self._old[at]) == value:
            return False
        self._new.add(value)
        self._file.write(value.to_bytes(8, "little"))
        if len(self._new) > max(STRIDE, len(self._old) // 4):
            fresh = np.fromiter(self._new, dtype=np.uint64, count=len(self._new))
            self._old = np.sort(np.concatenate([self._old, fresh]))
            self._new.clear()
        return True

    def flush(self) -> None:
        """Everything added so far is on the disk when this returns."""
        sync(self._file)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _resume(folder: Path, stamp: str, chunker: str) -> _Place:
    """Where to resume; the beginning, where nothing usable was written down or the source is another one."""
    path = folder / "progress.json"
    if path.is_file():
        place = msgspec.json.decode(path.read_bytes(), type=_Place)
        if (place.stamp, place.chunker) == (stamp, chunker):
            return place
    return _Place(stamp, chunker, (0, 0), 0, 0, 0, START, 0)


def _index_ids(folder: Path) -> None:
    """Sort the hashes of the passages' and the documents' ids, so that they are found by id."""
    count = (folder / "offsets.u64").stat().st_size // 8
    store = PassageStore(folder, count)
    for kind, column in (("ids", 0), ("documents", 1)):
        values = np.fromiter((id_hash(record[column]) for record in store.each()), dtype=np.uint64, count=count)
        order = np.argsort(values, kind="stable").astype(np.uint32)
        values[order].tofile(folder / f"{kind}.u64")
        order.tofile(folder / f"{kind}.u32")
    (folder / "seen.u64").unlink(missing_ok=True)


def _listed(source: CorpusSource) -> str:
    shown = ", ".join(map(str, source.files[:3]))
    return shown if len(source.files) <= 3 else f"{shown} and {len(source.files) - 3} more"


class IndexManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a whole index says of itself: ``engine.json``, which a build writes last."""

    format: int
    index: str
    """What the index depends on beside the corpus."""
    version: str
    """Version of the corpus it was built over."""
    passages: int


M = TypeVar("M", bound=IndexManifest)


def whole_index(
    collection: Collection, folder: Path, kind: type[M], expected: tuple[int, str], build: Callable[[], None]
) -> M:
    """Read what an index says of itself, after building it where it is not whole.

    Args:
        collection: What it is an index of.
        folder: Where it is kept.
        kind: The form of its ``engine.json``.
        expected: The format and the index that are asked for.
        build: Builds it, or resumes a build that was interrupted.

    Raises:
        UserError: an index that does not fit the collection; another process is building the same.
        StopRun: the disk is full. What is built is kept.
    """
    path = folder / "engine.json"
    if not path.is_file():
        folder.mkdir(exist_ok=True)
        with exclusive_build(folder):
            try:
                if not path.is_file():  # no other process built it before the folder was ours
                    build()
            except OSError as problem:
                raise disk_error(folder, problem) from None
    manifest = msgspec.json.decode(path.read_bytes(), type=kind)
    found, wanted = (manifest.format, manifest.index, manifest.version), (*expected, collection.manifest.version)
    if found != wanted:
        raise UserError(
            f"The index in {str(folder)!r} does not fit: it is {found}, expected {wanted} (format, retriever, corpus "
            "version). Remove that folder, and it is built again."
        )
    return manifest


@contextmanager
def exclusive_build(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes that would build in it; the system lets go when this process dies."""
    with (folder / "building.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"Another process is building in {str(folder)!r}. Wait for it to end, or end it, and try again."
            ) from None
        yield


def disk_error(folder: Path, problem: OSError) -> StopRun:
    """What to say when the system refuses to write."""
    return StopRun(
        f"Cannot write the index in {str(folder)!r}: {problem.strerror or problem}. What is built is kept; make room "
        "and give the same command again to resume."
    )
