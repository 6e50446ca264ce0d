"""Fusion of several rankings into one.

* ``rrf[a=bm25,b=medcpt]`` — reciprocal rank fusion (Cormack, Clarke and Büttcher 2009): a passage's score is the sum of
  ``1 / (constant + rank)`` over the retrievers that found it, ranks from 1. ``constant`` is 60; each retriever is asked
  for ``depth`` passages, or ``k`` if that is more. ``a_weight=2`` weights a member.
* ``weighted[a=bm25,b=medcpt,a_weight=0.3,b_weight=0.7]`` — weighted sum of scores, each retriever's scaled to 0…1 over
  what it found (min-max); a passage that it did not find gets 0 from it.
* ``rrf2``, ``rrf4`` — MedRAG's (Xiong et al. 2024): BM25 + MedCPT, and those with Contriever and SPECTER; constant 100,
  ``max(2k, 100)`` passages from each, corpora joined as in the authors' program.

An external engine (``rrf[a=bm25,b=pgvector[…]]``) knows the same passages under another corpus and version:
where the retrievers' corpora differ, a passage is known by its id alone, and the fused corpus is called after all of
them.

Of several corpora (``one+two``) each retriever's hits are put together by raw score before any fusion. ``joined`` says
how:

* ``joined=cut`` — the corpora are one (the paper's combined corpus, section 3.2): the list is cut to the depth before
  it is ranked. The default.
* ``joined=whole`` — as MedRAG's program: every corpus gives so many passages, and all of them are ranked. Equal scores
  of one retriever are ordered as in :mod:`ragrounds.tools.retrievers.joined`, also over one corpus; a passage is known
  by its id alone, and an id that a retriever gives twice counts twice. ``rrf2`` and ``rrf4`` have it;
  ``rrf4[joined=cut]`` takes it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from ragrounds.base.contracts import Searcher
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec, Value
from ragrounds.tools.merged import passages_of
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora, value_of
from ragrounds.tools.retrievers.joined import JoinedSearcher, open_joined

CONSTANT = 60
_AS_MEDRAG: dict[str, Value] = {"constant": 100, "double": True, "joined": "whole"}
MEDRAG = {
    "rrf2": Spec("rrf", {"bm25": "bm25", "medcpt": "medcpt"} | _AS_MEDRAG),
    "rrf4": Spec("rrf", {name: name for name in ("bm25", "contriever", "specter", "medcpt")} | _AS_MEDRAG),
}
"""MedRAG's presets.

