"""Scorers: from a stored attempt and its gold to a score. One file a scorer, found by scanning this folder."""

from ragrounds.evals.scorers.catalogue import (
    Headline,
    all_scorers,
    described,
    find_scorer,
    headline_of,
    ready_scorers,
    scorers_for,
)

__all__ = ["Headline", "all_scorers", "described", "find_scorer", "headline_of", "ready_scorers", "scorers_for"]
