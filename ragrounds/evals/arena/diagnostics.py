"""How each judge of an arena behaved, and how its verdicts fit other judges and people.

Each judge on each axis (position, ties, disagreement with itself, what it failed to say), its costs, agreement between
judges, and which judges' models also play.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from ragrounds.evals.arena.verdicts import LETTERS, Match, one_way, pair_seed
from ragrounds.evals.judges.attempts import judges_itself
from ragrounds.evals.judges.pairs import drawn_labels
from ragrounds.evals.stats.agreement import krippendorff_alpha
from ragrounds.evals.stats.estimates import stratified_mean
from ragrounds.evals.stats.intervals import Estimate
from ragrounds.evals.store.arenas import Arena, ArenaJudgement, JudgementDetail

BIASED = 0.2
"""A judge that prefers one place more often than the other by this share of its decided verdicts gets a note."""
SEEN = 6
"""Verdicts that are all alike from which on a judge is taken not to read: by chance so many are once in 32 times."""

Pair = tuple[str, int, int]
"""A question and the places of two systems, the smaller first."""


ItemT = TypeVar("ItemT")
NumberT = TypeVar("NumberT", int, float)


class JudgeOnAxis(Struct, frozen=True, kw_only=True):
    """One judge on one axis. A share is ``None`` where there is nothing to count."""

    judge: str
    matches: int
    """Matches with a verdict (in both orders, where both are played)."""
    missing: int
    ties: float | None
    inconsistent: float | None
    """Pairs of orders whose verdicts differ: they count as ties."""
    first: float | None
    """Among verdicts for one answer, those for the one shown first; .5 where place does not matter."""
    informative: Estimate | None = None
    """Share of its matches with a winner, the same in both orders where both are played, clustered by question; 0 of a
    judge whose verdicts are all alike. ``None``: it judged no match."""
    constant: str = ""
    """What all of its verdicts say, whatever the answers: ``tie``, ``the first answer``, ``the second answer``, ``A``
    or ``B``; empty: they differ, or are fewer than `SEEN`."""

    @property
    def uninformed(self) -> bool:
        """Whether its verdicts say nothing about the answers: in no match does it name a winner for what it read."""
        return self.informative is not None and self.informative.value == 0.0


class JudgeCost(Struct, frozen=True, kw_only=True):
    """What a judge took in calls, tokens and dollars. ``None``: not known."""

    judge: str
    calls: int
    input: int | None
    output: int | None
    cost_paid: float | None
    cost_uncached: float | None
    """With an empty journal."""


class MissingVerdicts(Struct, frozen=True, kw_only=True):
    """How many verdicts (an axis of a call each) are missing for one reason."""

    judge: str
    reason: str
    count: int


def judges_on_axis(
    arena: Arena, judgements: Sequence[ArenaJudgement], played: Sequence[Match], axis: int
) -> list[JudgeOnAxis]:
    """How every judge of the arena behaved on one axis."""
    part, place = (0, axis) if arena.calls == "together" else (axis, 0)
    found = []
    for judge, name in enumerate(arena.judges):
        asked = [one for one in judgements if one.judge == judge and one.part == part and one.how in ("asked", "cut")]
        said = [match.judges[judge][axis] for match in played]
        done = [outcome for outcome in said if outcome is not None]
        letters = Counter(one.outcomes[place] for one in asked)
        decided = letters["1"] + letters["2"]
        ways = _both_orders(asked, place)
        pairs = list(ways.values())
        constant = _constant(arena, asked, place)
        winners = _winners(asked, place, ways) if arena.orders == "both" else _winners(asked, place, None)
        won = [(question, has and not constant) for question, has in winners]
        found.append(
            JudgeOnAxis(
                judge=name,
                matches=len(done),
                missing=len(said) - len(done),
                ties=_share(done.count("tie"), len(done)),
                inconsistent=_share(sum(one != other for one, other in pairs), len(pairs)),
                first=_share(letters["1"], decided),
                informative=_informative(won),
                constant=constant,
            )
        )
    return found


def _informative(won: Sequence[tuple[str, bool]]) -> Estimate | None:
    """The share of matches with a winner, from (question, whether it has one)."""
    if not won:
        return None
    return stratified_mean([float(has) for _, has in won], clusters=[question for question, _ in won])


def _winners(
    asked: Sequence[ArenaJudgement], place: int, ways: Mapping[Pair, tuple[str, str]] | None
) -> list[tuple[str, bool]]:
    """Of each judged match its question, and whether it has a winner; `ways`: what both orders say."""
    if ways is not None:
        return [(pair[0], one == other != "tie") for pair, (one, other) in ways.items()]
    return [(one.question_id, one.outcomes[place] in "12") for one in asked if one.outcomes[place] in LETTERS]


def _constant(arena: Arena, asked: Sequence[ArenaJudgement], place: int) -> str:
    """What all verdicts of a judge say, whatever the answers; empty: they differ, or are too few to tell."""
    said = [one for one in asked if one.outcomes[place] in LETTERS]
    if len(said) < SEEN:
        return ""
    letters = {one.outcomes[place] for one in said}
    if len(letters) == 1:
        return {"=": "tie", "1": "the first answer", "2": "the second answer"}[letters.pop()]
    labels = {_label(arena, one, place) for one in said}
    return labels.pop() if len(labels) == 1 else ""


def _label(arena: Arena, judged: ArenaJudgement, place: int) -> str:
    """The label that a verdict named: ``A`` or ``B``, which go with the place by the pair's seed; ``tie``."""
    letter = judged.outcomes[place]
    if letter == "=":
        return "tie"
    labels = drawn_labels(pair_seed(arena.seed, judged.question_id, judged.first, judged.second))
    return labels[0] if letter == "1" else labels[1]


