"""Scorers: from a stored attempt and its gold to a score. One file a scorer, found by scanning this folder."""

from ragrounds.evals.scorers.catalogue import (
    Headline,
    all_scorers,
    described,
    figure_word,
    find_scorer,
    headline_of,
    known_scorer,
    questions_of,
    ready_scorers,
    score_by,
    scorer_code,
    scorer_name,
    scorers_for,
    scores_by_default,
    typed_scorer,
    usual_scores,
)

__all__ = [
    "Headline",
    "all_scorers",
    "described",
    "figure_word",
    "find_scorer",
    "headline_of",
    "known_scorer",
    "questions_of",
    "ready_scorers",
    "score_by",
    "scorer_code",
    "scorer_name",
    "scorers_for",
    "scores_by_default",
    "typed_scorer",
    "usual_scores",
]
