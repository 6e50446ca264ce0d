"""BM25 (Robertson and Zaragoza 2009) over the shards of a collection, with the statistics of the whole.

Two variants share one index:

* ``bm25[analyser=lucene-english,b=0.4,k1=0.9]`` — Lucene's, as in Pyserini and MedRAG: a term's weight in a passage is
  ``ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b * length / mean))``, and a term given twice in the
  query counts twice.
* ``bm25[query_weighted=true,…]`` — what R2MED and BRIGHT report (gensim's LuceneBM25Model): the logarithm is
  ``ln((N + 1) / (df + 0.5))``, and the query's terms are weighted by the same formula as the passages'; its length is
  the number of its terms that the corpus knows.

Lengths are exact, a passage without terms counts as one of length 0, and only passages that share a term with the query
are found. The authors' programs have it otherwise, each by a switch:

* ``lengths=lucene`` — as Lucene, so as Anserini, Pyserini and MedRAG's program: a length is kept in one byte
  (``SmallFloat``: exact to 40; of a longer one what exceeds 24 is cut to its four leading bits), and passages without
  terms count neither among the passages nor in the mean length. This moves nDCG@10 in the third decimal.
* ``ties=id`` — as Anserini: equal scores are ordered by the passage's id, ascending, in place of its position.
* ``zeros=true`` — as R2MED and BRIGHT: a ranking is filled up with passages of score 0, in the corpus' order.

The index is built shard by shard, in bounded memory. First all passages are read once, and each shard's counts go to
the disk; a build that was killed resumes after the last whole shard. Then, the mean length being known, each shard's
counts become weights.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import math
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.contracts import Searcher
from ragrounds.digests import code_digest, code_unless_first, text_digest
from ragrounds.errors import UserError, nearest
from ragrounds.records import Passage
from ragrounds.specs import Spec, Value
from ragrounds.tools.analysers import NAMES, Analyser, analyser
from ragrounds.tools.collection import Collection, map_array, write_whole
from ragrounds.tools.collection_builder import Count, IndexManifest, whole_index
from ragrounds.tools.postings import Shard, Weighted
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora

_NEAR = 1e-5
"""Relative room for rounding when two scores are taken to be equal before they are summed exactly."""
_SMALL = 50_000
"""Collections up to this many passages are searched on the event loop's own thread: it takes less than handing over."""


class Bm25Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of BM25; the defaults are Anserini's and MedRAG's."""

    analyser: str = "lucene-english"
    b: float = 0.4
    k1: float = 0.9
    query_weighted: bool = False
    lengths: Literal["exact", "lucene"] = "exact"
    ties: Literal["corpus", "id"] = "corpus"
    zeros: bool = False

    @property
    def spec(self) -> Spec:
        """The canonical spec: analyser, k1 and b are always given, the switches only where they are set."""
        parameters: dict[str, Value] = {"analyser": self.analyser, "b": self.b, "k1": self.k1}
        if self.lengths != "exact":
            parameters["lengths"] = self.lengths
        if self.query_weighted:
            parameters["query_weighted"] = True
        if self.ties != "corpus":
            parameters["ties"] = self.ties
        if self.zeros:
            parameters["zeros"] = True
        return Spec("bm25", parameters)

    @property
    def index(self) -> str:
        """What the index on disk depends on; the variants of the query share it."""
        return str(msgspec.structs.replace(self, query_weighted=False, ties="corpus", zeros=False).spec)


def bm25_parameters(spec: Spec) -> Bm25Parameters:
    """Read the parameters of a ``bm25[…]`` spec; ``analyzer`` is taken for ``analyser``.

    Raises:
        UserError: an unknown parameter or a value out of range.
    """
    given = dict(spec.parameters)
    if "analyzer" in given:
        if "analyser" in given:
            raise UserError(f"{str(spec)!r} gives both `analyser` and `analyzer`: they are one parameter, give one.")
        given["analyser"] = given.pop("analyzer")
    BM25.check(Spec(spec.name, given))
    try:
        made = msgspec.convert(given, Bm25Parameters)
    except msgspec.ValidationError as problem:
        raise UserError(f"Cannot use {str(spec)!r}: {problem}.") from None
    if made.analyser not in NAMES:
        raise UserError(
            f"Unknown analyser {made.analyser!r}.{nearest(made.analyser, NAMES)} Known: {', '.join(NAMES)}."
        )
    if not (math.isfinite(made.k1) and made.k1 >= 0 and 0 <= made.b <= 1):
        raise UserError(f"Cannot use {str(spec)!r}: expected k1 >= 0 and b from 0 to 1.")
    return made


class Bm25Statistics(IndexManifest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a whole index says of itself."""

    tokens: int
    """Terms of all passages together, repetitions included."""
    terms: int
    shards: tuple[tuple[int, int], ...]
    """First passage and number of passages of each."""
    empty: int = 0
    """Passages without terms that are left out of the number of passages and of the mean length."""

    @property
    def counted(self) -> int:
        """The number of passages that the formulas go by."""
        return self.passages - self.empty


