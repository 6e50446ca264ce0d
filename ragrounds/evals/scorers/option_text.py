"""Texts of options, compared without regard to case, width, spacing and the punctuation around them."""

from __future__ import annotations

import re

from ragrounds.base.records import Question
from ragrounds.base.text import normalized

_PUNCTUATION = " \t\r\n\"'`*_.,;:!?()[]{}<>。，；：！？、-"


def folded(text: str) -> str:
    """Return a text in the form in which it is compared."""
    normal = normalized("NFKC", text)
    return " ".join(normal.split()).casefold().strip(_PUNCTUATION)


def same_text(candidate: str, question: Question) -> str:
    """Return the label of the only option whose text equals the stated answer."""
    stated = folded(candidate)
    matches = [label for label, text in question.options.items() if stated and folded(text) == stated]
    return matches[0] if len(matches) == 1 else ""


def by_text(candidate: str, question: Question) -> str:
    """Return the label as :func:`same_text`, or of the option whose text the answer begins with before a punctuation
    mark."""
    stated = folded(candidate)
    if not stated:
        return ""
    options = {label: folded(text) for label, text in question.options.items()}
    matches = [label for label, text in options.items() if text == stated]
    if not matches:
        head = folded(re.split(r"[.,;:!?\n。，；：！？]", candidate, maxsplit=1)[0])
        matches = [label for label, text in options.items() if text == head and head]
    return matches[0] if len(matches) == 1 else ""
