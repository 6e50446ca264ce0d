"""Scorer ``supported-claims``: the share of an answer's claims that the passages support.

It is FActScore (Min et al. 2023) without its penalty for short answers. An answer without claims has no value, as in
FActScore; RAGChecker's ``faithfulness`` gives it 0. Its scores hold the record of claims.
"""

from __future__ import annotations

from ragrounds.evals.scorers.claim_record import ClaimRecord, ClaimScorer, share, supported


class SupportedClaims(ClaimScorer, frozen=True, kw_only=True):
    """Scorer of FActScore's precision."""

    name: str = "supported-claims"
    summary: str = "share of the answer's claims that a passage supports, by the judge"
    method: str = "FActScore's precision (share of the answer's claims that a passage supports), by a judge"
    passages: bool = True

    def figure(self, record: ClaimRecord) -> float | None:
        """Return the share; ``None`` without a claim, or if it depends on a missing verdict."""
        return share(supported(record.by_passages)) if record.claims else None


SUPPORTED_CLAIMS = SupportedClaims()
