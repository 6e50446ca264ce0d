"""Scorer ``mirage``: an option letter as the MIRAGE authors read it (their evaluation; MIRAGE, Section 3.2).

What none of their patterns matches counts as "A", an empty reply of a completed attempt too. It is the headline of
MIRAGE's own benchmarks alone, and scores others where their card names it or they have no card: "else A" belongs to
MIRAGE and to what is set beside it.
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
"""In the order of trial; X stands for any option letter."""
_LETTERS = "ABCD"
"""The published patterns know these four, however many options a question has."""


def stated(text: str) -> str:
    """What stands after the last answer mark, stripped; the whole text where there is no mark."""
    return text.rpartition(_MARK)[2].strip()


def read_published(text: str, question: Question) -> AnswerRead:
    """The letter by the published patterns; what they do not match has its status by its wording."""
    return matched(stated(text), _TEMPLATES, text, question)


def matched(candidate: str, templates: tuple[str, ...], text: str, question: Question) -> AnswerRead:
    """The letter that the first of the templates finds in `candidate`, the part of `text` that states the answer."""
    found = first_letter(candidate, templates, tuple(question.options))
    if found:
        return AnswerRead("answered", found)
    if by_text(candidate, question):
        return AnswerRead("unreadable", reason="the option's text in place of its letter")
    return without_answer(text, candidate)


def first_letter(candidate: str, templates: tuple[str, ...], labels: tuple[str, ...] = ()) -> str:
    """The letter of the first template that matches, or an empty string. Letters beyond D among `labels` are read too,
    so that a question with more options can be scored at all."""
    more = "".join(label for label in labels if len(label) == 1 and label.isalpha() and label not in _LETTERS)
    for pattern in _patterns(templates, _LETTERS + more):
        match = pattern.search(candidate)
        if match:
            return str(match.group(1))
    return ""


@lru_cache(maxsize=64)
def _patterns(templates: tuple[str, ...], letters: str) -> tuple[re.Pattern[str], ...]:
    one = f"[{re.escape(letters)}]"
    return tuple(re.compile(template.replace("X", one)) for template in templates)


MIRAGE = ChoiceScorer(
    name="mirage",
    accuracy=True,
    summary="as published: an answer that cannot be read counts as A",
    method="the published reading of MIRAGE (an answer that cannot be read counts as option A)",
    read=read_published,
    otherwise="A",
    letters=True,
    by_card=True,
    beside=False,
)
