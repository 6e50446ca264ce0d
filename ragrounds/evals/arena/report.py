"""The report of an arena: a pure function of what is stored. No model is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from msgspec import Struct

from ragrounds.evals.arena.diagnostics import (
    BIASED,
    JudgeAgreement,
    JudgeCost,
    JudgeOnAxis,
    MissingVerdicts,
    Pair,
    judge_agreements,
    judge_costs,
    judges_on_axis,
    missing_verdicts,
    own_models,
)
from ragrounds.evals.arena.lineup import Lineup, renamed
from ragrounds.evals.arena.matches import Floats, Matches, Wins, count_wins
from ragrounds.evals.arena.ratings import (
    RankingCheck,
    Ratings,
    check_ranking,
    rate,
)
from ragrounds.evals.arena.style_control import (
    StyleControlledRatings,
    control_style,
    style_differences,
    style_features,
)
from ragrounds.evals.arena.verdicts import POINTS, Match, combine_judgements, matches_of, matches_of_votes
from ragrounds.evals.judges.pairs import tampers
from ragrounds.evals.store.arenas import Arena, ArenaJudgement, ArenaStore, Vote
from ragrounds.models.model_names import other_models


class AxisReport(Struct, frozen=True, kw_only=True):
    """What an arena came to on one axis."""

    axis: str
    matches: int
    missing: int
    wins: Wins
    ratings: Ratings | None
    """``None``: withheld."""
    withheld: str
    """Why there are no ratings; empty: there are."""
    uninformed: bool
    """They are withheld because the verdicts say nothing about the answers."""
    controlled: StyleControlledRatings | None
    judges: tuple[JudgeOnAxis, ...]
    orders_by_judge: tuple[tuple[str, tuple[str, ...]], ...]
    """Each judge's own ranking, and the human one where there are votes."""
    agreement: tuple[JudgeAgreement, ...]


class ArenaReport(Struct, frozen=True, kw_only=True):
    """An arena as it stands: its settings, every axis, its judges' costs and failures."""

    arena: Arena
    id: str
    names: tuple[str, ...]
    """What the systems are called in all that follows, in the order of their places."""
    left_out: int
    """Questions that some system has not been asked yet."""
    empty: tuple[tuple[str, int], ...]
    """Answers that are empty, by system: they lose to any answer."""
    decided_without_judge: dict[str, int]
    cut: int
    """Judgements on answers that were cut to the judge's window."""
    planted: tuple[tuple[str, int], ...]
    """Answers that hold a verdict of their own, or the prompt's fences, by system."""
    axes: tuple[AxisReport, ...]
    costs: tuple[JudgeCost, ...]
    failures: tuple[MissingVerdicts, ...]
    votes: int
    notes: tuple[str, ...]


def arena_report(
    arenas: ArenaStore,
    arena: Arena,
    lineup: Lineup,
    *,
    replicates: int = 1000,
    names: Mapping[str, str] = MappingProxyType({}),
) -> ArenaReport:
    """The report of an arena as it stands in the store.

    Args:
        arenas: where its judgements and votes are.
        arena: its settings.
        lineup: the answers that it was played on.
        replicates: bootstrap samples of the ratings.
        names: run id → what the system is called.
    """
    number = arenas.add(arena)
    played, arena = arena, renamed(arena, names)
    judgements = arenas.judgements(number)
    stand = _Stand(arena, lineup, judgements, combine_judgements(arena, judgements), arenas.votes(number))
    axes = tuple(_axis(stand, axis, replicates) for axis in range(len(arena.axes)))
    planted = tuple(
        (system, sum(tampers(list(answers.values()), [axis.name for axis in arena.axes])))
        for system, answers in zip(arena.names, lineup.answers, strict=True)
    )
    return ArenaReport(
        arena=played,
        id=played.id,
        names=arena.names,
        left_out=lineup.left_out,
        empty=tuple(zip(arena.names, lineup.empty, strict=True)),
        decided_without_judge={how: _pairs_decided(judgements, how) for how in ("empty", "identical")},
        cut=sum(one.how == "cut" for one in judgements),
        planted=planted,
        axes=axes,
        costs=tuple(judge_costs(arena, judgements)),
        failures=tuple(missing_verdicts(arena, arenas.details(number, missing=True))),
        votes=len(stand.votes),
        notes=(
            *(f"Judges' calls were {said}." for said in other_models(arenas.answered_by(number))),
            *(
                f"{judge} judges answers of its own model ({', '.join(systems)}), which it may favour."
                for judge, systems in own_models(arena)
            ),
            *_notes(arena, axes, planted),
        ),
    )


