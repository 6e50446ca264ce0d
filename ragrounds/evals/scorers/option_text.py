"""Texts of options, compared without regard to case, width, spacing and the punctuation around them."""

from __future__ import annotations

import re

from ragrounds.base.records import Question
from ragrounds.base.text import normalized

_MORE = re.compile(
    r"(?! (?:per|to|of|and)\b)(?: (?!\(?(?:no|not|never|none|wrong|incorrect|unlikely|contraindicated|too|is|are|"
    r"was|were|or|nor|versus|vs|than|would|could|can|cannot|may|might|should|if|unless|but|because|each|any|all|both)\b)[\w/,%()-]{1,20}){1,6}"
)
"""Words after an option's text that add to it, as in "500 mg twice daily", and neither judge nor compare it."""
_SHORTEST = 4
_PUNCTUATION = " \t\r\n\"'`*_.,;:!?()[]{}<>。，；：！？、-"
_SIGN = re.compile(r"(?:[<>]\s?|[-.])$")
"""Sign before a number, which is not punctuation: "<5 mg", "-5 mg", ".5 mg"."""
_DENIED = re.compile(
    r"\W{0,3}\b(?:(?:it|this|that|is|was|be|would|the) ){0,3}(?:no|not|never|wrong|incorrect|false|contraindicated|"
    r"unlikely|too(?= \w+\W*$)|avoid\w*)\b|\W{0,3}[不错误禁❌✗✘]",
    re.IGNORECASE,
)
"""Words that deny the text before them."""


def folded(text: str) -> str:
    """Return a text in the form in which it is compared."""
    normal = " ".join(normalized("NFKC", text).split()).casefold()
    stripped = normal.strip(_PUNCTUATION)
    before, after = normal.split(stripped, 1) if stripped else ("", "")
    sign = _SIGN.search(before) if stripped[:1].isdigit() else None
    return f"{sign[0] if sign else ''}{stripped}{'-' if after[:1] == '-' and stripped[-1].isalnum() else ''}"


def same_text(candidate: str, question: Question) -> str:
    """Return the label of the only option whose text, alone or after its label, equals the stated answer."""
    stated = folded(candidate)
    forms = {label: (folded(text), folded(f"{label}. {text}")) for label, text in question.options.items()}
    matches = [label for label, texts in forms.items() if stated and stated in texts]
    return matches[0] if len(matches) == 1 else ""


def by_text(candidate: str, question: Question) -> str:
    """Return the label as :func:`same_text`, or of the option whose text the answer begins with before a punctuation
    mark."""
    head, *rest = re.split(r"(?=[.,;:](?!\d)|[!\n。，；：！])", candidate, maxsplit=1)
    is_denied = any(map(_DENIED.match, rest))
    return same_text(candidate, question) or ("" if is_denied else same_text(head, question))


def by_beginning(candidate: str, question: Question) -> str:
    """Return the label of the option whose text a brief answer begins with; empty if it names a further option."""
    stated = folded(candidate)
    options = {label: folded(text) for label, text in question.options.items()}
    candidates = [label for label, text in options.items() if len(text) >= _SHORTEST and stated.startswith(f"{text} ")]
    longest = max(candidates, key=lambda label: len(options[label]), default="")
    if not longest or not _MORE.fullmatch(stated, len(options[longest])):
        return ""
    other_texts = (text for label, text in options.items() if text and label not in candidates)
    return "" if any(re.search(rf"(?<!\w){re.escape(text)}(?!\w)", stated) for text in other_texts) else longest
