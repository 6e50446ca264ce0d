"""The difficulty filter: questions that small models answer are too easy (R2MED, Appendix A.1).

The paper asks four small instruction-tuned models; a question that more than one of them answers right is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from ragrounds.evals.scorers.robust import read
from ragrounds.records import Question

MOST_RIGHT = 1
"""Of the panel may answer right; the paper's own number."""

Fate = Literal["kept", "too easy", "undecided"]


class Difficulty(Struct, frozen=True, kw_only=True):
    """How a panel did on one question."""

    right: int
    silent: int
    """Models that gave nothing that can be read."""
    fate: Fate
    """``undecided``: the silent ones could make it too easy."""


def chosen(text: str, question: Question) -> str | None:
    """The option that a reply chooses, by the scorer ``robust``; empty where it chooses none in so many words;
    ``None`` where it cannot be read."""
    found = read(text, question)
    return found.prediction if found.answer_status in ("answered", "abstained", "refused") else None


def difficulty(predictions: Mapping[str, str | None], answer: str, most_right: int = MOST_RIGHT) -> Difficulty:
    """Judge a question by its panel.

    Args:
        predictions: Model → the option it chose, as :func:`chosen` gives it.
        answer: The right option.
        most_right: More right answers than this, and the question is too easy.
    """
    right = sum(prediction == answer for prediction in predictions.values())
    silent = sum(prediction is None for prediction in predictions.values())
    fate: Fate = "too easy" if right > most_right else "undecided" if right + silent > most_right else "kept"
    return Difficulty(right=right, silent=silent, fate=fate)
