"""Scorer ``reported``: the score in a file of another tool, as `ragrounds import` read it."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.base.records import Kind
from ragrounds.evals.scorers.base import ScorerRecord


class ReportedScorer(ScorerRecord, frozen=True, kw_only=True):
    """Scorer whose scores were made by another tool; they cannot be made again here."""

    kinds: tuple[Kind, ...] = ("choice", "long", "extraction")

    def command(self, runs: Sequence[str]) -> str:
        """Return the import command, because the scores come only with the file."""
        return "ragrounds import"


REPORTED = ReportedScorer(
    name="reported",
    summary="the score in the file of the tool that the answers come from",
    method="the score that another tool gave, as its file has it",
    needs="a file with scores",
    elsewhere=True,
)
