"""Passages on disk: appended while a collection is built, read by position, memory-mapped, afterwards.

One folder holds

* ``passages.bin`` — the records one after another, MessagePack ``[id, document, title, text]``;
* ``offsets.u64`` — where each record ends, native 64-bit;
* ``ids.u64`` / ``ids.u32`` — sorted hashes of the passages' ids with their positions, for look-up by id;
* ``documents.u64`` / ``documents.u32`` — the same of the documents' ids.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.errors import UserError
from ragrounds.records import Passage

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, str, str, str]).decode

START = b"\0" * 16
"""The chain's value before the first passage."""


def hashed(identity: str) -> int:
    """64-bit hash of an id. Among 54 million ids the chance of any collision is 8e-5; a look-up compares the id."""
    return int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=8).digest(), "little")


def chained(before: bytes, record: bytes) -> bytes:
    """One link of the content hash: it depends on every record so far and their order, and can be taken up again
    from its 16 bytes after an interruption."""
    return hashlib.blake2b(record, digest_size=16, key=before).digest()


class PassageWriter:
    """Appends passages to a folder, from a position known to be good."""

    def __init__(self, folder: Path, *, count: int = 0, size: int = 0, chain: bytes = START) -> None:
        self.count = count
        self.size = size
        self.chain = chain
        self._records = _open_at(folder / "passages.bin", size)
        self._offsets = _open_at(folder / "offsets.u64", count * 8)

    def add(self, passage: Passage) -> None:
        record = _encode((passage.id, passage.document, passage.title, passage.text))
        self._records.write(record)
        self.size += len(record)
        self._offsets.write(self.size.to_bytes(8, "little"))
        self.count += 1
        self.chain = chained(self.chain, record)

    def flush(self) -> None:
        """Everything added so far is on the disk when this returns."""
        for file in (self._records, self._offsets):
            sync(file)

    def close(self) -> None:
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
        self._ends: npt.NDArray[np.uint64] = mapped(folder / "offsets.u64", np.uint64)
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
        hashes = mapped(self.folder / f"{kind}.u64", np.uint64)
        wanted = np.uint64(hashed(identity))
        first, last = (int(np.searchsorted(hashes, wanted, side=side)) for side in ("left", "right"))
        return sorted(mapped(self.folder / f"{kind}.u32", np.uint32)[first:last].tolist())


def mapped(path: Path, kind: type[np.generic]) -> npt.NDArray[Any]:
    """A raw array file, memory-mapped for reading; an empty file is an empty array."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=kind)
    return np.asarray(np.memmap(path, dtype=kind, mode="r"))  # a plain view: slicing a memmap object takes 5 µs
