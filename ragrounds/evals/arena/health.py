"""How each judge behaved: position, ties, disagreement with itself, what it failed to say, what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ragrounds.evals.arena.arena import Arena
from ragrounds.evals.arena.keeping import Detail, Judged, Vote
from ragrounds.evals.arena.outcomes import LETTERS, Played, one_way

BIASED = 0.2
"""A judge that prefers one place more often than the other by this share of its decided verdicts gets a note."""


class JudgeOnAxis(Struct, frozen=True, kw_only=True):
    """One judge on one axis. Shares are of pairs of verdicts (`swapped`) or of matches; ``None``: there are none."""

    judge: str
    matches: int
    """With a verdict (in both orders, where both are played)."""
    missing: int
    ties: float | None
    inconsistent: float | None
    """Pairs of orders whose verdicts differ: they count as ties."""
    reversed: float | None
    """Of these, those that name the other answer: the place decided."""
    first: float | None
    """Among verdicts for one answer, those for the one shown first; .5 where place does not matter."""


class Cost(Struct, frozen=True, kw_only=True):
    """What a judge took. ``None``: not known."""

    judge: str
    calls: int
    input: int | None
    output: int | None
    cost_paid: float | None
    cost_uncached: float | None
    """With an empty journal."""


class Failure(Struct, frozen=True, kw_only=True):
    """Why verdicts are missing, counted in verdicts (an axis of a call each)."""

    judge: str
    reason: str
    count: int


def on_axis(arena: Arena, judgements: Sequence[Judged], played: Sequence[Played], axis: int) -> list[JudgeOnAxis]:
    """Every judge of the arena on one axis."""
    part, place = (0, axis) if arena.calls == "together" else (axis, 0)
    found = []
    for judge, name in enumerate(arena.judges):
        asked = [one for one in judgements if one.judge == judge and one.part == part and one.how in ("asked", "cut")]
        said = [match.judges[judge][axis] for match in played]
        done = [outcome for outcome in said if outcome is not None]
        letters = Counter(one.outcomes[place] for one in asked)
        decided = letters["1"] + letters["2"]
        pairs = _both_orders(asked, place)
        differing = [pair for pair in pairs if pair[0] != pair[1]]
        found.append(
            JudgeOnAxis(
                judge=name,
                matches=len(done),
                missing=len(said) - len(done),
                ties=_share(done.count("tie"), len(done)),
                inconsistent=_share(len(differing), len(pairs)),
                reversed=_share(sum("tie" not in pair for pair in differing), len(pairs)),
                first=_share(letters["1"], decided),
            )
        )
    return found


def voters_on_axis(votes: Sequence[Vote], axis: str) -> list[JudgeOnAxis]:
    """Every person who voted on the axis; skipped pairs are missing, and no pair is shown twice."""
    said: dict[str, list[str]] = {}
    for vote in votes:
        if vote.axis == axis:
            said.setdefault(vote.voter, []).append(vote.outcome)
    return [
        JudgeOnAxis(
            judge=f"voter {voter}",
            matches=len(outcomes) - outcomes.count("skip"),
            missing=outcomes.count("skip"),
            ties=_share(outcomes.count("tie"), len(outcomes) - outcomes.count("skip")),
            inconsistent=None,
            reversed=None,
            first=None,
        )
        for voter, outcomes in said.items()
    ]


def costs(arena: Arena, judgements: Sequence[Judged]) -> list[Cost]:
    """Every judge's calls, tokens and dollars."""
    found = []
    for judge, name in enumerate(arena.judges):
        mine = [one for one in judgements if one.judge == judge]
        usages = [one.usage for one in mine]
        found.append(
            Cost(
                judge=name,
                calls=sum(one.calls for one in mine),
                input=_sum([usage.input if usage else None for usage in usages]),
                output=_sum([usage.output if usage else None for usage in usages]),
                cost_paid=_total([one.cost_paid for one in mine]),
                cost_uncached=_total([one.cost_uncached for one in mine]),
            )
        )
    return found


def failures(arena: Arena, details: Iterable[tuple[Judged, Detail]]) -> list[Failure]:
    """Reasons of missing verdicts, the most frequent first."""
    counts: Counter[tuple[int, str]] = Counter()
    for judged, detail in details:
        counts.update((judged.judge, reason) for reason in detail.reasons.values())
    return [
        Failure(judge=arena.judges[judge], reason=reason, count=count)
        for (judge, reason), count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    ]


def _both_orders(asked: Sequence[Judged], place: int) -> list[tuple[str, str]]:
    """Verdicts of both orders of a pair, from the same side, where there are both."""
    ways: dict[tuple[str, int, int], list[str]] = {}
    for one in asked:
        outcome = one_way(one)[place]
        if outcome in LETTERS.values():
            key = (one.question_id, min(one.first, one.second), max(one.first, one.second))
            ways.setdefault(key, []).append(str(outcome))
    return [(said[0], said[1]) for said in ways.values() if len(said) == 2]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 9) if len(known) == len(values) else None
