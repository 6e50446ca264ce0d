"""Builds a collection from a stream of passages.

A build that was killed resumes, and memory does not grow with the corpus's text.

Every :data:`STRIDE` documents the position is written down. Of each document only a 128-bit digest of its id stays in
memory, to find duplicate ids (54 million: 860 MB).
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from ragrounds.base.digests import code_digest, text_digest
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Passage
from ragrounds.base.text import file_name, safe
from ragrounds.tools.corpora import BadLine, CorpusSource, UnreadableLine, corpus_source, is_source, passages
from ragrounds.tools.index.build_report import BuildReport, storable
from ragrounds.tools.index.chunkers import Chunker
from ragrounds.tools.index.chunkers import chunker as make_chunker
from ragrounds.tools.index.collection import (
    START,
    Collection,
    Manifest,
    PassageStore,
    PassageWriter,
    collection_damage,
    id_hash,
    indexes,
    open_at,
    open_named,
    read_manifest,
    sync,
    sync_folder,
    versions,
    write_whole,
)
from ragrounds.tools.index.engine_files import (
    MANIFEST,
    IndexManifest,
    clear_damaged,
    damage,
    unreadable,
    was_given,
    write_manifest,
)

_LOG = logging.getLogger(__name__)
STRIDE = 20_000
_PROGRESS_DOCUMENTS = 512
"""Number of documents after which progress is reported."""
_RACE = 2
"""Seconds within which a changed file may change again and keep its time."""
_GIVEN, _DIGEST = "given.ids", 16
"""File of the digests of the ids that were given, and the bytes of each."""
_LINES = "ragrounds.tools.corpora"
_READERS = "ragrounds.tools.documents"
_CHUNKERS = "ragrounds.tools.index.chunkers"

Count = Callable[[int], None]
"""Callback that is called now and then with the number of passages done."""
Progress = Callable[[str, int], None]
"""Callback that is called now and then with the current activity and the number of passages done."""


def building_code(chunker: str, reading: str = "full") -> str:
    """Return the digest of the code that reads documents in one of its ways and, unless `chunker` is ``none``, cuts
    them.
    """
    how = [] if reading == "full" else [reading]
    return text_digest(
        code_digest(_LINES, within=(_READERS,)), *([] if chunker == "none" else [code_digest(_CHUNKERS)]), *how
    )


def open_collection(corpus: str, home: Path, *, progress: Progress | None = None) -> Collection:
    """Open the passages of a corpus. The passages of a source are stored first if they are not stored yet.

    A source whose files have the paths, sizes and times of an earlier reading is taken to be unchanged.
    """
    if not is_source(corpus):
        return open_named(corpus, home)
    origin = corpus_source(corpus)
    # The code that reads the files affects the passages, too.
    reading = code_digest(_LINES)
    if origin.root is not None:
        reading += code_digest(_READERS, within=(_READERS,))
    stamp = hashlib.blake2b((origin.stamp() + reading).encode(), digest_size=8).hexdigest()
    name_file = indexes(home) / ".stamps" / stamp
    folder = indexes(home) / name_file.read_text() if name_file.is_file() else None
    if folder is None or not versions(folder):
        folder = _store(corpus, origin, stamp, home, progress)
        name_file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(name_file, folder.name.encode())
    return Collection(folder)


def _store(corpus: str, origin: CorpusSource, stamp: str, home: Path, progress: Progress | None) -> Path:
    """Store a source's passages in a folder that carries their version. Equal passages share a folder."""
    building = indexes(home) / f".building-{stamp}"
    count = partial(progress, "reading") if progress else None
    manifest = build_collection(building, origin, name=origin.name, progress=count)
    report = read_report(building)
    if report is not None and report.lost:
        _LOG.warning(
            "Not all of the corpus %s is searched: %s. `ragrounds index build NAME --from %s` says of each why.",
            safe(origin.name),
            report.counted(),
            safe(corpus),
        )
    folder = indexes(home) / f"{file_name(origin.name, instead='-', kept='._-')}@{manifest.version}"
    try:
        building.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(building, ignore_errors=True)  # the same passages are there already, from another path
    return folder


class _Progress(msgspec.Struct, frozen=True):
    """Position of a build when its progress was last written."""

    stamp: str
    chunker: str
    at: tuple[int, int]
    count: int
    documents: int
    size: int
    chain: bytes
    skipped: int
    report: BuildReport


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
        folder: Folder of the collection; created if it does not exist.
        source: The corpus.
        name: Name of the collection.
        chunker: Canonical text of the chunker; a build begun with another chunker starts again.
        chunk: Cuts one passage into several; ``None`` keeps passages whole.
        bad: As for :func:`ragrounds.tools.corpora.passages`.
        progress: Called now and then with how many passages are stored.

    Raises:
        Unreadable: a line or a document cannot be read, and `bad` is not given.
        UserError: other bad input; an empty corpus; another process is building the same.
        StopRun: the disk is full. What is built is kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_build(folder):
        try:
            return _CollectionBuild(folder, source, chunker, chunk, bad, progress).collected(name)
        except OSError as problem:
            raise disk_error(folder, problem) from None