`double` requests ``max(2k, depth)`` passages of each retriever. The order of the retrievers is the authors': equal
scores go to the retriever that is named first.
"""

Key = tuple[str, str]
"""Identity of a passage for two retrievers: its corpus and its id."""


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Key]], weights: Sequence[float], constant: float = CONSTANT
) -> list[tuple[Key, float]]:
    """Fuse rankings by reciprocal ranks, best first. Ties go to the passage that an earlier ranking has earlier."""
    scores: dict[Key, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + weight / (constant + rank)
    return sorted(scores.items(), key=lambda entry: -entry[1])


def weighted_fusion(rankings: Sequence[Mapping[Key, float]], weights: Sequence[float]) -> list[tuple[Key, float]]:
    """Fuse by a weighted sum of scores scaled to 0…1. If all scores of a ranking are equal, each becomes 1."""
    scores: dict[Key, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        low, high = min(ranking.values(), default=0.0), max(ranking.values(), default=0.0)
        for key, score in ranking.items():
            scaled = (score - low) / (high - low) if high > low else 1.0
            scores[key] = scores.get(key, 0.0) + weight * scaled
    return sorted(scores.items(), key=lambda entry: -entry[1])


class FusedSearcher:
    """Several retrievers over one corpus, or over the same corpora.

    If members are joined corpora (:class:`~ragrounds.tools.retrievers.joined.JoinedSearcher`), their whole lists are
    ranked.
    """

    def __init__(self, spec: Spec, members: Mapping[str, Searcher]) -> None:
        self._parameters = {key: value for key, value in spec.parameters.items() if key not in members}
        self._by_score = spec.name == "weighted"
        self._members = dict(members)
        self._weights = [_weight(spec, f"{name}_weight") for name in members]
        values = {parameter.name: parameter.value_in(spec) for parameter in _OWN}
        self._constant, self._depth = float(values["constant"]), int(values["depth"])
        self._double, self._joins_whole = values["double"] is True, values["joined"] == "whole"
        corpora = list(dict.fromkeys(member.corpus for member in members.values()))
        self._ignores_corpus = self._joins_whole or len(corpora) > 1
        member_specs: dict[str, Value] = {name: value_of(member) for name, member in members.items()}
        self.corpus = "+".join(corpora)
        self.spec = str(Spec(spec.name, {**self._parameters, **member_specs}))

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document, from the first retriever that has them."""
        return passages_of(id, self._members.values())

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best passages of the fused ranking."""
        depth = max(2 * k if self._double else k, self._depth)
        searches = [
            member.search_whole if isinstance(member, JoinedSearcher) else member.search
            for member in self._members.values()
        ]
        rankings = await asyncio.gather(*(search(query, depth) for search in searches))

        def key_of(passage: Passage) -> Key:
            return "" if self._ignores_corpus else passage.corpus, passage.id

        # In reverse, so that the first retriever's passage, and its highest hit, wins.
        passages = {key_of(passage): passage for hits in reversed(rankings) for passage in reversed(hits)}
        if self._by_score:
            fused = weighted_fusion([{key_of(hit): hit.score for hit in hits} for hits in rankings], self._weights)
        else:
            fused = reciprocal_rank_fusion(
                [[key_of(hit) for hit in hits] for hits in rankings], self._weights, self._constant
            )
        return [
            msgspec.structs.replace(passages[key], score=score, rank=rank, retriever=self.spec)
            for rank, (key, score) in enumerate(fused[:k], 1)
        ]


def members_of(spec: Spec) -> dict[str, Spec]:
    """Return the retrievers that a fusion is made of: every parameter that is not one of its own.

    Raises:
        UserError: there are fewer than two.
    """
    members: dict[str, Spec] = {}
    for key, value in spec.parameters.items():
        if key in [parameter.name for parameter in _OWN] or key.endswith("_weight"):
            continue
        if isinstance(value, bool | int | float):
            raise UserError(
                f"{spec.name} has no parameter {key!r}; it takes retrievers, their weights, constant, depth, joined."
            )
        members[key] = value if isinstance(value, Spec) else Spec(value)
    for key in spec.parameters:
        if key.endswith("_weight") and key.removesuffix("_weight") not in members:
            raise UserError(f"{str(spec)!r} weights {key.removesuffix('_weight')!r}, which is none of its retrievers.")
    if len(members) < 2:
        raise UserError(f"{spec.name} needs two retrievers or more: {spec.name}[a=bm25,b=medcpt], say.")
    return members


def _weight(spec: Spec, key: str) -> float:
    value = spec.parameters.get(key, 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise UserError(f"Cannot use {key}={value!r} in {spec.name}: expected a number above 0.")
    return float(value)


def _open(spec: Spec, corpora: SearchedCorpora) -> FusedSearcher:
    preset = MEDRAG.get(spec.name)
    # A preset keeps its name, so that its passages name the retriever that the user named.
    resolved = Spec(spec.name, preset.having(**spec.parameters).parameters) if preset else spec
    is_whole = _JOINED.value_in(resolved) == "whole"
    return FusedSearcher(
        resolved,
        {
            name: open_joined(member, corpora) if is_whole else corpora.searcher(member)
            for name, member in members_of(resolved).items()
        },
    )


_DEPTH = RetrieverParameter("depth", "passages asked of each retriever, or k where that is more", 100, least=1)
_DOUBLE = RetrieverParameter("double", "ask each for 2k passages where that is more", False)
_JOINED = RetrieverParameter(
    "joined", "of several corpora: cut to the depth before ranks are given, or whole (MedRAG)", "cut",
    among=("cut", "whole"),
)  # fmt: skip
_CONSTANT = RetrieverParameter("constant", "added to each rank, 0 or more", CONSTANT, least=0)
_OWN = (_DEPTH, _DOUBLE, _JOINED, _CONSTANT)
_NAMED = (
    RetrieverParameter("NAME", "a retriever, under any name: a=bm25,b=medcpt"),
    RetrieverParameter("NAME_weight", "weight of that retriever", 1),
)
_COST = "a search by each of its retrievers"

RRF = Retriever(
    name="rrf",
    summary="reciprocal rank fusion (Cormack, Clarke and Büttcher 2009)",
    example="rrf[a=bm25,b=medcpt,constant=60,depth=100]",
    open=_open,
    parameters=(*_NAMED, *_OWN),
    cost=_COST,
)
WEIGHTED = Retriever(
    name="weighted",
    summary="weighted sum of scores, each retriever's scaled to 0…1",
    example="weighted[a=bm25,b=medcpt,a_weight=0.3]",
    open=_open,
    parameters=(*_NAMED, *_OWN[:3]),
    cost=_COST,
)
_PRESET = (
    *_NAMED,
    _DEPTH,
    replace(_DOUBLE, default=True),
    replace(_JOINED, default="whole"),
    replace(_CONSTANT, default=100),
)
RRF2 = Retriever(
    name="rrf2",
    summary="MedRAG's fusion of BM25 and MedCPT: constant 100, max(2k, 100) passages of each",
    example="rrf2[medcpt_weight=2]",
    open=_open,
    parameters=_PRESET,
    cost=_COST,
)
RRF4 = Retriever(
    name="rrf4",
    summary="MedRAG's fusion of BM25, MedCPT, Contriever and SPECTER, as rrf2",
    example="rrf4",
    open=_open,
    parameters=_PRESET,
    cost=_COST,
)
