"""Scorer ``reported``: the score that stands in a file of another tool, as `ragrounds import` found it."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.base.records import Kind
from ragrounds.evals.scorers.base import ScorerRecord


class ReportedScorer(ScorerRecord, frozen=True, kw_only=True):
    """A scorer whose scores were made elsewhere; nothing here makes them again."""

    kinds: tuple[Kind, ...] = ("choice", "long", "extraction")

    def command(self, runs: Sequence[str]) -> str:
        """They come with the file alone."""
        return "ragrounds import"


REPORTED = ReportedScorer(
    name="reported",
    summary="the score that stood in the file of the tool that the answers come from",
    method="the score that another tool gave, as its file has it",
    needs="a file with scores",
    elsewhere=True,
)