def build_version(
    root: Path, source: CorpusSource, chunker: str, *, bad: list[BadLine] | None = None, progress: Count | None = None
) -> tuple[Path, bool]:
    """Build a version of the named index in `root`, next to the existing versions.

    An interrupted build is resumed. An unchanged source is not read again.

    Args:
        root: The folder of the index.
        source: The corpus.
        chunker: Canonical text of the chunker.
        bad: As for :func:`ragrounds.tools.corpora.passages`.
        progress: Called now and then with how many passages are stored.

    Returns:
        The version's folder, and whether a different version is searched than before.

    Raises:
        UserError: as for :func:`build_collection`; an existing version is damaged.
        StopRun: the disk is full. What is built is kept.
    """
    root.mkdir(parents=True, exist_ok=True)
    with exclusive_build(root):
        if wrong := collection_damage(root):
            raise UserError(wrong)
        known_versions = versions(root)
        if known_versions:
            last = read_manifest(known_versions[-1])
            same = (chunker, listed(source), building_code(chunker, source.reading), settled_stamp(source))
            if last.stamp and same == (last.chunker, last.source, last.code, last.stamp):
                return known_versions[-1], False
        building = root / ".building"
        manifest = build_collection(
            building, source, name=root.name, chunker=chunker, chunk=make_chunker(chunker), bad=bad, progress=progress
        )
        version_folder = root / manifest.version
        try:
            if version_folder.is_dir():  # the same passages existed before: indexes over them stay
                PassageStore(version_folder, manifest.passages)
                for name in ("report.json", "manifest.json"):
                    os.replace(building / name, version_folder / name)  # noqa: PTH105 - at once, as in write_whole
                shutil.rmtree(building)
            else:
                building.rename(version_folder)
            sync_folder(root)
        except OSError as problem:
            raise disk_error(root, problem) from None
    return version_folder, not known_versions or known_versions[-1] != version_folder


