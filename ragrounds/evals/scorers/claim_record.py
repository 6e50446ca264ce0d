"""The record that claims are scored by: an answer split into claims, what each cites, and every verdict on them.

Families of scorers read this one record: RAGChecker's metrics, FActScore's precision. A verdict says whether a text
entails a claim; ``None``: there is none. What a figure needs and has no verdict on leaves it missing, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ragrounds.base.records import Gold, Question
from ragrounds.evals.scorers.judged import JudgedScorer, JudgeMethod

Verdicts = tuple[bool | None, ...]
"""Whether one text entails each of several claims, or each of several texts one claim."""


class ClaimRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer's claims with their verdicts."""

    claims: tuple[str, ...] = ()
    """Of the answer, without their marks of citation."""
    cites: tuple[tuple[int, ...], ...] = ()
    """Of each claim, the places of the passages that it cites."""
    gold: tuple[str, ...] = ()
    """Of the reference."""
    by_gold: Verdicts = ()
    """Whether the reference entails each claim of the answer."""
    by_answer: Verdicts = ()
    """Whether the answer entails each claim of the reference."""
    by_passages: tuple[Verdicts, ...] = ()
    """Of each claim of the answer, whether each passage entails it."""
    gold_by_passages: tuple[Verdicts, ...] = ()
    """Of each claim of the reference, the same."""


def levels(verdicts: Sequence[object]) -> np.ndarray:
    """Verdicts as numbers: true 1, false 0, missing 0.5. Minimum, maximum and one minus a number are then Kleene's and,
    or and not: a claim that one passage entails is supported, whatever is missing of another.

    Raises:
        ValueError: rows of different length.
    """
    found: np.ndarray = np.nan_to_num(np.array(verdicts, dtype=float), nan=0.5)
    return found


def supported(matrix: Sequence[Verdicts]) -> np.ndarray:
    """Of claims × texts, whether some text entails each claim."""
    found = levels(matrix)
    return found.max(axis=1) if found.size else np.zeros(len(matrix))


def share(found: np.ndarray) -> float | None:
    """The share of true ones, 0 of none; ``None``: it hangs on one that is missing."""
    return None if (found == 0.5).any() else float(found.mean()) if found.size else 0.0


class ClaimScorer(JudgedScorer, frozen=True, kw_only=True):
    """A figure of a record of claims."""

    judging: str = "claims"
    reference: bool = False
    """Whether it goes by a reference."""
    passages: bool = False
    """Whether it goes by the passages that were found."""

    def figure(self, record: ClaimRecord) -> float | None:
        """The figure of one answer; ``None``: it has none, or a verdict that it needs is missing."""
        raise NotImplementedError


class VerifiedMethod(JudgeMethod, frozen=True, kw_only=True):
    """A way of judging long answers by what entails what."""

    needs: str = "a long answer"
    verifiers: tuple[str, ...] = ("llm", "lexical", "nli")
    asked_by: str = "ragrounds.evals.judges.claims:open_judge"

    def fits(self, question: Question, gold: Gold) -> bool:
        """Long answers, whatever else a figure needs."""
        return question.kind == "long"
