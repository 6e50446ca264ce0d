"""Analysers: functions from text to the terms that a lexical index counts.

| name | what it does |
|---|---|
| ``lucene-english`` | Lucene's EnglishAnalyzer: Unicode's words, no possessive ``'s``, lower case, stop words, Porter |
| ``plain`` | Lucene's StandardAnalyzer without stop words: Unicode's words, lower case; an ideograph is a word |
| ``chinese-jieba`` | words by jieba's search mode, lower case (needs the extra ``chinese``) |
| ``chinese-bigram`` | overlapping pairs of ideographs (Lucene's CJKAnalyzer), other text as ``plain`` |
| ``chinese`` | the best of the three on real consultations, see ``perf/retrieval.md`` |

:func:`analyser` makes one by its name; the same one reads passages and queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise

from ragrounds.errors import UserError, unknown

Analyser = Callable[[str], list[str]]

# Lucene's EnglishAnalyzer.ENGLISH_STOP_WORDS_SET.
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)

_IDEOGRAPH = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u309f\U00020000-\U0003ffff"
_LETTER = r"[^\W\d_]"
# Unicode Annex 29: marks that hold a word together between letters (WB6, WB7), and between digits (WB11, WB12).
_WORD = r"{part}+(?:(?:(?<={letter})['.:’‘·․‧﹕＇．：](?={letter})|(?<=\d)[.,;'’‘٬﹐﹔＇，．；](?=\d)){part}+)*"
_ASCII_WORDS = re.compile(_WORD.format(part=r"\w", letter=_LETTER), re.ASCII)
_WORDS = re.compile(f"[{_IDEOGRAPH}]|" + _WORD.format(part=rf"(?:(?![{_IDEOGRAPH}])[\w\u0300-\u036f])", letter=_LETTER))
_IDEOGRAPHS = re.compile(f"[{_IDEOGRAPH}]+")
_POSSESSIVES = ("'s", "’s", "＇s")
_LONGEST = 255  # Lucene's StandardTokenizer cuts longer words into pieces of this many characters.
_CACHED = 1_000_000


def words(text: str) -> list[str]:
    """Split lower-cased text into words as Lucene's StandardTokenizer does."""
    lower = text.lower()
    found = (_ASCII_WORDS if lower.isascii() else _WORDS).findall(lower)
    if len(text) <= _LONGEST or len(max(found, key=len, default="")) <= _LONGEST:
        return found
    return [word[at : at + _LONGEST] for word in found for at in range(0, len(word), _LONGEST)]


class LuceneEnglish:
    """Lucene's EnglishAnalyzer. The term of a word is found once and kept."""

    def __init__(self) -> None:
        import Stemmer

        self._porter = Stemmer.Stemmer("porter", 0)
        self._terms: dict[str, str | None] = {}

    def __call__(self, text: str) -> list[str]:
        terms = self._terms
        result = []
        for word in words(text):
            try:
                term = terms[word]
            except KeyError:
                term = self._term(word)
            if term is not None:
                result.append(term)
        return result

    def _term(self, word: str) -> str | None:
        bare = word[:-2] if word.endswith(_POSSESSIVES) else word
        term = None if not bare or bare in STOP_WORDS else self._stem(bare)
        if len(self._terms) >= _CACHED:  # a corpus has no end of numbers and misprints
            self._terms.clear()
        self._terms[word] = term
        return term

    def _stem(self, word: str) -> str:
        """Porter's algorithm with the three departures of his own later code, which Lucene's filter is made from:
        words of one or two letters stay, ``bli`` becomes ``ble``, and ``logi`` becomes ``log``."""
        if len(word) <= 2:
            return word
        ending = _DEPARTURE.search(word)
        if ending and _MEASURE.search(word, 0, ending.start()):
            rest = word[: ending.start()]
            if ending.group().startswith("l"):
                return rest + "log"
            word = rest + "ble"
        return str(self._porter.stemWord(word))


_DEPARTURE = re.compile(r"(?:log|bl)(?:y|i|ies)\Z")
# A vowel followed by a consonant: Porter's measure is above 0. A `y` is a vowel after a consonant.
_MEASURE = re.compile(r"(?:[aeiou]|(?<=[^aeiou])y)(?:[^aeiouy]|(?<=[aeiouy])y)")


def chinese_bigram(text: str) -> list[str]:
    """Overlapping pairs of neighbouring ideographs, a lone ideograph by itself, other words as they are."""
    lower = text.lower()
    result: list[str] = []
    end = 0
    for run in _IDEOGRAPHS.finditer(lower):
        result += words(lower[end : run.start()])
        characters = run.group()
        result += [first + second for first, second in pairwise(characters)] or [characters]
        end = run.end()
    return result + words(lower[end:])


class ChineseJieba:
    """jieba's search mode: long words together with the shorter words inside them."""

    def __init__(self) -> None:
        try:
            import jieba
        except ImportError:
            raise UserError(
                "The analyser 'chinese-jieba' needs jieba: install ragrounds[chinese], or take 'chinese-bigram'."
            ) from None
        import logging

        jieba.setLogLevel(logging.WARNING)
        self._cut: Callable[[str], Iterable[str]] = jieba.Tokenizer().cut_for_search

    def __call__(self, text: str) -> list[str]:
        return [word for word in self._cut(text.lower()) if _WORDS.search(word)]


_MAKERS: dict[str, Callable[[], Analyser]] = {
    "lucene-english": LuceneEnglish,
    "plain": lambda: words,
    "chinese-jieba": ChineseJieba,
    "chinese-bigram": lambda: chinese_bigram,
    "chinese": lambda: chinese_bigram,
}
NAMES = tuple(_MAKERS)


def analyser(name: str) -> Analyser:
    """Make the analyser of that name.

    Raises:
        UserError: there is none, or what it needs is not installed.
    """
    if name not in _MAKERS:
        raise unknown("analyser", name, NAMES, "ragrounds retrievers ls")
    return _MAKERS[name]()
