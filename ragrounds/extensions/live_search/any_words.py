"""Long questions for literature searches, which find only entries with every word of a query.

A question of a benchmark has a hundred words, and no abstract has them all. ``match=auto`` searches for the
query as written. If nothing is found, or if the query is longer than :data:`LONG` words, it searches for any of its
words; the provider ranks hits with more of them first. ``match=all`` and ``match=any`` do one of the two.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ragrounds.base.contracts import SearchNote
from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec
from ragrounds.extensions.live_search.provider_budget import SearchRefused
from ragrounds.tools.search_notes import SEARCH_NOTES

T = TypeVar("T")
MATCHES = ("auto", "all", "any")
LONG = 30
"""Number of words of a query beyond which nothing has them all."""
MOST = 40
"""Number of words that are searched for, the first ones of the query."""
_WORD = re.compile(r"[^\W_][\w'’.-]*[^\W_]|[^\W_]")
_COMMON = frozenset(
    "a about after all also although an and any are as at be been before being best between both but by can could did "
    "do does during each following for from had has have he her him his how if in into is it its likely may might "
    "more most must no nor not now of on one only or other our out over shall she should since so some such than that "
    "the their them then there these they this those through to under up upon was we were what when where which while "
    "who whom whose why will with within without would you your".split()
)


def match_of(spec: Spec) -> str:
    """Return how a spec matches words: ``auto``, ``all`` or ``any``.

    Raises:
        UserError: the parameter is none of these.
    """
    value = spec.parameters.get("match", "auto")
    if value not in MATCHES:
        raise UserError(
            f"Cannot use match={value!r} in {spec.name}: expected {', '.join(MATCHES[:-1])} or {MATCHES[-1]}."
        )
    return str(value)


def content_words(query: str) -> list[str]:
    """Return the words of a query that carry its topic, each once, in its order, :data:`MOST` at most."""
    words: dict[str, str] = {}
    for word in _WORD.findall(query):
        if word.lower() not in _COMMON:
            words.setdefault(word.lower(), word)
    return list(words.values())[:MOST]


async def matched(query: str, match: str, who: str, find: Callable[[str], Awaitable[Sequence[T]]]) -> Sequence[T]:
    """Return the results of `find` for a query, or for any of its words.

    A note reports if other words were searched for.

    Raises:
        SearchRefused: the provider does not take the query.
    """
    words = content_words(query)
    reason = "match=any"
    if match == "all" or (match == "auto" and len(query.split()) <= LONG) or not words:
        try:
            results = await find(query)
        except SearchRefused as refused:
            if match == "all" or len(words) < 2:
                raise
            reason = str(refused)
        else:
            if results or match == "all" or len(words) < 2:
                return results
            reason = "nothing has all words of the query"
    elif match == "auto":
        reason = f"the query has more than {LONG} words"
    SEARCH_NOTES.report(SearchNote("any_words", f"{who}: {reason}, so any of {len(words)} of them was searched for"))
    return await find(" OR ".join(f'"{word}"' for word in words))
