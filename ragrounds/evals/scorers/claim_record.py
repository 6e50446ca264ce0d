"""Record that claims are scored by: an answer split into claims, the citations of each, and every verdict on them.

Several families of scorers use this record: RAGChecker's metrics, FActScore's precision. A verdict says whether a text
entails a claim; ``None`` if it is missing. A figure that needs a missing verdict is missing, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ragrounds.base.records import Gold, Question
from ragrounds.evals.scorers.judged import JudgedScorer, JudgeMethod

Verdicts = tuple[bool | None, ...]
"""Verdicts whether one text entails each of several claims, or each of several texts one claim."""


class ClaimRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Claims of one answer with their verdicts."""

    claims: tuple[str, ...] = ()
    """Claims of the answer, without their citation marks."""
    cites: tuple[tuple[int, ...], ...] = ()
    """Indices of the passages that each claim cites."""
    gold: tuple[str, ...] = ()
    """Claims of the reference."""
    by_gold: Verdicts = ()
    """Verdicts whether the reference entails each claim of the answer."""
    by_answer: Verdicts = ()
    """Verdicts whether the answer entails each claim of the reference."""
    by_passages: tuple[Verdicts, ...] = ()
    """Verdicts for each claim of the answer whether each passage entails it."""
    gold_by_passages: tuple[Verdicts, ...] = ()
    """Verdicts for each claim of the reference whether each passage entails it."""
    useful: Verdicts = ()
    """Verdicts whether each passage, best first, is useful for arriving at the reference."""
    questions: tuple[str, ...] = ()
    """Questions that the answer would answer."""
    noncommittal: Verdicts = ()
    """Verdicts whether the answer commits to nothing, one with each of these questions."""
    cosines: tuple[float | None, ...] = ()
    """Cosines of the question with each of these questions; ``None`` if undefined."""


def levels(verdicts: Sequence[object]) -> np.ndarray:
    """Return verdicts as numbers: true 1, false 0, missing 0.5.

    Minimum, maximum and one minus a number are then Kleene's and, or and not: a claim that one passage entails is
    supported, whatever verdict on another is missing.

    Raises:
        ValueError: the rows have different lengths.
    """
    numbers: np.ndarray = np.nan_to_num(np.array(verdicts, dtype=float), nan=0.5)
    return numbers


def supported(matrix: Sequence[Verdicts]) -> np.ndarray:
    """Return for each claim whether some text entails it, from a matrix of claims × texts."""
    numbers = levels(matrix)
    return numbers.max(axis=1) if numbers.size else np.zeros(len(matrix))


def share(verdicts: np.ndarray) -> float | None:
    """Return the share of true verdicts, 0 if there are no verdicts; ``None`` if it depends on a missing one."""
    return None if (verdicts == 0.5).any() else float(verdicts.mean()) if verdicts.size else 0.0


class ClaimScorer(JudgedScorer, frozen=True, kw_only=True):
    """Scorer of one figure of a record of claims."""

    judging: str = "claims"
    reference: bool = False
    """True if it needs a reference."""
    passages: bool = False
    """True if it needs the retrieved passages."""

    def figure(self, record: ClaimRecord) -> float | None:
        """Return the figure of one answer; ``None`` if it has none, or if a verdict that it needs is missing."""
        raise NotImplementedError


class VerifiedMethod(JudgeMethod, frozen=True, kw_only=True):
    """Judge method for long answers by entailment."""

    needs: str = "a long answer"
    verifiers: tuple[str, ...] = ("llm", "lexical", "nli")
    together: bool = False
    """True if a claim is compared with all passages as one text, the best last, instead of with each alone."""
    asked_by: str = "ragrounds.evals.judges.claims:open_judge"

    def fits(self, question: Question, gold: Gold) -> bool:
        """Return True for long answers, whatever else a figure needs."""
        return question.kind == "long"