class Bm25Searcher:
    """Searches one collection. Safe for many threads at once; see :class:`ragrounds.contracts.Searcher`."""

    def __init__(
        self, collection: Collection, folder: Path, parameters: Bm25Parameters, statistics: Bm25Statistics
    ) -> None:
        self._collection = collection
        self._folder = folder
        self._parameters = parameters
        self._statistics = statistics
        self._analyse = analyser(parameters.analyser)
        self.spec = str(parameters.spec)
        self.corpus = collection.corpus
        # Importing numba takes longer than searching a small collection a thousand times.
        self._compiled = statistics.passages > _SMALL and importlib.util.find_spec("numba") is not None
        listed = msgspec.msgpack.decode((folder / "terms.msgpack").read_bytes(), type=list[str])
        self._numbers = dict(zip(listed, range(len(listed)), strict=True))
        self._holders: npt.NDArray[np.generic] = map_array(folder / "holders.u32", np.uint32)
        self._most: npt.NDArray[np.generic] = map_array(folder / "most.f32", np.float32)
        self._shards = [
            Shard(folder / f"shard-{number:05}", first, count)
            for number, (first, count) in enumerate(statistics.shards)
        ]

    @property
    def size(self) -> int:
        """Bytes of the index on disk, the passages apart."""
        return sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file())

    def document(self, id: str) -> list[Passage]:
        """The passages of a document, in its own order."""
        return self._collection.document(id)

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages that share a term with the query, best first, ranks from 1; ties go to the passage
        that comes first in the corpus. An empty query, or one of stop words, finds nothing. Switches of the spec have
        it otherwise."""
        if self._statistics.passages <= _SMALL:
            return self.find(query, k)
        return await asyncio.to_thread(self.find, query, k)

    def find(self, query: str, k: int) -> list[Passage]:
        """:meth:`search`, in this thread."""
        found = []
        for rank, (position, score) in enumerate(self.ranked(query, k), 1):
            identity, document, title, text = self._collection.store.raw(position)
            found.append(
                Passage(
                    id=identity,
                    document=document,
                    title=title,
                    text=text,
                    corpus=self.corpus,
                    score=score,
                    rank=rank,
                    retriever=self.spec,
                )
            )
        return found

    def ranked(self, query: str, k: int) -> list[tuple[int, float]]:
        """Positions in the collection with their scores, best first.

        Raises:
            UserError: `k` is below 1.
        """
        if k < 1:
            raise UserError(f"Cannot search for {k} passages: expected 1 or more.")
        found = self._ranked(query, k) if self._parameters.ties == "corpus" else self._by_id(query, k)
        if not self._parameters.zeros or len(found) >= k:
            return found
        known = {position for position, _ in found}
        others: Sequence[int] = range(self._statistics.passages)
        if self._parameters.ties == "id":
            others = sorted(others, key=lambda position: self._collection.store.raw(position)[0])
        rest = (position for position in others if position not in known)
        return found + [(position, 0.0) for position in islice(rest, k - len(found))]

    def _by_id(self, query: str, k: int) -> list[tuple[int, float]]:
        """:meth:`ranked`, ties to the lower id."""
        depth = k + 1
        while True:
            found = self._ranked(query, depth)
            # Which of the passages with about the last score come first is known when all of them are there.
            if len(found) < depth or found[-1][1] < found[k - 1][1] * (1 - _NEAR):
                break
            depth *= 4
        exact = self._exact(query, [position for position, _ in found])
        return sorted(exact, key=lambda hit: (-hit[1], self._collection.store.raw(hit[0])[0]))[:k]

    def _exact(self, query: str, positions: Sequence[int]) -> list[tuple[int, float]]:
        """Positions with their scores, summed so that the order of the terms makes no difference: passages with the
        same weights are equal, as in Lucene."""
        terms = self._weighted(query)
        scored: list[tuple[int, float]] = []
        for shard in self._shards:
            inside = np.array(
                sorted(p - shard.first for p in positions if 0 <= p - shard.first < shard.count), np.int32
            )
            sums = shard.summed(terms, inside).astype(np.float32)
            scored += zip((inside + shard.first).tolist(), sums.tolist(), strict=True)
        return scored

    def _ranked(self, query: str, k: int) -> list[tuple[int, float]]:
        """:meth:`ranked`, ties to the passage that comes first in the corpus."""
        terms = self._weighted(query)
        best: list[tuple[int, float]] = []
        for shard in self._shards if terms else ():
            least = best[-1][1] if len(best) >= k else 0.0
            positions, scores = shard.compiled(terms, k, least) if self._compiled else shard.best(terms, k, least)
            best += zip((positions + shard.first).tolist(), scores.tolist(), strict=True)
            best.sort(key=lambda hit: (-hit[1], hit[0]))
            del best[k:]
        return best

    def _weighted(self, query: str) -> list[Weighted]:
        """The query's known terms, those that can add most first."""
        counts = Counter(self._analyse(query))
        length = sum(count for text, count in counts.items() if text in self._numbers)
        weighted = []
        for text, count in counts.items():
            if (term := self._numbers.get(text)) is not None:
                weight = self._weight(int(self._holders[term]), count, length)
                weighted.append(Weighted(term, weight, weight * float(self._most[term])))
        return sorted(weighted, key=lambda term: (-term.most, term.term))

    def _weight(self, holders: int, count: int, length: int) -> float:
        """Weight of a term in the query: idf and all that the passages' weights leave out."""
        total = self._statistics.counted
        if not self._parameters.query_weighted:
            return count * math.log(1 + (total - holders + 0.5) / (holders + 0.5))
        idf = math.log((total + 1) / (holders + 0.5))
        mean = self._statistics.tokens / total
        k1, b = self._parameters.k1, self._parameters.b
        return idf * idf * count / (count + k1 * (1 - b + b * length / mean))


