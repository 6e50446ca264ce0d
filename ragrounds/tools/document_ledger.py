"""Which documents a collection was made of, so that a later generation takes over what stayed as it was.

Beside the passages of a collection lie

* ``units.u64`` — a hash of each document's id, in the order of the corpus;
* ``units.b16`` — 16 bytes each: a hash of the document as it was read, before it was cut;
* ``units.u32`` — how many passages it was cut into.

A *document* is here what the source gives as one: a file of a folder, a line of a JSON Lines file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragrounds.errors import UserError, nearest
from ragrounds.records import Passage
from ragrounds.tools.collection import (
    Collection,
    PassageWriter,
    id_hash,
    map_array,
    open_at,
    record_of,
    sync,
)

_KEPT_IN_A_SET = 20_000
_NEAREST_AMONG = 50_000


def document_hash(passage: Passage) -> bytes:
    """16 bytes of all that a document says: id, document, title, text."""
    return hashlib.blake2b(record_of(passage), digest_size=16).digest()


class LedgerWriter:
    """Notes the documents of a collection while it is built, and refuses ids given twice. Of each document a 64-bit
    hash stays in memory: a sorted array, with the newest in a set beside it until they are many."""

    def __init__(self, folder: Path, documents: int) -> None:
        self.documents = documents
        self._files = [
            open_at(folder / f"units.{kind}", documents * size) for kind, size in (("u64", 8), ("b16", 16), ("u32", 4))
        ]
        self._files[0].seek(0)
        held = np.frombuffer(self._files[0].read(), dtype="<u8").astype(np.uint64)
        self._old: npt.NDArray[np.uint64] = np.sort(held)
        self._new: set[int] = set()

    def knows(self, value: int) -> bool:
        """Whether an id of that hash was given before."""
        if value in self._new:
            return True
        at = int(np.searchsorted(self._old, np.uint64(value)))
        return at < len(self._old) and int(self._old[at]) == value

    def add(self, value: int, digest: bytes, passages: int) -> None:
        """Note a document by the hash of its id, its own hash and the number of its passages."""
        for file, part in zip(
            self._files, (value.to_bytes(8, "little"), digest, passages.to_bytes(4, "little")), strict=True
        ):
            file.write(part)
        self.documents += 1
        self._new.add(value)
        if len(self._new) > max(_KEPT_IN_A_SET, len(self._old) // 4):
            fresh = np.fromiter(self._new, dtype=np.uint64, count=len(self._new))
            self._old = np.sort(np.concatenate([self._old, fresh]))
            self._new.clear()

    def flush(self) -> None:
        """Everything added so far is on the disk when this returns."""
        for file in self._files:
            sync(file)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


class DocumentLedger:
    """The documents of a whole collection."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        folder = collection.folder
        self.ids: npt.NDArray[np.uint64] = map_array(folder / "units.u64", np.uint64)
        counts = map_array(folder / "units.u32", np.uint32)
        self._digests: npt.NDArray[np.uint8] = map_array(folder / "units.b16", np.uint8).reshape(-1, 16)
        self.ends: npt.NDArray[np.int64] = np.cumsum(counts, dtype=np.int64)
        """Of each document, the position after its last passage."""
        self._order = np.argsort(self.ids, kind="stable")
        self._sorted = self.ids[self._order]

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, value: int) -> int | None:
        """The number of the document whose id has that hash; ``None``: there is none."""
        at = int(np.searchsorted(self._sorted, np.uint64(value)))
        if at < len(self._sorted) and int(self._sorted[at]) == value:
            return int(self._order[at])
        return None

    def digest(self, number: int) -> bytes:
        """The hash of a document as it was read; zeros: not known."""
        return bytes(self._digests[number])

    def positions(self, number: int) -> range:
        """Where the passages of a document stand."""
        return range(int(self.ends[number - 1]) if number else 0, int(self.ends[number]))

    def records(self, number: int) -> list[bytes]:
        """A document's passages as they are stored."""
        return [self.collection.store.record(position) for position in self.positions(number)]

    def copy(self, number: int, passages: PassageWriter, ledger: LedgerWriter) -> None:
        """Take a document over as it is."""
        records = self.records(number)
        for record in records:
            passages.add_record(record)
        ledger.add(int(self.ids[number]), self.digest(number), len(records))

    def named(self, identity: str) -> list[int]:
        """Numbers of the documents that an id names: that of a document, or of a row of the source.

        Raises:
            UserError: it names none.
        """
        store = self.collection.store
        places = store.of_document(identity)
        if places:
            return sorted({int(np.searchsorted(self.ends, place, side="right")) for place in places})
        number = self.find(id_hash(identity))
        if number is not None:
            first = store.raw(self.positions(number)[0])[0]
            if first in (identity, f"{identity}_0"):
                return [number]
        held = store.find(identity)
        name = self.collection.manifest.name
        if held is not None:
            raise UserError(
                f"{identity!r} is one passage of the document {store.raw(held)[1]!r} in the index {name!r}: documents "
                "are deleted whole, give the document's id."
            )
        near = ""
        if len(store) <= _NEAREST_AMONG:
            near = nearest(identity, sorted({raw[1] for raw in store.each()}))
        raise UserError(f"The index {name!r} has no document {identity!r}.{near}")
