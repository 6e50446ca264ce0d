"""Analysers: functions from text to the terms that a lexical index counts.

| name | terms |
|---|---|
| ``lucene-english`` | Lucene's EnglishAnalyzer: Unicode's words, no possessive ``'s``, lower case, stop words, Porter |
| ``plain`` | Lucene's StandardAnalyzer without stop words: Unicode's words, lower case; an ideograph is a word |
| ``chinese-bigram`` | overlapping pairs of ideographs (Lucene's CJKAnalyzer), other text as ``plain`` |
| ``chinese`` | the best on real consultations, see ``perf/retrieval.md``: bigrams |

:func:`analyser` makes the analyser of a name. The same analyser reads passages and queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from ragrounds.base.errors import unknown
from ragrounds.base.text import ONE_WIDTH

if TYPE_CHECKING:
    import regex

Analyser = Callable[[str], list[str]]

# Lucene's EnglishAnalyzer.ENGLISH_STOP_WORDS_SET.
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)

_IDEOGRAPHS = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u309f\U00020000-\U0003ffff]+")
_POSSESSIVES = ("'s", "’s", "＇s")
_LONGEST = 255  # Lucene's StandardTokenizer cuts longer words into pieces of this many UTF-16 units.
_SEEN = 2 * _LONGEST
_CACHED = 1_000_000

# The words of ASCII text, found many times as fast: they hold a letter or a digit, marks are between two letters or two
# digits, and an underscore joins everything.
_ASCII_WORDS = re.compile(
    r"(?:(?<!_)_+)?[^\W_]\w*(?:(?:(?<=[^\W\d_])['.:](?=[^\W\d_])|(?<=\d)[.,;'](?=\d))\w+)*",
    re.ASCII,
)


@cache
def _all_words() -> regex.Pattern[str]:
    """Return the pattern that finds words by the boundaries of Unicode's Annex 29, as Lucene reads them.

    Only a run with a letter or a digit is a word. An ideograph or a hiragana is a word by itself. South East Asian text
    is not cut. An emoji is a word, with what it is joined to. A row of characters that may only begin a word is looked
    through once, from its first character.
    """
    import regex

    follows = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]"
    more = f"{follows}*+"
    classes = {
        "letter": r"\p{WB=ALetter}",
        "hebrew": r"\p{WB=Hebrew_Letter}",
        "digit": r"[\p{WB=Numeric}\uff10-\uff19]",
        "katakana": r"\p{WB=Katakana}",
        "joiner": r"\p{WB=ExtendNumLet}",
        "between_letters": r"[:\p{WB=MidLetter}\p{WB=MidNumLet}\p{WB=Single_Quote}]",
        "between_digits": r"[\p{WB=MidNum}\p{WB=MidNumLet}\p{WB=Single_Quote}]",
    }
    extended = {name: f"(?:{text}{more})" for name, text in classes.items()}
    # A Hebrew letter holds a quotation mark behind it, a double one before another Hebrew letter.
    letter = (
        rf"(?:{extended['letter']}|{extended['hebrew']}(?:\p{{WB=Single_Quote}}{more}"
        rf"|\p{{WB=Double_Quote}}{more}(?={classes['hebrew']}))?)"
    )
    letters = f"{letter}(?:{extended['between_letters']}?{letter})*"
    digits = f"{extended['digit']}(?:{extended['between_digits']}?{extended['digit']})*"
    run = f"(?:{extended['katakana']}+|(?:{letters}|{digits})+)"
    before = f"(?:(?={classes['joiner']})(?<!{classes['joiner']}{follows}*){extended['joiner']}++)?"
    word = f"{before}{run}(?:{extended['joiner']}+{run})*{extended['joiner']}*"
    single = rf"[\p{{Script=Han}}\p{{Script=Hiragana}}]{more}|(?:\p{{LB=Complex_Context}}{more})+"
    # Extensions of an emoji, except the two selectors of its presentation.
    after = rf"[{follows}--[\ufe0e\ufe0f]]*"
    picture = rf"(?:\p{{Extended_Pictographic}}|\p{{Emoji_Modifier}}){after}\ufe0f?"
    link = r"\p{WB=ZWJ}"
    emoji = rf"(?:(?<!{link}){link}++)?{picture}(?:(?:(?<={link})|{link}++){picture})*"
    flag = rf"(?:\p{{WB=Regional_Indicator}}{more}){{2}}"
    keycap = rf"[#*]{after}?\ufe0f?\u20e3{after}"
    return regex.compile(f"{word}|{single}|{emoji}|{flag}|{keycap}", regex.V1)


def _tokens(text: str) -> list[str]:
    """Return the words of a text in their original spelling.

    If a word is longer than Lucene's buffer, the part that is a word inside the buffer becomes a piece, and the next
    piece begins at its end.
    """
    pattern = _all_words()
    if len(text) <= _LONGEST // 2:
        return list(pattern.findall(text))
    tokens: list[str] = []
    position, end = 0, len(text)
    while position < end:
        limit = position + _SEEN  # no word is looked at beyond: matching a word of millions takes gigabytes
        match = pattern.search(text, position, limit)
        if match is None:
            position = limit
            continue
        start, stop = match.span()
        if stop >= limit and start > position and limit < end:
            position = start
            continue
        if stop - start > _LONGEST // 2 and _units(match.group()) > _LONGEST:
            size = _LONGEST
            while _units(text[start : start + size]) > _LONGEST:
                size -= 1
            piece = pattern.match(text, start, start + size)
            stop = piece.end() if piece else start + size
        tokens.append(text[start:stop])
        position = stop
    return tokens


def _units(text: str) -> int:
    """Return the number of UTF-16 units, as Java counts characters."""
    return len(text) + sum(character > "\uffff" for character in text)


def _lowered(word: str) -> str:
    """Return a word in lower case, character by character as in Java.

    A final sigma does not become another letter, and a dotted capital I loses its dot.
    """
    if "Σ" in word or "İ" in word:
        return "".join("i" if character == "İ" else character.lower() for character in word)
    return word.lower()


def _ascii_words(text: str) -> list[str]:
    lowered = _ASCII_WORDS.findall(text.lower())
    if len(text) <= _LONGEST or len(max(lowered, key=len, default="")) <= _LONGEST:
        return lowered
    return [piece.lower() for word in _ASCII_WORDS.findall(text) for piece in _tokens(word)]


def words(text: str) -> list[str]:
    """Split text into words as Lucene's StandardTokenizer does, in lower case."""
    if text.isascii():
        return _ascii_words(text)
    lowered: list[str] = []
    ascii_parts: list[str] = []
    for part in text.split(" "):  # no word goes over a blank
        if part.isascii():
            ascii_parts.append(part)
            continue
        if ascii_parts:
            lowered += _ascii_words(" ".join(ascii_parts))
            ascii_parts.clear()
        lowered += map(_lowered, _tokens(part))
    return lowered + _ascii_words(" ".join(ascii_parts))


