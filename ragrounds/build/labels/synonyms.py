"""Synonym triples for sentence similarity (CMedTEB, Section 3.1 and Table 24).

For a query that holds a medical term with a known synonym, a model writes three sentences: a positive with the synonym
and the same meaning, a hard negative with the synonym and another meaning, an easy negative with the old term and
another meaning. One of the three, drawn by the seed, is paired with the query: 1 for the positive, 0 for the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from ragrounds.build.retrieval.sets import ScoredPair
from ragrounds.build.wording import folded, within
from ragrounds.files import broken, convert, read_jsonl, shown

FIELDS = ("positive", "hard_negative", "easy_negative")
LENGTH = 0.3
"""A positive may be this much longer or shorter than its query (Table 24)."""


class Synonym(Struct, frozen=True):
    """Two names of one thing."""

    term: str
    synonym: str


class Sentences(Struct, frozen=True, kw_only=True):
    """What a model writes for a query."""

    positive: str
    hard_negative: str
    easy_negative: str


class Triple(Struct, frozen=True, kw_only=True):
    """A query with its three sentences."""

    query: str
    term: str
    synonym: str
    positive: str
    hard_negative: str
    easy_negative: str


def read_synonyms(path: Path) -> tuple[Synonym, ...]:
    """Read JSON Lines ``{"term", "synonym"}``, the dictionary that experts wrote.

    Raises:
        UserError: no such file, a line that is not of that form, an empty name, or a term that is its own synonym.
    """
    found: dict[tuple[str, str], Synonym] = {}
    for place, value in read_jsonl(path):
        given = convert(value, Synonym, path, place)
        pair = Synonym(given.term.strip(), given.synonym.strip())
        if not pair.term or not pair.synonym or pair.term.casefold() == pair.synonym.casefold():
            raise broken(path, f"{shown(pair.term)} and {shown(pair.synonym)} are not two names", place)
        found.setdefault((pair.term.casefold(), pair.synonym.casefold()), pair)
    if not found:
        raise broken(path, "it holds no synonyms")
    return tuple(found.values())


def synonym_in(text: str, synonyms: Iterable[Synonym]) -> Synonym | None:
    """The first synonym pair whose term stands in the text as words of its own, in whatever case, the longest term
    first; a text that already holds the synonym too tells nothing apart and is passed over. ``None``: none does."""
    for pair in sorted(synonyms, key=lambda pair: -len(pair.term)):
        if within(pair.term, text) and not within(pair.synonym, text):
            return pair
    return None


def fault(query: str, pair: Synonym, sentences: Sentences) -> str:
    """Why three sentences are no triple; empty: they are one."""
    texts = {name: getattr(sentences, name).strip() for name in FIELDS}
    missing = next((name for name, text in texts.items() if not text), None)
    if missing:
        return f"no {missing}"
    if len({folded(text) for text in (*texts.values(), query)}) < len(FIELDS) + 1:
        return "two of the sentences are the same"
    wanted = {"positive": pair.synonym, "hard_negative": pair.synonym, "easy_negative": pair.term}
    for name, term in wanted.items():
        other = pair.term if term == pair.synonym else pair.synonym
        if not within(term, texts[name]):
            return f"the {name} does not hold {term!r}"
        # Without the term: a synonym may be a part of it.
        if within(other, folded(texts[name]).replace(folded(term), " ")):
            return f"the {name} holds {other!r}"
    ratio = len(texts["positive"]) / len(query.strip())
    return "" if 1 - LENGTH <= ratio <= 1 + LENGTH else f"the positive is {ratio:.2f} times as long as its query"


def drawn(triple: Triple, seed: int) -> ScoredPair:
    """The query with one of its three sentences, drawn by seed and query."""
    digest = hashlib.sha256(f"{seed}\n{triple.query}".encode()).digest()
    name = FIELDS[int.from_bytes(digest[:8]) % len(FIELDS)]
    return ScoredPair(triple.query, getattr(triple, name), float(name == "positive"))
