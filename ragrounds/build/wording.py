"""Whether one text stands in another, word for word."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"\w+")


def folded(text: str) -> str:
    """By which texts are compared: without differences of case, spacing, punctuation and width."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def within(part: str, whole: str) -> bool:
    """Whether `part` stands in `whole` word for word."""
    wanted, given = folded(part), folded(whole)
    if not wanted:
        return False
    spaced = all(character.isascii() for character in wanted)
    return f" {wanted} " in f" {given} " if spaced else wanted in given