@dataclass(frozen=True)
class _Stand:
    """What the store holds of an arena."""

    arena: Arena
    lineup: Lineup
    judgements: Sequence[ArenaJudgement]
    played: Sequence[Match]
    votes: Sequence[Vote]

    def votes_on(self, axis: int) -> Iterator[Vote]:
        """The votes on one axis that are not skipped."""
        name = self.arena.axes[axis].name
        return (vote for vote in self.votes if vote.axis == name and vote.outcome in POINTS)


def _pairs_decided(judgements: Sequence[ArenaJudgement], how: str) -> int:
    return len({(one.question_id, *sorted((one.first, one.second))) for one in judgements if one.how == how})


def _axis(stand: _Stand, axis: int, replicates: int) -> AxisReport:
    arena, played = stand.arena, stand.played
    name = arena.axes[axis].name
    clusters = {question.id: question.cluster for question in stand.lineup.questions}
    panel = [match.panel(axis) for match in played]
    matches = matches_of(arena, played, axis, clusters=clusters)
    ratings = rate(matches, confidence=arena.confidence, replicates=replicates, seed=arena.seed)
    ranking = check_ranking(matches, _missing(arena, played, panel), ratings)
    judges = judges_on_axis(arena, stand.judgements, played, axis)
    uninformed = _uninformed(matches, judges)
    withheld = _withheld(ranking) or uninformed
    shown = not withheld
    return AxisReport(
        axis=name,
        matches=len(matches),
        missing=len(played) - len(matches),
        wins=count_wins(matches),
        ratings=ratings if shown else None,
        withheld=withheld,
        uninformed=bool(uninformed),
        controlled=_style_controlled(stand, matches, panel) if shown else None,
        judges=tuple(judges),
        orders_by_judge=_orders(stand, axis, judges) if shown else (),
        agreement=judge_agreements(_outcomes_by_judge(stand, axis), [one.judge for one in judges if one.uninformed]),
    )


def _missing(arena: Arena, played: Sequence[Match], panel: Sequence[str | None]) -> Floats:
    table = np.zeros((len(arena.systems), len(arena.systems)))
    for match, outcome in zip(played, panel, strict=True):
        if outcome is None:
            table[match.first, match.second] += 1
            table[match.second, match.first] += 1
    return table


def _withheld(ranking: RankingCheck) -> str:
    if ranking.stands:
        return ""
    pairs = "; ".join(f"{one} and {other}" for one, other in ranking.overturned[:5])
    more = f" and {len(ranking.overturned) - 5} more pairs" if len(ranking.overturned) > 5 else ""
    return (
        f"No ranking: {ranking.missing} {'match has' if ranking.missing == 1 else 'matches have'} no verdict, and "
        f"they could overturn the order of {pairs}{more}. The same command asks again where "
        "calls failed; where verdicts cannot be read, take another judge or more --tries."
    )


def _uninformed(matches: Matches, judges: Sequence[JudgeOnAxis]) -> str:
    """Why nothing can be ranked by these verdicts: no judge says anything of the answers, or no match has a winner.
    Empty: that is not so, or there is no match."""
    asked = [judge for judge in judges if judge.informative is not None]
    silent = [judge for judge in asked if judge.uninformed]
    if not len(matches) or ((matches.score != 0.5).any() and not (asked and len(silent) == len(asked))):
        return ""
    if not asked:
        return f"No ranking: none of {len(matches):,} matches has a winner, and all were decided without a judge."
    said = "; ".join(map(information_text, silent or asked))
    cure = (
        "These judges cancel each other out: ask more, or one of them alone"
        if len(silent) < len(asked)
        else "The same judge would say the same again: take another one with --judge"
    )
    return f"No ranking: the verdicts say nothing about the answers. {said}. {cure}."


