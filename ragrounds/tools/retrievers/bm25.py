"""BM25 (Robertson and Zaragoza 2009) over a collection.

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

The index is built in bounded memory (:mod:`ragrounds.tools.index.bm25_builder`), and searched by
:mod:`ragrounds.tools.index.postings`: only what may be among the best is scored, and the result is that of scoring all.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

from ragrounds.base.contracts import Searcher
from ragrounds.base.digests import code_digest, text_digest
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.plugins import say_once
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec, Value
from ragrounds.tools.index.analysers import NAMES, analyser
from ragrounds.tools.index.bm25_builder import RUN_PASSAGES, build_index, mean_length, remove_runs
from ragrounds.tools.index.bm25_vocabulary import Vocabulary
from ragrounds.tools.index.collection import Collection
from ragrounds.tools.index.collection_builder import Count, whole_index
from ragrounds.tools.index.engine_files import IndexManifest
from ragrounds.tools.index.postings import Postings, Weighted
from ragrounds.tools.retriever import Retriever, SearchedCorpora, parameters_of

_NEAR = 1e-5
"""Relative room for rounding when two scores are taken to be equal before they are summed exactly."""
_SMALL = 50_000
"""Collections up to this many passages are searched on the event loop's own thread: it takes less than handing over."""
_WORTH = 5_000_000
"""Passages gone through, search by search, after which numba is loaded: to load it takes about as long."""
_REMEMBERED = 100_000
"""Terms of queries that are remembered with what the index says of them."""


class Bm25Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of BM25; the defaults are Anserini's and MedRAG's."""

    analyser: Annotated[str, ", ".join(NAMES)] = "lucene-english"
    b: Annotated[float, "how much a passage's length counts, from 0 to 1"] = 0.4
    k1: Annotated[float, "how soon a term's repetition stops to count, 0 or more"] = 0.9
    lengths: Annotated[Literal["exact", "lucene"], "exact, or lucene: one byte each, empty passages not counted"] = (
        "exact"
    )
    ties: Annotated[Literal["corpus", "id"], "equal scores by place in the corpus, or by id"] = "corpus"
    zeros: Annotated[bool, "fill a ranking up with passages that share no term"] = False
    query_weighted: Annotated[bool, "weight the query's terms as the passages'"] = False

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
    """Read the parameters of a ``bm25[…]`` spec.

    Raises:
        UserError: an unknown parameter or a value out of range.
    """
    BM25.check(spec)
    try:
        made = msgspec.convert(dict(spec.parameters), Bm25Parameters)
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
    empty: int = 0
    """Passages without terms that are left out of the number of passages and of the mean length."""

    @property
    def counted(self) -> int:
        """The number of passages that the formulas go by."""
        return self.passages - self.empty


class Bm25Searcher:
    """Searches one collection. Safe for many threads at once; see :class:`ragrounds.base.contracts.Searcher`."""

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
        self._compiled = False
        self._uncompiled: float = _WORTH
        self._terms: dict[str, tuple[int, int, float] | None] = {}
        self._vocabulary = Vocabulary(folder)
        mean = mean_length(statistics.tokens, statistics.counted)
        self._postings = Postings(folder, statistics.passages, parameters.k1, parameters.b, mean)

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
        return self._collection.passages(self.ranked(query, k), self.spec)

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
        ascending = np.array(sorted(positions), dtype=np.int64)
        sums = self._postings.summed(self._weighted(query), ascending).astype(np.float32)
        return list(zip(ascending.tolist(), sums.tolist(), strict=True))

    def _ranked(self, query: str, k: int) -> list[tuple[int, float]]:
        """:meth:`ranked`, ties to the passage that comes first in the corpus."""
        return self._top(self._weighted(query), k)

    def _top(self, terms: Sequence[Weighted], k: int) -> list[tuple[int, float]]:
        """Positions of the best passages with their scores, ties to the one that comes first in the corpus."""
        if not terms:
            return []
        self._uncompiled -= self._statistics.passages
        if self._uncompiled < 0 and not self._compiled:
            self._compiled, self._uncompiled = _is_compiled(), math.inf
        search = self._postings.compiled if self._compiled else self._postings.best
        positions, scores = search(terms, k)
        return list(zip(positions.tolist(), scores.tolist(), strict=True))

    def _weighted(self, query: str) -> list[Weighted]:
        """The query's known terms, those that can add most first, of equal ones the first in the alphabet: scores are
        summed in this order, and do not depend on how the index was built."""
        counts = Counter(self._analyse(query))
        texts = sorted(counts)
        held = self._held(texts)
        known = [(counts[text], found) for text in texts if (found := held[text]) is not None]
        length = sum([count for count, _ in known])
        weighted = []
        for count, (term, holders, most) in known:
            weight = self._weight(holders, count, length)
            if weight * most > 0:
                weighted.append(Weighted(term, weight, weight * most))
        weighted.sort(key=attrgetter("most"), reverse=True)
        return weighted

    def _held(self, texts: Sequence[str]) -> Mapping[str, tuple[int, int, float] | None]:
        """Text → number, passages that hold it, most weight, of some terms; ``None``: no passage holds it. Questions
        share most of their terms."""
        known = self._terms
        new = [text for text in texts if text not in known]
        if new:
            if len(known) > _REMEMBERED:
                known = self._terms = {text: known[text] for text in texts if text in known}
            holders, most = self._postings.holders, self._postings.most
            for text, term in zip(new, self._vocabulary.find(new), strict=True):
                known[text] = None if term is None else (term, int(holders[term]), float(most[term]))
        return known

    def _idf(self, holders: int) -> float:
        """Lucene's inverse document frequency."""
        return math.log(1 + (self._statistics.counted - holders + 0.5) / (holders + 0.5))

    def _weight(self, holders: int, count: int, length: int) -> float:
        """Weight of a term in the query: idf and all that the passages' weights leave out."""
        total = self._statistics.counted
        if not self._parameters.query_weighted:
            return count * self._idf(holders)
        idf = math.log((total + 1) / (holders + 0.5))
        mean = self._statistics.tokens / total
        k1, b = self._parameters.k1, self._parameters.b
        return idf * idf * count / (count + k1 * (1 - b + b * length / mean))


