"""Matches of a text with a query, for readers: the sentence with most of its words, which are marked.

This does not explain a retriever's ranking: a dense retriever needs no common word.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
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
    """Return the significant words of a query, without case and accents; for scripts without spaces, pairs of
    characters."""
    return frozenset(term for _, _, terms in _words(query) for term in terms if len(term) > 2 or is_cjk(term[0]))


def matches(text: str, terms: frozenset[str]) -> list[tuple[int, int, str]]:
    """Return begin, end and term of the words of a text that match one of `terms`, also inflected (``limb``,
    ``limbs``)."""
    begins = {_stem(term): term for term in terms}
    hits: list[tuple[int, int, str]] = []
    for begin, end, words in _words(text):
        for offset, word in enumerate(words):
            term = word if word in terms else begins.get(_stem(word))
            if term is None:
                continue
            wide = is_cjk(word[0])
            first = begin + offset if wide else begin
            last = first + len(word) if wide else end
            if wide and hits and hits[-1][1] > first:
                hits[-1] = (hits[-1][0], last, hits[-1][2])
            else:
                hits.append((first, last, term))
    return hits


def matching_sentence(text: str, terms: frozenset[str], common: Counter[str] | None = None) -> Excerpt:
    """Return the sentence of a text with most of `terms`; the first one in a tie, and if no sentence has any.

    `common` counts the texts that contain each term: a term in all of them counts less.
    """
    best, excerpt = 0.0, Excerpt("", ())
    ends = [match.end() for match in _SENTENCE.finditer(text)]
    for begin, end in itertools.pairwise([0, *ends, len(text)]):
        sentence = text[begin:end]
        if not sentence.strip():
            continue
        hits = matches(sentence, terms)
        value = sum(1.0 / (1 + (common[term] if common else 0)) for term in {term for _, _, term in hits})
        if not excerpt.text or value > best:
            best, excerpt = value, _cut_excerpt(sentence, [(first, last) for first, last, _ in hits])
    return excerpt


def term_counts(texts: Sequence[str], terms: frozenset[str]) -> Counter[str]:
    """Return term → the number of texts that contain it."""
    return Counter(term for text in texts for term in {term for _, _, term in matches(text, terms)})


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


def _words(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield begin, end and forms of each word of a text."""
    for match in _WORD.finditer(text):
        word = match.group()
        if is_cjk(word[0]):
            yield match.start(), match.end(), [word[index : index + 2] for index in range(max(1, len(word) - 1))]
            continue
        folded = fold(word)
        yield match.start(), match.end(), [folded] if folded not in _COMMON else []


def _stem(word: str) -> str:
    """Return the common part of a word's forms: good enough to mark them, too crude for a search."""
    if len(word) < 4 or is_cjk(word[0]):
        return word
    for ending in ("ies", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word
