"""Report of an arena: a pure function of stored judgements and votes. No model is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from msgspec import Struct

from ragrounds.base.spent import Spent
from ragrounds.evals.store.arenas import Arena, ArenaJudgement, ArenaStore, Vote
from ragrounds.extensions.arena.diagnostics import (
    BIASED,
    JudgeAgreement,
    JudgeOnAxis,
    MissingVerdicts,
    Pair,
    judge_agreements,
    judge_costs,
    judges_of_own_model,
    judges_on_axis,
    missing_verdicts,
)
from ragrounds.extensions.arena.lineup import Lineup, renamed
from ragrounds.extensions.arena.matches import Floats, Matches, Wins, count_wins
from ragrounds.extensions.arena.online_elo import BRADLEY_TERRY, EloRatings, EloSettings, parse_rating, rate_online
from ragrounds.extensions.arena.pairs import tampers
from ragrounds.extensions.arena.ratings import (
    RankingCheck,
    Ratings,
    check_ranking,
    rate,
)
from ragrounds.extensions.arena.style_control import (
    StyleControlledRatings,
    control_style,
    style_differences,
    style_features,
)
from ragrounds.extensions.arena.verdicts import POINTS, Match, combine_judgements, matches_of, matches_of_votes
from ragrounds.models.model_names import other_models


class AxisReport(Struct, frozen=True, kw_only=True):
    """Results of an arena on one axis."""

    axis: str
    matches: int
    missing: int
    wins: Wins
    ratings: Ratings | None
    """Ratings of the systems; ``None`` if withheld."""
    withheld: str
    """Reason why the ratings are withheld; empty if they are shown."""
    uninformed: bool
    """True if ratings are withheld because the verdicts do not depend on the answers."""
    controlled: StyleControlledRatings | None
    judges: tuple[JudgeOnAxis, ...]
    orders_by_judge: tuple[tuple[str, tuple[str, ...]], ...]
    """Each judge's own ranking, and the human one if there are votes."""
    agreement: tuple[JudgeAgreement, ...]
    elo: EloRatings | None = None
    """Online Elo, if it was requested and ratings are shown."""


class ArenaReport(Struct, frozen=True, kw_only=True):
    """Results of an arena so far: its settings, every axis, its judges' costs and failures."""

    arena: Arena
    id: str
    names: tuple[str, ...]
    """Displayed names of the systems, by system index."""
    left_out: int
    """Questions that some system has not been asked yet."""
    empty: tuple[tuple[str, int], ...]
    """Answers that are empty, by system: they lose to any answer."""
    decided_without_judge: dict[str, int]
    cut: int
    """Judgements on answers that were cut to the judge's window."""
    planted: tuple[tuple[str, int], ...]
    """Number of answers that contain a verdict or the prompt's fences, by system."""
    axes: tuple[AxisReport, ...]
    costs: dict[str, Spent]
    """Judge → calls, tokens and dollars that it used."""
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
    rating: str = BRADLEY_TERRY,
) -> ArenaReport:
    """Compile the report of an arena from the store.

    Args:
        arenas: store of its judgements and votes.
        arena: settings of the arena.
        lineup: the answers that it was played on.
        replicates: bootstrap samples of the ratings.
        names: run id → displayed name of the system.
        rating: ``elo[k=40]`` adds online Elo.

    Raises:
        UserError: there is no such rating.
    """
    elo = parse_rating(rating)
    number = arenas.add(arena)
    played, arena = arena, renamed(arena, names)
    judgements = arenas.judgements(number)
    stored = _StoredArena(arena, lineup, judgements, combine_judgements(arena, judgements), arenas.votes(number))
    axes = tuple(_axis(stored, axis, replicates, elo) for axis in range(len(arena.axes)))
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
        cut=sum(judgement.how == "cut" for judgement in judgements),
        planted=planted,
        axes=axes,
        costs=judge_costs(arena, judgements),
        failures=tuple(missing_verdicts(arena, arenas.details(number, missing=True))),
        votes=len(stored.votes),
        notes=(
            *(f"Judges' calls were {description}." for description in other_models(arenas.answered_by(number))),
            *(
                f"{judge} judges answers of its own model ({', '.join(systems)}), which it may favour."
                for judge, systems in judges_of_own_model(arena)
            ),
            *_notes(arena, axes, planted),
        ),
    )


@dataclass(frozen=True)
class _StoredArena:
    """Judgements and votes of an arena, as stored."""

    arena: Arena
    lineup: Lineup
    judgements: Sequence[ArenaJudgement]
    played: Sequence[Match]
    votes: Sequence[Vote]

    def votes_on(self, axis: int) -> Iterator[Vote]:
        """Return the votes on one axis that are not skipped."""
        name = self.arena.axes[axis].name
        return (vote for vote in self.votes if vote.axis == name and vote.outcome in POINTS)


def _pairs_decided(judgements: Sequence[ArenaJudgement], how: str) -> int:
    decided = (judgement for judgement in judgements if judgement.how == how)
    return len({(judgement.question_id, *sorted((judgement.first, judgement.second))) for judgement in decided})


