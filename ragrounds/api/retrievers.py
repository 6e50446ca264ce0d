"""What is searched with: retrievers, and the cards of the dense ones and of rerankers."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ragrounds.tools.analysers import NAMES
from ragrounds.tools.cards import RetrieverCard, cards, missing
from ragrounds.tools.retriever import RETRIEVERS, Retriever, retrievers


class UsableCard(Struct, frozen=True):
    """A card, and what is missing to use it here and now."""

    card: RetrieverCard
    missing: str
    """Empty: nothing."""


class RetrieverList(Struct, frozen=True, kw_only=True):
    """All that can be searched with."""

    retrievers: tuple[Retriever, ...]
    cards: tuple[UsableCard, ...]
    """Of dense retrievers and rerankers."""
    analysers: tuple[str, ...]
    """Of bm25: how text becomes words."""


def list_retrievers() -> RetrieverList:
    """Retrievers and cards, those of installed packages too, with what is missing for each."""
    return RetrieverList(
        retrievers=tuple(retrievers().values()),
        cards=tuple(UsableCard(card, missing(card)) for card in cards().values()),
        analysers=tuple(NAMES),
    )


def describe_retriever(name: str) -> dict[str, object]:
    """What a retriever or a card is, what it takes, and what is missing for it here, as its own fields; by its name or
    its import path (``package.module:NAME``).

    Raises:
        UserError: there is none of that name; names the nearest.
    """
    described = cards()
    if name in described and name not in RETRIEVERS.shipped():
        return {**msgspec.to_builtins(described[name]), "missing": missing(described[name])}
    return RETRIEVERS.named(name, known=described).described()
