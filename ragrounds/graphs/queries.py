"""From what a model wrote to what is searched for."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.contracts import Context
from ragrounds.records import Query
from ragrounds.texts import wellformed

LONGEST = 2000
"""Characters of a query that a model wrote. One that never ends must not flood a search engine."""


def written_query(context: Context, text: str) -> Query:
    """A query that a model wrote: spaces made plain, cut at :data:`LONGEST` characters.

    A JSON escape can hold half a surrogate pair, which is no text.
    """
    plain = " ".join(wellformed(text).split())
    if len(plain) > LONGEST:
        context.note("query_cut", f"a query of {len(plain)} characters was cut to {LONGEST}")
        plain = plain[:LONGEST]
    return Query(plain)


def folded(text: str) -> str:
    """By which two queries are the same."""
    return " ".join(text.split()).casefold()


def repeated(text: str, before: Sequence[str]) -> bool:
    """Whether a query was asked before."""
    return folded(text) in {folded(query) for query in before}
