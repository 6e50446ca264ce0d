"""How the MIRAGE authors read an answer letter (their evaluation; named in MIRAGE, Section 3.2)."""

from __future__ import annotations

import re
from functools import lru_cache

_MARK = '"answer_choice": "'
_TEMPLATES = (
    r"^\s*(X)\s*$",
    r"^\s*(X) or",
    r"^\s*(X) and",
    r"^\s*(X)/",
    r"^\s*(X),",
    r"[Oo]ption (X)",
    r":\s*(X)",
    r"^\s*(X)\.",
    r'^\s*(X)"',
    r"^\s*(X):",
)
"""In the order of trial; X stands for any option letter."""
_COMPLETION_MARK = "Answer:"
_COMPLETION_TEMPLATES = (r"[Oo]ption (X)", r"OPTION (X)", r'^\s*(X)"', r"^\s*(X):")
"""For PMC-LLaMA, which completes a text and writes no JSON."""
_LETTERS = "ABCD"
"""The published patterns know these four, however many options a question has."""


def stated(text: str) -> str:
    """What stands after the last answer mark, stripped; the whole text where there is no mark."""
    return text.rpartition(_MARK)[2].strip()


def letter(text: str, labels: tuple[str, ...] = ()) -> str:
    """The first published pattern's letter, or an empty string where none matches.

    Letters beyond D among `labels` are read too, so that a question with more options can be scored at all.
    """
    return _first(stated(text), _TEMPLATES, labels)


def completion(text: str) -> str:
    """What stands after the last "Answer:" of a completion; the whole text where there is none."""
    return text.rpartition(_COMPLETION_MARK)[2]


def completion_letter(text: str, labels: tuple[str, ...] = ()) -> str:
    """As :func:`letter`, by the patterns published for PMC-LLaMA."""
    return _first(completion(text), _COMPLETION_TEMPLATES, labels)


def _first(candidate: str, templates: tuple[str, ...], labels: tuple[str, ...]) -> str:
    more = "".join(label for label in labels if len(label) == 1 and label.isalpha() and label not in _LETTERS)
    for pattern in _patterns(templates, _LETTERS + more):
        match = pattern.search(candidate)
        if match:
            return match.group(1)
    return ""


@lru_cache(maxsize=64)
def _patterns(templates: tuple[str, ...], letters: str) -> tuple[re.Pattern[str], ...]:
    one = f"[{re.escape(letters)}]"
    return tuple(re.compile(template.replace("X", one)) for template in templates)
