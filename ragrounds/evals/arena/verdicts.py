"""Verdicts: judges' judgements combined to matches, and people's votes.

Both orders of a pair are one outcome of a judge, all judges' outcomes one match. Votes are cast
one by one on pairs that are shown blind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.arena.lineup import Lineup
from ragrounds.evals.arena.matches import Matches, collect_matches
from ragrounds.evals.judges.pairs import both_orders, majority
from ragrounds.evals.store.arenas import Arena, ArenaJudgement, Vote

LETTERS = {"1": "first", "2": "second", "=": "tie"}
_SWAPPED = {"first": "second", "second": "first", "tie": "tie"}
POINTS = {"first": 1.0, "tie": 0.5, "second": 0.0}
"""What the first system gets of a match by its outcome."""

Outcomes = tuple[str | None, ...]
"""An outcome for each axis, ``None`` where it is missing."""


class Match(Struct, frozen=True, kw_only=True, gc=False):
    """One match: a question and two systems (places, `first` < `second`), with what each judge said."""

    number: int
    question_id: str
    first: int
    second: int
    judges: tuple[Outcomes, ...]
    """For each judge, both orders together; an outcome names the side ``first`` or ``second`` of this record."""

    def panel(self, axis: int) -> str | None:
        """The outcome of all judges on an axis, as :func:`ragrounds.evals.judges.pairs.majority` has it."""
        return majority([outcomes[axis] for outcomes in self.judges])


def pair_seed(seed: int, question_id: str, first: int, second: int) -> str:
    """What the labels of a pair of answers are drawn by: the same in both orders."""
    low, high = sorted((first, second))
    return f"{seed} {question_id} {low} {high}"


def one_way(judged: ArenaJudgement) -> Outcomes:
    """The outcomes of a judgement, from the side of the system with the smaller place."""
    said = [LETTERS.get(letter) for letter in judged.outcomes]
    if judged.first < judged.second:
        return tuple(said)
    return tuple(None if outcome is None else _SWAPPED[outcome] for outcome in said)


def combine_judgements(arena: Arena, judgements: Iterable[ArenaJudgement]) -> list[Match]:
    """All matches that were begun, in the order of play. A judge has no outcome of a match until every order and every
    axis call of it is there."""
    orders = 2 if arena.orders == "both" else 1
    parts, judges = len(arena.parts), len(arena.judges)
    found: dict[tuple[str, int, int], dict[tuple[int, int, int], ArenaJudgement]] = {}
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
        played.append(Match(number=number, question_id=question_id, first=first, second=second, judges=by_judge))
    played.sort(key=lambda match: (match.number, match.question_id))
    return played


def _together(
    said: Mapping[tuple[int, int, int], ArenaJudgement], judge: int, part: int, orders: int, axes: int
) -> Sequence[str | None]:
    ways = [one_way(said[judge, way, part]) for way in (0, 1) if (judge, way, part) in said]
    if len(ways) < orders:
        return [None] * axes
    if orders == 1:
        return ways[0]
    return [both_orders(one, other) for one, other in zip(*ways, strict=True)]


def matches_of(
    arena: Arena,
    played: Sequence[Match],
    axis: int,
    *,
    judge: int | None = None,
    clusters: Mapping[str, Hashable] | None = None,
) -> Matches:
    """The finished matches of one axis.

    Args:
        arena: that was played.
        played: its matches.
        axis: the axis' place.
        judge: go by this judge alone; by default the majority of the judges decides.
        clusters: question id → what it goes together with; a question without an entry stands alone.
    """
    names = arena.names
    rows = []
    for match in played:
        outcome = match.panel(axis) if judge is None else match.judges[judge][axis]
        if outcome is not None:
            cluster = (clusters or {}).get(match.question_id) or match.question_id
            rows.append((cluster, names[match.first], names[match.second], POINTS[outcome]))
    return collect_matches(names, rows)


def matches_of_votes(arena: Arena, votes: Sequence[Vote], axis: str) -> Matches:
    """The human votes of one axis, every vote as a match; skipped pairs are not among them."""
    names = arena.names
    return collect_matches(
        names,
        [
            (vote.question_id, names[vote.first], names[vote.second], POINTS[vote.outcome])
            for vote in votes
            if vote.axis == axis and vote.outcome in POINTS
        ],
    )


class Ballot(Struct, frozen=True, kw_only=True):
    """A pair as a voter sees it: without names, left and right drawn by lot."""

    question_id: str
    question: str
    left: str
    right: str
    left_system: int
    right_system: int

    def vote(self, voter: str, axis: str, outcome: str) -> Vote:
        """The vote that `outcome` makes of it; ``first`` is the left answer."""
        return _vote(voter, self.question_id, self.left_system, self.right_system, axis, outcome)


def _vote(voter: str, question_id: str, left: int, right: int, axis: str, outcome: str) -> Vote:
    if left > right:
        left, right = right, left
        outcome = {"first": "second", "second": "first"}.get(outcome, outcome)
    return Vote(voter=voter, question_id=question_id, first=left, second=right, axis=axis, outcome=outcome)


def ballots(
    arena: Arena, lineup: Lineup, played: Sequence[Match], votes: Sequence[Vote], voter: str
) -> Iterator[Ballot]:
    """Pairs for `voter` in random order: those that judges have judged (a random sample of them is what corrects the
    judges), without those that this voter has seen."""
    texts = {question.id: question.text for question in lineup.questions}
    seen = {(vote.question_id, vote.first, vote.second) for vote in votes if vote.voter == voter}
    for match in sorted(played, key=lambda one: _lot(arena.seed, one)):
        if (match.question_id, match.first, match.second) in seen or match.question_id not in texts:
            continue
        # Left and right must not go by the systems' places, nor be the same for every voter.
        swap = hashlib.sha256(f"{voter} {_lot(arena.seed, match)}".encode()).digest()[0] % 2 == 1
        left, right = (match.second, match.first) if swap else (match.first, match.second)
        yield Ballot(
            question_id=match.question_id,
            question=texts[match.question_id],
            left=lineup.answers[left][match.question_id],
            right=lineup.answers[right][match.question_id],
            left_system=left,
            right_system=right,
        )


def _lot(seed: int, match: Match) -> str:
    return hashlib.sha256(f"vote {seed} {match.question_id} {match.first} {match.second}".encode()).hexdigest()
