"""Matches of a text with a query, for readers: the sentence with most of its words, which are marked.

This does not explain a retriever's ranking: a dense retriever needs no common word.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ragrounds.evals.trace.text_folding import CJK, fold, is_cjk

_LONGEST = 260
"""Characters of an excerpt."""
_SENTENCE = re.compile(r"(?<=[.!?])[\"”’)]*\s+(?=[A-Z0-9(\"“])|(?<=[。！？；])|\n+")
_WORD = re.compile(rf"[^\W_{CJK}]+|[{CJK}]+")
_COMMON = frozenset(
    "about after all also and any are been but can could did does for from had has have how into its may might more "
    "most not other our out than that the their them then there these they this those was were what when where "
    "which while who whom why will with would you your der die das und oder ein eine les des une est dans".split()
)


class Excerpt(Struct, frozen=True):
    """Part of a text with its matches."""

    text: str
    spans: tuple[tuple[int, int], ...]
    """Begin and end of each match in `text`."""


def query_terms(query: str) -> frozenset[str]:
    """Return the significant words of a query in the form of :func:`_words`."""
    return frozenset(term for _, _, term in _words(query) if len(term) > 2 or is_cjk(term[0]))


def matching_sentence(text: str, terms: frozenset[str]) -> Excerpt:
    """Return the sentence of a text with most of `terms`; the first one in a tie, and if no sentence has any."""
    most, excerpt = 0, Excerpt("", ())
    ends = [match.end() for match in _SENTENCE.finditer(text)]
    for begin, end in itertools.pairwise([0, *ends, len(text)]):
        sentence = text[begin:end]
        if not sentence.strip():
            continue
        hits = [hit for hit in _words(sentence) if hit[2] in terms]
        count = len({term for _, _, term in hits})
        if not excerpt.text or count > most:
            most, excerpt = count, _cut_excerpt(sentence, [(first, last) for first, last, _ in hits])
    return excerpt


def _cut_excerpt(sentence: str, spans: Sequence[tuple[int, int]]) -> Excerpt:
    """Return a sentence with its spans; a long one is cut around its first span."""
    start = len(sentence) - len(sentence.lstrip())
    end = len(sentence.rstrip())
    if end - start > _LONGEST:
        first = spans[0][0] if spans else start
        if first - start > _LONGEST // 2:
            start = max(sentence.rfind(" ", 0, first - 40) + 1, first - 60)
        cut = sentence.rfind(" ", start, start + _LONGEST)
        end = min(end, cut if cut > start else start + _LONGEST)
    head, tail = "… " * (sentence[:start].strip() != ""), " …" * (sentence[end:].strip() != "")
    moved = tuple((a - start + len(head), b - start + len(head)) for a, b in spans if a >= start and b <= end)
    return Excerpt(head + sentence[start:end] + tail, moved)


def _words(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield begin, end and form of each word: without case, accents and a plural s; for scripts without spaces, of each
    pair of characters.
    """
    for match in _WORD.finditer(text):
        word, begin = match.group(), match.start()
        if is_cjk(word[0]):
            for index in range(max(1, len(word) - 1)):
                yield begin + index, min(begin + index + 2, match.end()), word[index : index + 2]
        elif (folded := fold(word)) not in _COMMON:
            yield begin, match.end(), folded.removesuffix("s") if len(folded) > 3 else folded
