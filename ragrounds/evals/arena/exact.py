"""Arena against exact scores: where a judge's verdict and a checkable score of the same answers disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.arena.arena import Arena
from ragrounds.evals.arena.outcomes import Played
from ragrounds.evals.judges.statements import CONTRADICTION

LOWER_IS_BETTER = frozenset({CONTRADICTION})
"""Scorers whose value counts what is wrong."""
_CLOSE = 1e-9


class Disagreement(Struct, frozen=True, kw_only=True):
    """One match whose arena winner has the worse exact score."""

    question_id: str
    winner: str
    """Of the arena."""
    loser: str
    winner_score: float
    loser_score: float


class AgainstExact(Struct, frozen=True, kw_only=True):
    """One scorer. Counts are matches: the arena's outcome by which system's exact score is better."""

    scorer: str
    matches: int
    agree: int
    """The arena's winner has the better score."""
    disagree: int
    """The arena's winner has the worse score."""
    arena_ties: int
    """The arena says tie, the scores differ."""
    score_ties: int
    """The scores are equal, the arena has a winner."""
    both_tie: int
    arena_points: tuple[tuple[str, float, float], ...]
    """(system, mean arena points a match, mean exact score) over these matches."""
    disagreements: tuple[Disagreement, ...]
    """Question by question, the largest difference of scores first."""


def against_exact(
    arena: Arena, played: Sequence[Played], axis: int, scores: Sequence[Mapping[str, Mapping[str, float]]]
) -> tuple[AgainstExact, ...]:
    """Every scorer that two systems or more have scores of. `scores`: by system, scorer, question."""
    scorers = Counter(scorer for table in scores for scorer in table)
    return tuple(
        _one(arena, played, axis, scorer, [table.get(scorer, {}) for table in scores])
        for scorer, systems in sorted(scorers.items())
        if systems > 1
    )


def _one(
    arena: Arena, played: Sequence[Played], axis: int, scorer: str, scores: Sequence[Mapping[str, float]]
) -> AgainstExact:
    counts: Counter[str] = Counter()
    points: dict[int, list[tuple[float, float]]] = {}
    found: list[Disagreement] = []
    for match in played:
        outcome = match.panel(axis)
        one, other = scores[match.first].get(match.question_id), scores[match.second].get(match.question_id)
        if outcome is None or one is None or other is None:
            continue
        given = {"first": 1.0, "tie": 0.5, "second": 0.0}[outcome]
        points.setdefault(match.first, []).append((given, one))
        points.setdefault(match.second, []).append((1.0 - given, other))
        lead = other - one if scorer in LOWER_IS_BETTER else one - other
        ahead = "tie" if abs(lead) < _CLOSE else "first" if lead > 0 else "second"
        kind = _kind(outcome, ahead)
        counts[kind] += 1
        if kind == "disagree":
            winner, loser = (match.first, match.second) if outcome == "first" else (match.second, match.first)
            high, low = (one, other) if outcome == "first" else (other, one)
            found.append(
                Disagreement(
                    question_id=match.question_id,
                    winner=arena.names[winner],
                    loser=arena.names[loser],
                    winner_score=high,
                    loser_score=low,
                )
            )
    found.sort(key=lambda one: (-abs(one.winner_score - one.loser_score), one.question_id, one.winner, one.loser))
    return AgainstExact(
        scorer=scorer,
        matches=sum(counts.values()),
        agree=counts["agree"],
        disagree=counts["disagree"],
        arena_ties=counts["arena tie"],
        score_ties=counts["score tie"],
        both_tie=counts["both tie"],
        arena_points=tuple(
            (arena.names[place], _mean([given for given, _ in rows]), _mean([score for _, score in rows]))
            for place, rows in sorted(points.items())
        ),
        disagreements=tuple(found),
    )


def _kind(outcome: str, ahead: str) -> str:
    if outcome == ahead:
        return "both tie" if outcome == "tie" else "agree"
    if outcome == "tie":
        return "arena tie"
    return "score tie" if ahead == "tie" else "disagree"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