class LuceneEnglish:
    """Lucene's EnglishAnalyzer. The term of each word is computed once and cached."""

    def __init__(self) -> None:
        import Stemmer

        self._porter = Stemmer.Stemmer("porter", 0)
        self._terms: dict[str, str | None] = {}

    def __call__(self, text: str) -> list[str]:
        terms = self._terms
        kept_terms = []
        for word in words(text):
            try:
                term = terms[word]
            except KeyError:
                term = self.term(word)
            if term is not None:
                kept_terms.append(term)
        return kept_terms

    def term(self, word: str) -> str | None:
        """Return the term of a word that :func:`words` returned; ``None`` if the word is left out."""
        bare = word[:-2] if word.endswith(_POSSESSIVES) else word
        term = None if not bare or bare in STOP_WORDS else self._stem(bare)
        if len(self._terms) >= _CACHED:  # a corpus has no end of numbers and misprints
            self._terms.clear()
        self._terms[word] = term
        return term

    def _stem(self, word: str) -> str:
        """Stem a word with Porter's algorithm and three later changes of its author, which Lucene's filter includes.

        Words of one or two letters stay, ``bli`` becomes ``ble``, and ``logi`` becomes ``log``.
        """
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
    """Return overlapping pairs of neighbouring ideographs, lone ideographs, and all other words unchanged."""
    terms: list[str] = []
    text, end = text if text.isascii() else text.translate(ONE_WIDTH), 0
    for run in _IDEOGRAPHS.finditer(text):
        terms += words(text[end : run.start()])
        characters = run.group()
        terms += [first + second for first, second in pairwise(characters)] or [characters]
        end = run.end()
    return terms + words(text[end:])


_MAKERS: dict[str, Callable[[], Analyser]] = {
    "lucene-english": LuceneEnglish,
    "plain": lambda: words,
    "chinese-bigram": lambda: chinese_bigram,
    "chinese": lambda: chinese_bigram,
}
NAMES = tuple(_MAKERS)


def analyser(name: str) -> Analyser:
    """Return the analyser of that name.

    Raises:
        UserError: the name is unknown, or a library that it needs is not installed.
    """
    if name not in _MAKERS:
        raise unknown("analyser", name, NAMES, "ragrounds list retrievers")
    return _MAKERS[name]()
