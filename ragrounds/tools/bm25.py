"""BM25 (Robertson and Zaragoza 2009) over the shards of a collection, with the statistics of the whole.

Two variants share one index:

* ``bm25[analyser=lucene-english,b=0.4,k1=0.9]`` — Lucene's, as in Pyserini and MedRAG: a term's weight in a passage is
  ``ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b * length / mean))``, and a term given twice in the
  query counts twice.
* ``bm25[query_weighted=true,…]`` — what R2MED and BRIGHT report (gensim's LuceneBM25Model): the logarithm is
  ``ln((N + 1) / (df + 0.5))``, and the query's terms are weighted by the same formula as the passages'.

Lengths are exact; Lucene itself rounds them to one byte, which moves nDCG@10 in the third decimal.
"""

from __future__ import annotations

import asyncio
import importlib.util
import math
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.errors import UserError, nearest
from ragrounds.records import Passage
from ragrounds.specs import Spec, Value
from ragrounds.tools.analysers import NAMES, analyser
from ragrounds.tools.collection import Collection
from ragrounds.tools.postings import Shard, Weighted
from ragrounds.tools.storing import mapped

_SMALL = 50_000
"""Collections up to this many passages are searched on the event loop's own thread: it takes less than handing over."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of BM25; the defaults are Anserini's and MedRAG's."""

    analyser: str = "lucene-english"
    b: float = 0.4
    k1: float = 0.9
    query_weighted: bool = False

    @property
    def spec(self) -> Spec:
        """The canonical spec: every parameter is given, but the variant only where it is not Lucene's."""
        parameters: dict[str, Value] = {"analyser": self.analyser, "b": self.b, "k1": self.k1}
        return Spec("bm25", parameters | ({"query_weighted": True} if self.query_weighted else {}))

    @property
    def index(self) -> str:
        """What the index on disk depends on; the variants of the query share it."""
        return str(msgspec.structs.replace(self, query_weighted=False).spec)


def settings(spec: Spec) -> Settings:
    """Read the parameters of a ``bm25[…]`` spec; ``analyzer`` is taken for ``analyser``.

    Raises:
        UserError: an unknown parameter or a value out of range.
    """
    given = dict(spec.parameters)
    if "analyzer" in given:
        if "analyser" in given:
            raise UserError(f"{str(spec)!r} gives both `analyser` and `analyzer`: they are one parameter, give one.")
        given["analyser"] = given.pop("analyzer")
    known = Settings.__struct_fields__
    for key in given:
        if key not in known:
            raise UserError(f"bm25 has no parameter {key!r}.{nearest(key, known)} It takes {', '.join(known)}.")
    try:
        made = msgspec.convert(given, Settings)
    except msgspec.ValidationError as problem:
        raise UserError(f"Cannot use {str(spec)!r}: {problem}.") from None
    if made.analyser not in NAMES:
        raise UserError(
            f"Unknown analyser {made.analyser!r}.{nearest(made.analyser, NAMES)} Known: {', '.join(NAMES)}."
        )
    if not (math.isfinite(made.k1) and made.k1 >= 0 and 0 <= made.b <= 1):
        raise UserError(f"Cannot use {str(spec)!r}: expected k1 >= 0 and b from 0 to 1.")
    return made


class Statistics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a whole index says of itself: ``engine.json``."""

    format: int
    index: str
    version: str
    """Version of the corpus it was built over."""
    passages: int
    tokens: int
    """Terms of all passages together, repetitions included."""
    terms: int
    shards: tuple[tuple[int, int], ...]
    """First passage and number of passages of each."""


class Bm25:
    """Searches one collection. Safe for many threads at once; see :class:`ragrounds.contracts.Searcher`."""

    def __init__(self, collection: Collection, folder: Path, parameters: Settings, statistics: Statistics) -> None:
        self._collection = collection
        self._folder = folder
        self._parameters = parameters
        self._statistics = statistics
        self._analyse = analyser(parameters.analyser)
        self._spec = str(parameters.spec)
        # Importing numba takes longer than searching a small collection a thousand times.
        self._compiled = statistics.passages > _SMALL and importlib.util.find_spec("numba") is not None
        self._corpus = collection.corpus
        listed = msgspec.msgpack.decode((folder / "terms.msgpack").read_bytes(), type=list[str])
        self._numbers = {term: number for number, term in enumerate(listed)}
        self._holders: npt.NDArray[np.generic] = mapped(folder / "holders.u32", np.uint32)
        self._most: npt.NDArray[np.generic] = mapped(folder / "most.f32", np.float32)
        self._shards = [
            Shard(folder / f"shard-{number:05}", first, count)
            for number, (first, count) in enumerate(statistics.shards)
        ]

    @property
    def spec(self) -> str:
        return self._spec

    @property
    def corpus(self) -> str:
        return self._corpus

    @property
    def size(self) -> int:
        """Bytes of the index on disk, the passages apart."""
        return sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file())

    def document(self, id: str) -> list[Passage]:
        """The passages of a document, in its own order."""
        return self._collection.document(id)

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages that share a term with the query, best first, ranks from 1; ties go to the passage
        that comes first in the corpus. An empty query, or one of stop words, finds nothing."""
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
                    corpus=self._corpus,
                    score=score,
                    rank=rank,
                    retriever=self._spec,
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
        length = counts.total()
        known = [(self._numbers[term], count) for term, count in counts.items() if term in self._numbers]
        weighted = []
        for term, count in known:
            weight = self._weight(int(self._holders[term]), count, length)
            weighted.append(Weighted(term, weight, weight * float(self._most[term])))
        return sorted(weighted, key=lambda term: (-term.most, term.term))

    def _weight(self, holders: int, count: int, length: int) -> float:
        """Weight of a term in the query: idf and all that the passages' weights leave out."""
        total = self._statistics.passages
        if not self._parameters.query_weighted:
            return count * math.log(1 + (total - holders + 0.5) / (holders + 0.5))
        idf = math.log((total + 1) / (holders + 0.5))
        mean = self._statistics.tokens / total
        k1, b = self._parameters.k1, self._parameters.b
        return idf * idf * count / (count + k1 * (1 - b + b * length / mean))
