"""The projected cost and time of a run as text."""

from __future__ import annotations

from collections.abc import Callable

from ragrounds.evals.engine.progress import AgentProjection, ProjectedSum, Projection
from ragrounds.ui.text import dollars, duration, one_line, tokens


def projection_text(projection: Projection) -> str:
    """Return a projection in a few lines: every agent, and the total."""
    seen = min(agent.seen for agent in projection.agents)
    lines = [f"Estimate for the remaining attempts (from {seen:,} per agent, 95 % intervals):"]
    for agent in projection.agents:
        expected = _amounts_text(agent)
        lines.append(f"  {one_line(agent.name)}: {agent.attempts:,} attempts, {expected}")
    if len(projection.agents) > 1:
        lines.append(f"  total (upper bound): {_amounts_text(projection)}")
    lines.append(
        f"  time: {interval_text(projection.seconds, duration)} with {projection.in_flight:,} attempts in flight"
    )
    if projection.repeated:
        lines.append(f"  and at the end the last calls of {projection.repeated:,} questions of each agent once more")
    if projection.processor_bound:
        lines.append("  This machine sets the pace, not the servers: more in flight changes nothing, more workers do.")
    if projection.cost is not None and projection.cost.value:
        lines.append("  Dollars and time count every call in full; cached and shared calls take less.")
    return "\n".join(lines)


def _amounts_text(projection: AgentProjection | Projection) -> str:
    parts = [f"{projection.model_calls.value:,.0f} model calls"]
    parts += [f"{projection.searches.value:,.0f} searches"] if projection.searches.value else []
    parts.append(
        "tokens not known" if projection.tokens is None else f"{interval_text(projection.tokens, tokens)} tokens"
    )
    parts.append("cost not known" if projection.cost is None else interval_text(projection.cost, dollars))
    return ", ".join(parts)


def interval_text(projected: ProjectedSum, write: Callable[[float], str]) -> str:
    """Return a projected sum with its interval."""
    if projected.low is None or projected.high is None:
        return write(projected.value)
    low, value, high = write(projected.low), write(projected.value), write(projected.high)
    return value if low == high else f"{value} ({low} to {high})"
