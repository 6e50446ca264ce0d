"""A committee of retrievers: one searcher that returns what each of its members found, and the candidates among it.

Unlike a fusion it makes no ranking of its own: a passage comes once for every member that found it, with that member's
name, rank and score. One search of a committee is one call in the journal and in the trace.

Candidates are what the committee finds most often. R2MED (Li et al. 2025, Section 3.3 and Appendix A.2): every
retriever searches with the question, with its answer and with a reasoning path between the two, 100 documents each;
documents are ranked by how many of these rankings hold them. CMedTEB (Section 3.1) gathers a pool from several
embedders in the same way, with the question alone."""

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

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names, as passages carry them."""
        return tuple(self._members)

    def document(self, id: str) -> list[Passage]:
        """The passages of a document, from the first member that has them."""
        return passages_of(id, self._members.values())

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages of every member, one member after the other, each best first."""
        found = await asyncio.gather(*(member.search(query, k) for member in self._members.values()))
        return [
            replace(passage, retriever=name, rank=rank)
            for name, hits in zip(self._members, found, strict=True)
            for rank, passage in enumerate(hits, 1)
        ]


def open_committee(specs: Sequence[str], corpus: str, home: Path, *, progress: Progress | None = None) -> Committee:
    """Open retrievers by their specs; each is named after its spec's name, with a number where two share one.

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
    """Rankings that hold it; 0: a known document that no retriever found."""
    found_by: tuple[str, ...] = ()
    """Which rankings, as ``retriever/view``."""


def by_frequency(
    rankings: Mapping[str, Sequence[str]], most: int | None = None, known: Sequence[str] = ()
) -> tuple[Candidate, ...]:
    """Documents by the number of rankings that hold them, most often first.

    The paper says nothing of ties, and with nine rankings there are many: they go by the sum of reciprocal ranks
    (constant 60), then by id.

    Args:
        rankings: name → ids of documents, best first; an id that stands twice in one ranking counts once there.
        most: Only so many; ``None``: all.
        known: Documents that are candidates whatever is found: the initial positives of R2MED. They come first, beyond
            `most`.
    """
    lists = {name: list(dict.fromkeys(ids)) for name, ids in rankings.items()}
    found: dict[str, list[str]] = {}
    for name, ids in lists.items():
        for id in ids:
            found.setdefault(id, []).append(name)
    keys = [[("", id) for id in ids] for ids in lists.values()]
    # Rounded: the order in which the same fractions are added must not part what is equal.
    scores = {id: round(score, 12) for (_, id), score in reciprocal_rank_fusion(keys, [1.0] * len(keys))}
    ranked = sorted(found, key=lambda id: (-len(found[id]), -scores[id], id))
    first = list(dict.fromkeys(known))
    mined = [id for id in ranked if id not in first][:most]
    return tuple(
        Candidate(id=id, times=len(found.get(id, ())), found_by=tuple(found.get(id, ()))) for id in (*first, *mined)
    )


def rankings_of(found: Mapping[str, Sequence[Passage]]) -> dict[str, list[str]]:
    """The rankings that a :class:`Committee` gave: view → its passages becomes
    ``retriever/view`` → ids, best first."""
    rankings: dict[str, list[str]] = {}
    for view, passages in found.items():
        for passage in passages:
            rankings.setdefault(f"{passage.retriever}/{view}", []).append(passage.id)
    return rankings
