"""The available choices: retrievers with the cards of dense ones and of rerankers, scorers, analyses."""

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
    """Description of an analysis."""

    name: str
    summary: str
    """Summary in one line, with the paper's figure or table that it follows."""
    needs: str
    """Requirements of the runs."""
    package: str
    """Package, with its version, that adds the analysis; empty if it is built in, or was named by its import path."""


class ScorerDetails(Struct, frozen=True, kw_only=True):
    """Description of a scorer."""

    name: str
    """Name under which scores are stored."""
    summary: str
    method: str
    """Description for the methods paragraph of a report."""
    unit: str
    """Unit of the values.

    ``percent`` is for shares from 0 to 1, shown times 100. Values in any other unit are shown unchanged.
    """
    direction: str
    """Direction of better values: ``higher`` or ``lower``."""
    kinds: tuple[str, ...]
    """Kinds of question that the scorer is for."""
    needs: str
    """Requirement that must be named before it can score: a judge, an embedder, a file; empty if it needs nothing."""
    package: str
    """Package, as for an analysis."""


class RetrieverList(Struct, frozen=True, kw_only=True):
    """List of everything that can search."""

    retrievers: tuple[Retriever, ...]
    cards: tuple[tuple[RetrieverCard, str], ...]
    """Cards of dense retrievers and rerankers, each with its missing requirement; empty if nothing is missing here."""
    analysers: tuple[str, ...]
    """Analysers of bm25, which turn text into words."""


def list_analyses() -> list[AnalysisDetails]:
    """Return the analyses by name, including those of installed packages."""
    return [_describe_analysis(analysis) for analysis in analyses().values()]


def describe_analysis(name: str) -> AnalysisDetails:
    """Return the description of an analysis by its name or import path.

    Raises:
        UserError: the analysis is unknown; the message names the nearest.
    """
    return _describe_analysis(find_analysis(name))


def _describe_analysis(analysis: Analysis[AnalysisRecord]) -> AnalysisDetails:
    return AnalysisDetails(
        name=analysis.name, summary=analysis.summary, needs=analysis.needs, package=ANALYSES.origin(analysis.name)
    )


def list_scorers() -> list[ScorerDetails]:
    """Return the scorers by name: built-in ones, and those of installed packages."""
    return [_describe_scorer(scorer) for scorer in all_scorers().values()]


def describe_scorer(name: str) -> ScorerDetails:
    """Return the description of a scorer by its name or import path (``package.module:NAME``).

    Raises:
        UserError: the scorer is unknown; the message names the nearest.
    """
    return _describe_scorer(SCORERS.resolve(name))


def _describe_scorer(scorer: ScorerRecord) -> ScorerDetails:
    fields = {name: getattr(scorer, name) for name in ("name", "summary", "method", "unit", "direction", "needs")}
    return ScorerDetails(**fields, kinds=tuple(scorer.kinds), package=SCORERS.origin(scorer.name))


def list_retrievers() -> RetrieverList:
    """Return retrievers and cards, including those of installed packages, with the missing requirement of each."""
    return RetrieverList(
        retrievers=tuple(retrievers().values()),
        cards=tuple((card, missing(card)) for card in cards().values()),
        analysers=tuple(NAMES),
    )


def describe_retriever(name: str) -> dict[str, object]:
    """Return the fields of a retriever or a card, with its parameters and its missing requirement, by its name or
    import path (``package.module:NAME``).

    Raises:
        UserError: the name is unknown; the message names the nearest.
    """
    described = cards()
    if name in described and name not in RETRIEVERS.shipped():
        return {**msgspec.to_builtins(described[name]), "missing": missing(described[name])}
    return RETRIEVERS.resolve(name, known_names=described).described()