def judge_costs(arena: Arena, judgements: Sequence[ArenaJudgement]) -> list[JudgeCost]:
    """What every judge of the arena took."""
    found = []
    for judge, name in enumerate(arena.judges):
        mine = [one for one in judgements if one.judge == judge]
        paid, uncached = _sum(one.cost_paid for one in mine), _sum(one.cost_uncached for one in mine)
        found.append(
            JudgeCost(
                judge=name,
                calls=sum(one.calls for one in mine),
                input=_sum(one.usage.input if one.usage else None for one in mine),
                output=_sum(one.usage.output if one.usage else None for one in mine),
                cost_paid=None if paid is None else round(paid, 9),
                cost_uncached=None if uncached is None else round(uncached, 9),
            )
        )
    return found


def missing_verdicts(arena: Arena, details: Iterable[tuple[ArenaJudgement, JudgementDetail]]) -> list[MissingVerdicts]:
    """The reasons of missing verdicts, the most frequent first."""
    counts: Counter[tuple[int, str]] = Counter()
    for judged, detail in details:
        counts.update((judged.judge, reason) for reason in detail.reasons.values())
    return [
        MissingVerdicts(judge=arena.judges[judge], reason=reason, count=count)
        for (judge, reason), count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    ]


def _both_orders(asked: Sequence[ArenaJudgement], place: int) -> dict[Pair, tuple[str, str]]:
    """Pair → the outcomes of both its orders, from the same side, where there are both."""
    ways: dict[Pair, list[str]] = {}
    for one in asked:
        outcome = one_way(one)[place]
        if outcome in LETTERS.values():
            key = (one.question_id, min(one.first, one.second), max(one.first, one.second))
            ways.setdefault(key, []).append(str(outcome))
    return {pair: (said[0], said[1]) for pair, said in ways.items() if len(said) == 2}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _sum(values: Iterable[NumberT | None]) -> NumberT | None:
    """The sum; ``None`` where a value is not known."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


class JudgeAgreement(Struct, frozen=True, kw_only=True):
    """How far two judges agree on the pairs that both judged."""

    one: str
    other: str
    items: int
    same: float | None
    """Share of equal outcomes."""
    alpha: float | None
    """Krippendorff's alpha, nominal: 1 perfect, 0 as by chance; ``None`` where it is not defined: one of the two
    says nothing about the answers, or both say one thing throughout."""


def judge_agreements(
    outcomes: Mapping[str, Mapping[ItemT, str]], silent: Collection[str] = ()
) -> tuple[JudgeAgreement, ...]:
    """The agreement of every two judges, people among them.

    Args:
        outcomes: judge → item (a question and a pair) → outcome, where there is one.
        silent: judges whose verdicts say nothing about the answers: agreement with them is not defined.
    """
    names = list(outcomes)
    found = []
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            common = [item for item in outcomes[one] if item in outcomes[other]]
            pairs = [(outcomes[one][item], outcomes[other][item]) for item in common]
            found.append(
                JudgeAgreement(
                    one=one,
                    other=other,
                    items=len(common),
                    same=sum(a == b for a, b in pairs) / len(pairs) if pairs else None,
                    alpha=krippendorff_alpha(pairs) if pairs and not {one, other} & set(silent) else None,
                )
            )
    return tuple(found)


def own_models(arena: Arena) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The judges whose model also answers, each with these systems: it may favour them."""
    found = []
    for judge in arena.judges:
        own = [one.model and judges_itself(judge, [one.model]) for one in arena.systems]
        if any(own):
            found.append((judge, tuple(name for name, is_own in zip(arena.names, own, strict=True) if is_own)))
    return tuple(found)
