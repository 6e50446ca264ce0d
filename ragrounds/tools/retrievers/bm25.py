"""BM25 (Robertson and Zaragoza 2009) over a collection.

Two variants share one index:

* ``bm25[analyser=lucene-english,b=0.4,k1=0.9]`` — Lucene's, as in Pyserini and MedRAG: a term's weight in a passage is
  ``ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b * length / mean))``, and a term given twice in the
  query counts twice.
* ``bm25[query_weighted=true,…]`` — what R2MED and BRIGHT report (gensim's LuceneBM25Model): the logarithm is
  ``ln((N + 1) / (df + 0.5))``, and the query's terms are weighted by the same formula as the passages'; its length is
  the number of its terms that the corpus knows.

Lengths are exact, a passage without terms counts with length 0, and only passages that share a term with the query
are found. The authors' programs have it otherwise, each by a switch:

* ``lengths=lucene`` — as Lucene, so as Anserini, Pyserini and MedRAG's program: a length is kept in one byte
  (``SmallFloat``: exact to 40; of a longer one what exceeds 24 is cut to its four leading bits), and passages without
  terms count neither among the passages nor in the mean length. This moves nDCG@10 in the third decimal.
* ``ties=id`` — as Anserini: equal scores are ordered by the passage's id, ascending, in place of its position.
* ``zeros=true`` — as R2MED and BRIGHT: a ranking is filled up with passages of score 0, in the corpus' order.

The index is built in bounded memory (:mod:`ragrounds.tools.index.bm25_builder`), and searched by
:mod:`ragrounds.tools.index.postings`: only passages that may be among the best are scored, with the same result.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import math
import threading
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
from ragrounds.base.plugins import warn_once
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec, Value
from ragrounds.tools.index.analysers import NAMES, analyser
from ragrounds.tools.index.bm25_builder import RUN_PASSAGES, build_index, mean_length, remove_runs
from ragrounds.tools.index.bm25_vocabulary import Vocabulary
from ragrounds.tools.index.collection import Collection
from ragrounds.tools.index.collection_builder import Count, whole_index
from ragrounds.tools.index.engine_files import IndexManifest
from ragrounds.tools.index.postings import DEEP, Postings, Weighted
from ragrounds.tools.retriever import Retriever, SearchedCorpora, parameters_of

_NEAR = 1e-5
"""Relative room for rounding when two scores are taken to be equal before they are summed exactly."""
_SMALL = 50_000
"""Number of passages up to which a collection is searched on the event loop's own thread.

It takes less time than another thread.
"""
_WORTH = 5_000_000
"""Number of passages scanned in all searches after which numba is loaded, since loading takes about as long."""
_REMEMBERED = 100_000
"""Number of query terms that are cached with their index entries."""


class Bm25Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of BM25. The defaults are Anserini's and MedRAG's."""

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
        """Return the canonical spec. Analyser, k1 and b are always named, the switches only if they are set."""
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
        """Return the settings that the index on disk depends on. The variants of the query share it."""
        return str(msgspec.structs.replace(self, query_weighted=False, ties="corpus", zeros=False).spec)


def bm25_parameters(spec: Spec) -> Bm25Parameters:
    """Read the parameters of a ``bm25[…]`` spec.

    Raises:
        UserError: an unknown parameter or a value out of range.
    """
    BM25.check(spec)
    try:
        parameters = msgspec.convert(dict(spec.parameters), Bm25Parameters)
    except msgspec.ValidationError as problem:
        raise UserError(f"Cannot use {str(spec)!r}: {problem}.") from None
    if parameters.analyser not in NAMES:
        raise UserError(
            f"Unknown analyser {parameters.analyser!r}.{nearest(parameters.analyser, NAMES)} Known: {', '.join(NAMES)}."
        )
    if not (math.isfinite(parameters.k1) and parameters.k1 >= 0 and 0 <= parameters.b <= 1):
        raise UserError(f"Cannot use {str(spec)!r}: expected k1 >= 0 and b from 0 to 1.")
    return parameters


