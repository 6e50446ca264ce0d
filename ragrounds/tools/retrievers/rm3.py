"""RM3: a query is widened by the terms of what it finds first, and searched again (Abdul-Jaleel et al. 2004).

``rm3[of=bm25,documents=10,terms=10,original=0.5]``, with Anserini's parameters as defaults. The first search's
`documents` are taken to be relevant: a term's weight is the sum over them of its share of the passage, each passage
weighted by its score (Lavrenko and Croft's RM1). The `terms` best are kept, their weights and those of the query's own
terms are each scaled to 1, and mixed: `original` of the query's. Terms of fewer than two letters or more than 20, with
anything but letters and digits, or held by more than a tenth of all passages, are not taken, as in Anserini.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ragrounds.errors import UserError
from ragrounds.records import Passage
from ragrounds.specs import Spec
from ragrounds.tools.merged import passages_of
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora, member_spec, value_of
from ragrounds.tools.retrievers.bm25 import Bm25Searcher

_SHORTEST, _LONGEST = 2, 20
_COMMON = 0.1
"""Share of passages that hold a term, above which it says nothing."""


class Rm3Searcher:
    """Searches twice: for the query, and for the query with the terms of what was found."""

    def __init__(self, spec: Spec, searcher: Bm25Searcher) -> None:
        self._searcher = searcher
        given = RM3.given(spec)
        self._documents, self._terms, self._original = given["documents"], given["terms"], float(given["original"])
        self.corpus = searcher.corpus
        self.spec = str(Spec("rm3", {**given, "original": self._original, "of": value_of(searcher)}))

    @property
    def size(self) -> int:
        """Bytes of the index on disk."""
        return self._searcher.size

    def document(self, id: str) -> list[Passage]:
        """The passages of a document."""
        return passages_of(id, [self._searcher])

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages for the widened query, best first; what finds nothing is not widened."""
        return await asyncio.to_thread(self.find, query, k)

    def find(self, query: str, k: int) -> list[Passage]:
        """:meth:`search`, in this thread."""
        first = self._searcher.find(query, self._documents)
        if not first:
            return []
        found = self._searcher.find_terms(self.widened(query, first), k)
        return [replace(hit, retriever=self.spec) for hit in found]

    def widened(self, query: str, found: Sequence[Passage]) -> dict[str, float]:
        """Term → weight of the query, widened by the passages that it found; the weights add up to 1."""
        own = _scaled(Counter(self._searcher.terms(query)))
        theirs: dict[str, float] = defaultdict(float)
        for passage in found:
            counts = Counter(self._searcher.terms(f"{passage.title}\n{passage.text}"))
            length = sum(counts.values())
            for term, count in counts.items():
                if self._says_something(term):
                    theirs[term] += passage.score * count / length
        best = sorted(theirs.items(), key=lambda item: (-item[1], item[0]))[: self._terms]
        taken = _scaled(dict(best))
        if not taken:
            return own
        share = self._original
        return {
            term: share * own.get(term, 0.0) + (1 - share) * taken.get(term, 0.0)
            for term in dict.fromkeys([*own, *taken])
        }

    def _says_something(self, term: str) -> bool:
        if not _SHORTEST <= len(term) <= _LONGEST or not term.isalnum():
            return False
        return self._searcher.holders_of(term) <= _COMMON * self._searcher.counted


def _scaled(weights: Mapping[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {term: weight / total for term, weight in weights.items()} if total > 0 else {}


def _open(spec: Spec, corpora: SearchedCorpora) -> Rm3Searcher:
    RM3.given(spec)
    member = member_spec(spec)
    if member.name != "bm25":
        raise UserError(f"rm3 widens queries of bm25: rm3[of=bm25[…]], not of={member}.")
    inner = corpora.searcher(member)
    if not isinstance(inner, Bm25Searcher):
        raise UserError(f"rm3 widens queries over one corpus: {inner.corpus} is not that.")
    return Rm3Searcher(spec, inner)


RM3 = Retriever(
    name="rm3",
    summary="BM25 with the query widened by the terms of what it finds first (Abdul-Jaleel et al. 2004)",
    example="rm3[of=bm25,documents=10,terms=10,original=0.5]",
    open=_open,
    parameters=(
        RetrieverParameter("of", "the BM25 inside", "bm25"),
        RetrieverParameter("documents", "passages of the first search that are taken to be relevant", 10, least=1),
        RetrieverParameter("terms", "terms that are added", 10, least=1),
        RetrieverParameter("original", "share of the query's own terms, from 0 to 1", 0.5, least=0, most=1),
    ),
    cost="two searches",
)
