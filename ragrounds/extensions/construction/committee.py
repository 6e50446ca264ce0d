"""Committee of retrievers: a searcher that returns the results of all its members, and the selection of candidates from
them.

Unlike a fusion it makes no joint ranking: a passage occurs once for every member that found it, with that member's
name, rank and score. One search of a committee is one call in the journal and in the trace.

Candidates are the documents that the committee finds most often. R2MED (Li et al. 2025, Section 3.3 and Appendix A.2):
every retriever searches with the question, with its answer and with a reasoning path between the two, 100 documents
each; documents are ranked by the number of these rankings that contain them. CMedTEB (Section 3.1) gathers a pool from
several embedders in the same way, with the question alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import Searcher
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec, parse
from ragrounds.tools.index.collection_builder import Progress
from ragrounds.tools.merged import passages_of
from ragrounds.tools.retriever import open_searcher
from ragrounds.tools.retrievers.fusion import reciprocal_rank_fusion


class Committee:
    """Several retrievers over one corpus (contract: :class:`ragrounds.base.contracts.Library`)."""

    def __init__(self, members: Mapping[str, Searcher]) -> None:
        """Name the members.

        Raises:
            UserError: none, or members that search different corpora.
        """
        if not members:
            raise UserError("A committee needs a retriever: give one or more with --retriever.")
        if len({member.corpus for member in members.values()}) > 1:
            raise UserError("The retrievers of a committee must search one corpus.")
        self._members = dict(members)
        self._spec = str(Spec("committee", {name: parse(member.spec) for name, member in members.items()}))

    @property
    def spec(self) -> str:
        """``committee[bm25=…]``: canonical text of all members, part of a search's key."""
        return self._spec

    @property
    def corpus(self) -> str:
        """Version of the one corpus that all members search."""
        return next(iter(self._members.values())).corpus

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document, from the first member that has them."""
        return passages_of(id, self._members.values())

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best passages of every member, one member after the other, each best first."""
        hits_by_member = await asyncio.gather(*(member.search(query, k) for member in self._members.values()))
        return [
            replace(passage, retriever=name, rank=rank)
            for name, hits in zip(self._members, hits_by_member, strict=True)
            for rank, passage in enumerate(hits, 1)
        ]


def open_committee(specs: Sequence[str], corpus: str, home: Path, *, progress: Progress | None = None) -> Committee:
    """Open retrievers by their specs; each is named after its spec's name, with a number if two share one.

    Raises:
        UserError: an unknown retriever or corpus, or one retriever named twice: its votes would count twice.
    """
    members: dict[str, Searcher] = {}
    for text in specs:
        opened = open_searcher(text, corpus, home, progress=progress)
        if any(opened.spec == member.spec for member in members.values()):
            raise UserError(f"The retriever {opened.spec!r} is given twice: its votes would count twice.")
        name, number = parse(text).name, 2
        while name in members:
            name, number = f"{parse(text).name}_{number}", number + 1
        members[name] = opened
    return Committee(members)


class Candidate(Struct, frozen=True, kw_only=True):
    """A document that may be relevant."""

    id: str
    times: int
    """Number of rankings that contain the document; 0 for a known document that no retriever found."""
    found_by: tuple[str, ...] = ()
    """Rankings that contain the document, as ``retriever/view``."""


def by_frequency(
    rankings: Mapping[str, Sequence[str]], limit: int | None = None, known_ids: Sequence[str] = ()
) -> tuple[Candidate, ...]:
    """Return documents by the number of rankings that contain them, most frequent first.

    The paper does not mention ties, and with nine rankings there are many. They are ordered by the sum of reciprocal
    ranks (constant 60), then by id.

    Args:
        rankings: name → ids of documents, best first. A repeated id counts once in a ranking.
        limit: largest number of documents; ``None`` for all.
        known_ids: documents that are candidates even if they are not found: the initial positives of R2MED. They come
            first, in addition to `limit`.
    """
    lists = {name: list(dict.fromkeys(ids)) for name, ids in rankings.items()}
    rankings_by_id: dict[str, list[str]] = {}
    for name, ids in lists.items():
        for id in ids:
            rankings_by_id.setdefault(id, []).append(name)
    keys = [[("", id) for id in ids] for ids in lists.values()]
    # Scores are rounded: equal sums must stay equal whatever the order in which the fractions are added.
    scores = {id: round(score, 12) for (_, id), score in reciprocal_rank_fusion(keys, [1.0] * len(keys))}
    ranked = sorted(rankings_by_id, key=lambda id: (-len(rankings_by_id[id]), -scores[id], id))
    first = list(dict.fromkeys(known_ids))
    mined = [id for id in ranked if id not in first][:limit]
    return tuple(
        Candidate(id=id, times=len(rankings_by_id.get(id, ())), found_by=tuple(rankings_by_id.get(id, ())))
        for id in (*first, *mined)
    )


def rankings_of(found_passages: Mapping[str, Sequence[Passage]]) -> dict[str, list[str]]:
    """Return the rankings of a :class:`Committee`: view → passages becomes ``retriever/view`` → ids, best first."""
    rankings: dict[str, list[str]] = {}
    for view, passages in found_passages.items():
        for passage in passages:
            rankings.setdefault(f"{passage.retriever}/{view}", []).append(passage.id)
    return rankings
