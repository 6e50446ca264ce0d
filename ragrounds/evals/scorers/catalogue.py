"""The scorers by name, those that score a question, and the headline of a benchmark.

Scorers are found by scanning: every :class:`ScorerRecord` at the top level of a module of this folder is a scorer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import cast

from msgspec import Struct

from ragrounds.contracts import AnyScorer, Scorer
from ragrounds.errors import UserError, unknown
from ragrounds.evals.benchmarks.cards import Card, card_of
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.plugins import imported, shipped_and_installed
from ragrounds.records import Kind, Question


class UnknownScorer(ScorerRecord, frozen=True, kw_only=True):
    """A scorer that is not here (another version's, a plug-in's), known by the name of its scores alone."""

    def suits(self, question: Question) -> bool:
        """Never: what it is for is not known."""
        return False


GROUP = "ragrounds.scorers"
"""Entry points by which installed packages add scorers."""


@cache
def all_scorers() -> Mapping[str, ScorerRecord]:
    """Every scorer by its name, of this folder and of installed packages; those that need a judge, an embedder or a
    file too."""
    return MappingProxyType(shipped_and_installed("ragrounds.evals.scorers", GROUP, ScorerRecord))


def ready_scorers() -> dict[str, Scorer]:
    """The scorers by name that compute and need nothing beside the attempt and its gold."""
    return {name: cast(Scorer, made) for name, made in all_scorers().items() if not made.needs}


def find_scorer(name: str) -> Scorer:
    """The scorer of a name, or of an import path (``package.module:object``), to score with.

    Raises:
        UserError: no such scorer, with the nearest; one that needs a judge, an embedder or a file, with the command.
    """
    made = imported(name, ScorerRecord, "a scorer") if ":" in name.partition("[")[0] else all_scorers().get(name)
    if made is None:
        raise unknown("scorer", name, ready_scorers(), "ragrounds score --help")
    if made.needs:
        raise UserError(f"The scorer {name!r} needs {made.needs}: `{made.command(['RUN'])}`.")
    return cast(Scorer, made)


def described(name: str) -> AnyScorer:
    """What is known of the scorer that scores are stored under, with or without parameters in brackets. Of a scorer
    that is not here (another version's, a plug-in's) no more is known than that its scores are shares."""
    made = all_scorers().get(name.partition("[")[0])
    return made or UnknownScorer(name=name, summary="score", method=name, kinds=("choice",))


def scorers_for(question: Question) -> tuple[Scorer, ...]:
    """The scorers of this question wherever nothing else is asked for: the headline first, then by the card's order."""
    card = card_of(question.benchmark)
    named = card.scorers if card else ()
    made = [
        scorer
        for scorer in all_scorers().values()
        if scorer.default(question) and not (scorer.by_card and named and scorer.name not in named)
    ]
    order = _order(question, card)
    return tuple(cast(Scorer, scorer) for scorer in sorted(made, key=lambda scorer: _place(scorer.name, order)))


class Headline(Struct, frozen=True, kw_only=True):
    """What one table is made of: the questions of one kind under one scorer, the same for all systems."""

    kind: Kind
    scorer: str
    columns: tuple[str, ...]
    """Scorers that stand beside the headline."""


def headline_of(
    questions: Iterable[Question], present: Collection[str] | None = None, card: Card | None = None
) -> tuple[Headline, ...]:
    """The headline and its columns for each kind of question, in order of appearance.

    Args:
        questions: of one benchmark.
        present: names of scorers that all systems have scores under; by default those that score the questions anyway.
            A kind of question without any of them has no headline.
        card: the benchmark's; by default the package's card of the questions' dataset, or of its family.
    """
    first: dict[Kind, Question] = {}
    for question in questions:
        first.setdefault(question.kind, question)
    headlines = []
    for kind, question in first.items():
        order = _order(question, card or card_of(question.benchmark))
        known = [one.name for one in scorers_for(question)] if present is None else list(present)
        here = sorted((name for name in known if kind in described(name).kinds), key=lambda name: _place(name, order))
        if here:
            columns = tuple(name for name in here[1:] if name in order or described(name).beside)
            headlines.append(Headline(kind=kind, scorer=here[0], columns=columns))
    return tuple(headlines)


def _order(question: Question, card: Card | None) -> tuple[str, ...]:
    """The names that the card gives, the headline first; without any, the usual headline of such questions."""
    if card and card.headline:
        return *card.headline, *card.columns
    return tuple(made.name for made in all_scorers().values() if made.usual and made.suits(question))


def _place(name: str, order: tuple[str, ...]) -> tuple[int, bool, str]:
    """By the card's order, then those that may stand beside a headline, then the others."""
    place = order.index(name) if name in order else len(order)
    return place, not described(name).beside, name
