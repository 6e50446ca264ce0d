"""Words of texts as the full-text index has them, and what a reader types to find them.

Both sides are folded here, in one way for SQLite and PostgreSQL: case and accents are gone (``Ödème`` is ``odeme``,
``Straße`` is ``strasse``), signs are spaces, and each Chinese, Japanese or Korean letter is a word of its own, so that
any part of a sentence without spaces is found as a phrase.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.text import normalized

LONGEST = 400_000
"""Characters of one field of a document that are indexed."""
BREAK = "\u00b6"
"""A word between two texts of one field, which no query holds: so no phrase reaches from one into the other."""
_SIGNS = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W_]+")
_FOLDED = re.compile(rf"[^\W_]+|{BREAK}")
_MARKS = re.compile("[\u0300-\u036f]+")
_CJK_LETTER = "[\u1100-\u11ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]"
_CJK = re.compile(_CJK_LETTER)
_SHOWN_WORD = re.compile(rf"{_CJK_LETTER}|(?:(?!{_CJK_LETTER})(?:[^\W_]|[\u0300-\u036f]))+")
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})
_TYPED = re.compile(r'"(?P<phrase>[^"]*)"?(?P<open>\*?)|(?P<word>[^\s"]+)')
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»「」『』", '"'))


class TextQueryError(UserError):
    """What was typed holds no word that could be found."""


class TextTerm(Struct, frozen=True):
    """One thing to find: a word, or words that follow each other."""

    words: tuple[str, ...]
    """Folded."""
    prefix: bool = False
    """Whether the last word is only the beginning of one."""


def fold(text: str) -> str:
    """A text as it is indexed: words with spaces between them. Letters of ASCII keep their case, which no database
    looks at."""
    if text.isascii():
        return text
    plain = normalized("NFKD", text)
    plain = normalized("NFC", _MARKS.sub("", plain))
    plain = _SIGNS.sub(" ", plain.casefold().translate(_LETTERS))
    return _CJK.sub(r" \g<0> ", plain) if _CJK.search(plain) else plain


def words_of(text: str) -> list[str]:
    """The folded words of a text, in order."""
    return _WORD.findall(fold(text).lower())


def folded_words(text: str) -> list[str]:
    """The words of a folded text, and its breaks, in order."""
    return _FOLDED.findall(text.lower())


def joined(texts: Iterable[str]) -> str:
    """Texts of one field as one folded text of at most `LONGEST` characters; each text once."""
    parts: list[str] = []
    left = LONGEST
    for text in dict.fromkeys(texts):
        if left <= 0:
            break
        if text:
            parts.append(fold(text[:left]))
            left -= len(text)
    return f" {BREAK} ".join(parts)


def terms_of(typed: str) -> tuple[TextTerm, ...]:
    """What a reader looks for: every word, ``"words in quotes"`` that follow each other, and ``edem*``, the beginning
    of a word. Nothing else in it has a meaning.

    Raises:
        TextQueryError: there is no word in it.
    """
    found: list[TextTerm] = []
    for match in _TYPED.finditer(typed.translate(_QUOTES)):
        text = match["phrase"] if match["phrase"] is not None else match["word"]
        opened = bool(match["open"]) if match["phrase"] is not None else text.endswith("*")
        if words := words_of(text):
            found.append(TextTerm(tuple(words), opened))
    if not found:
        raise TextQueryError(
            f"There is no word to find in {typed[:100]!r}. Expected words, a phrase in quotes, or the beginning of a "
            'word: edema "upper limb" lymph*'
        )
    return tuple(dict.fromkeys(found))


def spans_of(text: str, terms: Collection[TextTerm]) -> list[tuple[int, int]]:
    """Where these terms stand in a text, as (begin, end) of characters, in order and without overlap."""
    places: list[tuple[str, int, int]] = []
    for match in _SHOWN_WORD.finditer(text):
        places += [(word, match.start(), match.end()) for word in words_of(match[0])]
    found: list[tuple[int, int]] = []
    for term in terms:
        size = len(term.words)
        for at in range(len(places) - size + 1):
            if _stands(places, at, term):
                found.append((places[at][1], places[at + size - 1][2]))
    return _without_overlap(sorted(found))


def _stands(places: Sequence[tuple[str, int, int]], at: int, term: TextTerm) -> bool:
    last = len(term.words) - 1
    for place, word in enumerate(term.words):
        here = places[at + place][0]
        if here != word and not (term.prefix and place == last and here.startswith(word)):
            return False
    return True


def _without_overlap(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for begin, end in spans:
        if kept and begin < kept[-1][1]:
            kept[-1] = (kept[-1][0], max(end, kept[-1][1]))
        else:
            kept.append((begin, end))
    return kept
