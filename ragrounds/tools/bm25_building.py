"""Builds the BM25 index of a collection: shard by shard, in bounded memory, with the statistics of the whole.

First all passages are read once, and each shard's counts go to the disk; a build that was killed goes on after the
last whole shard. Then, the mean length being known, each shard's counts become weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.errors import UserError
from ragrounds.tools.analysers import Analyser, analyser
from ragrounds.tools.bm25 import Bm25, Settings, Statistics
from ragrounds.tools.collecting import disk, only_here
from ragrounds.tools.collection import Collection, write_whole
from ragrounds.tools.storing import mapped

FORMAT = 1
SHARD_POSTINGS = 20_000_000
"""A shard ends when it has this many postings (or :data:`SHARD_PASSAGES` passages): building one takes about 1 GB."""
SHARD_PASSAGES = 200_000
_BATCH = 2_000

Progress = Callable[[int], None]


def open_bm25(
    collection: Collection, parameters: Settings, *, progress: Progress | None = None, shard: int = SHARD_PASSAGES
) -> Bm25:
    """Open the BM25 index over a collection, after building it where it is not there.

    Args:
        collection: What is searched.
        parameters: The analyser, k1 and b that the index is for.
        progress: Told now and then how many passages are done.
        shard: The most passages in one shard, where the index has to be built.

    Raises:
        UserError: an index that does not fit the collection; another process is building the same.
        StopRun: the disk is full.
    """
    key = hashlib.blake2b(parameters.index.encode(), digest_size=6).hexdigest()
    folder = collection.folder / f"bm25-{key}"
    if not (folder / "engine.json").is_file():
        folder.mkdir(exist_ok=True)
        with only_here(folder):
            try:
                if not (folder / "engine.json").is_file():  # nobody else built it meanwhile
                    _build(collection, folder, parameters, progress, shard)
            except OSError as problem:
                raise disk(folder, problem) from None
    statistics = msgspec.json.decode((folder / "engine.json").read_bytes(), type=Statistics)
    found = (statistics.format, statistics.index, statistics.version)
    expected = (FORMAT, parameters.index, collection.manifest.version)
    if found != expected:
        raise UserError(
            f"The index in {str(folder)!r} does not fit: it is {found}, expected {expected} (format, retriever, corpus "
            f"version). Remove that folder, and it is built again."
        )
    return Bm25(collection, folder, parameters, statistics)


class _Counted(msgspec.Struct):
    """Progress of a build, written down after each shard."""

    index: str
    version: str
    shards: list[tuple[int, int]]
    tokens: int
    terms: int


def _build(collection: Collection, folder: Path, parameters: Settings, progress: Progress | None, shard: int) -> None:
    state = _Counted(parameters.index, collection.manifest.version, [], 0, 0)
    noted = folder / "counting.json"
    if noted.is_file():
        before = msgspec.json.decode(noted.read_bytes(), type=_Counted)
        if (before.index, before.version) == (state.index, state.version):
            state = before
    numbers = _vocabulary(folder, state.terms)
    analyse = analyser(parameters.analyser)
    total = len(collection.store)
    at = sum(count for _, count in state.shards)
    while at < total:
        part = folder / f"shard-{len(state.shards):05}"
        part.mkdir(exist_ok=True)
        known = len(numbers)
        count, tokens = _count(collection, at, part, analyse, numbers, shard, progress)
        _append_terms(folder, list(numbers)[known:], len(state.shards))
        state.shards.append((at, count))
        state.tokens += tokens
        state.terms = len(numbers)
        write_whole(noted, msgspec.json.encode(state))
        at += count
    write_whole(folder / "terms.msgpack", msgspec.msgpack.encode(list(numbers)))
    mean = state.tokens / total if state.tokens else 1.0
    most = np.zeros(len(numbers), dtype=np.float32)
    holders = np.zeros(len(numbers), dtype=np.uint32)
    for number in range(len(state.shards)):
        _weigh(folder / f"shard-{number:05}", parameters, mean, most, holders)
    most.tofile(folder / "most.f32")
    holders.tofile(folder / "holders.u32")
    statistics = Statistics(
        format=FORMAT,
        index=parameters.index,
        version=collection.manifest.version,
        passages=total,
        tokens=state.tokens,
        terms=len(numbers),
        shards=tuple(state.shards),
    )
    write_whole(folder / "engine.json", msgspec.json.format(msgspec.json.encode(statistics), indent=2))
    noted.unlink(missing_ok=True)
    for leftover in [
        *folder.glob("terms-*.msgpack"),
        *folder.glob("shard-*/counts.i32"),
        *folder.glob("shard-*/lengths.i32"),
    ]:
        leftover.unlink()


def _vocabulary(folder: Path, terms: int) -> dict[str, int]:
    """The terms of the shards that are done, in the order of their numbers."""
    numbers: dict[str, int] = {}
    for path in sorted(folder.glob("terms-*.msgpack")):
        for term in msgspec.msgpack.decode(path.read_bytes(), type=list[str]):
            if len(numbers) < terms:
                numbers[term] = len(numbers)
    return numbers


def _append_terms(folder: Path, fresh: list[str], shard: int) -> None:
    write_whole(folder / f"terms-{shard:05}.msgpack", msgspec.msgpack.encode(fresh))


def _count(
    collection: Collection,
    start: int,
    part: Path,
    analyse: Analyser,
    numbers: dict[str, int],
    shard: int,
    progress: Progress | None,
) -> tuple[int, int]:
    """Count the terms of one shard's passages; gives back how many passages and how many terms, repeated ones too."""
    keys: list[npt.NDArray[np.int64]] = []
    counts: list[npt.NDArray[np.int32]] = []
    lengths: list[int] = []
    postings = 0
    end = min(start + shard, len(collection.store))
    at = start
    while at < end and postings < SHARD_POSTINGS:
        batch_end = min(at + _BATCH, end)
        terms: list[int] = []
        sizes: list[int] = []
        for position in range(at, batch_end):
            _, _, title, text = collection.store.raw(position)
            before = len(terms)
            terms += [numbers.setdefault(term, len(numbers)) for term in analyse(f"{title}\n{text}")]
            sizes.append(len(terms) - before)
        # One number for each occurrence, term in the upper half, passage in the lower: sorted, these are columns.
        places = np.repeat(np.arange(at - start, batch_end - start, dtype=np.int64), sizes)
        found, times = np.unique((np.array(terms, dtype=np.int64) << 32) | places, return_counts=True)
        keys.append(found)
        counts.append(times.astype(np.int32))
        lengths += sizes
        postings += len(found)
        at = batch_end
        if progress:
            progress(at)
    joined = np.concatenate(keys)
    order = np.argsort(joined, kind="stable")
    joined = joined[order]
    (joined & 0xFFFFFFFF).astype(np.int32).tofile(part / "passages.i32")
    np.concatenate(counts)[order].tofile(part / "counts.i32")
    columns = np.bincount(joined >> 32, minlength=len(numbers)) if len(joined) else np.zeros(len(numbers), np.int64)
    np.concatenate([[0], np.cumsum(columns)]).astype(np.int64).tofile(part / "starts.i64")
    np.array(lengths, dtype=np.int32).tofile(part / "lengths.i32")
    return at - start, sum(lengths)


def _weigh(
    part: Path, parameters: Settings, mean: float, most: npt.NDArray[np.float32], holders: npt.NDArray[np.uint32]
) -> None:
    """Turn a shard's counts into weights, and note the greatest weight and the number of holders of each term."""
    passages = np.asarray(mapped(part / "passages.i32", np.int32))
    counts = np.asarray(mapped(part / "counts.i32", np.int32)).astype(np.float64)
    lengths = np.asarray(mapped(part / "lengths.i32", np.int32)).astype(np.float64)
    starts = np.asarray(mapped(part / "starts.i64", np.int64))
    norms = parameters.k1 * (1 - parameters.b + parameters.b * lengths / mean)
    weights = (counts / (counts + norms[passages])).astype(np.float32)
    weights.tofile(part / "weights.f32")
    sizes = np.diff(starts)
    holders[: len(sizes)] += sizes.astype(np.uint32)
    held = np.flatnonzero(sizes)
    if len(held):
        most[held] = np.maximum(most[held], np.maximum.reduceat(weights, starts[:-1][held]))
