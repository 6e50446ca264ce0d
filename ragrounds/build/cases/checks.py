"""Checks on a question and its answer that need no model."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.build.wording import folded, within

NOT_IN_TIMELINE = "the answer is not in the timeline"
TOO_EARLY = "the answer stands before the decision point"
IN_QUESTION = "the answer is in the question"
TOLD = "the question tells what came after the decision point"
_CARRYING = 4
"""Letters that a word needs to carry a part of the answer."""


def timeline_fault(answer: str, events: Sequence[str], decision: int) -> str:
    """Why an answer is not verbatim from the timeline at its decision point or after (`decision` counts from 1); empty:
    it is."""
    places = [number for number, event in enumerate(events, 1) if within(answer, event)]
    if not places:
        return NOT_IN_TIMELINE
    return "" if places[-1] >= decision else TOO_EARLY


def question_fault(question: str, answer: str, events: Sequence[str], decision: int) -> str:
    """Why a question gives its answer away; empty: it does not.

    It does where it holds the answer word for word, or every one of its longer words, or a later event whole.
    """
    asked = set(folded(question).split())
    carrying = {word for word in folded(answer).split() if len(word) >= _CARRYING}
    if within(answer, question) or (carrying and carrying <= asked):
        return IN_QUESTION
    return TOLD if any(within(event, question) for event in events[decision - 1 :]) else ""
