"""The state of claims in words and as a table, and the questions that speak against them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragrounds.evals.compare.stopped_runs import WIDE, ClaimVerdict, ConditionVerdict, StopRecord
from ragrounds.evals.scorers import described
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.text import UNKNOWN, number_of, one_line, p_value, safe

_MAX_NAMED = 8
"""Number of questions that are named for a condition."""


def claim_lines(claims: Sequence[ClaimVerdict]) -> Iterator[str]:
    """Yield each claim with its decision, and below it the measured values."""
    for claim in claims:
        yield f"{claim.decision}: {safe(claim.claim)}   ({score_words(claim.scorer)})"
        for condition in claim.conditions:
            level = f"{100 * condition.level:g} % interval" if condition.level else ""
            if condition.value is not None:
                statement = claimed_text(
                    condition.measured, condition.claimed, condition.value, condition.low, condition.high, level
                )
                yield f"  {statement}, n = {condition.questions:,}"
            if condition.reason:
                yield f"  {condition.reason}"
            elif condition.decision == "undecided":
                yield f"  {WIDE}"


def claim_table(claims: Sequence[ClaimVerdict]) -> TextTable:
    """Return a table with a line for each condition of the claims."""
    claimed = [(claim, condition) for claim in claims for condition in claim.conditions]
    columns = (
        words(
            "claim",
            lambda row: row[0].claim if len(row[0].conditions) == 1 else f"{row[1].measured} {row[1].claimed}",
        ),
        words("result", lambda row: row[1].decision),
        Column("measured", lambda row: row[1].value),
        Column("interval", lambda row: _interval_text(row[1])),
        Column("n", lambda row: row[1].questions),
        words("by", lambda row: score_words(row[0].scorer)),
    )
    return table_of("claims", claimed, columns, title="Claims")


def _interval_text(condition: ConditionVerdict) -> str:
    if (
        condition.low is None or condition.high is None or condition.level is None
    ):  # without a level the estimate decided
        return UNKNOWN
    return f"{condition.low:.4g} to {condition.high:.4g}, {100 * condition.level:g} %"


def against_lines(claims: Sequence[ClaimVerdict]) -> Iterator[str]:
    """Yield the questions that speak against claims which do not hold."""
    for condition in (
        condition for claim in claims for condition in claim.conditions if condition.against_count or condition.alike
    ):
        claimed = f"{one_line(condition.measured)} {condition.claimed}"
        if not condition.against_count:
            yield f"No question speaks against {claimed}; {condition.alike:,} without a difference"
            continue
        speaks = "speaks" if condition.against_count == 1 else "speak"
        yield f"{number_of(condition.against_count, 'question')} {speaks} against {claimed}:"
        yield f"  {', '.join(map(one_line, condition.against[:_MAX_NAMED]))}"
        if condition.against_count > _MAX_NAMED:
            yield f"  … and {condition.against_count - _MAX_NAMED:,} more"
        if condition.alike:
            yield f"  {condition.alike:,} without a difference"


def live_claim_text(state: ClaimVerdict) -> str:
    """Return the current state of a claim that may end a run early, in a line."""
    conditions = "; ".join(_condition_text(condition) for condition in state.conditions)
    return f"{one_line(state.claim)}: {state.decision}, {conditions} after {state.questions:,} questions"


def stop_text(record: StopRecord) -> str:
    """Return how a claim ended a run: the decision, each condition with its interval and p value, and the reason."""
    state = record.state
    lines = [f"{state.decision}: {safe(state.claim)}   ({score_words(record.scorer)})"]
    for condition in state.conditions:
        left_out = f", {condition.missing:,} without a score left out" if condition.missing else ""
        p = "" if condition.p is None else f", p = {p_value(condition.p)}".replace("= <", "< ")
        lines.append(f"  {_condition_text(condition)} (always valid){p}, n = {condition.rounds:,}{left_out}")
    draws = max((condition.rounds + condition.missing for condition in state.conditions), default=0)
    drawn = f" in {draws:,} draws (n: one of each dataset, with its duplicates)" if draws < state.questions else ""
    counted = f"  {number_of(state.questions, 'question')}{drawn}, in the random order of --seed {record.seed}"
    lines.append(f"{counted}; {safe(record.reason)}" if record.reason else counted)
    return "\n".join(lines)


def _condition_text(condition: ConditionVerdict) -> str:
    if condition.value is None or condition.low is None or condition.high is None or condition.level is None:
        return "nothing counted yet"
    return claimed_text(
        condition.measured,
        condition.claimed,
        condition.value,
        condition.low,
        condition.high,
        f"{100 * condition.level:g} % interval",
    )


def score_words(scorer: str) -> str:
    """Return ``accuracy by mirage``, or ``score by rouge-l`` if a score of 1 does not mean a right answer."""
    return f"{'accuracy' if described(scorer).accuracy else 'score'} by {scorer}"


def claimed_text(measured: str, claimed: str, value: float, low: float | None, high: float | None, which: str) -> str:
    """Return a measured value with its interval, and what was claimed of it.

    Args:
        measured: ``accuracy(a) - accuracy(b)``; if empty, "left - right" is written.
        claimed: ``> 0.02``.
        value, low, high: the measured value and its interval; there is no interval if `low` or `high` is not known.
        which: name of the interval; empty if no interval is wanted.
    """
    ends = ", no interval" if low is None or high is None else f", {which} {low:.4g} to {high:.4g}"
    claim = f", claimed: {one_line(claimed)}" if claimed else ""
    return f"{one_line(measured) or 'left - right'} = {value:.4g}{ends if which else ''}{claim}"
