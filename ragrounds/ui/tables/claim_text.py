"""How claims stand, in words and as a table; and which questions speak against them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragrounds.evals.claims.assertions import WIDE
from ragrounds.evals.compare.stopped_runs import ClaimVerdict, ConditionVerdict, StopRecord
from ragrounds.evals.scorers import described
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.text import UNKNOWN, number_of, one_line, p_value, safe

_SHOWN = 8
"""Questions that are named of a condition."""


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
            elif one.decision == "undecided":
                yield f"  {WIDE}"


def claim_table(claims: Sequence[ClaimVerdict]) -> TextTable:
    """A line for each condition of the claims."""
    claimed = [(claim, one) for claim in claims for one in claim.conditions]

    def claimed_by(row: tuple[ClaimVerdict, ConditionVerdict]) -> str:
        """The claim, or one of its conditions."""
        return row[0].claim if len(row[0].conditions) == 1 else f"{row[1].measured} {row[1].claimed}"

    columns = (
        words("claim", claimed_by),
        words("result", lambda row: row[1].decision),
        Column("measured", lambda row: row[1].value),
        Column("interval", lambda row: _interval(row[1])),
        Column("n", lambda row: row[1].questions),
        words("by", lambda row: score_words(row[0].scorer)),
    )
    return table_of("claims", claimed, columns, title="Claims")


def _interval(one: ConditionVerdict) -> str:
    if one.low is None or one.high is None or one.level is None:  # without a level the estimate decided
        return UNKNOWN
    return f"{one.low:.4g} to {one.high:.4g}, {100 * one.level:g} %"


def against_lines(claims: Sequence[ClaimVerdict]) -> Iterator[str]:
    """The questions that speak against claims which do not hold."""
    for one in (one for claim in claims for one in claim.conditions if one.against_count or one.alike):
        claimed = f"{one_line(one.measured)} {one.claimed}"
        if not one.against_count:
            yield f"No question speaks against {claimed}; {one.alike:,} without a difference"
            continue
        speaks = "speaks" if one.against_count == 1 else "speak"
        yield f"{number_of(one.against_count, 'question')} {speaks} against {claimed}:"
        yield f"  {', '.join(map(one_line, one.against[:_SHOWN]))}"
        if one.against_count > _SHOWN:
            yield f"  … and {one.against_count - _SHOWN:,} more"
        if one.alike:
            yield f"  {one.alike:,} without a difference"


def live_claim_text(state: ClaimVerdict) -> str:
    """How a claim that may end a run early stands now, in a line."""
    conditions = "; ".join(_condition(one) for one in state.conditions)
    return f"{one_line(state.claim)}: {state.decision}, {conditions} after {state.questions:,} questions"


def stop_text(record: StopRecord) -> str:
    """What came of such a claim: the decision, every condition with its interval and p value, why the run ended."""
    state = record.state
    lines = [f"{state.decision}: {safe(state.claim)}   ({score_words(record.scorer)})"]
    for one in state.conditions:
        left_out = f", {one.missing:,} without a score left out" if one.missing else ""
        p = "" if one.p is None else f", p = {p_value(one.p)}".replace("= <", "< ")
        lines.append(f"  {_condition(one)} (always valid){p}, n = {one.rounds:,}{left_out}")
    counted = f"  {state.questions:,} questions, in the order drawn by --seed {record.seed}"
    lines.append(f"{counted}; {safe(record.reason)}" if record.reason else counted)
    return "\n".join(lines)


def _condition(one: ConditionVerdict) -> str:
    if one.value is None or one.low is None or one.high is None or one.level is None:
        return "nothing counted yet"
    return claimed_text(one.measured, one.claimed, one.value, one.low, one.high, f"{100 * one.level:g} % interval")


def score_words(scorer: str) -> str:
    """``accuracy by mirage``; of a score whose 1 is no right answer ``score by rouge-l``."""
    return f"{'accuracy' if described(scorer).accuracy else 'score'} by {scorer}"


def claimed_text(measured: str, claimed: str, value: float, low: float | None, high: float | None, which: str) -> str:
    """What was measured with its interval, and what was claimed of it.

    Args:
        measured: ``accuracy(a) - accuracy(b)``; empty: the left side less the right side.
        claimed: ``> 0.02``.
        value, low, high: of what was measured; without ends there is no interval.
        which: names the interval; empty: none was asked for.
    """
    ends = ", no interval" if low is None or high is None else f", {which} {low:.4g} to {high:.4g}"
    said = f", claimed: {one_line(claimed)}" if claimed else ""
    return f"{one_line(measured) or 'left - right'} = {value:.4g}{ends if which else ''}{said}"
