"""The vocabulary of a lexical index on disk: a term's number, without a dictionary in memory.

Terms are found by a 64-bit hash in a sorted, memory-mapped array, a query's terms in one call, and compared with the
text that stands there. Opening one reads nothing, whatever its size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragrounds.tools.index.collection import map_array


def term_hash(term: str) -> int:
    """64-bit hash of a term. Among 10 million terms the chance that any two share one is 3e-6: the second would then
    count as the first."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class Vocabulary:
    """Reads the vocabulary in a folder. Safe for many threads at once.

    ``hashes.u64`` are sorted; ``numbers.u32`` are the terms' numbers in that order; ``terms.bin`` holds the texts, of
    which ``term_starts.u64`` and ``term_sizes.u16`` tell where each stands.
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
        """The number of each term; ``None``: no passage holds it."""
        if not len(self):
            return [None] * len(terms)
        wanted = np.fromiter(map(term_hash, terms), dtype=np.uint64, count=len(terms))
        places = np.minimum(np.searchsorted(self._hashes, wanted), len(self) - 1)
        held = self._hashes[places] == wanted
        return [
            int(self._numbers[place]) if found and self._text(place) == term.encode("utf-8", "surrogatepass") else None
            for term, place, found in zip(terms, places.tolist(), held.tolist(), strict=True)
        ]

    def _text(self, place: int) -> bytes:
        start = int(self._starts[place])
        return self._texts[start : start + int(self._sizes[place])].tobytes()


class VocabularyWriter:
    """Writes the texts of a vocabulary, run by run; terms are known by their place among the sorted hashes."""

    def __init__(self, folder: Path, hashes: npt.NDArray[np.uint64]) -> None:
        self._folder = folder
        self._starts = np.zeros(len(hashes), dtype=np.uint64)
        self._sizes = np.zeros(len(hashes), dtype=np.uint16)
        self._known = np.zeros(len(hashes), dtype=bool)
        self._at = 0
        self._texts = (folder / "terms.bin").open("wb")
        hashes.tofile(folder / "hashes.u64")

    def add(self, places: npt.NDArray[np.int64], texts: npt.NDArray[np.uint8], sizes: npt.NDArray[np.uint16]) -> None:
        """Take the terms of a run that are new; `texts` are all of the run's, one after another."""
        new = ~self._known[places]
        wide = sizes.astype(np.int64)
        lengths, chosen = wide[new], places[new]
        self._texts.write(texts[np.repeat(new, wide)].tobytes())
        self._starts[chosen] = self._at + np.cumsum(lengths) - lengths
        self._sizes[chosen] = lengths
        self._known[chosen] = True
        self._at += int(lengths.sum())

    def close(self, numbers: npt.NDArray[np.uint32]) -> None:
        """Write what is left; `numbers` are the terms' numbers in the order of their hashes."""
        self._texts.close()
        numbers.tofile(self._folder / "numbers.u32")
        self._starts.tofile(self._folder / "term_starts.u64")
        self._sizes.tofile(self._folder / "term_sizes.u16")
