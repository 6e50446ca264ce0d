"""The four measures that users of ragas know (Es et al. 2024), over verdicts that prompts of our own ask for.

* ``faithfulness-together``: share of the answer's claims that the passages together support;
* ``context-precision-ranked``: average precision of the passages in their order, as useful for the reference;
* ``context-recall-together``: share of the reference's claims that the passages together support;
* ``answer-relevancy``: mean cosine of the question with questions made from the answer, 0 if it commits to nothing.

On the same verdicts they equal ragas 0.4.3, with two exceptions. ragas adds 1e-10 to the number of useful passages
before it divides by it. A question that the judge did not give leaves the value missing, where ragas takes the mean of
the others, or 0. RAGChecker's ``faithfulness``, ``context-precision`` and ``context-recall`` are other figures: by each
passage alone, and without ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ragrounds.evals.scorers.claim_record import ClaimRecord, levels, share, supported
from ragrounds.evals.scorers.factscore import SUPPORTED_TOGETHER
from ragrounds.evals.scorers.measures import MeasureMethod, MeasureScorer


class GroundingScorer(MeasureScorer, frozen=True, kw_only=True):
    """Scorer of one of the four measures. Its scores hold the record of verdicts."""

    judging: str = "grounding"
    figure: Callable[[ClaimRecord], float | None]
    """Formula of the measure; ``None`` if there is nothing to count, or if a verdict is missing."""


def context_recall(record: ClaimRecord) -> float | None:
    """Return the share of the reference's claims that the passages support; ``None`` without a claim."""
    return share(supported(record.gold_by_passages)) if record.gold else None


def average_precision(record: ClaimRecord) -> float | None:
    """Return the average precision of the ranked passages: the mean, over the useful ones, of the share of useful
    passages down to each; 0 if none is useful, ``None`` without a passage."""
    useful = levels(record.useful)
    if not useful.size or None in record.useful:
        return None
    precisions = useful.cumsum() / np.arange(1, len(useful) + 1)
    return float((precisions * useful).sum() / max(1, useful.sum()))


def answer_relevancy(record: ClaimRecord) -> float | None:
    """Return the mean of the questions' cosines; 0 if all say that the answer commits to nothing."""
    if not record.noncommittal or None in record.noncommittal:
        return None
    if all(record.noncommittal):
        return 0.0
    return None if None in record.cosines else float(np.mean(np.array(record.cosines, dtype=float)))


def cosines(vector: Sequence[float], others: Sequence[Sequence[float]]) -> tuple[float | None, ...]:
    """Return the cosine of a vector with each other; ``None`` for a vector of zeros, which has no direction."""
    query, matrix = np.asarray(vector, dtype=float), np.asarray(others, dtype=float)
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(query)
    return tuple(
        float(product / length) if length else None for product, length in zip(matrix @ query, lengths, strict=True)
    )


FAITHFULNESS = GroundingScorer(
    name="faithfulness-together",
    summary="claims that the passages together support",
    method="faithfulness as ragas defines it (share of the answer's claims that the passages together support), "
    "by a judge",
    takes=("user_input", "response", "retrieved_contexts"),
    figure=SUPPORTED_TOGETHER.figure,
)
CONTEXT_PRECISION = GroundingScorer(
    name="context-precision-ranked",
    summary="average precision of the useful passages",
    method="context precision as ragas defines it (average precision of the passages, as useful for the reference), "
    "by a judge",
    takes=("user_input", "reference", "retrieved_contexts"),
    figure=average_precision,
)
CONTEXT_RECALL = GroundingScorer(
    name="context-recall-together",
    summary="reference's claims that the passages support",
    method="context recall as ragas defines it (share of the reference's claims that the passages together support), "
    "by a judge",
    takes=("user_input", "reference", "retrieved_contexts"),
    figure=context_recall,
)
ANSWER_RELEVANCY = GroundingScorer(
    name="answer-relevancy",
    judging="answer-relevancy",
    summary="cosine of question and questions from the answer",
    method="answer relevancy as ragas defines it (cosine of the question with questions made from the answer), "
    "by a judge",
    takes=("user_input", "response"),
    embedder=True,
    silent=0.0,
    figure=answer_relevancy,
)


class GroundingMethod(MeasureMethod, frozen=True, kw_only=True):
    """Judge method by measures of the four, asked by this package's prompts."""

    asked_by: str = "ragrounds.evals.judges.grounding:open_judge"


GROUNDING = GroundingMethod(
    name="grounding",
    scorers=(FAITHFULNESS, CONTEXT_PRECISION, CONTEXT_RECALL),
    prompts=("judge/claims", "judge/supports", "judge/useful"),
)
RELEVANCY = GroundingMethod(name=ANSWER_RELEVANCY.name, scorers=(ANSWER_RELEVANCY,), prompts=("judge/question",))
