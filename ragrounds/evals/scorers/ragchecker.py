"""RAGChecker's eleven metrics of a long answer (Ru et al. 2024; amazon-science/RAGChecker, computation.py).

If there is nothing to count, the authors' values are used: no claims or no passages give 0. A passage is relevant if it
entails a claim of the reference. :mod:`ragrounds.evals.judges.claims` gets the claims and verdicts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ragrounds.evals.scorers.claim_record import ClaimRecord, ClaimScorer, VerifiedMethod, levels, share, supported
from ragrounds.evals.scorers.factscore import SUPPORTED_CLAIMS


# Docstrings of the metrics are data: `_scorer` builds the text in reports from them.
def precision(record: ClaimRecord) -> float | None:
    """Share of the answer's claims that the reference entails."""
    return share(levels(record.by_gold))


def recall(record: ClaimRecord) -> float | None:
    """Share of the reference's claims that the answer entails."""
    return share(levels(record.by_answer))


def f1(record: ClaimRecord) -> float | None:
    """F1 of the answer's claims and the reference's."""
    precision_value, recall_value = precision(record), recall(record)
    if precision_value is None or recall_value is None:
        return None
    return (
        2 * precision_value * recall_value / (precision_value + recall_value)
        if precision_value > 0 and recall_value > 0
        else 0.0
    )


def claim_recall(record: ClaimRecord) -> float | None:
    """Share of the reference's claims that some passage entails."""
    return share(supported(record.gold_by_passages))


def context_precision(record: ClaimRecord) -> float | None:
    """Share of the passages that are relevant."""
    return share(_relevant(record))


def context_utilization(record: ClaimRecord) -> float | None:
    """Share of the reference's claims in the passages that the answer has."""
    supported_claims, answered = supported(record.gold_by_passages), levels(record.by_answer)
    return None if share(supported_claims) is None else share(answered[supported_claims == 1])


def noise_sensitivity_in_relevant(record: ClaimRecord) -> float | None:
    """Share of the answer's claims that are wrong, and out of a relevant passage."""
    return _noise(record, relevant=True)


def noise_sensitivity_in_irrelevant(record: ClaimRecord) -> float | None:
    """Share of the answer's claims that are wrong, and out of other passages alone."""
    return _noise(record, relevant=False)


def hallucination(record: ClaimRecord) -> float | None:
    """Share of the answer's claims that are wrong, and in no passage."""
    return _unsupported(record, right=False)


def self_knowledge(record: ClaimRecord) -> float | None:
    """Share of the answer's claims that are right, and in no passage."""
    return _unsupported(record, right=True)


def faithfulness(record: ClaimRecord) -> float | None:
    """Share of the answer's claims that some passage entails."""
    return share(supported(record.by_passages))


def _relevant(record: ClaimRecord) -> np.ndarray:
    entailments = levels(record.gold_by_passages)
    return entailments.max(axis=0) if entailments.size else np.zeros(0)


def _noise(record: ClaimRecord, *, relevant: bool) -> float | None:
    relevance, entailments = _relevant(record), levels(record.by_passages)
    if not record.by_gold or not relevance.size:
        return 0.0
    from_relevant = np.minimum(entailments, relevance).max(axis=1)
    from_irrelevant = np.minimum(entailments, 1 - relevance).max(axis=1)
    noise = np.minimum(
        1 - levels(record.by_gold), from_relevant if relevant else np.minimum(from_irrelevant, 1 - from_relevant)
    )
    return None if None in record.by_gold else share(noise)


def _unsupported(record: ClaimRecord, *, right: bool) -> float | None:
    if not record.by_gold or not levels(record.by_passages).size:
        return 0.0
    correctness = levels(record.by_gold)
    alone = np.minimum(correctness if right else 1 - correctness, 1 - supported(record.by_passages))
    return None if None in record.by_gold else share(alone)


class RagChecker(ClaimScorer, frozen=True, kw_only=True):
    """Scorer of one of the metrics."""

    metric: Callable[[ClaimRecord], float | None]

    def figure(self, record: ClaimRecord) -> float | None:
        """Return the metric of one answer."""
        return self.metric(record)


def _scorer(
    name: str,
    metric: Callable[[ClaimRecord], float | None],
    summary: str,
    *,
    overall: bool = False,
    lower: bool = False,
) -> RagChecker:
    description = str(metric.__doc__).rstrip(".").replace("Share", "share")
    return RagChecker(
        name=name,
        metric=metric,
        summary=summary,
        method=f"RAGChecker's {metric.__name__.replace('_', ' ')} ({description}), by a judge",
        direction="lower" if lower else "higher",
        reference=metric is not faithfulness,
        passages=not overall,
        beside=overall,
    )


CLAIM_F1 = _scorer("claim-f1", f1, "F1 of the answer's claims and the reference's", overall=True)
CLAIM_PRECISION = _scorer("claim-precision", precision, "claims of the answer that the reference entails", overall=True)
CLAIM_RECALL = _scorer("claim-recall", recall, "claims of the reference that the answer entails", overall=True)
CONTEXT_RECALL = _scorer("context-recall", claim_recall, "claims of the reference that a passage entails")
CONTEXT_PRECISION = _scorer("context-precision", context_precision, "share of the passages that are relevant")
CONTEXT_UTILIZATION = _scorer("context-utilization", context_utilization, "retrieved claims that the answer has, too")
NOISE_RELEVANT = _scorer(
    "noise-relevant", noise_sensitivity_in_relevant, "wrong claims that a relevant passage entails", lower=True
)
NOISE_IRRELEVANT = _scorer(
    "noise-irrelevant", noise_sensitivity_in_irrelevant, "wrong claims that only other passages entail", lower=True
)
HALLUCINATED_CLAIMS = _scorer("hallucinated-claims", hallucination, "wrong claims that no passage entails", lower=True)
SELF_KNOWLEDGE = _scorer("self-knowledge", self_knowledge, "right claims that no passage entails")
FAITHFULNESS = _scorer("faithfulness", faithfulness, "claims of the answer that a passage entails")


class ClaimMethod(VerifiedMethod, frozen=True, kw_only=True):
    """Judge method that judges an answer claim by claim. The scores of its last scorer hold the record of claims."""

    name: str = "claims"
    scorers: tuple[ClaimScorer, ...] = (
        CLAIM_F1, CLAIM_PRECISION, CLAIM_RECALL, CONTEXT_RECALL, CONTEXT_PRECISION, CONTEXT_UTILIZATION, NOISE_RELEVANT,
        NOISE_IRRELEVANT, HALLUCINATED_CLAIMS, SELF_KNOWLEDGE, FAITHFULNESS, SUPPORTED_CLAIMS,
    )  # fmt: skip
    prompts: tuple[str, ...] = ("judge/claims", "judge/supports")


CLAIM_METHOD = ClaimMethod()