def information_text(judge: JudgeOnAxis) -> str:
    """How much a judge's verdicts say about the answers, in words."""
    found = judge.informative
    if found is None:
        return f"{judge.judge} was asked nothing"
    share = f"{found.value:.1%}"
    if found.low is not None and found.high is not None:
        share += f" (95 %: {found.low:.1%} to {found.high:.1%})"
    said = [f"{judge.judge} names a winner that does not depend on place or label in {share} of {found.n:,} matches"]
    if judge.constant:
        said.append("it always says tie" if judge.constant == "tie" else f"it always names {judge.constant}")
    elif judge.first is not None:
        said.append(f"{judge.first:.1%} of its verdicts are for the answer shown first")
    if judge.inconsistent is not None:
        said.append(f"both orders agree in {1 - judge.inconsistent:.1%} of them")
    return ", ".join(said)


def _style_controlled(stand: _Stand, matches: Matches, panel: Sequence[str | None]) -> StyleControlledRatings | None:
    if not len(matches):
        return None
    styles = [{id: style_features(text) for id, text in answers.items()} for answers in stand.lineup.answers]
    done = [match for match, outcome in zip(stand.played, panel, strict=True) if outcome is not None]
    first = np.array([styles[match.first][match.question_id] for match in done])
    second = np.array([styles[match.second][match.question_id] for match in done])
    return control_style(matches, style_differences(first, second))


def _orders(stand: _Stand, axis: int, judges: Sequence[JudgeOnAxis]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    arena, found = stand.arena, []
    if len(arena.judges) > 1:
        for judge, name in enumerate(arena.judges):
            if judges[judge].uninformed:
                continue
            found.append((name, _order(matches_of(arena, stand.played, axis, judge=judge))))
    human = matches_of_votes(arena, stand.votes, arena.axes[axis].name)
    if len(human):
        found.append(("people", _order(human)))
    return tuple(found)


def _order(matches: Matches) -> tuple[str, ...]:
    return rate(matches, replicates=1).order


def _outcomes_by_judge(stand: _Stand, axis: int) -> dict[str, dict[Pair, str]]:
    """Judge or voter → pair → outcome."""
    by_judge: dict[str, dict[Pair, str]] = {judge: {} for judge in stand.arena.judges}
    for match in stand.played:
        for judge, outcomes in zip(stand.arena.judges, match.judges, strict=True):
            outcome = outcomes[axis]
            if outcome is not None:
                by_judge[judge][match.question_id, match.first, match.second] = outcome
    for vote in stand.votes_on(axis):
        by_judge.setdefault(f"voter {vote.voter}", {})[vote.question_id, vote.first, vote.second] = vote.outcome
    return by_judge


def _notes(arena: Arena, axes: Sequence[AxisReport], planted: Sequence[tuple[str, int]]) -> list[str]:
    notes = []
    for axis in axes:
        for judge in axis.judges:
            if judge.uninformed:
                if axis.ratings is not None:
                    notes.append(
                        f"{information_text(judge)} on {axis.axis}: in the panel it only adds ties. Leave it out."
                    )
            elif judge.first is not None and abs(judge.first - 0.5) > BIASED / 2:
                place = "first" if judge.first > 0.5 else "second"
                cure = "both orders take this out" if arena.orders == "both" else "only one order was played"
                notes.append(
                    f"{judge.judge} on {axis.axis}: {max(judge.first, 1 - judge.first):.0%} of its verdicts are for "
                    f"the answer shown {place}; {cure}."
                )
        if axis.ratings is not None:
            notes += [f"{axis.axis}: {note}" for note in axis.ratings.notes]
    if arena.orders == "one":
        notes.append("One order only: position bias adds noise, and nothing shows how much. --orders both removes it.")
    for system, count in planted:
        if count:
            notes.append(
                f"{system}: {count} {'answer holds' if count == 1 else 'answers hold'} what looks like a verdict or a "
                "mark of the judge's prompt. Marks were defused, and a reply's last verdict counts; look at them."
            )
    return notes