class Bm25Statistics(IndexManifest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Description of a complete index."""

    tokens: int
    """Number of terms of all passages together, repetitions included."""
    terms: int
    empty: int = 0
    """Number of passages without terms that are left out of the number of passages and of the mean length."""

    @property
    def counted(self) -> int:
        """Return the number of passages that the formulas use."""
        return self.passages - self.empty


class Bm25Searcher:
    """Searcher over one collection. Safe for many threads at once; see :class:`ragrounds.base.contracts.Searcher`."""

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
        """Return the bytes of the index on disk, without the passages."""
        return sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file())

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document, in its own order."""
        return self._collection.document(id)

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best passages that share a term with the query, best first, ranks from 1.

        Ties go to the passage that comes first in the corpus. An empty query, or a query of stop words, finds nothing.
        Switches of the spec change these rules.
        """
        if self._statistics.passages <= _SMALL:
            return self.find(query, k)
        return await asyncio.to_thread(self.find, query, k)

    def find(self, query: str, k: int) -> list[Passage]:
        """Return the result of :meth:`search`, in this thread."""
        return self._collection.passages(self.ranked(query, k), self.spec)

    def ranked(self, query: str, k: int) -> list[tuple[int, float]]:
        """Return positions in the collection with their scores, best first.

        Raises:
            UserError: `k` is below 1.
        """
        if k < 1:
            raise UserError(f"Cannot search for {k} passages: expected 1 or more.")
        hits = self._ranked(query, k) if self._parameters.ties == "corpus" else self._ranked_by_id(query, k)
        if not self._parameters.zeros or len(hits) >= k:
            return hits
        positions = {position for position, _ in hits}
        remaining: Sequence[int] = range(self._statistics.passages)
        if self._parameters.ties == "id":
            remaining = sorted(remaining, key=lambda position: self._collection.store.raw(position)[0])
        rest = (position for position in remaining if position not in positions)
        return hits + [(position, 0.0) for position in islice(rest, k - len(hits))]

    def _ranked_by_id(self, query: str, k: int) -> list[tuple[int, float]]:
        """Return the result of :meth:`ranked`, with ties to the lower id."""
        depth = k + 1
        while True:
            hits = self._ranked(query, depth)
            # The order of the passages with about the last score is known only when all of them are fetched.
            if len(hits) < depth or hits[-1][1] < hits[k - 1][1] * (1 - _NEAR):
                break
            depth *= 4
        exact = self._exact_scores(query, [position for position, _ in hits])
        return sorted(exact, key=lambda hit: (-hit[1], self._collection.store.raw(hit[0])[0]))[:k]

    def _exact_scores(self, query: str, positions: Sequence[int]) -> list[tuple[int, float]]:
        """Return positions with their scores, summed so that the order of the terms makes no difference.

        Passages with the same weights are equal, as in Lucene.
        """
        ascending = np.array(sorted(positions), dtype=np.int64)
        sums = self._postings.summed(self._weighted(query), ascending).astype(np.float32)
        return list(zip(ascending.tolist(), sums.tolist(), strict=True))

    def _ranked(self, query: str, k: int) -> list[tuple[int, float]]:
        """Return the result of :meth:`ranked`, with ties to the passage that comes first in the corpus."""
        terms = self._weighted(query)
        if not terms:
            return []
        self._uncompiled -= self._statistics.passages
        if self._uncompiled < 0:
            self._uncompiled = math.inf
            threading.Thread(target=self._compile, args=(terms,), name="bm25-compiler").start()
        search = self._postings.compiled if self._compiled else self._postings.best
        positions, scores = search(terms, k)
        return list(zip(positions.tolist(), scores.tolist(), strict=True))

    def _compile(self, terms: list[Weighted]) -> None:
        """Load the numba code, compile it if its cache is empty, and use it from then on. Report it if that fails.

        A separate thread does this. On the event loop's, all calls in flight would wait for as long as it takes.
        """
        try:
            compiled_code = importlib.import_module("ragrounds.tools.index.postings_numba")
            if not any(Path(compiled_code.search.stats.cache_path).glob("postings_numba.search-*")):
                warn_once("BM25 is being compiled, once per installation. Until then a search takes ten times as long.")
            for k in (1, DEEP):
                self._postings.compiled(terms, k)
        except ModuleNotFoundError:
            warn_once("BM25 takes up to ten times as long without numba: pip install 'ragrounds[fast]'.")
        except Exception as problem:  # a version that does not fit the other installed packages
            reason = f"{type(problem).__name__}: {problem}"
            warn_once(f"BM25 takes up to ten times as long: numba cannot be loaded ({reason}).")
        else:
            self._compiled = True

    def _weighted(self, query: str) -> list[Weighted]:
        """Return the query's known terms, the greatest contributions first and equal ones in alphabetical order.

        Scores are summed in this order, and do not depend on how the index was built.
        """
        counts = Counter(self._analyse(query))
        texts = sorted(counts)
        entries = self._term_entries(texts)
        known_terms = [(counts[text], entry) for text in texts if (entry := entries[text]) is not None]
        length = sum([count for count, _ in known_terms])
        weighted = []
        for count, (term, holders, greatest) in known_terms:
            weight = self._weight(holders, count, length)
            if weight * greatest > 0:
                weighted.append(Weighted(term, weight, weight * greatest))
        weighted.sort(key=attrgetter("maximum"), reverse=True)
        return weighted

    def _term_entries(self, texts: Sequence[str]) -> Mapping[str, tuple[int, int, float] | None]:
        """Return number, passages that hold it and greatest weight of some terms, by text; ``None`` if no passage holds
        a term. The entries are cached, since questions share most of their terms.
        """
        entries = self._terms
        new = [text for text in texts if text not in entries]
        if new:
            if len(entries) > _REMEMBERED:
                entries = self._terms = {text: entries[text] for text in texts if text in entries}
            holders, greatest = self._postings.holders, self._postings.maxima
            for text, term in zip(new, self._vocabulary.find(new), strict=True):
                entries[text] = None if term is None else (term, int(holders[term]), float(greatest[term]))
        return entries

    def _weight(self, holders: int, count: int, length: int) -> float:
        """Return the weight of a term in the query: idf and all factors that the passages' weights leave out."""
        total = self._statistics.counted
        if not self._parameters.query_weighted:  # Lucene's inverse document frequency
            return count * math.log(1 + (total - holders + 0.5) / (holders + 0.5))
        idf = math.log((total + 1) / (holders + 0.5))
        mean = self._statistics.tokens / total
        k1, b = self._parameters.k1, self._parameters.b
        return idf * idf * count / (count + k1 * (1 - b + b * length / mean))


FORMAT = 2
_BUILDERS = tuple(
    f"ragrounds.tools.index.{name}"
    for name in ("analysers", "bm25_builder", "bm25_term_counts", "bm25_merge", "bm25_vocabulary", "postings_layout")
)
"""Modules that determine the contents of an index."""


def open_bm25(
    collection: Collection, parameters: Bm25Parameters, *, progress: Count | None = None, shard: int = RUN_PASSAGES
) -> Bm25Searcher:
    """Open the BM25 index over a collection, after building it if it does not exist.

    Args:
        collection: Collection that is searched.
        parameters: The analyser, k1 and b that the index is for.
        progress: Called now and then with how many passages are done.
        shard: The most passages that are counted in one piece, if the index has to be built.

    Raises:
        UserError: the index does not fit the collection; another process is building it.
        StopRun: the disk is full.
    """
    index = f"{parameters.index} {FORMAT}{text_digest(*map(code_digest, _BUILDERS))}"
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
    return corpora.open_over_all(
        lambda collection: open_bm25(collection, parameters, progress=corpora.counting("indexing"))
    )


BM25 = Retriever(
    name="bm25",
    summary="BM25 as Lucene's; query_weighted=true,zeros=true is R2MED's and BRIGHT's",
    example="bm25[analyser=lucene-english,k1=0.9,b=0.4]",
    open=_open,
    parameters=parameters_of(Bm25Parameters),
    index="an inverted index in memory-mapped files",
    cost="no model, and milliseconds for a million passages",
)
