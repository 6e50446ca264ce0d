"""Words of texts as a search compares them, and what a reader types to find them.

Both sides are folded in one way: case and accents are gone (``Ödème`` is ``odeme``,
``Straße`` is ``strasse``), signs are spaces, and each Chinese, Japanese or Korean letter is a word of its own, so that
any part of a sentence without spaces is found as a phrase.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.text import normalized

_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_SHORT = 12
"""Characters of foreign letters up to which their folded form is remembered: accents and signs within English."""
_SIGNS = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W_]+")
_MARKS = re.compile("[\u0300-\u036f]+")
_CJK_LETTER = "[\u1100-\u11ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]"
_CJK = re.compile(_CJK_LETTER)
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


@functools.lru_cache(maxsize=256)
def _pattern(term: TextTerm) -> re.Pattern[str]:
    """Where a term stands in a folded text."""
    words = r"[\W_]+".join(map(re.escape, term.words))
    return re.compile(rf"(?<![^\W_]){words}" + ("" if term.prefix else r"(?![^\W_])"))


def fold(text: str) -> str:
    """A text as it is compared: words with spaces or signs between them."""
    plain = _plain(text)
    return _CJK.sub(r" \g<0> ", plain) if not plain.isascii() and _CJK.search(plain) else plain


def words_of(text: str) -> list[str]:
    """The folded words of a text, in order."""
    return _WORD.findall(fold(text))


def held_terms(text: str, terms: Collection[TextTerm]) -> list[TextTerm]:
    """Those of some terms that stand in a text."""
    plain = _plain(text)
    # Most texts hold none: that is seen before words are looked for.
    likely = [term for term in terms if all(word in plain for word in term.words)]
    folded = fold(plain) if likely else ""
    return [term for term in likely if _pattern(term).search(folded)]


def _plain(text: str) -> str:
    """A text without case and accents; only what is not ASCII takes time."""
    return text.lower() if text.isascii() else _FOREIGN.sub(_plain_part, text).lower()


def _plain_part(found: re.Match[str]) -> str:
    return _plain_letters(found[0]) if len(found[0]) < _SHORT else _plain_letters.__wrapped__(found[0])


@functools.lru_cache(maxsize=4096)
def _plain_letters(text: str) -> str:
    plain = normalized("NFKD", text)
    plain = normalized("NFC", _MARKS.sub("", plain))
    return _SIGNS.sub(" ", plain.casefold().translate(_LETTERS))


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
            f"{typed[:100]!r} contains no word to search for. Expected words, a phrase in quotes, or the start of a "
            'word: edema "upper limb" lymph*'
        )
    return tuple(dict.fromkeys(found))
