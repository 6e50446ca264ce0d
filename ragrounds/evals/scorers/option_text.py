"""Texts of options, compared without regard to case, width, spacing and the punctuation around them."""

from __future__ import annotations

import re

from ragrounds.base.records import Question
from ragrounds.base.text import normalized

_MORE = re.compile(
    r"(?! (?:per|to|of|and)\b)(?: (?!(?:no|not|never|none|wrong|incorrect|unlikely|is|are|was|were|or|nor|versus|vs|"
    r"than|would|could|can|cannot|may|might|should|if|unless|but|because|each|any|all|both)\b)[\w/,%()-]{1,20}){1,6}"
)
"""Words after an option's text that add to it, as in "500 mg twice daily", and neither judge nor compare it."""
_SHORTEST = 4
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


def by_beginning(candidate: str, question: Question) -> str:
    """Return the label of the option whose text a brief answer begins with; empty if it names a further option."""
    stated = folded(candidate)
    options = {label: folded(text) for label, text in question.options.items()}
    candidates = [label for label, text in options.items() if len(text) >= _SHORTEST and stated.startswith(f"{text} ")]
    longest = max(candidates, key=lambda label: len(options[label]), default="")
    if not longest or not _MORE.fullmatch(stated, len(options[longest])):
        return ""
    other_texts = (text for label, text in options.items() if label not in candidates and len(text) >= _SHORTEST)
    return "" if any(text in stated for text in other_texts) else longest