class _CollectionBuild:
    """One build, which reads files and stores passages, from the position of an interrupted build."""

    def __init__(
        self,
        folder: Path,
        source: CorpusSource,
        chunker: str,
        chunk: Chunker | None,
        bad: list[BadLine] | None,
        progress: Count | None,
    ) -> None:
        # A collection without a manifest counts as incomplete while it is built.
        (folder / "manifest.json").unlink(missing_ok=True)
        self._folder, self._source, self._chunker, self._chunk = folder, source, chunker, chunk
        self._code = building_code(chunker, source.reading)
        self._resume_point = resume_point = _resume(folder, source.stamp() + self._code, chunker)
        self._bad: list[BadLine] = [] if bad is None else bad
        self._strict, self._bad_before = bad is None, len(self._bad)
        self._progress = progress
        self._saved_documents = resume_point.documents
        self._report = resume_point.report
        self._stamp = settled_stamp(source)
        self._passages = PassageWriter(
            folder, count=resume_point.count, size=resume_point.size, chain=resume_point.chain
        )
        self._ids = _GivenIds(folder / _GIVEN, resume_point.documents)

    @property
    def _skipped(self) -> int:
        """Return the number of lines that were skipped, including those before an interruption."""
        return self._resume_point.skipped + len(self._bad) - self._bad_before

    def collected(self, name: str) -> Manifest:
        """Read the remaining files, and complete the collection."""
        source = self._source
        if self._resume_point.at == (0, 0):
            self._report.add_entries(source.other_files)
        try:
            for number, file in enumerate(source.files):
                if number >= self._resume_point.at[0]:
                    self._read_file(number, file)
            self._flush()
        finally:
            self._passages.close()
            self._ids.file.close()
        if self._passages.count == 0:
            raise UserError(f"The corpus {source.name!r} is empty: no passage was found in {listed(source)}.")
        manifest = Manifest(
            name=name, version=self._passages.chain.hex()[:12], passages=self._passages.count,
            documents=len(self._ids), chunker=self._chunker, source=listed(source), skipped=self._skipped,
            code=self._code, stamp=self._stamp if self._stamp == settled_stamp(source) else "",
            size=self._passages.size, built=time.time(),
        )  # fmt: skip
        write_whole(self._folder / "report.json", msgspec.json.encode(self._report))
        _index_ids(self._folder)
        write_whole(self._folder / "manifest.json", msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        for name in ("progress.json", _GIVEN):
            (self._folder / name).unlink(missing_ok=True)
        if self._progress:
            self._progress(self._passages.count)
        return manifest

    def _read_file(self, number: int, path: Path) -> None:
        """Read a file, starting at the line where an interrupted build stopped."""
        start = self._resume_point.at[1] if number == self._resume_point.at[0] else 0
        # The file is read as a corpus by itself. This method keeps its position in the real corpus.
        single_file = replace(self._source, files=(path,), other_files=())
        refused = None if self._strict else self._bad
        for passage, (_, line) in passages(single_file, bad=refused, report=self._report, start=(0, start)):
            self._store_document(passage, path, line)
            if line and len(self._ids) % STRIDE == 0:
                self._save_progress(number, line)
        if len(self._ids) - self._saved_documents >= STRIDE:
            self._save_progress(number + 1, 0)
        elif self._progress:
            self._progress(self._passages.count)

    def _store_document(self, passage: Passage, path: Path, line: int) -> None:
        """Store a document's pieces, or reject it if its id was seen before."""
        digest = hashlib.blake2b(passage.id.encode(), digest_size=_DIGEST).digest()
        if digest in self._ids:
            wrong = BadLine(str(path), line, f"the id {passage.id!r} was given before")
            if self._strict:
                raise UnreadableLine(f"Cannot read {wrong}. Ids must differ.")
            self._bad.append(wrong)
            # `passages` has already counted this document as read.
            (self._report.rows if line else self._report.files)["read"] -= 1
            root = self._source.root
            name = str(path) if root is None else path.name if path == root else str(path.relative_to(root))
            self._report.add(name, "skipped", "its id was given before", detail=repr(passage.id), row=line)
            return
        for piece in self._chunk(passage) if self._chunk else (passage,):
            self._passages.add(piece)
        self._ids.add(digest)
        if self._progress and len(self._ids) % _PROGRESS_DOCUMENTS == 0:
            self._progress(self._passages.count)

    def _save_progress(self, number: int, line: int) -> None:
        """Write down the position of the build: the next file, and how many of its lines are done."""
        self._saved_documents = len(self._ids)
        self._flush()
        progress = msgspec.structs.replace(
            self._resume_point,
            at=(number, line),
            count=self._passages.count,
            documents=len(self._ids),
            size=self._passages.size,
            chain=self._passages.chain,
            skipped=self._skipped,
            report=self._report,
        )
        write_whole(self._folder / "progress.json", msgspec.json.encode(progress))
        if self._progress:
            self._progress(self._passages.count)

    def _flush(self) -> None:
        self._passages.flush()
        sync(self._ids.file)


class _GivenIds:
    """Digests of the ids that were seen while a collection is built, so long that two ids never share one.

    They are a sorted array, with the newest in a set until they are many. The file stores them so that a build can be
    resumed.
    """

    def __init__(self, path: Path, count: int) -> None:
        self.file = open_at(path, count * _DIGEST)
        self._old = np.sort(np.frombuffer(path.read_bytes(), f"S{_DIGEST}"))
        self._new: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._old) + len(self._new)

    def __contains__(self, digest: bytes) -> bool:
        position = int(np.searchsorted(self._old, np.bytes_(digest)))
        # NumPy drops null bytes at the end of what it returns.
        return digest in self._new or self._old[position : position + 1].tolist() == [digest.rstrip(b"\0")]

    def add(self, digest: bytes) -> None:
        """Add an id by its digest."""
        self.file.write(digest)
        self._new.add(digest)
        if len(self._new) > max(STRIDE, len(self._old) // 4):
            self._old = np.sort(np.concatenate([self._old, np.array(list(self._new), self._old.dtype)]))
            self._new.clear()


def settled_stamp(source: CorpusSource) -> str:
    """Return a digest of a source's stamp.

    It is empty if one of the files was changed a moment ago, since the file may change again and keep its time.
    """
    newest = max(
        (max(status.st_mtime, status.st_ctime) for status in (file.stat() for file in source.files)), default=0.0
    )
    return text_digest(source.stamp()) if newest < time.time() - _RACE else ""


def _resume(folder: Path, stamp: str, chunker: str) -> _Progress:
    """Return the position to resume at.

    It is the beginning if no usable progress was written or the source has changed.
    """
    path = folder / "progress.json"
    with suppress(FileNotFoundError, msgspec.MsgspecError):
        progress = msgspec.json.decode(path.read_bytes(), type=_Progress)
        if (progress.stamp, progress.chunker) == (stamp, chunker) and (folder / _GIVEN).is_file():
            return progress
    return _Progress(stamp, chunker, (0, 0), 0, 0, 0, START, 0, BuildReport())


def read_report(folder: Path) -> BuildReport | None:
    """Return the report on the files of a collection; ``None`` if it cannot be read."""
    with suppress(FileNotFoundError, msgspec.MsgspecError):
        return msgspec.json.decode((folder / "report.json").read_bytes(), type=BuildReport)
    return None


def _index_ids(folder: Path) -> None:
    """Sort the hashes of the passages' and the documents' ids, for look-up by id."""
    count = (folder / "offsets.u64").stat().st_size // 8
    store = PassageStore(folder, count)
    ids, documents = array("Q"), array("Q")
    for identity, document, _, _ in store.iterate():
        ids.append(id_hash(identity))
        documents.append(ids[-1] if document == identity else id_hash(document))
    for kind, hashes in (("ids", ids), ("documents", documents)):
        values = np.frombuffer(hashes, dtype=np.uint64)
        order = np.argsort(values, kind="stable").astype(np.uint32)
        values[order].tofile(folder / f"{kind}.u64")
        order.tofile(folder / f"{kind}.u32")


def listed(source: CorpusSource) -> str:
    """Return the files of a source as text, the first ones by name."""
    names = ", ".join(storable(str(file)) for file in source.files[:3])
    return names if len(source.files) <= 3 else f"{names} and {len(source.files) - 3} more"


M = TypeVar("M", bound=IndexManifest)


def whole_index(
    collection: Collection,
    folder: Path,
    kind: type[M],
    expected: tuple[int, str],
    build: Callable[[], M],
    *,
    resumes: bool = False,
) -> M:
    """Read the manifest of an index, after building the index if it is incomplete or damaged.

    Args:
        collection: Collection that the index belongs to.
        folder: Folder of the index.
        kind: The form of its ``engine.json``.
        expected: The format and the index that are required.
        build: Builds it, or resumes an interrupted build, and returns its manifest.
        resumes: True if the files of a damaged index are kept and `build` continues after them.

    Raises:
        UserError: an index that does not fit the collection, or is damaged and cannot be built again; another process
            is building the same.
        StopRun: the disk is full. What is built is kept.
    """
    manifest, wrong = _read_engine(folder, kind)
    if manifest is None:
        try:
            folder.mkdir(exist_ok=True)
            with exclusive_build(folder):
                manifest, wrong = _read_engine(folder, kind)  # another process may have built it by now
                if wrong:
                    _clear_index(folder, wrong, resumes)
                    wrong = ""
                if manifest is None:
                    write_manifest(folder, manifest := build())
        except OSError as problem:
            raise unreadable(folder, problem, wrong) if wrong else disk_error(folder, problem) from None
    actual, needed = (manifest.format, manifest.index, manifest.version), (*expected, collection.manifest.version)
    if actual != needed:
        raise UserError(
            f"The index in {str(folder)!r} does not fit: it is {actual}, expected {needed} (format, retriever, corpus "
            "version). Remove that folder, and it is built again."
        )
    return manifest


def _read_engine(folder: Path, kind: type[M]) -> tuple[M | None, str]:
    """Return the manifest of a complete index, or its damage in words. Both are empty if the index does not exist."""
    path = folder / MANIFEST
    try:
        if not path.exists():
            return None, ""
        wrong = damage(folder)
        if wrong is None:
            with suppress(msgspec.MsgspecError):
                return msgspec.json.decode(path.read_bytes(), type=kind), ""
    except OSError as problem:
        raise unreadable(folder, problem) from None
    return None, wrong or f"{MANIFEST} cannot be read"


def _clear_index(folder: Path, wrong: str, resumes: bool) -> None:
    """Remove a damaged index so that it is built again, and log a warning."""
    if was_given(folder):
        raise UserError(
            f"The vectors in {str(folder)!r} are damaged: {safe(wrong)}. They were taken from files: give `ragrounds "
            "index build NAME --from SOURCE --vectors FILE` again, or remove that folder to have them embedded."
        )
    clear_damaged(folder, resumes=resumes)
    _LOG.warning("The index in %r is damaged: %s. It is built again.", str(folder), safe(wrong))


@contextmanager
def exclusive_build(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes that would build in it.

    The system releases the lock if this process dies.
    """
    with (folder / "building.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"Another process is building in {str(folder)!r}. Wait for it to end, or end it, and try again."
            ) from None
        yield


def disk_error(folder: Path, problem: OSError) -> StopRun:
    """Return the error to raise if the system refuses to write."""
    return StopRun(
        f"Cannot write the index in {str(folder)!r}: {problem.strerror or problem}. What is built is kept; make room "
        "and give the same command again to resume."
    )