def _axis(stored: _StoredArena, axis: int, replicates: int, elo: EloSettings | None) -> AxisReport:
    arena, played = stored.arena, stored.played
    name = arena.axes[axis].name
    clusters = {question.id: question.cluster for question in stored.lineup.questions}
    panel = [match.panel(axis) for match in played]
    matches = matches_of(arena, played, axis, clusters=clusters)
    ratings = rate(matches, confidence=arena.confidence, replicates=replicates, seed=arena.seed)
    ranking = check_ranking(matches, _missing(arena, played, panel), ratings)
    judges = judges_on_axis(arena, stored.judgements, played, axis)
    uninformed = _uninformed(matches, judges)
    withheld = _withheld(ranking) or uninformed
    is_shown = not withheld
    return AxisReport(
        axis=name,
        matches=len(matches),
        missing=len(played) - len(matches),
        wins=count_wins(matches),
        ratings=ratings if is_shown else None,
        withheld=withheld,
        uninformed=bool(uninformed),
        controlled=_style_controlled(stored, matches, panel) if is_shown else None,
        judges=tuple(judges),
        orders_by_judge=_orders(stored, axis, judges) if is_shown else (),
        agreement=judge_agreements(
            _outcomes_by_judge(stored, axis), [judge.judge for judge in judges if judge.uninformed]
        ),
        elo=rate_online(matches, elo, arena.seed) if elo and is_shown else None,
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
    pairs = "; ".join(f"{upper} and {lower}" for upper, lower in ranking.overturned[:5])
    rest = f" and {len(ranking.overturned) - 5} more pairs" if len(ranking.overturned) > 5 else ""
    return (
        f"No ranking: {ranking.missing} {'match has' if ranking.missing == 1 else 'matches have'} no verdict, and "
        f"they could overturn the order of {pairs}{rest}. The same command asks again where "
        "calls failed; where verdicts cannot be read, take another judge or more --tries."
    )


def _uninformed(matches: Matches, judges: Sequence[JudgeOnAxis]) -> str:
    """Return the reason why these verdicts support no ranking; empty if they support one or there is no match.

    Either no judge's verdicts depend on the answers, or no match has a winner.
    """
    active = [judge for judge in judges if judge.informative is not None]
    silent = [judge for judge in active if judge.uninformed]
    if not len(matches) or ((matches.score != 0.5).any() and not (active and len(silent) == len(active))):
        return ""
    if not active:
        return f"No ranking: none of {len(matches):,} matches has a winner, and all were decided without a judge."
    descriptions = "; ".join(map(information_text, silent or active))
    remedy = (
        "These judges cancel each other out: ask more, or one of them alone"
        if len(silent) < len(active)
        else "The same judge would say the same again: take another one with --judge"
    )
    return f"No ranking: the verdicts say nothing about the answers. {descriptions}. {remedy}."


def information_text(judge: JudgeOnAxis) -> str:
    """Return a sentence on how much a judge's verdicts depend on the answers."""
    informative = judge.informative
    if informative is None:
        return f"{judge.judge} was asked nothing"
    share = f"{informative.value:.1%}"
    if informative.low is not None and informative.high is not None:
        share += f" (95 %: {informative.low:.1%} to {informative.high:.1%})"
    phrases = [
        f"{judge.judge} names a winner that does not depend on place or label in {share} of {informative.n:,} matches"
    ]
    if judge.constant:
        phrases.append("it always says tie" if judge.constant == "tie" else f"it always names {judge.constant}")
    elif judge.first is not None:
        phrases.append(f"{judge.first:.1%} of its verdicts are for the answer shown first")
    if judge.inconsistent is not None:
        phrases.append(f"both orders agree in {1 - judge.inconsistent:.1%} of them")
    return ", ".join(phrases)


def _style_controlled(
    stored: _StoredArena, matches: Matches, panel: Sequence[str | None]
) -> StyleControlledRatings | None:
    if not len(matches):
        return None
    styles = [{id: style_features(text) for id, text in answers.items()} for answers in stored.lineup.answers]
    finished = [match for match, outcome in zip(stored.played, panel, strict=True) if outcome is not None]
    first = np.array([styles[match.first][match.question_id] for match in finished])
    second = np.array([styles[match.second][match.question_id] for match in finished])
    return control_style(matches, style_differences(first, second))


def _orders(stored: _StoredArena, axis: int, judges: Sequence[JudgeOnAxis]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    arena, rankings = stored.arena, []
    if len(arena.judges) > 1:
        for judge, name in enumerate(arena.judges):
            if judges[judge].uninformed:
                continue
            rankings.append((name, _order(matches_of(arena, stored.played, axis, judge=judge))))
    human = matches_of_votes(arena, stored.votes, arena.axes[axis].name)
    if len(human):
        rankings.append(("people", _order(human)))
    return tuple(rankings)


def _order(matches: Matches) -> tuple[str, ...]:
    return rate(matches, replicates=1).order


def _outcomes_by_judge(stored: _StoredArena, axis: int) -> dict[str, dict[Pair, str]]:
    """Return the outcomes by judge or voter, then by pair."""
    by_judge: dict[str, dict[Pair, str]] = {judge: {} for judge in stored.arena.judges}
    for match in stored.played:
        for judge, outcomes in zip(stored.arena.judges, match.judges, strict=True):
            outcome = outcomes[axis]
            if outcome is not None:
                by_judge[judge][match.question_id, match.first, match.second] = outcome
    for vote in stored.votes_on(axis):
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
                position = "first" if judge.first > 0.5 else "second"
                remedy = "both orders take this out" if arena.orders == "both" else "only one order was played"
                notes.append(
                    f"{judge.judge} on {axis.axis}: {max(judge.first, 1 - judge.first):.0%} of its verdicts are for "
                    f"the answer shown {position}; {remedy}."
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
