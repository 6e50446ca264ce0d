"""Vectors of passages that exist already: in a user's files (``index build --vectors FILE.npy --ids FILE``), or in
another version of the same index.

Files are as MedRAG publishes its own: NumPy arrays of shape (rows, dimensions), float16, float32 or float64, one or
several. The id of a row is in a file of ids (a JSON list, JSON Lines, one id a line, or ``.npy``), one file for each
array or one for all; without any, row 7 of ``NAME.npy`` is the passage ``NAME_7``, as MedRAG's chunks are named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec
from ragrounds.base.text import safe
from ragrounds.tools.index.cards import cards, encoding_of
from ragrounds.tools.index.collection import Collection, PassageStore, id_hash, map_array
from ragrounds.tools.index.collection_builder import Count, disk_error, exclusive_build
from ragrounds.tools.index.embedders import Encoding, Vectors, check_embedder, finish_vectors
from ragrounds.tools.index.engine_files import MANIFEST, damage, write_manifest
from ragrounds.tools.index.vector_index import StoredVectors
from ragrounds.tools.index.vector_store import stored_as, vectors_file, vectors_manifest, vectors_place

_ROWS = 16_384
_LISTED = 3


class ImportedVectors(msgspec.Struct, frozen=True, kw_only=True):
    """Result of :func:`import_vectors`."""

    passages: int
    dimensions: int
    files: int
    unused: int = 0
    """Number of rows whose id no passage has."""
    kept_as_they_were: bool = False
    """True if the vectors existed before, and nothing was read."""

    def words(self) -> str:
        """Return a line that reports the import."""
        if self.kept_as_they_were:
            return f"the vectors of {self.passages:,} passages are there already, and stay as they are"
        rest = f"; {self.unused:,} rows have ids that no passage has" if self.unused else ""
        return f"took {self.passages:,} vectors of {self.dimensions} numbers from {self.files} files{rest}"


def import_vectors(
    collection: Collection,
    spec: Spec,
    files: Sequence[str | Path],
    ids: Sequence[str | Path] = (),
    *,
    progress: Count | None = None,
) -> ImportedVectors:
    """Import the vectors of all passages from files, in place of embedding them.

    Args:
        collection: Collection of the passages.
        spec: ``dense[…]`` or a card: the model that made the vectors, which embeds the queries.
        files: ``.npy`` files, or folders of them.
        ids: Files of ids: none, one, or one for each array.
        progress: Called with the number of rows read.

    Raises:
        UserError: files are not such arrays, or do not fit each other; passages have no vector.
        StopRun: the disk is full.
    """
    if spec.name != "dense" and (spec.name not in cards() or cards()[spec.name].kind not in ("dense", "api")):
        raise UserError(
            f"Vectors are taken for a retriever that searches by vectors: --retriever dense[model=…] or a card such as "
            f"medcpt, not {str(spec)!r}."
        )
    encoding, _ = encoding_of(spec, cards()[spec.name].encoding if spec.name in cards() else None)
    check_embedder(encoding)
    arrays = _array_paths(files)
    arrays_with_ids = _with_ids(arrays, ids)
    documents, folder = vectors_place(collection, encoding)
    total = len(collection.store)
    dimensions = _dimensions(arrays)
    if encoding.dimensions:
        dimensions = min(dimensions, encoding.dimensions)
    if (folder / MANIFEST).is_file() and damage(folder) is None:
        return ImportedVectors(passages=total, dimensions=dimensions, files=len(arrays), kept_as_they_were=True)
    folder.mkdir(exist_ok=True)
    with exclusive_build(folder):
        try:
            unused = _write_vectors(collection, folder, encoding, arrays_with_ids, dimensions, progress)
            write_manifest(folder, vectors_manifest(collection, documents, dimensions, imported=True))
        except OSError as problem:
            raise disk_error(folder, problem) from None
    return ImportedVectors(passages=total, dimensions=dimensions, files=len(arrays), unused=unused)


def _write_vectors(
    collection: Collection,
    folder: Path,
    encoding: Encoding,
    arrays_with_ids: Sequence[tuple[Path, Sequence[str]]],
    dimensions: int,
    progress: Count | None,
) -> int:
    """Write every row at the position of its passage, and return the number of rows that no passage has."""
    path, kind = vectors_file(folder, encoding)
    total = len(collection.store)
    temporary = path.with_name("imported.part")
    target = np.memmap(temporary, dtype=kind, mode="w+", shape=(total, dimensions))
    has_vector = np.zeros(total, dtype=bool)
    unused = read = 0
    for file, ids in arrays_with_ids:
        array = _open_array(file)
        for start in range(0, len(array), _ROWS):
            rows = np.asarray(array[start : start + _ROWS], dtype=np.float32)
            positions = positions_of(collection.store, ids[start : start + _ROWS])
            is_known = positions >= 0
            unused += int((~is_known).sum())
            targets = positions[is_known]
            if len(np.unique(targets)) < len(targets) or has_vector[targets].any():
                raise UserError(f"{str(file)!r} holds a second vector of a passage: ids must differ.")
            has_vector[targets] = True
            if len(targets):
                target[targets] = stored_as(finish_vectors(rows[is_known], encoding), kind, encoding.model)
            read += len(rows)
            if progress:
                progress(read)
    if not has_vector.all():
        missing = np.flatnonzero(~has_vector)
        listed = ", ".join(repr(safe(collection.store.raw(int(position))[0])[:60]) for position in missing[:_LISTED])
        raise UserError(
            f"{len(missing):,} of {total:,} passages have no vector in these files, such as {listed}: expected a row "
            "for each. Give --ids where the ids are not STEM_ROW, and cut the corpus as it was when they were made."
        )
    target.flush()
    del target
    # The file gets its final name only when every passage has its vector.
    temporary.replace(path)
    return unused


def positions_of(store: PassageStore, ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the positions of passages by id; -1 if there is no such passage."""
    hashes, order = map_array(store.folder / "ids.u64", np.uint64), map_array(store.folder / "ids.u32", np.uint32)
    targets = np.fromiter((id_hash(identity) for identity in ids), dtype=np.uint64, count=len(ids))
    indices = np.minimum(np.searchsorted(hashes, targets), len(hashes) - 1)
    return np.where(hashes[indices] == targets, order[indices].astype(np.int64), -1)


