"""The vocabulary of a lexical index on disk: a term's number, without a dictionary in memory.

Terms are found by a 64-bit hash in a sorted, memory-mapped array, a query's terms in one call, and compared with the
stored text. Opening a vocabulary reads nothing, whatever its size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragrounds.tools.index.collection import map_array


def term_hash(term: str) -> int:
    """Return the 64-bit hash of a term.

    Among 10 million terms the chance that any two share a hash is 3e-6. The second would then count as the first.
    """
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class Vocabulary:
    """Vocabulary in a folder, for reading. Safe for many threads at once.

    ``hashes.u64`` are sorted; ``numbers.u32`` are the terms' numbers in that order; ``terms.bin`` holds the texts, of
    which ``term_starts.u64`` and ``term_sizes.u16`` give the positions and sizes.
    """

    def __init__(self, folder: Path) -> None:
        self._hashes = map_array(folder / "hashes.u64", np.uint64)
        self._numbers = map_array(folder / "numbers.u32", np.uint32)
        self._starts = map_array(folder / "term_starts.u64", np.uint64)
        self._sizes = map_array(folder / "term_sizes.u16", np.uint16)
        self._texts = map_array(folder / "terms.bin", np.uint8)

    def __len__(self) -> int:
        return len(self._hashes)

    def find(self, terms: Sequence[str]) -> list[int | None]:
        """Return the number of each term; ``None`` if no passage holds it."""
        if not len(self):
            return [None] * len(terms)
        hashes = np.fromiter(map(term_hash, terms), dtype=np.uint64, count=len(terms))
        positions = np.minimum(np.searchsorted(self._hashes, hashes), len(self) - 1)
        matches = self._hashes[positions] == hashes
        return [
            int(self._numbers[index]) if match and self._text(index) == term.encode("utf-8", "surrogatepass") else None
            for term, index, match in zip(terms, positions.tolist(), matches.tolist(), strict=True)
        ]

    def _text(self, position: int) -> bytes:
        start = int(self._starts[position])
        return self._texts[start : start + int(self._sizes[position])].tobytes()


class VocabularyWriter:
    """Writer of a vocabulary's texts, run by run. Terms are identified by their position among the sorted hashes."""

    def __init__(self, folder: Path, hashes: npt.NDArray[np.uint64]) -> None:
        self._folder = folder
        self._starts = np.zeros(len(hashes), dtype=np.uint64)
        self._sizes = np.zeros(len(hashes), dtype=np.uint16)
        self._is_written = np.zeros(len(hashes), dtype=bool)
        self._text_size = 0
        self._texts = (folder / "terms.bin").open("wb")
        hashes.tofile(folder / "hashes.u64")

    def add(
        self, positions: npt.NDArray[np.int64], texts: npt.NDArray[np.uint8], sizes: npt.NDArray[np.uint16]
    ) -> None:
        """Write the terms of a run that are new. `texts` are all texts of the run, one after another."""
        new = ~self._is_written[positions]
        wide = sizes.astype(np.int64)
        lengths, new_places = wide[new], positions[new]
        self._texts.write(texts[np.repeat(new, wide)].tobytes())
        self._starts[new_places] = self._text_size + np.cumsum(lengths) - lengths
        self._sizes[new_places] = lengths
        self._is_written[new_places] = True
        self._text_size += int(lengths.sum())

    def close(self, numbers: npt.NDArray[np.uint32]) -> None:
        """Write the remaining files. `numbers` are the terms' numbers in the order of their hashes."""
        self._texts.close()
        numbers.tofile(self._folder / "numbers.u32")
        self._starts.tofile(self._folder / "term_starts.u64")
        self._sizes.tofile(self._folder / "term_sizes.u16")
