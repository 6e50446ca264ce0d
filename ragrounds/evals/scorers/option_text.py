"""Texts of options, compared without regard to case, width, spacing and the punctuation around them."""

from __future__ import annotations

import re

from ragrounds.base.records import Question
from ragrounds.base.text import normalized

_PUNCTUATION = " \t\r\n\"'`*_.,;:!?()[]{}<>。，；：！？、-"


def folded(text: str) -> str:
    """A text as it is compared."""
    plain = normalized("NFKC", text)
    return " ".join(plain.split()).casefold().strip(_PUNCTUATION)


def same_text(candidate: str, question: Question) -> str:
    """The label of the one option whose text the stated answer is."""
    said = folded(candidate)
    same = [label for label, text in question.options.items() if said and folded(text) == said]
    return same[0] if len(same) == 1 else ""


def by_text(candidate: str, question: Question) -> str:
    """As :func:`same_text`, or the option whose text the answer begins with before a punctuation mark."""
    said = folded(candidate)
    if not said:
        return ""
    options = {label: folded(text) for label, text in question.options.items()}
    same = [label for label, text in options.items() if text == said]
    if not same:
        head = folded(re.split(r"[.,;:!?\n。，；：！？]", candidate, maxsplit=1)[0])
        same = [label for label, text in options.items() if text == head and head]
    return same[0] if len(same) == 1 else ""
