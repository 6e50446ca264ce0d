"""Builds a lexical index over the passages of a collection, in bounded memory and with all cores.

First the passages are read once and their terms counted, run by run (:mod:`ragrounds.tools.index.bm25_term_counts`); a
build that was killed goes on after the runs that are whole. Then, the mean length being known, the runs are merged and
counts become weights (:mod:`ragrounds.tools.index.bm25_merge`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.base.processes import processors
from ragrounds.tools.index.bm25_merge import merge_runs
from ragrounds.tools.index.bm25_term_counts import count_runs, runs
from ragrounds.tools.index.collection import PassageStore, map_array, write_whole
from ragrounds.tools.index.postings_layout import Norms

RUN_PASSAGES = 100_000
"""The most passages that one process counts in one piece."""
_PROCESSES = 16


@dataclass(frozen=True)
class MergedPostings:
    """Counts of a build: terms of all passages together, different terms, and passages that do not count."""

    tokens: int
    terms: int
    empty: int


class _CountSettings(msgspec.Struct, frozen=True):
    """Analyser and corpus version of the runs in a folder."""

    analyser: str
    version: str


def mean_length(tokens: int, passages: int) -> float:
    """Return the mean length of the passages that count; 1 if there are no terms at all."""
    return tokens / passages if tokens else 1.0


def remove_runs(folder: Path) -> None:
    """Remove the files that only a build needs."""
    for path in [*folder.glob("run-*"), *folder.glob("part-*")]:
        shutil.rmtree(path, ignore_errors=True)
    (folder / "counting.json").unlink(missing_ok=True)


def build_index(
    store: PassageStore,
    folder: Path,
    analyser: str,
    *,
    k1: float,
    b: float,
    in_one_byte: bool,
    version: str,
    shard: int = RUN_PASSAGES,
    progress: Callable[[int], None] | None = None,
) -> MergedPostings:
    """Write an index, except its ``engine.json``.

    Args:
        store: The passages.
        folder: Where the index is written; runs of an earlier build of the same are used.
        analyser: Name of the analyser.
        k1: Parameter of BM25.
        b: Parameter of BM25.
        in_one_byte: Lengths are kept as Lucene keeps them, and passages without terms do not count.
        version: Version of the collection.
        shard: The most passages of a run.
        progress: Called now and then with how many passages are counted.

    Raises:
        OSError: something could not be written.
    """
    note = msgspec.json.encode(_CountSettings(analyser, version))
    noted = folder / "counting.json"
    # Runs of another analyser or corpus version cannot be used.
    if not noted.is_file() or noted.read_bytes() != note:
        remove_runs(folder)
        write_whole(noted, note)
    count_runs(store, folder, analyser, shard, progress or (lambda _: None), min(processors(), _PROCESSES))
    total = len(store)
    parts = [(first, path) for (first, _), path in runs(folder)]
    lengths = np.concatenate(
        [np.zeros(0, dtype=np.uint32), *(map_array(path / "lengths.u32", np.uint32) for _, path in parts)]
    )
    tokens = int(lengths.sum(dtype=np.int64))
    empty = int(np.count_nonzero(lengths == 0)) if in_one_byte else 0
    if in_one_byte:
        lengths = one_byte(lengths.astype(np.float64)).astype(np.uint32)
    lengths.tofile(folder / "lengths.u32")
    norms = Norms(lengths, k1, b, mean_length(tokens, total - empty))
    return MergedPostings(tokens, merge_runs(parts, folder, norms, total), empty)


_FREE = 24
"""Number of a byte's 256 values that a float with four bits leaves free: so many lengths stay as they are."""


def one_byte(lengths: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round lengths as one byte keeps them.

    The excess over 24 is cut to its four leading bits, so that lengths up to 40 are exact.

    Source: the documented form of Lucene's ``SmallFloat.intToByte4``.
    """
    above = np.maximum(lengths - _FREE, 0)
    step = np.exp2(np.maximum(np.frexp(above)[1] - 4, 0))
    return np.where(lengths < _FREE, lengths, _FREE + np.floor(above / step) * step)
