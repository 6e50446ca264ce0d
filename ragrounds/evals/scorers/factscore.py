"""Scorer ``supported-claims``: the share of an answer's claims that the passages support, as FActScore (Min et al.
2023) without its penalty for short answers. An answer that claims nothing has no value, as there; RAGChecker's
``faithfulness`` gives it 0. Its scores hold the record of claims.
"""

from __future__ import annotations

from ragrounds.evals.scorers.claim_record import ClaimRecord, ClaimScorer, share, supported


class SupportedClaims(ClaimScorer, frozen=True, kw_only=True):
    """FActScore's precision."""

    name: str = "supported-claims"
    summary: str = "share of the answer's claims that a passage supports, by the judge"
    method: str = "FActScore's precision (share of the answer's claims that a passage supports), by a judge"
    passages: bool = True

    def figure(self, record: ClaimRecord) -> float | None:
        """The share; ``None`` without a claim, or where it hangs on a missing verdict."""
        return share(supported(record.by_passages)) if record.claims else None


SUPPORTED_CLAIMS = SupportedClaims()
