"""Normalized words of texts, and the terms that a reader types to find them.

Both sides are folded in one way: case and accents are removed (``Ödème`` is ``odeme``, ``Straße`` is ``strasse``),
signs are spaces, and each Chinese, Japanese or Korean letter is a separate word, so that any part of a sentence without
spaces is found as a phrase.
"""

from __future__ import annotations

import functools
import re

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.text import normalized

_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_SHORT = 12
"""Largest number of foreign letters whose folded form is cached: accents and signs within English."""
_SIGNS = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W_]+")
_MARKS = re.compile("[\u0300-\u036f]+")
CJK = "\u1100-\u11ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
"""Ranges of Chinese, Japanese and Korean letters, which are written without spaces, for a class in a pattern."""
_CJK = re.compile(f"[{CJK}]")
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})
_TYPED = re.compile(r'"(?P<phrase>[^"]*)"?(?P<open>\*?)|(?P<word>[^\s"]+)')
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»「」『』", '"'))


class TextQueryError(UserError):
    """Error about a search text without any word that could be found."""


class TextTerm(Struct, frozen=True):
    """One term to find: a word, or words that follow each other."""

    words: tuple[str, ...]
    """Folded words."""
    prefix: bool = False
    """True if the last word is only the beginning of one."""


def fold(text: str) -> str:
    """Return a text in its normalized form: words with spaces or signs between them."""
    # Only text that is not ASCII has accents.
    plain = text.lower() if text.isascii() else _FOREIGN.sub(_plain_part, text).lower()
    return _CJK.sub(r" \g<0> ", plain) if not plain.isascii() and _CJK.search(plain) else plain


def is_cjk(letter: str) -> bool:
    """Return True for a letter of a script that is written without spaces."""
    return bool(_CJK.match(letter))


def words_of(text: str) -> list[str]:
    """Return the folded words of a text, in order."""
    return _WORD.findall(fold(text))


def _plain_part(match: re.Match[str]) -> str:
    return _plain_letters(match[0]) if len(match[0]) < _SHORT else _plain_letters.__wrapped__(match[0])


@functools.lru_cache(maxsize=4096)
def _plain_letters(text: str) -> str:
    plain = normalized("NFKD", text)
    plain = normalized("NFC", _MARKS.sub("", plain))
    return _SIGNS.sub(" ", plain.casefold().translate(_LETTERS))


def terms_of(typed: str) -> tuple[TextTerm, ...]:
    """Parse the terms that a reader typed: words, ``"words in quotes"`` that follow each other, and ``edem*``, the
    beginning of a word. No other sign has a meaning.

    Raises:
        TextQueryError: there is no word in it.
    """
    terms: list[TextTerm] = []
    for match in _TYPED.finditer(typed.translate(_QUOTES)):
        text = match["phrase"] if match["phrase"] is not None else match["word"]
        is_prefix = bool(match["open"]) if match["phrase"] is not None else text.endswith("*")
        if words := words_of(text):
            terms.append(TextTerm(tuple(words), is_prefix))
    if not terms:
        raise TextQueryError(
            f"{typed[:100]!r} contains no word to search for. Expected words, a phrase in quotes, or the start of a "
            'word: edema "upper limb" lymph*'
        )
    return tuple(dict.fromkeys(terms))