FORMAT = 1
_BUILDERS = (__name__, "ragrounds.tools.analysers", "ragrounds.tools.postings")
"""Modules that decide what an index holds."""


def builders_code() -> str:
    """The digest of the code that decides what an index holds."""
    return text_digest(*map(code_digest, _BUILDERS))


SHARD_POSTINGS = 20_000_000
"""A shard ends when it has this many postings (or :data:`SHARD_PASSAGES` passages): building one takes about 1 GB."""
SHARD_PASSAGES = 200_000
_BATCH = 2_000


def open_bm25(
    collection: Collection, parameters: Bm25Parameters, *, progress: Count | None = None, shard: int = SHARD_PASSAGES
) -> Bm25Searcher:
    """Open the BM25 index over a collection, after building it where it is not there.

    Args:
        collection: What is searched.
        parameters: The analyser, k1 and b that the index is for.
        progress: Called now and then with how many passages are done.
        shard: The most passages in one shard, where the index has to be built.

    Raises:
        UserError: an index that does not fit the collection; another process is building the same.
        StopRun: the disk is full.
    """
    index = parameters.index + code_unless_first("indexes", "bm25", builders_code())
    key = hashlib.blake2b(index.encode(), digest_size=6).hexdigest()
    folder = collection.folder / f"bm25-{key}"
    statistics = whole_index(
        collection,
        folder,
        Bm25Statistics,
        (FORMAT, parameters.index),
        lambda: _build(collection, folder, parameters, progress, shard),
    )
    return Bm25Searcher(collection, folder, parameters, statistics)


class _Counted(msgspec.Struct):
    """Progress of a build, written down after each shard."""

    index: str
    version: str
    shards: list[tuple[int, int]]
    tokens: int
    terms: int


