"""Scorer ``mirage``: an option letter as the MIRAGE authors read it (their evaluation; MIRAGE, Section 3.2).

Text that none of their patterns matches counts as "A", and so does an empty reply of a completed attempt. It is the
headline of MIRAGE's own benchmarks alone. It scores other benchmarks if their card names it or they have no card: "else
A" belongs to MIRAGE and to results that are compared with it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ragrounds.base.records import Question
from ragrounds.evals.scorers.answer_status import AnswerRead, without_answer
from ragrounds.evals.scorers.choice import ChoiceScorer
from ragrounds.evals.scorers.option_text import by_text

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
"""Patterns in the order of trial; X is a placeholder for any option letter."""
_LETTERS = "ABCD"
"""Letters that the published patterns know, however many options a question has."""


def stated(text: str) -> str:
    """Return the text after the last answer mark, stripped; the whole text without a mark."""
    return text.rpartition(_MARK)[2].strip()


def read_published(text: str, question: Question) -> AnswerRead:
    """Read the letter by the published patterns. A text that they do not match has its status by its wording."""
    return matched(stated(text), _TEMPLATES, text, question)


def matched(candidate: str, templates: tuple[str, ...], text: str, question: Question) -> AnswerRead:
    """Read the letter that the first matching template finds in `candidate`, the part of `text` that states the
    answer."""
    letter = first_letter(candidate, templates, tuple(question.options))
    if letter:
        return AnswerRead("answered", letter)
    if by_text(candidate, question):
        return AnswerRead("unreadable", reason="the option's text in place of its letter")
    return without_answer(text, candidate)


def first_letter(candidate: str, templates: tuple[str, ...], labels: tuple[str, ...] = ()) -> str:
    """Return the letter of the first template that matches, or an empty string.

    Letters beyond D among `labels` are read too, so that a question with more options can be scored.
    """
    for pattern in _patterns(templates, labels):
        match = pattern.search(candidate)
        if match:
            return str(match.group(1))
    return ""


@lru_cache(maxsize=64)
def _patterns(templates: tuple[str, ...], labels: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    further_letters = "".join(
        label for label in labels if len(label) == 1 and label.isalpha() and label not in _LETTERS
    )
    letter_class = f"[{re.escape(_LETTERS + further_letters)}]"
    return tuple(re.compile(template.replace("X", letter_class)) for template in templates)


MIRAGE = ChoiceScorer(
    name="mirage",
    accuracy=True,
    summary="as published: an answer that cannot be read counts as A",
    method="the published reading of MIRAGE, on the raw reply (an answer that cannot be read counts as option A)",
    read=read_published,
    otherwise="A",
    letters=True,
    by_card=True,
    beside=False,
)
