"""The second half of building a lexical index: runs become one set of postings, a few million at a time.

Terms are merged in the order of their hashes. What is written is explained in
:mod:`ragrounds.tools.index.postings_layout`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragrounds.tools.index.bm25_vocabulary import VocabularyWriter
from ragrounds.tools.index.collection import map_array
from ragrounds.tools.index.postings_layout import DENSE, FULL, LEVELS, WINDOW, WINDOW_BITS, Norms, common_from

Longs = npt.NDArray[np.int64]

CHUNK = 8_000_000
"""Number of postings that are merged at a time, or those of one term if it has more. Each takes about 60 bytes."""


class _Run:
    """A run with its arrays, while runs are merged."""

    def __init__(self, folder: Path, first: int, hashes: npt.NDArray[np.uint64]) -> None:
        self.first = first
        run_hashes = map_array(folder / "hashes.u64", np.uint64)
        self.term_positions: npt.NDArray[np.int32] = np.searchsorted(hashes, run_hashes).astype(
            np.int32
        )  # among all terms
        self.sizes = map_array(folder / "sizes.u32", np.uint32)
        self.starts: Longs = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)]).astype(np.int64)
        self.passages = map_array(folder / "passages.u32", np.uint32)
        self.counts = map_array(folder / "counts.i32", np.int32)


@dataclass(frozen=True)
class _Chunk:
    """The postings of some neighbouring terms."""

    passage_counts: Longs
    """Number of passages that hold each term."""
    passages: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.int32]


def merge_runs(
    parts: list[tuple[int, Path]],
    folder: Path,
    norms: Norms,
    passages: int,
) -> int:
    """Write the postings and the vocabulary of all runs.

    Args:
        parts: First passage and folder of each run, ascending.
        folder: Where the index is written.
        norms: Effect of a passage's length on its weights.
        passages: Number of passages.

    Returns:
        The number of terms.
    """
    lists = [map_array(path / "hashes.u64", np.uint64) for _, path in parts]
    hashes = np.unique(np.concatenate(lists)) if lists else np.zeros(0, dtype=np.uint64)
    del lists
    vocabulary = VocabularyWriter(folder, hashes)
    holders = np.zeros(len(hashes), dtype=np.int64)
    runs: list[_Run] = []
    for first, path in parts:
        run = _Run(path, first, hashes)
        holders[run.term_positions] += run.sizes
        vocabulary.add(
            run.term_positions.astype(np.int64),
            map_array(path / "terms.bin", np.uint8),
            map_array(path / "term_sizes.u16", np.uint16),
        )
        runs.append(run)
    del hashes
    common = holders >= common_from(passages)
    numbers = np.empty(len(holders), dtype=np.uint32)
    numbers[common] = np.arange(int(common.sum()), dtype=np.uint32)
    numbers[~common] = np.arange(int(common.sum()), len(holders), dtype=np.uint32)
    vocabulary.close(numbers)
    ordered = np.argsort(numbers)
    holders[ordered].astype(np.uint32).tofile(folder / "holders.u32")
    greatest = np.zeros(len(holders), dtype=np.float32)
    ends = np.cumsum(holders)
    with _Writer(folder, norms, passages) as writer:
        low = 0
        while low < len(holders):
            start = int(ends[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(ends, start + CHUNK, side="right")))
            chunk = _gather(runs, low, high, holders)
            greatest[low:high] = writer.write(chunk, numbers[low:high], common[low:high])
            low = high
    greatest[ordered].tofile(folder / "most.f32")
    return len(holders)


def _gather(runs: list[_Run], low: int, high: int, holders: Longs) -> _Chunk:
    """Return the postings of the terms from `low` to before `high`, by term and then by passage."""
    sizes = holders[low:high]
    total = int(sizes.sum())
    passages = np.empty(total, dtype=np.uint32)
    counts = np.empty(total, dtype=np.int32)
    filled = np.cumsum(sizes) - sizes
    for run in runs:
        first, last = (int(index) for index in np.searchsorted(run.term_positions, [low, high]))
        if first == last:
            continue
        start, end = int(run.starts[first]), int(run.starts[last])
        terms = run.term_positions[first:last] - low
        run_sizes = run.sizes[first:last].astype(np.int64)
        targets = np.repeat(filled[terms] - (run.starts[first:last] - start), run_sizes)
        targets += np.arange(end - start)
        passages[targets] = run.passages[start:end] + np.uint32(run.first)
        counts[targets] = run.counts[start:end]
        filled[terms] += run_sizes
    return _Chunk(sizes, passages, counts)


_FILES = (
    "common/low.u16",
    "common/codes.u8",
    "common/counts.u8",
    "rare/passages.u32",
    "rare/codes.u8",
    "rare/counts.u8",
    "windows.u32",
    "dense.u8",
)


class _Writer(ExitStack):
    """Writer of the index files, chunk after chunk."""

    def __init__(self, folder: Path, norms: Norms, passages: int) -> None:
        super().__init__()
        self._folder = folder
        self._norms = norms
        self._passages = passages
        self._windows = -(-passages // WINDOW)
        for name in ("common", "rare"):
            (folder / name).mkdir(exist_ok=True)
        self._files = {name: self.enter_context((folder / name).open("wb")) for name in _FILES}
        self._holder_counts: dict[str, list[Longs]] = {"common": [], "rare": []}
        self._rows: list[npt.NDArray[np.int32]] = []
        self._many = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32))]
        self._dense = 0
        self.callback(self._close)

    def write(
        self, chunk: _Chunk, numbers: npt.NDArray[np.uint32], common: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float32]:
        """Write a chunk and return the greatest weight of each term."""
        starts = np.cumsum(chunk.passage_counts) - chunk.passage_counts
        weights = self._norms.weights(chunk.counts, chunk.passages)
        greatest: npt.NDArray[np.float32] = np.maximum.reduceat(weights, starts)
        scale = LEVELS / np.maximum(greatest.astype(np.float64), np.finfo(np.float64).tiny)
        codes = np.minimum(np.ceil(weights * np.repeat(scale, chunk.passage_counts)), LEVELS).astype(np.uint8)
        del weights
        counts = np.minimum(chunk.counts, FULL).astype(np.uint8)
        many = np.flatnonzero(chunk.counts >= FULL)
        if len(many):
            terms = numbers[np.searchsorted(starts, many, side="right") - 1].astype(np.int64)
            self._many.append(((terms << 32) | chunk.passages[many], chunk.counts[many]))
        inside = np.repeat(common, chunk.passage_counts)
        for name, mask in (("common", inside), ("rare", ~inside)):
            self._append(f"{name}/codes.u8", codes[mask])
            self._append(f"{name}/counts.u8", counts[mask])
        self._holder_counts["common"].append(chunk.passage_counts[common])
        self._holder_counts["rare"].append(chunk.passage_counts[~common])
        self._append("rare/passages.u32", chunk.passages[~inside])
        passages = chunk.passages[inside]
        self._append("common/low.u16", (passages & (WINDOW - 1)).astype(np.uint16))
        self._write_directory(chunk.passage_counts[common], passages >> WINDOW_BITS)
        self._write_dense_rows(chunk.passage_counts[common], passages, codes[inside])
        return greatest

    def _write_directory(self, holders: Longs, windows: npt.NDArray[np.integer]) -> None:
        """Write where each window of passages begins in a common term's list."""
        keys = np.repeat(np.arange(len(holders)) * self._windows, holders)
        keys += windows
        table = np.bincount(keys, minlength=len(holders) * self._windows).reshape(len(holders), self._windows)
        ends = np.zeros((len(holders), self._windows + 1), dtype=np.uint32)
        np.cumsum(table, axis=1, out=ends[:, 1:])
        self._append("windows.u32", ends)

    def _write_dense_rows(self, holders: Longs, passages: npt.NDArray[np.uint32], codes: npt.NDArray[np.uint8]) -> None:
        """Write one byte for each passage, for the terms that many passages hold."""
        rows = np.full(len(holders), -1, dtype=np.int32)
        starts = np.cumsum(holders) - holders
        for term in np.flatnonzero(holders * DENSE >= self._passages).tolist():
            row = np.zeros(self._windows * WINDOW, dtype=np.uint8)
            span = slice(int(starts[term]), int(starts[term] + holders[term]))
            row[passages[span]] = codes[span]
            self._append("dense.u8", row)
            rows[term] = self._dense
            self._dense += 1
        self._rows.append(rows)

    def _append(self, name: str, values: npt.NDArray[np.generic]) -> None:
        values.tofile(self._files[name])

    def _close(self) -> None:
        for name, holder_counts in self._holder_counts.items():
            ends = np.cumsum(np.concatenate([np.zeros(1, dtype=np.int64), *holder_counts]))
            ends.astype(np.int64).tofile(self._folder / name / "starts.i64")
        np.concatenate([np.zeros(0, dtype=np.int32), *self._rows]).tofile(self._folder / "rows.i32")
        keys = np.concatenate([keys for keys, _ in self._many])
        order = np.argsort(keys)
        keys[order].tofile(self._folder / "many_keys.i64")
        np.concatenate([counts for _, counts in self._many])[order].tofile(self._folder / "many_counts.i32")
