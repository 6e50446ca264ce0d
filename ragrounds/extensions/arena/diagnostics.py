"""Diagnostics of an arena's judges: behaviour, costs, and agreement with other judges and people.

Per judge and axis: position bias, ties, inconsistency and missing verdicts. Per judge: costs, agreement with others,
and whether its model also plays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from ragrounds.base.spent import Spent, total_spent
from ragrounds.evals.judges.attempts import judges_itself
from ragrounds.evals.stats.agreement import krippendorff_alpha
from ragrounds.evals.stats.estimates import stratified_mean
from ragrounds.evals.stats.intervals import Estimate
from ragrounds.evals.store.arenas import Arena, ArenaJudgement, JudgementDetail
from ragrounds.extensions.arena.pairs import random_labels
from ragrounds.extensions.arena.verdicts import LETTERS, Match, one_way, pair_seed

BIASED = 0.2
"""Position bias (difference between the shares of decided verdicts for either position) above which a judge gets a
note.
"""
SEEN = 6
"""Number of identical verdicts from which a judge is taken not to read the answers.

By chance, that many are identical once in 32 times.
"""

Pair = tuple[str, int, int]
"""Question id and the indices of two systems, the smaller first."""


ItemT = TypeVar("ItemT")


class JudgeOnAxis(Struct, frozen=True, kw_only=True):
    """Behaviour of one judge on one axis. A share is ``None`` if there is nothing to count."""

    judge: str
    matches: int
    """Matches with a verdict (in both orders, where both are played)."""
    missing: int
    ties: float | None
    inconsistent: float | None
    """Share of pairs of orders whose verdicts differ. Such a pair counts as a tie."""
    first: float | None
    """Share of verdicts for the answer shown first, among verdicts for either answer; 0.5 without position bias."""
    informative: Estimate | None = None
    """Share of this judge's matches with a winner, clustered by question; the winner must be the same in both orders if
    both are played.

    It is 0 if all verdicts of the judge are alike, and ``None`` if the judge judged no match.
    """
    constant: str = ""
    """Verdict that the judge always gives: ``tie``, ``the first answer``, ``the second answer``, ``A`` or ``B``.

    It is empty if the verdicts differ or are fewer than `SEEN`.
    """

    @property
    def uninformed(self) -> bool:
        """True if the verdicts do not depend on the answers: no match has a winner that can be attributed to what was
        read.
        """
        return self.informative is not None and self.informative.value == 0.0


class MissingVerdicts(Struct, frozen=True, kw_only=True):
    """Number of matches of which a judge has no verdict on some axis, for one reason."""

    judge: str
    reason: str
    count: int


def judges_on_axis(
    arena: Arena, judgements: Sequence[ArenaJudgement], played: Sequence[Match], axis: int
) -> list[JudgeOnAxis]:
    """Return the behaviour of every judge of the arena on one axis."""
    part, position = (0, axis) if arena.calls == "together" else (axis, 0)
    rows = []
    for judge, name in enumerate(arena.judges):
        model_judgements = [
            judgement
            for judgement in judgements
            if judgement.judge == judge and judgement.part == part and judgement.how in ("asked", "cut")
        ]
        axis_outcomes = [match.judges[judge][axis] for match in played]
        verdicts = [outcome for outcome in axis_outcomes if outcome is not None]
        letters = Counter(judgement.outcomes[position] for judgement in model_judgements)
        decided = letters["1"] + letters["2"]
        outcomes_by_pair = _both_orders(model_judgements, position)
        pairs = list(outcomes_by_pair.values())
        constant = _constant(arena, model_judgements, position)
        winners = _winners(model_judgements, position, outcomes_by_pair if arena.orders == "both" else None)
        informative = None
        if winners:
            # A judge that always gives the same verdict has read nothing, whatever it says.
            shares = [float(has_winner and not constant) for _, has_winner in winners]
            informative = stratified_mean(shares, clusters=[question for question, _ in winners])
        rows.append(
            JudgeOnAxis(
                judge=name,
                matches=len(verdicts),
                missing=len(axis_outcomes) - len(verdicts),
                ties=_share(verdicts.count("tie"), len(verdicts)),
                inconsistent=_share(sum(forward != backward for forward, backward in pairs), len(pairs)),
                first=_share(letters["1"], decided),
                informative=informative,
                constant=constant,
            )
        )
    return rows


def _winners(
    judgements: Sequence[ArenaJudgement], position: int, outcomes_by_pair: Mapping[Pair, tuple[str, str]] | None
) -> list[tuple[str, bool]]:
    """Return the question id of each judged match, and True if the match has a winner.

    `outcomes_by_pair` has the outcomes of both orders; it is ``None`` if only one order is played.
    """
    if outcomes_by_pair is not None:
        return [(pair[0], forward == backward != "tie") for pair, (forward, backward) in outcomes_by_pair.items()]
    return [
        (judgement.question_id, judgement.outcomes[position] in "12")
        for judgement in judgements
        if judgement.outcomes[position] in LETTERS
    ]


def _constant(arena: Arena, judgements: Sequence[ArenaJudgement], position: int) -> str:
    """Return the verdict that a judge always gives, or an empty string if verdicts differ or are too few."""
    decided = [judgement for judgement in judgements if judgement.outcomes[position] in LETTERS]
    if len(decided) < SEEN:
        return ""
    letters = {judgement.outcomes[position] for judgement in decided}
    if len(letters) == 1:
        return {"=": "tie", "1": "the first answer", "2": "the second answer"}[letters.pop()]
    labels = {_label(arena, judgement, position) for judgement in decided}
    return labels.pop() if len(labels) == 1 else ""


def _label(arena: Arena, judgement: ArenaJudgement, position: int) -> str:
    """Return the label that a verdict names, ``A`` or ``B``, or ``tie``.

    The pair's seed assigns labels to positions.
    """
    letter = judgement.outcomes[position]
    if letter == "=":
        return "tie"
    labels = random_labels(pair_seed(arena.seed, judgement.question_id, judgement.first, judgement.second))
    return labels[0] if letter == "1" else labels[1]


def judge_costs(arena: Arena, judgements: Sequence[ArenaJudgement]) -> dict[str, Spent]:
    """Return the calls, tokens and costs of every judge of the arena."""
    return {
        name: total_spent(judgement.spent for judgement in judgements if judgement.judge == judge)
        for judge, name in enumerate(arena.judges)
    }


def missing_verdicts(arena: Arena, details: Iterable[tuple[ArenaJudgement, JudgementDetail]]) -> list[MissingVerdicts]:
    """Return the reasons of missing verdicts, the most frequent first."""
    counts: Counter[tuple[int, str]] = Counter()
    matches = set[tuple[int, str, str, frozenset[int]]]()
    for judgement, detail in details:
        pair = frozenset((judgement.first, judgement.second))
        matches.update((judgement.judge, reason, judgement.question_id, pair) for reason in detail.reasons.values())
    counts.update((judge, reason) for judge, reason, _, _ in matches)
    return [
        MissingVerdicts(judge=arena.judges[judge], reason=reason, count=count)
        for (judge, reason), count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    ]


def _both_orders(judgements: Sequence[ArenaJudgement], position: int) -> dict[Pair, tuple[str, str]]:
    """Return, for each pair whose two orders have an outcome, both outcomes from the same side."""
    outcomes_by_pair: dict[Pair, list[str]] = {}
    for judgement in judgements:
        outcome = one_way(judgement)[position]
        if outcome in LETTERS.values():
            first, second = sorted((judgement.first, judgement.second))
            outcomes_by_pair.setdefault((judgement.question_id, first, second), []).append(str(outcome))
    return {pair: (outcomes[0], outcomes[1]) for pair, outcomes in outcomes_by_pair.items() if len(outcomes) == 2}


def _share(count: int, total: int) -> float | None:
    return count / total if total else None


class JudgeAgreement(Struct, frozen=True, kw_only=True):
    """Agreement of two judges on the pairs that both judged."""

    one: str
    other: str
    items: int
    same: float | None
    """Share of equal outcomes."""
    alpha: float | None
    """Krippendorff's alpha, nominal: 1 is perfect agreement, 0 is agreement by chance.

    It is ``None`` if it is not defined: one judge's verdicts do not depend on the answers, or both always give one
    verdict.
    """


def judge_agreements(
    outcomes: Mapping[str, Mapping[ItemT, str]], silent: Collection[str] = ()
) -> tuple[JudgeAgreement, ...]:
    """Measure the agreement of every two judges, people among them.

    Args:
        outcomes: judge → item (a question and a pair) → outcome. Missing outcomes have no entry.
        silent: judges whose verdicts say nothing about the answers: agreement with them is not defined.
    """
    names = list(outcomes)
    agreements = []
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            common = [judged_pair for judged_pair in outcomes[first] if judged_pair in outcomes[second]]
            pairs = [(outcomes[first][judged_pair], outcomes[second][judged_pair]) for judged_pair in common]
            agreements.append(
                JudgeAgreement(
                    one=first,
                    other=second,
                    items=len(common),
                    same=sum(a == b for a, b in pairs) / len(pairs) if pairs else None,
                    alpha=krippendorff_alpha(pairs) if pairs and not {first, second} & set(silent) else None,
                )
            )
    return tuple(agreements)


def judges_of_own_model(arena: Arena) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the judges whose model also answers, each with the systems of that model: it may favour them."""
    judges_with_systems = []
    for judge in arena.judges:
        is_own_model = [system.model and judges_itself(judge, [system.model]) for system in arena.systems]
        if any(is_own_model):
            judges_with_systems.append(
                (judge, tuple(name for name, is_same in zip(arena.names, is_own_model, strict=True) if is_same))
            )
    return tuple(judges_with_systems)
