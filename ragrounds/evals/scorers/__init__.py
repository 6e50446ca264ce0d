"""Protocols: from a stored attempt and its gold to a score, without a model."""

from ragrounds.evals.scorers.registry import SCORERS, scorer, scorers_for, suits

__all__ = ["SCORERS", "scorer", "scorers_for", "suits"]
