"""How answers are scored: the scorers that there are."""

from __future__ import annotations

from msgspec import Struct

from ragrounds.evals.scorers import all_scorers
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.scorers.catalogue import SCORERS


class ScorerDetails(Struct, frozen=True, kw_only=True):
    """What a scorer says of itself."""

    name: str
    """What its scores are stored under."""
    summary: str
    method: str
    """As it stands in the methods paragraph of a report."""
    unit: str
    """``percent``: shares from 0 to 1, shown times 100. Any other: values are shown as they are."""
    direction: str
    """Which values are better: ``higher`` or ``lower``."""
    kinds: tuple[str, ...]
    """The kinds of question that it is for."""
    needs: str
    """What must be named before it can score: a judge, an embedder, a file; empty: nothing."""
    package: str
    """The package, with its version, that adds it; empty: it ships, or the user named it by import path."""


def list_scorers() -> list[ScorerDetails]:
    """The scorers by name: those that ship, and those of installed packages."""
    return [_details(one) for one in all_scorers().values()]


def describe_scorer(name: str) -> ScorerDetails:
    """What a scorer says of itself, by its name or its import path (``package.module:NAME``).

    Raises:
        UserError: there is none; names the nearest.
    """
    return _details(SCORERS.named(name))


def _details(one: ScorerRecord) -> ScorerDetails:
    return ScorerDetails(
        name=one.name,
        summary=one.summary,
        method=one.method,
        unit=one.unit,
        direction=one.direction,
        kinds=tuple(one.kinds),
        needs=one.needs,
        package=SCORERS.origin(one.name),
    )
