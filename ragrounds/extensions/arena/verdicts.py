"""Verdicts: judges' judgements combined to matches, and people's votes.

Both orders of a pair make one outcome of a judge, all judges' outcomes make one match. Votes are cast one by one on
pairs that are shown blind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.store.arenas import Arena, ArenaJudgement, Vote
from ragrounds.extensions.arena.lineup import Lineup
from ragrounds.extensions.arena.matches import Matches, collect_matches
from ragrounds.extensions.arena.pairs import both_orders, majority

LETTERS = {"1": "first", "2": "second", "=": "tie"}
_SWAPPED = {"first": "second", "second": "first", "tie": "tie"}
POINTS = {"first": 1.0, "tie": 0.5, "second": 0.0}
"""Points of the first system by the outcome of a match."""

Outcomes = tuple[str | None, ...]
"""An outcome for each axis, ``None`` where it is missing."""


class Match(Struct, frozen=True, kw_only=True, gc=False):
    """One match: a question and two systems (indices, `first` < `second`), with the outcomes of each judge."""

    number: int
    question_id: str
    first: int
    second: int
    judges: tuple[Outcomes, ...]
    """For each judge, both orders together; an outcome names the side ``first`` or ``second`` of this record."""

    def panel(self, axis: int) -> str | None:
        """Return the outcome of all judges on an axis by :func:`ragrounds.extensions.arena.pairs.majority`."""
        return majority([outcomes[axis] for outcomes in self.judges])


def pair_seed(seed: int, question_id: str, first: int, second: int) -> str:
    """Return the seed that assigns the labels of a pair of answers. It is the same in both orders."""
    low, high = sorted((first, second))
    return f"{seed} {question_id} {low} {high}"


def one_way(judgement: ArenaJudgement) -> Outcomes:
    """Return the outcomes of a judgement from the side of the system with the smaller index."""
    outcomes = [LETTERS.get(letter) for letter in judgement.outcomes]
    if judgement.first < judgement.second:
        return tuple(outcomes)
    return tuple(None if outcome is None else _SWAPPED[outcome] for outcome in outcomes)


def combine_judgements(arena: Arena, judgements: Iterable[ArenaJudgement]) -> list[Match]:
    """Combine judgements to matches: all matches that were begun, in the order of play.

    A judge has no outcome of a match until every order and every axis call of it is stored.
    """
    orders = 2 if arena.orders == "both" else 1
    parts, judges = len(arena.parts), len(arena.judges)
    judgements_by_pair: dict[tuple[str, int, int], dict[tuple[int, int, int], ArenaJudgement]] = {}
    numbers: dict[tuple[str, int, int], int] = {}
    for judgement in judgements:
        pair = (judgement.question_id, min(judgement.first, judgement.second), max(judgement.first, judgement.second))
        judgements_by_pair.setdefault(pair, {})[
            judgement.judge, int(judgement.first > judgement.second), judgement.part
        ] = judgement
        numbers[pair] = min(judgement.number, numbers.get(pair, judgement.number))
    played = []
    for (question_id, first, second), pair_judgements in judgements_by_pair.items():
        by_judge = tuple(
            tuple(
                outcome
                for part in range(parts)
                for outcome in _together(pair_judgements, judge, part, orders, len(arena.parts[part]))
            )
            for judge in range(judges)
        )
        number = numbers[question_id, first, second]
        played.append(Match(number=number, question_id=question_id, first=first, second=second, judges=by_judge))
    played.sort(key=lambda match: (match.number, match.question_id))
    return played


def _together(
    judgements: Mapping[tuple[int, int, int], ArenaJudgement], judge: int, part: int, orders: int, axes: int
) -> Sequence[str | None]:
    outcomes_by_order = [one_way(judgements[judge, way, part]) for way in (0, 1) if (judge, way, part) in judgements]
    if len(outcomes_by_order) < orders:
        return [None] * axes
    if orders == 1:
        return outcomes_by_order[0]
    return [both_orders(forward, backward) for forward, backward in zip(*outcomes_by_order, strict=True)]


def matches_of(
    arena: Arena,
    played: Sequence[Match],
    axis: int,
    *,
    judge: int | None = None,
    clusters: Mapping[str, Hashable] | None = None,
) -> Matches:
    """Return the finished matches of one axis.

    Args:
        arena: the arena that was played.
        played: its matches.
        axis: index of the axis.
        judge: index of the only judge that counts; by default the majority of the judges decides.
        clusters: question id → cluster; a question without an entry is its own cluster.
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
    """Return the human votes of one axis as matches, without skipped pairs."""
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
    """A pair as a voter sees it: without names, left and right assigned at random."""

    question_id: str
    question: str
    left: str
    right: str
    left_system: int
    right_system: int

    def vote(self, voter: str, axis: str, outcome: str) -> Vote:
        """Return the vote for `outcome`; ``first`` is the left answer."""
        first, second = self.left_system, self.right_system
        if first > second:
            first, second = second, first
            outcome = {"first": "second", "second": "first"}.get(outcome, outcome)
        return Vote(voter=voter, question_id=self.question_id, first=first, second=second, axis=axis, outcome=outcome)


def ballots(
    arena: Arena, lineup: Lineup, played: Sequence[Match], votes: Sequence[Vote], voter: str
) -> Iterator[Ballot]:
    """Yield pairs for `voter` in random order, without those that this voter has seen.

    Only pairs that judges have judged are shown: votes on a random sample of them correct the judges.
    """
    texts = {question.id: question.text for question in lineup.questions}
    seen = {(vote.question_id, vote.first, vote.second) for vote in votes if vote.voter == voter}
    for match in sorted(played, key=lambda candidate: _shuffle_key(arena.seed, candidate)):
        if (match.question_id, match.first, match.second) in seen or match.question_id not in texts:
            continue
        # Left and right must not depend on the systems' order, nor be the same for every voter.
        swap = hashlib.sha256(f"{voter} {_shuffle_key(arena.seed, match)}".encode()).digest()[0] % 2 == 1
        left, right = (match.second, match.first) if swap else (match.first, match.second)
        yield Ballot(
            question_id=match.question_id,
            question=texts[match.question_id],
            left=lineup.answers[left][match.question_id],
            right=lineup.answers[right][match.question_id],
            left_system=left,
            right_system=right,
        )


def _shuffle_key(seed: int, match: Match) -> str:
    return hashlib.sha256(f"vote {seed} {match.question_id} {match.first} {match.second}".encode()).hexdigest()
