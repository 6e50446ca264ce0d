"""Retrieval inside answers: for every search of an attempt, was a gold document found, was it new, was it kept by the
reader, was it used in the answer?

Kept and used are read off the words: a text is taken to come from the passage that holds the largest share of its
content words, if that is half of them or more. It is an attribution by wording, right for quotes and close
paraphrases, and silent (``None``) about texts that fit no passage or say too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.records import Gold, Passage

if TYPE_CHECKING:
    from ragrounds.evals.store.traces import Trace

READER = "information"
"""The key of the state under which `reason_in_documents` leaves what is worth keeping."""
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_COMMON = frozenset(
    "a an and are as at be been but by can could did do does for from had has have he her his how if in into is it its "
    "may more most no not of on or our she should so such than that the their them then there these they this those to "
    "was we were what when where which who will with would you your 的 了 是 在 和 有 与 及 或 为 不 对 等".split()
)
_FEWEST_WORDS = 4
_HALF = 0.5


class Searched(Struct, frozen=True, kw_only=True):
    """One search of an attempt as it was asked and answered, in order."""

    query: str
    passages: tuple[Passage, ...]
    kept: str | None = None
    """What a reader kept of the passages; ``None`` where the graph has no reader."""


class SearchUse(Struct, frozen=True, kw_only=True):
    """What one search was good for."""

    query: str
    found: int | None
    """Rank of the first passage from a gold document; ``None``: none found."""
    new_gold: bool
    """A gold document that no earlier search of the attempt had found."""
    new: float
    """Share of its passages that no earlier search had found; 0.0 where it found none."""
    repeated: bool
    """The same query was asked before."""
    kept: bool | None
    """Whether what the reader kept comes from a gold document; ``None``: no reader, or it cannot be told."""
    used: bool | None
    """Whether the answer rests on a gold document of this search; ``None``: it cannot be told."""


def searches_of(trace: Trace, reader: str = READER) -> tuple[Searched, ...]:
    """The searches of a traced attempt, each with what the next reader kept before another search was made.

    A search whose passages the journal does not hold (it failed, or was imported) has none.
    """
    made: list[Searched] = []
    for step in trace.steps:
        for call in step.calls:
            if call.call.kind == "search":
                query = call.searched.query if call.searched else ""
                made.append(Searched(query=query, passages=call.passages))
        kept = step.changes.get(reader)
        if made and made[-1].kept is None and isinstance(kept, str):
            made[-1] = replace(made[-1], kept=kept)
    return tuple(made)


def use_of_searches(searches: Sequence[Searched], gold: Gold, answer: str) -> tuple[SearchUse, ...]:
    """Follow the gold documents through an attempt's searches.

    Args:
        searches: in the order they were made.
        gold: its `documents` are ids of documents, not of passages.
        answer: the text to attribute: of a reasoning answer, its reasoning too.
    """
    wanted = set(gold.documents)
    everything = [passage for search in searches for passage in search.passages]
    source = attributed(answer, everything)
    uses = []
    seen: set[str] = set()
    seen_gold: set[str] = set()
    asked: set[str] = set()
    for search in searches:
        ids = [passage.id for passage in search.passages]
        golden = [passage.document for passage in search.passages if passage.document in wanted]
        ranks = (rank for rank, passage in enumerate(search.passages, start=1) if passage.document in wanted)
        kept = None if search.kept is None else attributed(search.kept, search.passages)
        query = " ".join(search.query.split()).casefold()
        uses.append(
            SearchUse(
                query=search.query,
                found=next(ranks, None),
                new_gold=bool(set(golden) - seen_gold),
                new=sum(id not in seen for id in ids) / len(ids) if ids else 0.0,
                repeated=query in asked,
                kept=None if kept is None else kept in wanted,
                used=None if source is None else source in wanted and source in golden,
            )
        )
        seen.update(ids)
        seen_gold.update(golden)
        asked.add(query)
    return tuple(uses)


def attributed(text: str, passages: Iterable[Passage]) -> str | None:
    """The document whose passage holds the largest share of the text's content words; ``None`` where none holds half,
    or the text has too few words. Of equal shares the passage that comes first wins."""
    words = _content(text)
    if len(words) < _FEWEST_WORDS:
        return None
    best, document = 0.0, None
    for passage in passages:
        share = len(words & _content(f"{passage.title} {passage.text}")) / len(words)
        if share > best:
            best, document = share, passage.document
    return document if best >= _HALF else None


def _content(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold())) - _COMMON
