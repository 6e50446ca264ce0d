"""A committee of retrievers: one searcher that gives what each of its members found, side by side.

Unlike a fusion it makes no ranking of its own: a passage comes once for every member that found it, with that member's
name, rank and score. One search of a committee is one call in the journal and in the trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ragrounds.contracts import Searcher
from ragrounds.errors import UserError
from ragrounds.records import Passage
from ragrounds.specs import Spec, parse
from ragrounds.tools.retriever import Progress, open_searcher, passages_of


class Committee:
    """Several retrievers over one corpus (contract: :class:`ragrounds.contracts.Library`)."""

    def __init__(self, members: Mapping[str, Searcher]) -> None:
        """Name the members.

        Raises:
            UserError: none, or members that search different corpora.
        """
        if not members:
            raise UserError("A committee needs a retriever; name one or more with --retriever.")
        if len({member.corpus for member in members.values()}) > 1:
            raise UserError("The retrievers of a committee must search one corpus.")
        self._members = dict(members)
        self._spec = str(Spec("committee", {name: parse(member.spec) for name, member in members.items()}))

    @property
    def spec(self) -> str:
        return self._spec

    @property
    def corpus(self) -> str:
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
    """Open retrievers by their specs; each is named after its spec's name, told apart by a number where two are alike.

    Raises:
        UserError: an unknown retriever or corpus, or one retriever named twice: its votes would count twice.
    """
    members: dict[str, Searcher] = {}
    for text in specs:
        opened = open_searcher(text, corpus, home, progress=progress)
        if any(opened.spec == member.spec for member in members.values()):
            raise UserError(f"The retriever {opened.spec!r} is named twice: its votes would count twice.")
        name, number = parse(text).name, 2
        while name in members:
            name, number = f"{parse(text).name}_{number}", number + 1
        members[name] = opened
    return Committee(members)
