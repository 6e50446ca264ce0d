"""Progress of runs as one screen of a given size: agents, failures, the frontier so far, and the effect of Ctrl-C."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from ragrounds.evals.compare.frontier import frontier_so_far
from ragrounds.evals.scorers import described
from ragrounds.ui.columns import Column, words
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.pictures.frontier import frontier_picture
from ragrounds.ui.progress.facts import AgentProgress, ProgressFacts
from ragrounds.ui.progress.lines import (
    at_least,
    budget_words,
    fault_words,
    flying_words,
    journal_words,
    pooled_words,
    time_left,
)
from ragrounds.ui.progress.screen import footer_lines, line, page, rule, server_words, title
from ragrounds.ui.signs import attempt_sign
from ragrounds.ui.tables.comparison_tables import interval
from ragrounds.ui.tables.table_layout import laid_out
from ragrounds.ui.tables.text_tables import render_band, table_of
from ragrounds.ui.text import UNKNOWN, dollars, duration, in_scale, number_of, one_line, safe, tokens

_PICTURE_LINES = 16, 22
"""Least and greatest number of lines of the frontier: the least that shows its intervals."""
# Of signs alone: no colour of a terminal can be read on each ground, so words have none.
_STYLES = {"right": "green", "wrong": "red", "key": "cyan", "trouble": "yellow", "dim": "dim"}
_LABEL = 13
_SCORE = 1
"""Priority of the score's column: on a narrow terminal, columns with a high number are left out first."""

Parts = list[tuple[RenderableType, int]]
"""Renderables, each with its number of lines."""


def frame(
    facts: ProgressFacts, width: int, height: int, earlier_lines: Sequence[str] = (), viewer: bool = False
) -> RenderableType:
    """Render one screen of `width` columns and `height` lines.

    Parts without room are left out: agents that are done, columns of figures, the frontier, the last results.

    Args:
        facts: progress at this moment.
        width: columns of the terminal.
        height: lines of the terminal.
        earlier_lines: other output, in lines; the last ones are shown.
        viewer: True if the key `v` opens the viewer.
    """
    head = [title("ragrounds run", safe(facts.benchmark, 60), facts.seconds), _bar(facts, width)]
    about = _about(facts)
    agents = _agents(facts, width, max(1, height - len(head) - min(len(about), 3) - 5))
    recent = _recent(facts, width)
    free = height - len(head) - sum(lines for _, lines in (*agents, *about, *recent)) - 1
    parts = [*agents, *about, *_frontier(facts, width, free), *recent]
    foot = footer_lines(len(facts.flying), "attempt", facts.asked_to_stop)
    if viewer and not facts.asked_to_stop:
        foot = [*(f"{wording} v opens the viewer." for wording in foot), *foot]
    return page(head, parts, earlier_lines, foot, width, height)


def table_parts(facts: ProgressFacts, width: int = 160) -> list[RenderableType]:
    """Render the agents and remarks on them without attempts in flight, for a notebook's cell."""
    return [part for part, _ in (*_agents(facts, width, len(facts.agents)), *_about(facts))]


