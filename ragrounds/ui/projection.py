"""What is about to be made, and what it may cost."""

from __future__ import annotations

from collections.abc import Callable

from ragrounds.evals.engine.progress import AgentProjection, ProjectedSum, Projection
from ragrounds.ui.text import dollars, duration, one_line, tokens


def projection_text(found: Projection) -> str:
    """A projection in a few lines: every agent, and all together."""
    seen = min(agent.seen for agent in found.agents)
    lines = [f"Projected from {seen:,} attempts an agent, for those that are left (95 % intervals):"]
    for agent in found.agents:
        took = _took(agent)
        lines.append(f"  {one_line(agent.agent)}: {agent.attempts:,} attempts, {took}")
    if len(found.agents) > 1:
        lines.append(f"  together, if they share no call: {_took(found)}")
    lines.append(f"  time: {_span(found.seconds, duration)} with {found.in_flight:,} attempts in flight")
    if found.processor_bound:
        lines.append("  This machine sets the pace, not the servers: more in flight changes nothing, more workers do.")
    if found.cost is not None and found.cost.value:
        lines.append("  Dollars are the full price; cached calls, and those that agents share, cost less.")
    return "\n".join(lines)


def dollars_span(cost: ProjectedSum) -> str:
    """Dollars with their interval."""
    return _span(cost, dollars)


def duration_span(seconds: ProjectedSum) -> str:
    """Time with its interval."""
    return _span(seconds, duration)


def _took(found: AgentProjection | Projection) -> str:
    said = [f"{found.model_calls.value:,.0f} model calls"]
    said += [f"{found.searches.value:,.0f} searches"] if found.searches.value else []
    said.append("tokens not known" if found.tokens is None else f"{_span(found.tokens, tokens)} tokens")
    said.append("cost not known" if found.cost is None else _span(found.cost, dollars))
    return ", ".join(said)


def _span(found: ProjectedSum, written: Callable[[float], str]) -> str:
    if found.low is None or found.high is None:
        return written(found.value)
    low, value, high = written(found.low), written(found.value), written(found.high)
    return value if low == high else f"{value} ({low} to {high})"
