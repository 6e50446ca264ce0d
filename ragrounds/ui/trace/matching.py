"""Where a text matches a query, for people: the sentence that says most of it, with its words marked.

It tells nothing of how a retriever ranked: a dense one needs no word in common.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ragrounds.base.text import normalized

_LONGEST = 260
"""Characters of an excerpt."""
_SENTENCE = re.compile(r"(?<=[.!?])[\"”’)]*\s+(?=[A-Z0-9(\"“])|(?<=[。！？；])|\n+")
_WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
"""Characters of scripts that are written without spaces."""
_WORD = re.compile(rf"[^\W_{_WIDE}]+|[{_WIDE}]+")
_COMMON = frozenset(
    "about after all also and any are been but can could did does for from had has have how into its may might more "
    "most not other our out than that the their them then there these they this those was were what when where "
    "which while who whom why will with would you your der die das und oder ein eine les des une est dans".split()
)


class Excerpt(Struct, frozen=True):
    """A part of a text with the places that match."""

    text: str
    spans: tuple[tuple[int, int], ...]
    """Begin and end of each in `text`."""


def query_terms(query: str) -> frozenset[str]:
    """The words of a query that say something, without case and accents; of scripts without spaces, each two
    characters that follow each other."""
    return frozenset(term for _, _, terms in _words(query) for term in terms if len(term) > 2 or _is_wide(term[0]))


def matches(text: str, terms: frozenset[str]) -> list[tuple[int, int, str]]:
    """Begin, end and term of the words of a text that match one of `terms`, also in another form (``limb``,
    ``limbs``)."""
    begins = {_stem(term): term for term in terms}
    found: list[tuple[int, int, str]] = []
    for begin, end, words in _words(text):
        for offset, word in enumerate(words):
            term = word if word in terms else begins.get(_stem(word))
            if term is None:
                continue
            wide = _is_wide(word[0])
            first = begin + offset if wide else begin
            last = first + len(word) if wide else end
            if wide and found and found[-1][1] > first:
                found[-1] = (found[-1][0], last, found[-1][2])
            else:
                found.append((first, last, term))
    return found


def matching_sentence(text: str, terms: frozenset[str], common: Counter[str] | None = None) -> Excerpt:
    """The sentence of a text that holds most of `terms`, the first of those; where none holds any, the first sentence.
    `common` counts in how many texts each term is: one that is in all of them counts less."""
    best, chosen = 0.0, Excerpt("", ())
    for begin, end in _sentences(text):
        sentence = text[begin:end]
        if not sentence.strip():
            continue
        found = matches(sentence, terms)
        value = sum(1.0 / (1 + (common[term] if common else 0)) for term in {term for _, _, term in found})
        if not chosen.text or value > best:
            best, chosen = value, _around(sentence, [(first, last) for first, last, _ in found])
    return chosen


def term_counts(texts: Sequence[str], terms: frozenset[str]) -> Counter[str]:
    """Term → in how many of the texts it is."""
    return Counter(term for text in texts for term in {term for _, _, term in matches(text, terms)})


def _around(sentence: str, spans: Sequence[tuple[int, int]]) -> Excerpt:
    """A sentence with its places, cut around the first of them where it is long."""
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


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _SENTENCE.finditer(text):
        yield start, match.end()
        start = match.end()
    yield start, len(text)


def _words(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """Begin, end and forms of each word of a text."""
    for match in _WORD.finditer(text):
        word = match.group()
        if _is_wide(word[0]):
            yield match.start(), match.end(), [word[at : at + 2] for at in range(max(1, len(word) - 1))]
            continue
        folded = _folded(word)
        yield match.start(), match.end(), [folded] if folded not in _COMMON else []


def _folded(word: str) -> str:
    plain = word.casefold()
    if plain.isascii():
        return plain
    return "".join(letter for letter in normalized("NFKD", plain) if not unicodedata.combining(letter))


def _stem(word: str) -> str:
    """What forms of a word have in common: enough to mark them, too little to search by."""
    if len(word) < 4 or _is_wide(word[0]):
        return word
    for ending in ("ies", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


def _is_wide(letter: str) -> bool:
    return "\u3040" <= letter <= "\u30ff" or "\u3400" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7af"
