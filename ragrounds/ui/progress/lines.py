"""Progress of runs in lines, for logs and pipes: a line of words or a line of JSON."""

from __future__ import annotations

import time

from ragrounds.base.spent import Spent
from ragrounds.evals.engine.live_score import ENOUGH
from ragrounds.evals.scorers import described
from ragrounds.ui.call_words import fault_word, plain_reason
from ragrounds.ui.progress.facts import AgentProgress, BudgetUse, ProgressFacts, SeenFaults
from ragrounds.ui.progress.screen import footer_lines, server_words
from ragrounds.ui.tables.comparison_tables import interval
from ragrounds.ui.text import UNKNOWN, dollars, duration, in_scale, one_line, tokens

_FEW = 4
"""Number of runs up to which a line shows scores."""
_NODES = 5
"""Nodes that are named."""


def time_left(facts: ProgressFacts) -> str:
    """Return the estimated remaining time in words; empty if it is not known, or if no attempt follows."""
    return f"{duration(facts.seconds_left)} left" if facts.seconds_left else ""


def counts_line(facts: ProgressFacts) -> str:
    """Return the counts of all runs in one short line."""
    outcomes, spent = facts.outcomes, facts.spent
    empty = f"{outcomes['empty']:,} empty, " if outcomes["empty"] else ""
    return (
        f"{facts.done:,} of {facts.total:,} attempts, {facts.rate:.1f}/s, {outcomes['failed']:,} failed, {empty}"
        f"{at_least(spent, spent.cost_paid)} paid"
    )


def progress_line(facts: ProgressFacts) -> str:
    """Return the counts of all runs, the time left, scores, calls in flight, failures and the budget in one line."""
    flying, failed, retried = flying_words(facts), fault_words(facts.failed), fault_words(facts.retried)
    stopping = footer_lines(len(facts.flying), "attempt", facts.asked_to_stop)[0] if facts.asked_to_stop else ""
    servers = server_words(facts.servers) if flying else []
    rest = (_scores(facts), f"in flight: {flying}" if flying else "", f"failed: {failed}" if failed else "",
            f"tried again: {retried}" if retried else "", *servers, journal_words(facts),
            budget_words(facts), one_line(facts.until, 1000), stopping)  # fmt: skip
    counts = ", ".join(filter(None, (counts_line(facts), time_left(facts))))
    return "; ".join((counts, *filter(None, rest)))


def at_least(spent: Spent, cost: float | None) -> str:
    """Return a cost, as a lower bound if a provider may bill requests without an answer."""
    if spent.unanswered and not cost:
        return dollars(None)
    return f"{'≥ ' if spent.unanswered else ''}{dollars(cost)}"


def _score(agent: AgentProgress) -> str:
    if agent.figure.value is None:
        return UNKNOWN
    unit = described(agent.scorer).unit
    return f"{in_scale(agent.figure.value, unit)} ({agent.scorer}) {interval(agent.figure, unit)}"


def flying_words(facts: ProgressFacts) -> str:
    """Count the attempts in flight, and those at a node by node; empty if there are none."""
    if not facts.flying:
        return ""
    nodes, rest = list(facts.nodes.items())[:_NODES], sum(list(facts.nodes.values())[_NODES:])
    places = [f"{one_line(node, 24)} {count:,}" for node, count in nodes] + [f"elsewhere {rest:,}"] * bool(rest)
    longest = duration(time.time() - min(attempt.started_at for attempt in facts.flying))
    where = f" ({', '.join(places)})" if places else ""
    return f"{len(facts.flying):,}{where}, longest {longest}"


def fault_words(seen: SeenFaults) -> str:
    """Count the faults by kind in words and quote the last message; empty if nothing failed."""
    if not seen.kinds:
        return ""
    kinds = ", ".join(f"{count:,} {one_line(fault_word(kind), 60)}" for kind, count in seen.kinds.items())
    ago = "" if seen.age is None else f", last {duration(seen.age)} ago"
    return f"{kinds}{ago}: {one_line(plain_reason(seen.last)[1], 300)}"


def journal_words(facts: ProgressFacts) -> str:
    """Return the share of model calls that the journal answered."""
    if facts.calls_made is None or facts.calls_reused is None:
        return ""
    calls = facts.calls_made + facts.calls_reused
    if not calls:
        return ""
    return (
        f"{facts.calls_reused:,} of {calls:,} model calls from the journal ({100 * facts.calls_reused / calls:.0f} %)"
    )


def budget_words(facts: ProgressFacts) -> str:
    """Return the used part of this command's budget."""
    return ", ".join(map(_budget_part, facts.budget))


def _budget_part(part: BudgetUse) -> str:
    format_amount = {"dollars": dollars, "seconds": duration}.get(part.unit, tokens)
    limit = format_amount(part.limit) + (" tokens" if part.unit == "tokens" else "")
    if part.used is None:
        return f"budget used: unknown, of {limit}"
    share = f" ({int(100 * part.used / part.limit)} %)" if part.limit else ""
    return f"budget used: {format_amount(part.used)} of {limit}{share}"


def _scores(facts: ProgressFacts) -> str:
    """Return the score of each agent; empty if there are too many agents."""
    agents, names = facts.agents, facts.short_names
    if len(agents) > _FEW or not any(agent.figure.value is not None for agent in agents):
        return ""
    scores = ", ".join(f"{names[agent.run]} {_score(agent)}" for agent in agents)
    return f"{'score' if all(agent.dataset for agent in agents) else 'average'} so far{pooled_words(facts)}: {scores}"


def pooled_words(facts: ProgressFacts) -> str:
    """Return a remark while the average is not yet one over datasets; otherwise empty."""
    return (
        f", of all questions alike until each dataset has {ENOUGH}"
        if any(agent.pooled_yet for agent in facts.agents)
        else ""
    )
