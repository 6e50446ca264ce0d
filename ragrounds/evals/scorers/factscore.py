"""Scorer ``supported-claims``: the share of an answer's claims that the passages support.

It is FActScore (Min et al. 2023) without its penalty for short answers. An answer without claims has no value, as in
FActScore; RAGChecker's ``faithfulness`` gives it 0. Its scores hold the record of claims.

FActScore shows the judge five passages together, so that a claim may need two of them; ``--kind claims`` shows
each alone, which says which passage supports what. ``--kind claims-together`` shows all passages of the attempt in one
text, as the program does, and gives ``supported-claims-together``.
"""

from __future__ import annotations

from ragrounds.evals.scorers.claim_record import ClaimRecord, ClaimScorer, VerifiedMethod, share, supported


class SupportedClaims(ClaimScorer, frozen=True, kw_only=True):
    """Scorer of FActScore's precision."""

    name: str = "supported-claims"
    summary: str = "share of claims that a passage supports"
    method: str = "FActScore's precision (share of the answer's claims that a passage supports), by a judge"
    passages: bool = True

    def figure(self, record: ClaimRecord) -> float | None:
        """Return the share; ``None`` without a claim, or if it depends on a missing verdict."""
        return share(supported(record.by_passages)) if record.claims else None


SUPPORTED_CLAIMS = SupportedClaims()
SUPPORTED_TOGETHER = SupportedClaims(
    name="supported-claims-together",
    judging="claims-together",
    summary="share of claims that passages together support",
    method="FActScore's precision (share of the answer's claims that the passages together support), by a judge",
)


class FactMethod(VerifiedMethod, frozen=True, kw_only=True):
    """Judge method of FActScore's program: each claim against all passages at once."""

    name: str = "claims-together"
    scorers: tuple[ClaimScorer, ...] = (SUPPORTED_TOGETHER,)
    prompts: tuple[str, ...] = ("judge/claims", "judge/supports")
    together: bool = True


CLAIMS_TOGETHER = FactMethod()