def _is_compiled() -> bool:
    """Load what is compiled by numba; where that cannot be had, say so once."""
    try:
        importlib.import_module("ragrounds.tools.index.postings_numba")
    except ModuleNotFoundError:
        say_once("BM25 takes up to ten times as long without numba: pip install 'ragrounds[fast]'.")
    except Exception as problem:  # one that does not fit to what else is installed
        say_once(f"BM25 takes up to ten times as long: numba cannot be loaded ({type(problem).__name__}: {problem}).")
    else:
        return True
    return False


FORMAT = 2
_BUILDERS = tuple(
    f"ragrounds.tools.index.{name}"
    for name in ("analysers", "bm25_builder", "bm25_term_counts", "bm25_merge", "bm25_vocabulary", "postings_layout")
)
"""Modules that decide what an index holds."""


def builders_code() -> str:
    """The digest of the code that decides what an index holds."""
    return text_digest(*map(code_digest, _BUILDERS))


def open_bm25(
    collection: Collection, parameters: Bm25Parameters, *, progress: Count | None = None, shard: int = RUN_PASSAGES
) -> Bm25Searcher:
    """Open the BM25 index over a collection, after building it where it is not there.

    Args:
        collection: What is searched.
        parameters: The analyser, k1 and b that the index is for.
        progress: Called now and then with how many passages are done.
        shard: The most passages that are counted in one piece, where the index has to be built.

    Raises:
        UserError: an index that does not fit the collection; another process is building the same.
        StopRun: the disk is full.
    """
    index = f"{parameters.index} {FORMAT}{builders_code()}"
    key = hashlib.blake2b(index.encode(), digest_size=6).hexdigest()
    folder = collection.folder / f"bm25-{key}"

    def build() -> Bm25Statistics:
        """Build the index."""
        built = build_index(
            collection.store,
            folder,
            parameters.analyser,
            k1=parameters.k1,
            b=parameters.b,
            in_one_byte=parameters.lengths == "lucene",
            version=collection.manifest.version,
            shard=shard,
            progress=progress,
        )
        return Bm25Statistics(
            format=FORMAT,
            index=parameters.index,
            version=collection.manifest.version,
            passages=len(collection.store),
            tokens=built.tokens,
            terms=built.terms,
            empty=built.empty,
        )

    statistics = whole_index(collection, folder, Bm25Statistics, (FORMAT, parameters.index), build)
    remove_runs(folder)
    return Bm25Searcher(collection, folder, parameters, statistics)


def _open(spec: Spec, corpora: SearchedCorpora) -> Searcher:
    parameters = bm25_parameters(spec)
    return corpora.each(lambda collection: open_bm25(collection, parameters, progress=corpora.counting("indexing")))


BM25 = Retriever(
    name="bm25",
    summary="BM25 as Lucene's; query_weighted=true,zeros=true is R2MED's and BRIGHT's",
    example="bm25[analyser=lucene-english,k1=0.9,b=0.4]",
    open=_open,
    parameters=parameters_of(Bm25Parameters),
    index="an inverted index in memory-mapped files",
    cost="no model, and milliseconds for a million passages",
)
