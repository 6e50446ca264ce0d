"""Scorers: from a stored attempt and its gold to a score, without a model."""

from ragrounds.evals.scorers.registry import SCORERS, find_scorer, scorers_for, suits

__all__ = ["SCORERS", "find_scorer", "scorers_for", "suits"]
