"""Scorer ``equivalent``: OGCaReBench's judge. Is the answer equivalent to the gold answer, or a mismatch? The core
medical action decides (OGCaReBench, evaluation); the accuracy is the share of equivalent answers."""

from __future__ import annotations

from ragrounds.evals.scorers.judged import JudgedScorer

EQUIVALENT = JudgedScorer(
    name="equivalent",
    judging="equivalence",
    summary="share of answers that the judge finds equivalent to the reference",
    method="the share of answers that a judge found equivalent to the reference",
)
