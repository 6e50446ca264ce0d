"""What all scorers have in common whose scores a judge gives."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.records import Kind


class JudgedScorer(ScorerRecord, frozen=True, kw_only=True):
    """A scorer whose scores a judge gives (contract: :class:`ragrounds.contracts.AnyScorer`)."""

    judging: str
    """The way of judging that gives its scores: `ragrounds judge --kind`."""
    kinds: tuple[Kind, ...] = ("long",)
    embedder: bool = False
    """Whether it compares vectors, so that an embedder must be named."""

    @property
    def needs_judge(self) -> bool:
        """Always."""
        return True

    def command(self, runs: Sequence[str]) -> str:
        """`ragrounds judge`, with an embedder where it needs one."""
        embedder = " --embedder EMBEDDER" if self.embedder else ""
        return f"ragrounds judge {' '.join(runs)} --kind {self.judging} --judge MODEL{embedder}"
