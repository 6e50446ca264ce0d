"""Analysers: functions from text to the terms that a lexical index counts.

| name | what it does |
|---|---|
| ``lucene-english`` | Lucene's EnglishAnalyzer: Unicode's words, no possessive ``'s``, lower case, stop words, Porter |
| ``plain`` | Lucene's StandardAnalyzer without stop words: Unicode's words, lower case; an ideograph is a word |
| ``chinese-bigram`` | overlapping pairs of ideographs (Lucene's CJKAnalyzer), other text as ``plain`` |
| ``chinese`` | the best on real consultations, see ``perf/retrieval.md``: bigrams |

:func:`analyser` makes one by its name; the same one reads passages and queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from ragrounds.base.errors import unknown

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

# The words of ASCII text, many times as fast: they hold a letter or a digit, marks stand between two letters or two
# digits, and an underscore joins everything.
_ASCII_WORDS = re.compile(
    r"(?:(?<!_)_+)?[^\W_]\w*(?:(?:(?<=[^\W\d_])['.:](?=[^\W\d_])|(?<=\d)[.,;'](?=\d))\w+)*",
    re.ASCII,
)


@cache
def _all_words() -> regex.Pattern[str]:
    """Finds words by the boundaries of Unicode's Annex 29 as Lucene reads them: only what holds a letter or a digit is
    a word, an ideograph or a hiragana is one by itself, South East Asian text is not cut, and an emoji is a word, with
    what it is joined to. A row of what may only begin a word is looked through once, from its first character."""
    import regex

    follows = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]"
    more = f"{follows}*+"
    one = {
        "letter": r"\p{WB=ALetter}",
        "hebrew": r"\p{WB=Hebrew_Letter}",
        "digit": r"[\p{WB=Numeric}\uff10-\uff19]",
        "katakana": r"\p{WB=Katakana}",
        "joiner": r"\p{WB=ExtendNumLet}",
        "between_letters": r"[:\p{WB=MidLetter}\p{WB=MidNumLet}\p{WB=Single_Quote}]",
        "between_digits": r"[\p{WB=MidNum}\p{WB=MidNumLet}\p{WB=Single_Quote}]",
    }
    of = {name: f"(?:{text}{more})" for name, text in one.items()}
    # A Hebrew letter holds a quotation mark behind it, a double one before another Hebrew letter.
    letter = (
        rf"(?:{of['letter']}|{of['hebrew']}(?:\p{{WB=Single_Quote}}{more}"
        rf"|\p{{WB=Double_Quote}}{more}(?={one['hebrew']}))?)"
    )
    letters = f"{letter}(?:{of['between_letters']}?{letter})*"
    digits = f"{of['digit']}(?:{of['between_digits']}?{of['digit']})*"
    run = f"(?:{of['katakana']}+|(?:{letters}|{digits})+)"
    before = f"(?:(?={one['joiner']})(?<!{one['joiner']}{follows}*){of['joiner']}++)?"
    word = f"{before}{run}(?:{of['joiner']}+{run})*{of['joiner']}*"
    alone = rf"[\p{{Script=Han}}\p{{Script=Hiragana}}]{more}|(?:\p{{LB=Complex_Context}}{more})+"
    # What follows an emoji, the two selectors of its presentation apart.
    after = rf"[{follows}--[\ufe0e\ufe0f]]*"
    picture = rf"(?:\p{{Extended_Pictographic}}|\p{{Emoji_Modifier}}){after}\ufe0f?"
    link = r"\p{WB=ZWJ}"
    emoji = rf"(?:(?<!{link}){link}++)?{picture}(?:(?:(?<={link})|{link}++){picture})*"
    flag = rf"(?:\p{{WB=Regional_Indicator}}{more}){{2}}"
    keycap = rf"[#*]{after}?\ufe0f?\u20e3{after}"
    return regex.compile(f"{word}|{alone}|{emoji}|{flag}|{keycap}", regex.V1)


def _tokens(text: str) -> list[str]:
    """The words of a text as they stand there. Of a word that Lucene's buffer does not hold, a piece is what is a word
    inside the buffer; the next one begins where that ends."""
    pattern = _all_words()
    if len(text) <= _LONGEST // 2:
        return list(pattern.findall(text))
    found: list[str] = []
    at, end = 0, len(text)
    while at < end:
        seen = at + _SEEN  # no word is looked at beyond: matching a word of millions takes gigabytes
        match = pattern.search(text, at, seen)
        if match is None:
            at = seen
            continue
        start, stop = match.span()
        if stop >= seen and start > at and seen < end:
            at = start
            continue
        if stop - start > _LONGEST // 2 and _units(match.group()) > _LONGEST:
            size = _LONGEST
            while _units(text[start : start + size]) > _LONGEST:
                size -= 1
            piece = pattern.match(text, start, start + size)
            stop = piece.end() if piece else start + size
        found.append(text[start:stop])
        at = stop
    return found


def _units(text: str) -> int:
    """Characters as Java counts them."""
    return len(text) + sum(character > "\uffff" for character in text)


def _lowered(word: str) -> str:
    """Lower case character by character, as Java has it: a final sigma is no other letter, a dotted capital I loses its
    dot."""
    if "Σ" in word or "İ" in word:
        return "".join("i" if character == "İ" else character.lower() for character in word)
    return word.lower()


def _ascii_words(text: str) -> list[str]:
    found = _ASCII_WORDS.findall(text.lower())
    if len(text) <= _LONGEST or len(max(found, key=len, default="")) <= _LONGEST:
        return found
    return [piece.lower() for word in _ASCII_WORDS.findall(text) for piece in _tokens(word)]


def words(text: str) -> list[str]:
    """Split text into words as Lucene's StandardTokenizer does, in lower case."""
    if text.isascii():
        return _ascii_words(text)
    found: list[str] = []
    plain: list[str] = []
    for part in text.split(" "):  # no word goes over a blank
        if part.isascii():
            plain.append(part)
            continue
        if plain:
            found += _ascii_words(" ".join(plain))
            plain.clear()
        found += map(_lowered, _tokens(part))
    return found + _ascii_words(" ".join(plain))


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
                term = self.term(word)
            if term is not None:
                result.append(term)
        return result

    def term(self, word: str) -> str | None:
        """The term of a word as :func:`words` gives it; ``None``: it is left out."""
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
    result: list[str] = []
    end = 0
    for run in _IDEOGRAPHS.finditer(text):
        result += words(text[end : run.start()])
        characters = run.group()
        result += [first + second for first, second in pairwise(characters)] or [characters]
        end = run.end()
    return result + words(text[end:])


_MAKERS: dict[str, Callable[[], Analyser]] = {
    "lucene-english": LuceneEnglish,
    "plain": lambda: words,
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
        raise unknown("analyser", name, NAMES, "ragrounds list retrievers")
    return _MAKERS[name]()
