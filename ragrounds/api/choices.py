"""What there is to choose from: retrievers with the cards of dense ones and of rerankers, scorers, analyses."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ragrounds.evals.analyses.analysis import ANALYSES, Analysis, AnalysisRecord, analyses, find_analysis
from ragrounds.evals.scorers import all_scorers
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.scorers.catalogue import SCORERS
from ragrounds.tools.index.analysers import NAMES
from ragrounds.tools.index.cards import RetrieverCard, cards, missing
from ragrounds.tools.retriever import RETRIEVERS, Retriever, retrievers


class AnalysisDetails(Struct, frozen=True, kw_only=True):
    """What an analysis shows."""

    name: str
    summary: str
    """One line, with the paper's figure or table that it follows."""
    needs: str
    """What the runs must have."""
    package: str
    """The package, with its version, that adds it; empty: it ships, or the user named it by import path."""


class ScorerDetails(Struct, frozen=True, kw_only=True):
    """What a scorer says of itself."""

    name: str
    """What its scores are stored under."""
    summary: str
    method: str
    """As it is written in the methods paragraph of a report."""
    unit: str
    """``percent``: shares from 0 to 1, shown times 100. Any other: values are shown as they are."""
    direction: str
    """Which values are better: ``higher`` or ``lower``."""
    kinds: tuple[str, ...]
    """The kinds of question that it is for."""
    needs: str
    """What must be named before it can score: a judge, an embedder, a file; empty: nothing."""
    package: str
    """As of an analysis."""


class RetrieverList(Struct, frozen=True, kw_only=True):
    """All that can be searched with."""

    retrievers: tuple[Retriever, ...]
    cards: tuple[tuple[RetrieverCard, str], ...]
    """Of dense retrievers and rerankers, each with what is missing to use it here and now; empty: nothing."""
    analysers: tuple[str, ...]
    """Of bm25: how text becomes words."""


def list_analyses() -> list[AnalysisDetails]:
    """The analyses by name, those of installed packages too."""
    return [_analysis(one) for one in analyses().values()]


def describe_analysis(name: str) -> AnalysisDetails:
    """What an analysis shows, by its name or its import path.

    Raises:
        UserError: there is none; names the nearest.
    """
    return _analysis(find_analysis(name))


def _analysis(one: Analysis[AnalysisRecord]) -> AnalysisDetails:
    return AnalysisDetails(name=one.name, summary=one.summary, needs=one.needs, package=ANALYSES.origin(one.name))


def list_scorers() -> list[ScorerDetails]:
    """The scorers by name: those that ship, and those of installed packages."""
    return [_scorer(one) for one in all_scorers().values()]


def describe_scorer(name: str) -> ScorerDetails:
    """What a scorer says of itself, by its name or its import path (``package.module:NAME``).

    Raises:
        UserError: there is none; names the nearest.
    """
    return _scorer(SCORERS.named(name))


def _scorer(one: ScorerRecord) -> ScorerDetails:
    own = {name: getattr(one, name) for name in ("name", "summary", "method", "unit", "direction", "needs")}
    return ScorerDetails(**own, kinds=tuple(one.kinds), package=SCORERS.origin(one.name))


def list_retrievers() -> RetrieverList:
    """Retrievers and cards, those of installed packages too, with what is missing for each."""
    return RetrieverList(
        retrievers=tuple(retrievers().values()),
        cards=tuple((card, missing(card)) for card in cards().values()),
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