def _build(
    collection: Collection, folder: Path, parameters: Bm25Parameters, progress: Count | None, shard: int
) -> None:
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
        new_terms = msgspec.msgpack.encode(list(numbers)[known:])
        write_whole(folder / f"terms-{len(state.shards):05}.msgpack", new_terms)
        state.shards.append((at, count))
        state.tokens += tokens
        state.terms = len(numbers)
        write_whole(noted, msgspec.json.encode(state))
        at += count
    write_whole(folder / "terms.msgpack", msgspec.msgpack.encode(list(numbers)))
    empty = _empty(folder, len(state.shards)) if parameters.lengths == "lucene" else 0
    mean = state.tokens / (total - empty) if state.tokens else 1.0
    most = np.zeros(len(numbers), dtype=np.float32)
    holders = np.zeros(len(numbers), dtype=np.uint32)
    for number in range(len(state.shards)):
        _weigh(folder / f"shard-{number:05}", parameters, mean, most, holders)
    most.tofile(folder / "most.f32")
    holders.tofile(folder / "holders.u32")
    statistics = Bm25Statistics(
        format=FORMAT,
        index=parameters.index,
        version=collection.manifest.version,
        passages=total,
        tokens=state.tokens,
        terms=len(numbers),
        shards=tuple(state.shards),
        empty=empty,
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


def _count(
    collection: Collection,
    start: int,
    part: Path,
    analyse: Analyser,
    numbers: dict[str, int],
    shard: int,
    progress: Count | None,
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


def _empty(folder: Path, shards: int) -> int:
    """How many passages have no terms."""
    lengths = (map_array(folder / f"shard-{number:05}" / "lengths.i32", np.int32) for number in range(shards))
    return sum(int(np.count_nonzero(each == 0)) for each in lengths)


_FREE = 24
"""How many of a byte's 256 values a float with four bits leaves free: so many lengths stay as they are."""


def one_byte(lengths: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Lengths as one byte keeps them: what exceeds 24 is cut to its four leading bits, so that up to 40 all are exact.

    Source: the documented form of Lucene's ``SmallFloat.intToByte4``.
    """
    above = np.maximum(lengths - _FREE, 0)
    step = np.exp2(np.maximum(np.frexp(above)[1] - 4, 0))
    return np.where(lengths < _FREE, lengths, _FREE + np.floor(above / step) * step)


def _weigh(
    part: Path, parameters: Bm25Parameters, mean: float, most: npt.NDArray[np.float32], holders: npt.NDArray[np.uint32]
) -> None:
    """Turn a shard's counts into weights, and note the greatest weight and the number of holders of each term."""
    passages = np.asarray(map_array(part / "passages.i32", np.int32))
    counts = np.asarray(map_array(part / "counts.i32", np.int32)).astype(np.float64)
    lengths = np.asarray(map_array(part / "lengths.i32", np.int32)).astype(np.float64)
    starts = np.asarray(map_array(part / "starts.i64", np.int64))
    if parameters.lengths == "lucene":
        lengths = one_byte(lengths)
    norms = parameters.k1 * (1 - parameters.b + parameters.b * lengths / mean)
    weights = (counts / (counts + norms[passages])).astype(np.float32)
    weights.tofile(part / "weights.f32")
    sizes = np.diff(starts)
    holders[: len(sizes)] += sizes.astype(np.uint32)
    held = np.flatnonzero(sizes)
    if len(held):
        most[held] = np.maximum(most[held], np.maximum.reduceat(weights, starts[:-1][held]))


def _open(spec: Spec, corpora: SearchedCorpora) -> Searcher:
    parameters = bm25_parameters(spec)
    return corpora.each(lambda collection: open_bm25(collection, parameters, progress=corpora.counting("indexing")))


_DEFAULTS = Bm25Parameters()
BM25 = Retriever(
    name="bm25",
    summary="BM25 as Lucene's; query_weighted=true,zeros=true is R2MED's and BRIGHT's",
    example="bm25[analyser=lucene-english,k1=0.9,b=0.4]",
    open=_open,
    parameters=(
        RetrieverParameter("analyser", f"{', '.join(NAMES)}", _DEFAULTS.analyser),
        RetrieverParameter("b", "how much a passage's length counts, from 0 to 1", _DEFAULTS.b),
        RetrieverParameter("k1", "how soon a term's repetition stops to count, 0 or more", _DEFAULTS.k1),
        RetrieverParameter("lengths", "exact, or lucene: one byte each, empty passages not counted", _DEFAULTS.lengths),
        RetrieverParameter("ties", "equal scores by place in the corpus, or by id", _DEFAULTS.ties),
        RetrieverParameter("zeros", "fill a ranking up with passages that share no term", _DEFAULTS.zeros),
        RetrieverParameter("query_weighted", "weight the query's terms as the passages'", _DEFAULTS.query_weighted),
    ),
    index="an inverted index in memory-mapped shards",
    cost="no model, and milliseconds for a million passages",
)
