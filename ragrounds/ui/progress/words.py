"""What is said of a run while it is made: its projection, and the claim that may end it early."""

from __future__ import annotations

from collections.abc import Callable

from ragrounds.evals.compare.claims import ClaimState, ConditionState
from ragrounds.evals.compare.sequential_stop import StopRecord
from ragrounds.evals.engine.progress import ProjectedSum, Projection
from ragrounds.evals.scorers import described
from ragrounds.ui.text import dollars, duration, one_line, p_value, safe, tokens


def projection_text(found: Projection) -> str:
    """A projection in a few lines: every agent, and all together."""
    seen = min(agent.seen for agent in found.agents)
    lines = [f"Projected from {seen:,} attempts an agent, for those that are left (95 % intervals):"]
    for agent in found.agents:
        took = _took(agent.calls, agent.tokens, agent.cost)
        lines.append(f"  {one_line(agent.agent)}: {agent.attempts:,} attempts, {took}")
    if len(found.agents) > 1:
        lines.append(f"  together, if they share no call: {_took(found.calls, found.tokens, found.cost)}")
    lines.append(f"  time: {_span(found.seconds, duration)} with {found.in_flight:,} attempts in flight")
    if found.cost is not None and found.cost.value:
        lines.append("  Dollars are uncached; what the journal answers, or agents share, costs less.")
    return "\n".join(lines)


def dollars_span(cost: ProjectedSum) -> str:
    """Dollars with their interval."""
    return _span(cost, dollars)


def duration_span(seconds: ProjectedSum) -> str:
    """Time with its interval."""
    return _span(seconds, duration)


def _took(calls: ProjectedSum, used: ProjectedSum | None, cost: ProjectedSum | None) -> str:
    said = [f"{calls.value:,.0f} calls"]
    said.append("tokens not known" if used is None else f"{_span(used, tokens)} tokens")
    said.append("cost not known" if cost is None else _span(cost, dollars))
    return ", ".join(said)


def _span(found: ProjectedSum, written: Callable[[float], str]) -> str:
    if found.low is None or found.high is None:
        return written(found.value)
    low, value, high = written(found.low), written(found.value), written(found.high)
    return value if low == high else f"{value} ({low} to {high})"


def live_claim_text(state: ClaimState) -> str:
    """How a claim that may end a run early stands now, in a line."""
    conditions = "; ".join(_interval(one) for one in state.conditions)
    return f"{one_line(state.claim)}: {state.decision}, {conditions} after {state.questions:,} questions"


def stop_text(record: StopRecord) -> str:
    """What came of such a claim: the decision, every condition with its interval and p value, why the run ended."""
    state = record.state
    lines = [f"{state.decision}: {safe(state.claim)}   ({score_words(record.scorer)})"]
    for one in state.conditions:
        left_out = f", {one.missing:,} without a score left out" if one.missing else ""
        p = "" if one.p is None else f", p = {p_value(one.p)}".replace("= <", "< ")
        lines.append(f"  {_interval(one)} (always valid){p}, n = {one.rounds:,}{left_out}")
    counted = f"  {state.questions:,} questions, in the order drawn by --seed {record.seed}"
    lines.append(f"{counted}; {safe(record.reason)}" if record.reason else counted)
    return "\n".join(lines)


def _interval(one: ConditionState) -> str:
    if one.value is None or one.low is None or one.high is None:
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
