"""Whether the texts of a dataset may be given on: what its card says of its licence, read narrowly.

A licence is taken for one that lets texts be given on where it is one of a few that let anybody do so, for any purpose.
All else is not: a licence that forbids some purposes, one that stands elsewhere (``see the original dataset``), one
that nobody knows.
"""

from __future__ import annotations

from msgspec import Struct

from ragrounds.evals.benchmarks.cards import card_of

_FREE = frozenset(
    "apache-2.0|bsd-2-clause|bsd-3-clause|cc0|cc0-1.0|cc by 3.0|cc by 4.0|cc-by-3.0|cc-by-4.0|cc by-sa 3.0|cc by-sa 4.0"
    "|cc-by-sa-3.0|cc-by-sa-4.0|mit|odc-by|pddl|public domain|unlicense".split("|")
)
"""Licences under which anybody may give texts on, with their source named."""


class TextLicence(Struct, frozen=True, kw_only=True):
    """What is known of the licence of a dataset's texts."""

    dataset: str
    """Canonical name, ``family/dataset``."""
    license: str
    """As the card says it; ``not known`` where there is no card."""
    source: str
    """The public home of the data; empty: not known."""
    free: bool
    """Whether anybody may give the texts on."""


def text_licence(dataset: str) -> TextLicence:
    """The licence of a dataset's questions and answers, by its name (:attr:`ragrounds.records.Question.benchmark`)."""
    card = card_of(dataset)
    said = card.license if card and card.license else "not known"
    return TextLicence(
        dataset=dataset, license=said, source=card.source if card else "", free=said.strip().casefold() in _FREE
    )
