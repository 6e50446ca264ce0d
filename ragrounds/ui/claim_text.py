"""How claims stand, in words and as a table; and which answers speak against them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragrounds.evals.compare.assertions import WIDE, ClaimVerdict, ConditionVerdict
from ragrounds.evals.compare.claim_questions import ConditionAgainst, GivenAnswer
from ragrounds.ui.progress.words import claimed_text, score_words
from ragrounds.ui.tables import Column, TextTable
from ragrounds.ui.text import UNKNOWN, number_of, one_line, safe


def claim_lines(claims: Sequence[ClaimVerdict]) -> Iterator[str]:
    """Each claim with its decision, and below it what was measured."""
    for claim in claims:
        yield f"{claim.decision}: {safe(claim.claim)}   ({score_words(claim.scorer)})"
        for one in claim.conditions:
            level = f"{100 * one.level:g} % interval" if one.level else ""
            if one.value is not None:
                said = claimed_text(one.measured, one.claimed, one.value, one.low, one.high, level)
                yield f"  {said}, n = {one.questions:,}"
            if one.reason:
                yield f"  {one.reason}"
            elif one.decision == "cannot tell":
                yield f"  {WIDE}"


def claim_table(claims: Sequence[ClaimVerdict]) -> TextTable:
    """A line for each condition of the claims."""
    return TextTable(
        key="claims",
        title="Claims",
        columns=(
            Column("claim", right=False),
            Column("stands", right=False),
            Column("measured"),
            Column("interval"),
            Column("n"),
            Column("by", right=False),
        ),
        rows=tuple(
            (
                claim.claim if len(claim.conditions) == 1 else f"{one.measured} {one.claimed}",
                one.decision,
                UNKNOWN if one.value is None else f"{one.value:.4g}",
                _interval(one),
                f"{one.questions:,}",
                score_words(claim.scorer),
            )
            for claim in claims
            for one in claim.conditions
        ),
    )


def _interval(one: ConditionVerdict) -> str:
    if one.low is None or one.high is None or one.level is None:  # without a level the estimate decided
        return UNKNOWN
    return f"{one.low:.4g} to {one.high:.4g}, {100 * one.level:g} %"


def against_lines(conditions: Sequence[ConditionAgainst]) -> Iterator[str]:
    """The questions that speak against claims: what was answered, and what is right."""
    for each in conditions:
        claimed = f"{one_line(each.measured)} {each.claimed}"
        if not each.count:
            yield f"No question speaks against {claimed}; {each.alike:,} without a difference"
            continue
        speaks = "speaks" if each.count == 1 else "speak"
        yield f"{number_of(each.count, 'question')} {speaks} against {claimed}:"
        for one in each.questions:
            right = f"right is {one_line(one.gold, 60)}; " if one.gold else ""
            yield f"  {one_line(one.question_id)}: {right}{', '.join(map(_answer, one.answers)) or 'not asked yet'}"
        if each.count > len(each.questions):
            yield f"  … and {each.count - len(each.questions):,} more"
        if each.alike:
            yield f"  {each.alike:,} without a difference"


def _answer(given: GivenAnswer) -> str:
    agent = one_line(given.agent, 60)
    if given.reason:
        return f"{agent} {given.outcome.replace('_', ' ')}: {one_line(given.reason, 120)}"
    read = one_line(given.prediction, 60) if given.prediction else "a text without an answer"
    if given.outcome != "answered":
        return f"{agent} {given.outcome.replace('_', ' ')}"
    return f"{agent} answered {read}{' (right)' if given.right else ''}"