def _bar(facts: ProgressFacts, width: int) -> RenderableType:
    share = facts.done / facts.total if facts.total else 1.0
    # Rounded down: 100 % is shown only if everything is done.
    done = min(99, int(100 * share)) if share < 1 else 100
    highest = max(facts.trend, default=0)  # of the rate over time, as bars: ▁▃▇
    spark = "".join("▁▂▃▄▅▆▇█"[min(7, 8 * count // (highest + 1))] for count in facts.trend) if highest else ""
    counts = f"{facts.done:,} of {facts.total:,} attempts ({done} %)  {facts.rate:.1f}/s {spark} {time_left(facts)}"
    if width < 2 * len(counts):
        return line(counts)
    grid = Table.grid(padding=(0, 2, 0, 0))
    size = min(width // 2 - 4, 40)
    grid.add_row(ProgressBar(max(facts.total, 1), facts.done, width=size, complete_style="green"), counts)
    return grid


def _recent(facts: ProgressFacts, width: int) -> Parts:
    """Render the last results: the answer, and whether it is correct."""
    names = facts.short_names
    grid = Table.grid(padding=(0, 2, 0, 0))
    for recent in facts.recent:
        sign, style = attempt_sign(recent.outcome, recent.value)
        ended = recent.prediction if recent.outcome == "answered" else recent.outcome.replace("_", " ")
        name = names.get(recent.run, "") if len(names) > 1 else ""
        answer = line((sign, _STYLES[style]), f" {one_line(ended, 20)}")
        grid.add_row(answer, line(name), line(duration(recent.seconds)))
    return [(Group(rule("last results", width), grid), len(facts.recent) + 1)] if facts.recent else []


def _about(facts: ProgressFacts) -> Parts:
    """Render what concerns all agents, one line each: failures, servers, costs, the journal, the claim."""
    spent = facts.spent
    price = f"{at_least(spent, spent.cost_paid)} paid, full price {at_least(spent, spent.cost_uncached)}"
    cost = "; ".join(filter(None, (price, budget_words(facts))))
    remarks = [
        ("failed", fault_words(facts.failed)),
        ("tried again", fault_words(facts.retried)),
        *(("server", server.removeprefix("http://")) for server in server_words(facts.servers)),
        ("in flight", flying_words(facts)),
        ("cost", cost),
        ("journal", journal_words(facts)),
        ("claim", one_line(facts.until, 1000)),
    ]
    return [(line((f"{label:<{_LABEL}}", "bold"), text), 1) for label, text in remarks if text]


def _agents(facts: ProgressFacts, width: int, max_lines: int) -> Parts:
    """Render a line per agent with the columns of the run's table: done, score with its interval, outcomes, cost."""
    visible = list(facts.agents)
    if len(visible) > max_lines:
        # Agents that are done are left out first; the order stays.
        by_need = sorted(visible, key=lambda agent: agent.done >= agent.total)[: max(1, max_lines - 1)]
        visible = [agent for agent in visible if agent in by_need]
    parts: Parts = []
    if scorer := next((agent.scorer for agent in facts.agents if agent.scorer), ""):
        scorer_info = described(scorer)
        unit = f"{scorer_info.unit}{', lower is better' if scorer_info.direction == 'lower' else ''}"
        remark = f" so far{pooled_words(facts)}; {scorer_info.summary}"
        parts.append((line((f"{scorer}, {unit}", "bold"), remark), 1))
    bands, _ = laid_out(table_of("live", visible, _columns(facts)), width)
    if len(bands) == 1 and bands[0].table.columns[0].name == "agent":
        parts.append((render_band(bands[0]), len(visible) + bands[0].heading_lines))
    else:
        names = facts.short_names
        parts += [(line(f"{names[agent.run]} {agent.done:,}/{agent.total:,}"), 1) for agent in visible]
    rest = [agent for agent in facts.agents if agent not in visible]
    if rest:
        done, total = sum(agent.done for agent in rest), sum(agent.total for agent in rest)
        parts.append((line(f"and {number_of(len(rest), 'more agent')}: {done:,} of {total:,} attempts"), 1))
    return parts


def _columns(facts: ProgressFacts) -> list[Column]:
    def scale(agent: AgentProgress, value: float | None) -> str:
        return in_scale(value, described(agent.scorer).unit) if agent.scorer else UNKNOWN

    def ends(agent: AgentProgress) -> str:
        """Return the interval of the score."""
        return interval(agent.figure, described(agent.scorer).unit) if agent.scorer else UNKNOWN

    def outcome(name: str, spare: int) -> Column:
        """Return the column of an outcome."""
        return Column(name.replace("_", " "), lambda agent: agent.outcomes.get(name, 0), spare=spare)

    unanswered = attrgetter("spent.unanswered")
    one_dataset, names = all(agent.dataset for agent in facts.agents), facts.short_names
    has_pooled = any(agent.pooled != agent.average for agent in facts.agents)
    score = facts.agents[0].dataset.rpartition("/")[2] if one_dataset and facts.agents else "average"
    return [
        words("agent", lambda agent: names[agent.run], unfolded=True),
        Column("done", lambda agent: f"{agent.done:,}/{agent.total:,}"),
        Column(one_line(score, 16) or "score", lambda agent: scale(agent, agent.figure.value), spare=_SCORE),
        *([Column("pooled", lambda agent: scale(agent, agent.pooled), spare=11)] if has_pooled else []),
        Column("95 %", ends, spare=2),
        Column("n", "figure.n", spare=5),
        *([Column("running", "in_flight", spare=6)] if facts.flying else []),
        outcome("answered", 8),
        outcome("failed", 3),
        *(outcome(name, 7) for name in facts.outcomes if name not in ("answered", "failed")),
        Column("tokens", "spent.tokens", tokens, spare=9, least_where=unanswered),
        Column("full price", "spent.cost_uncached", dollars, spare=10, least_where=unanswered),
    ]


def _frontier(facts: ProgressFacts, width: int, height: int) -> Parts:
    """Render the frontier so far, if at least `height` lines are enough for its intervals."""
    scorer = next((agent.scorer for agent in facts.agents if agent.scorer), "")
    if not scorer or described(scorer).unit != "percent" or described(scorer).direction != "higher":
        return []
    frontier = frontier_so_far(
        {agent.run: agent.figure for agent in facts.agents},
        {agent.run: agent.spent for agent in facts.agents},
        {agent.run: agent.done for agent in facts.agents},
    )
    if frontier is None or height < _PICTURE_LINES[0]:
        return []
    picture = draw(frontier_picture(frontier, scorer, facts.short_names), width, min(height - 2, _PICTURE_LINES[1]))
    return [(Group(rule("so far", width), picture), picture.plain.count("\n") + 2)]