def _array_paths(files: Sequence[str | Path]) -> list[Path]:
    """Return the paths of all arrays in files and folders."""
    paths: list[Path] = []
    for location in files:
        path = Path(location).expanduser()
        inside = sorted(path.glob("*.npy")) if path.is_dir() else [path]
        if not inside or not all(file.is_file() for file in inside):
            raise UserError(f"There are no vectors at {str(location)!r}: expected a .npy file, or a folder of them.")
        paths += inside
    return paths


def _open_array(path: Path) -> npt.NDArray[np.floating]:
    """Map an array into memory, after checking its type and shape."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as problem:
        raise UserError(f"Cannot read {str(path)!r} as a NumPy array: {problem}.") from None
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind != "f":
        shape = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise UserError(f"{str(path)!r} holds {shape}: expected floats of shape (rows, dimensions).")
    return array


def _dimensions(arrays: Sequence[Path]) -> int:
    """Return the common number of dimensions of all arrays."""
    widths = {path: _open_array(path).shape[1] for path in arrays}
    first = arrays[0]
    for path, width in widths.items():
        if width != widths[first]:
            raise UserError(
                f"{str(path)!r} has {width} dimensions, {str(first)!r} has {widths[first]}: expected the same."
            )
    return int(widths[first])


def _with_ids(arrays: Sequence[Path], ids: Sequence[str | Path]) -> list[tuple[Path, Sequence[str]]]:
    """Return every array with the ids of its rows."""
    lengths = [len(_open_array(path)) for path in arrays]
    if not ids:
        pairs = ((path, [f"{path.stem}_{row}" for row in range(n)]) for path, n in zip(arrays, lengths, strict=True))
        return list(pairs)
    lists = [_read_ids(Path(file).expanduser()) for file in ids]
    if len(lists) == 1:
        if len(lists[0]) != sum(lengths):
            raise UserError(
                f"{str(ids[0])!r} has {len(lists[0]):,} ids for {sum(lengths):,} rows: expected one for each."
            )
        ends = np.cumsum([0, *lengths]).tolist()
        return [(path, lists[0][ends[n] : ends[n + 1]]) for n, path in enumerate(arrays)]
    if len(lists) != len(arrays):
        raise UserError(f"{len(lists)} files of ids for {len(arrays)} arrays: expected one for all, or one for each.")
    for path, names, length in zip(ids, lists, lengths, strict=True):
        if len(names) != length:
            raise UserError(f"{str(path)!r} has {len(names):,} ids for {length:,} rows: expected one for each.")
    return list(zip(arrays, lists, strict=True))


def _read_ids(path: Path) -> list[str]:
    """Read the ids of a JSON list, of JSON Lines (``id``, ``_id``, ``pmid`` or plain texts), of a ``.npy``, or of
    lines.
    """
    try:
        if path.suffix == ".npy":
            return [str(identity) for identity in np.load(path, allow_pickle=False).ravel().tolist()]
        if path.suffix == ".json":
            return [str(identity) for identity in msgspec.json.decode(path.read_bytes(), type=list[str | int])]
        if path.suffix == ".jsonl":
            return list(_ids_of_lines(path))
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, RecursionError) as problem:
        raise UserError(f"Cannot read the ids in {str(path)!r}: {problem}.") from None


def _ids_of_lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            record = msgspec.json.decode(line)
            if isinstance(record, dict):
                record = next((record[key] for key in ("id", "_id", "pmid") if key in record), None)
            if not isinstance(record, str | int):
                raise ValueError(f"line {number} has no id")
            yield str(record)


class EarlierVectors:
    """Vectors that another version of an index has of the same texts."""

    def __init__(self, collection: Collection, encoding: Encoding, folder: Path) -> None:
        """Find a version of the index that has complete vectors of this encoding.

        Args:
            collection: the version that needs vectors.
            encoding: encoding of the vectors.
            folder: folder of the new vectors. The other versions have folders of the same name.
        """
        self._vectors: StoredVectors | None = None
        for other in collection.earlier():
            path, kind = vectors_file(other.folder / folder.name, encoding)
            if (path.parent / MANIFEST).is_file() and path.is_file() and damage(path.parent) is None:
                self._vectors = map_array(path, kind).reshape(len(other.store), -1)
                rows = other.store.iterate()
                hashes = np.fromiter((_hash(row) for row in rows), dtype=np.uint64, count=len(other.store))
                self._order = np.argsort(hashes, kind="stable")
                self._hashes = hashes[self._order]
                return

    def for_passages(self, rows: Sequence[tuple[str, str, str, str]]) -> tuple[npt.NDArray[np.bool_], Vectors] | None:
        """Return a mask of the passages that have a vector, and these vectors; ``None`` if no other version has any."""
        if self._vectors is None or not len(self._hashes):
            return None
        hashes = np.fromiter((_hash(row) for row in rows), dtype=np.uint64, count=len(rows))
        indices = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        is_known = self._hashes[indices] == hashes
        return is_known, np.asarray(self._vectors[self._order[indices[is_known]]], dtype=np.float32)


def _hash(row: tuple[str, str, str, str]) -> int:
    """Return the 64-bit hash of the embedded parts of a passage: title and text."""
    return int.from_bytes(hashlib.blake2b(f"{row[2]}\0{row[3]}".encode(), digest_size=8).digest(), "little")
