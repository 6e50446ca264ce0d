"""From single judgements to matches: both orders together, all judges together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.arena.arena import Arena
from ragrounds.evals.arena.keeping import Judged, Vote
from ragrounds.evals.arena.matches import Matches, collect
from ragrounds.evals.judges.combining import both_orders, majority

LETTERS = {"1": "first", "2": "second", "=": "tie"}
_SEEN_FROM_THE_OTHER = {"first": "second", "second": "first", "tie": "tie"}
POINTS = {"first": 1.0, "tie": 0.5, "second": 0.0}

Outcomes = tuple[str | None, ...]
"""An outcome for each axis, ``None`` where it is missing."""


class Played(Struct, frozen=True, kw_only=True, gc=False):
    """One match: a question and two systems (places, `first` < `second`), with what each judge said."""

    number: int
    question_id: str
    first: int
    second: int
    judges: tuple[Outcomes, ...]
    """For each judge, both orders together; an outcome names the side ``first`` or ``second`` of this record."""

    def panel(self, axis: int) -> str | None:
        """The majority of the judges."""
        return majority([outcomes[axis] for outcomes in self.judges])


def one_way(judged: Judged) -> Outcomes:
    """What a judgement says, from the side of the system with the smaller place."""
    said = [LETTERS.get(letter) for letter in judged.outcomes]
    if judged.first < judged.second:
        return tuple(said)
    return tuple(None if outcome is None else _SEEN_FROM_THE_OTHER[outcome] for outcome in said)


def combine(arena: Arena, judgements: Iterable[Judged]) -> list[Played]:
    """All matches that were begun, in the order of play. A match is missing for a judge until every order and every
    axis call of it is there."""
    orders = 2 if arena.orders == "both" else 1
    parts, judges = len(arena.parts), len(arena.judges)
    found: dict[tuple[str, int, int], dict[tuple[int, int, int], Judged]] = {}
    numbers: dict[tuple[str, int, int], int] = {}
    for one in judgements:
        pair = (one.question_id, min(one.first, one.second), max(one.first, one.second))
        found.setdefault(pair, {})[one.judge, int(one.first > one.second), one.part] = one
        numbers[pair] = min(one.number, numbers.get(pair, one.number))
    played = []
    for (question_id, first, second), said in found.items():
        by_judge = tuple(
            tuple(
                outcome
                for part in range(parts)
                for outcome in _together(said, judge, part, orders, len(arena.parts[part]))
            )
            for judge in range(judges)
        )
        number = numbers[question_id, first, second]
        played.append(Played(number=number, question_id=question_id, first=first, second=second, judges=by_judge))
    played.sort(key=lambda match: (match.number, match.question_id))
    return played


def _together(
    said: Mapping[tuple[int, int, int], Judged], judge: int, part: int, orders: int, axes: int
) -> Sequence[str | None]:
    ways = [one_way(said[judge, way, part]) for way in (0, 1) if (judge, way, part) in said]
    if len(ways) < orders:
        return [None] * axes
    if orders == 1:
        return ways[0]
    return [both_orders(one, other) for one, other in zip(*ways, strict=True)]


def matches_of(
    arena: Arena,
    played: Sequence[Played],
    axis: int,
    *,
    judge: int | None = None,
    clusters: Mapping[str, Hashable] | None = None,
) -> Matches:
    """Finished matches of one axis: by the majority of judges, or by one judge. `clusters` says which questions go
    together."""
    names = arena.names
    rows = []
    for match in played:
        outcome = match.panel(axis) if judge is None else match.judges[judge][axis]
        if outcome is not None:
            cluster = (clusters or {}).get(match.question_id) or match.question_id
            rows.append((cluster, names[match.first], names[match.second], POINTS[outcome]))
    return collect(names, rows)


def matches_of_votes(arena: Arena, votes: Sequence[Vote], axis: str) -> Matches:
    """Human votes of one axis, every vote a match; skipped ones are not among them."""
    names = arena.names
    return collect(
        names,
        [
            (vote.question_id, names[vote.first], names[vote.second], POINTS[vote.outcome])
            for vote in votes
            if vote.axis == axis and vote.outcome in POINTS
        ],
    )
