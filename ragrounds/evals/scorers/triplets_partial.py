"""Scorer ``triplets-partial``: extraction with credit for triplets that are right in part, a second figure beside the
strict one (:mod:`ragrounds.evals.scorers.triplets`). It is this package's own: MRAG has none.

Each triplet to be found is matched with at most one of the answer's, and earns the share of the three parts that agree.
The figure of a run is 2 Σ credit / (Σ given + Σ wanted), over all answers together. It is never below the strict one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.evals.scorers.base import CORPUS_RATIO, Aggregation, ScorerRecord
from ragrounds.evals.scorers.triplets import Triplet, folded, is_symmetric, parse, read_triplets
from ragrounds.records import Attempt, Gold, Kind, Question, Score


class PartialTripletScorer(ScorerRecord, frozen=True, kw_only=True):
    """Scores an answer that should be a JSON list of triplets, part by part."""

    name: str = "triplets-partial"
    summary: str = "micro-F1 with a third of the credit for each part of a triplet that agrees"
    method: str = "the micro-F1 of triplets with credit for each of their parts, all answers together"
    kinds: tuple[Kind, ...] = ("extraction",)
    aggregation: Aggregation = CORPUS_RATIO
    beside: bool = False
    reads: str = "the triplets in the final answer"

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """The value is this answer's own figure; the prediction is ``credit/given/wanted``."""
        read, found = read_triplets(attempt)
        credit, given, wanted = matched(found or [], parse(gold.answer) or [], symmetric=is_symmetric(question))
        value = 0.0 if found is None else 2 * credit / (given + wanted) if given + wanted else 1.0
        prediction = f"{credit:.6g}/{given}/{wanted}"
        return self.scored(attempt, None if attempt.status == "not_run" else value, read, prediction)

    def parts(self, score: Score) -> tuple[float, float]:
        """Twice the credit, and how many triplets were given and wanted.

        Raises:
            ValueError: the score has no counts.
        """
        credit, given, wanted = map(float, score.prediction.split("/"))
        return 2 * credit, given + wanted


def matched(found: Sequence[Triplet], wanted: Sequence[Triplet], *, symmetric: bool = False) -> tuple[float, int, int]:
    """The credit of an answer's triplets, how many different ones it gives, and how many are wanted. Matches are made
    greedily, the best first."""
    given = sorted({folded(triplet, symmetric) for triplet in found})
    right = sorted({folded(triplet, symmetric) for triplet in wanted})
    pairs = sorted(
        (
            (same, i, j)
            for i, one in enumerate(given)
            for j, other in enumerate(right)
            if (same := sum(a == b for a, b in zip(one, other, strict=True)))
        ),
        key=lambda pair: (-pair[0], pair[1], pair[2]),
    )
    used: tuple[set[int], set[int]] = (set(), set())
    credit = 0.0
    for same, i, j in pairs:
        if i not in used[0] and j not in used[1]:
            used[0].add(i)
            used[1].add(j)
            credit += same / 3
    return credit, len(given), len(right)


TRIPLETS_PARTIAL = PartialTripletScorer()
