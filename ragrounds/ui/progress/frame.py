"""A run's facts as one screen of a given size: who is how far, what is in flight, what failed, what a Ctrl-C does."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ragrounds.evals.engine.in_flight import LiveAttempt
from ragrounds.evals.scorers import described
from ragrounds.ui.columns import Column
from ragrounds.ui.comparison_tables import interval
from ragrounds.ui.progress.facts import AgentProgress, ProgressFacts
from ragrounds.ui.progress.lines import (
    budget_words,
    doing_words,
    fault_words,
    journal_words,
    longest,
    node_words,
    server_lines,
    stop_words,
)
from ragrounds.ui.text import UNKNOWN, dollars, duration, in_scale, number_of, one_line, safe, tokens

_GAP = 2
_AGENT = (12, 40)
"""Columns of an agent's name: at least, at most."""
_SAID = 4
"""Lines of what others said that are shown at most while there is more to show."""
_TALL = 30
"""Lines of a screen that has room for all of these."""
_SHORT = 9
"""Lines below which the agents have neither caption nor a line of those left out."""
_ROOMY = 120
"""Columns of a screen that has room for how far each attempt in flight is."""
_LABEL = 13
_TOOK = 10
"""Columns of how long something has been in flight."""
_NARROW_BAR, _WIDE_BAR = 12, 24
_SCORE = 1
"""How soon the score is left out where the terminal is narrow: columns of a high number are first."""


def frame(facts: ProgressFacts, width: int, height: int, said: Sequence[str] = ()) -> list[RenderableType]:
    """One screen of at most `width` columns and `height` lines. What has no room is left out: columns of figures,
    attempts in flight (the longest are shown), agents (those that are done go first).

    Args:
        facts: of this moment.
        width: columns of the terminal.
        height: its lines.
        said: what else was said, in lines; the last are shown.
    """
    head = _head(facts, width)
    foot = _foot(facts, width)
    about = _about(facts, width)
    roomy = height >= 20
    # The agents come first; a screen without room for all of them names how many are left out.
    room = height - len(head) - len(foot) - 3 * roomy
    agents = _agents(facts, width, max(1, min(len(facts.agents), room - 2 - min(len(about), 3))))
    if height < _SHORT:
        agents = [part for part in agents if isinstance(part, Table)]
    about = about[: max(0, room - _count(agents))]
    room -= _count(agents) + len(about)
    lines = [cut(line, width) for line in said if line.strip()]
    least = _SAID if height >= _TALL else _SAID // 2
    mine = min(len(lines), max(least, room - len(facts.flying) - 3), max(0, room // 2))
    flying = _flying(facts, width, room - mine - (1 if mine else 0))
    room -= len(flying)
    parts: list[RenderableType] = [*head, *([Text("")] if roomy else []), *agents]
    parts += [*([Text("")] if roomy else []), *about, *flying]
    if mine and room > 1:
        parts += [Text(rule("said", width), style="dim"), *(Text(line, style="dim") for line in lines[-mine:])]
        room -= mine + 1
    return [*parts, *[Text("")] * max(0, height - len(foot) - _count(parts)), *foot]


def table_parts(facts: ProgressFacts, width: int = 160) -> list[RenderableType]:
    """The agents and what is to be said of them, without attempts in flight: for a notebook's cell."""
    return [*_agents(facts, width, len(facts.agents)), *_about(facts, width)]


def _count(parts: Sequence[RenderableType]) -> int:
    return sum(part.row_count + bool(part.columns[0].header) if isinstance(part, Table) else 1 for part in parts)


def _head(facts: ProgressFacts, width: int) -> list[RenderableType]:
    """What is run and for how long; a bar over all attempts."""
    many = number_of(len(facts.agents), "agent")
    title = Text.assemble((" ragrounds run ", "bold reverse"), "  ", (safe(facts.benchmark, 60), "bold"), f"  {many}")
    took = duration(facts.seconds)
    title.truncate(max(1, width - len(took) - 1), overflow="ellipsis")
    title.append(" " * max(1, width - title.cell_len - len(took)) + took, style="dim")
    left = f"{duration(facts.seconds_left)} left" if facts.seconds_left is not None else "time left not known yet"
    share = facts.done / facts.total if facts.total else 1.0
    words = f"{facts.done:,} of {facts.total:,} attempts ({_share(share)})  {facts.rate:.1f}/s  {left}"
    room = width - cell_len(words) - _GAP
    if room < _NARROW_BAR:
        return [title, Text(words)]
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_row(ProgressBar(total=max(facts.total, 1), completed=facts.done, width=min(room, 40)), Text(words))
    return [title, grid]


def _share(share: float) -> str:
    # Nothing is done to the last before it is.
    return f"{min(99, int(100 * share)) if share < 1 else 100} %"


def _foot(facts: ProgressFacts, width: int) -> list[RenderableType]:
    """What a Ctrl-C does now, or what the one that was pressed does: in as many words as there is room for."""
    waiting = len(facts.flying)
    if facts.asked_to_stop:
        short = f"Stopping: {waiting:,} in flight awaited; Ctrl-C again stops at once."
        ways = [f"{stop_words(facts)}.", short if facts.asked_to_stop == 1 else "Stopping at once."]
        ways = [f"{way[0].upper()}{way[1:]}" for way in ways]
        return [Text(widest(ways, width), style="bold yellow")]
    what = f"the {waiting:,} in flight" if waiting else "what is in flight"
    ways = [
        f"Ctrl-C begins nothing more and finishes {what}; twice stops at once. Nothing done is lost.",
        f"Ctrl-C finishes {what} and ends; twice stops at once.",
        "Ctrl-C ends; twice stops at once.",
    ]
    said = Text(widest(ways, width), style="dim")
    said.highlight_words(["Ctrl-C", "twice"], style="bold not dim")
    return [said]


def widest(ways: Sequence[str], width: int) -> str:
    """The first of these that fits, else the last, cut."""
    return next((way for way in ways if cell_len(way) <= width), cut(ways[-1], width))


def _about(facts: ProgressFacts, width: int) -> list[RenderableType]:
    """What is known of all agents together, a line each: failures, servers, costs, the journal, the claim."""
    paid, uncached = dollars(facts.cost_paid), dollars(facts.cost_uncached)
    lines = [("failed", fault_words(facts.failed), "red"), ("tried again", fault_words(facts.retried), "yellow")]
    lines += [("server", said.removeprefix("http://"), "") for said in server_lines(facts)]
    budget = budget_words(facts)
    lines.append(("cost", f"{paid} paid, {uncached} uncached" + (f"; {budget}" if budget else ""), ""))
    lines.append(("journal", journal_words(facts), ""))
    lines.append(("claim", facts.until, ""))
    return [
        Text.assemble((f"{label:<{_LABEL}}", "dim"), (cut(said, max(8, width - _LABEL)), style))
        for label, said, style in lines
        if said
    ]


def _agents(facts: ProgressFacts, width: int, most: int) -> list[RenderableType]:
    """A line for each agent under the headings of the run's table: done, score with its interval, outcomes, cost."""
    shown = list(facts.agents)
    if len(shown) > most:
        # Those that are done say least; the order stays.
        by_need = sorted(shown, key=lambda one: one.done >= one.total)[: max(1, most - 1)]
        shown = [one for one in shown if one in by_need]
    columns = _columns(facts, shown, width)
    names = [one_line(agent.name, 200) for agent in shown]
    used = sum(_size(one, shown) for one in columns)
    size = max(_AGENT[0], min(max([5, *map(cell_len, names)]), _AGENT[1], width - used))
    bar = min(_WIDE_BAR, width - used - size - _GAP)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    table.add_column("agent", width=size, no_wrap=True, overflow="ellipsis")
    if bar >= _NARROW_BAR:
        table.add_column("", width=bar)
    for one in columns:
        table.add_column(one.name, justify="right", no_wrap=True, overflow="ellipsis")
    for agent, name in zip(shown, names, strict=True):
        bars = [ProgressBar(total=max(agent.total, 1), completed=agent.done, width=bar)] if bar >= _NARROW_BAR else []
        table.add_row(
            Text(name), *bars, *(Text(one.cell(agent), style="bold" if one.spare == _SCORE else "") for one in columns)
        )
    parts: list[RenderableType] = [*_caption(facts, width), table]
    if left := len(facts.agents) - len(shown):
        rest = [one for one in facts.agents if one not in shown]
        done, total = sum(one.done for one in rest), sum(one.total for one in rest)
        parts.append(Text(f"and {number_of(left, 'more agent')}: {done:,} of {total:,} attempts", style="dim"))
    return parts


def _caption(facts: ProgressFacts, width: int) -> list[RenderableType]:
    """Which score it is, as the title of the run's table says it."""
    names = list(dict.fromkeys(agent.scorer for agent in facts.agents if agent.scorer))
    if not names:
        return []
    known = described(names[0])
    lower = ", lower is better" if known.direction == "lower" else ""
    title, about = f"{names[0]}, {known.unit}{lower}", f" so far; {known.summary}"
    said = cut(title + about, width)
    return [Text.assemble((said[: len(title)], "bold"), (said[len(title) :], "dim"))]


def _columns(facts: ProgressFacts, agents: Sequence[AgentProgress], width: int) -> list[Column]:
    """The columns that a terminal of this width has room for."""

    def scale(agent: AgentProgress, value: float | None) -> str:
        return in_scale(value, described(agent.scorer).unit) if agent.scorer else UNKNOWN

    def outcome(name: str, spare: int) -> Column:
        """The column of an outcome."""
        return Column(name.replace("_", " "), lambda agent: agent.outcomes.get(name, 0), spare=spare)

    def ends(agent: AgentProgress) -> str:
        """The interval of the score."""
        return interval(agent.figure, described(agent.scorer).unit) if agent.scorer else UNKNOWN

    alone = all(agent.dataset for agent in facts.agents)
    score = facts.agents[0].dataset.rpartition("/")[2] if alone and facts.agents else "average"
    columns = [
        Column("done", lambda agent: f"{agent.done:,}/{agent.total:,}"),
        Column(one_line(score, 16) or "score", lambda agent: scale(agent, agent.figure.value), spare=_SCORE),
        *([] if alone else [Column("pooled", lambda agent: scale(agent, agent.pooled), spare=11)]),
        Column("95 %", ends, spare=2),
        Column("n", "figure.n", spare=5),
        Column("in flight", "in_flight", spare=6),
        outcome("answered", 8),
        outcome("failed", 3),
        *(outcome(name, 7) for name in facts.outcomes if name not in ("answered", "failed")),
        Column("tokens", text=tokens, spare=9),
        Column("paid", "cost_paid", dollars, spare=4),
        Column("uncached", "cost_uncached", dollars, spare=10),
    ]
    longest_name = max([_AGENT[0], *(cell_len(one_line(agent.name, 200)) for agent in agents)])
    room = width - max(_AGENT[0], min(longest_name, _AGENT[1], width // 4))
    kept: list[Column] = []
    for one in sorted(columns, key=lambda column: column.spare):
        size = _size(one, agents)
        if size > room and one.spare:
            break
        room -= size
        kept.append(one)
    return [one for one in columns if one in kept]


def _size(column: Column, agents: Sequence[AgentProgress]) -> int:
    """Columns of the terminal that it takes."""
    return max([cell_len(column.name), *(cell_len(column.cell(agent)) for agent in agents)]) + _GAP


def _flying(facts: ProgressFacts, width: int, room: int) -> list[RenderableType]:
    """Who is in flight and at which step, those that take longest first, as many as there is room for."""
    if not facts.flying or room < 1:
        return []
    now = time.time()
    names = {agent.run: one_line(agent.name, 200) for agent in facts.agents}
    rows = sorted(facts.flying, key=lambda one: one.at)
    told = f"in flight {len(rows):,}: {node_words(facts, 6)}; longest {duration(longest(facts))}"
    shown = rows[: room - 1] if len(rows) < room else rows[: max(0, room - 2)]
    parts: list[RenderableType] = [Text(rule(told, width), style="dim")]
    sizes = _flying_sizes(shown, names, width)
    parts += [_flight(one, names[one.run], now, sizes, width) for one in shown]
    if len(shown) < len(rows) and shown:
        parts.append(Text(f"and {len(rows) - len(shown):,} more", style="dim"))
    return parts


def _flying_sizes(rows: Sequence[LiveAttempt], names: dict[str, str], width: int) -> tuple[int, int, int]:
    """Columns of agent, question and node."""
    widest = (
        max([1, *(cell_len(names[one.run]) for one in rows)]) if len(names) > 1 else 0,
        max([1, *(cell_len(one_line(one.question_id, 40)) for one in rows)]),
        max([1, *(cell_len(one_line(one.node, 30)) for one in rows)]),
    )
    return min(widest[0], width // 6), min(widest[1], width // 4), min(widest[2], width // 6)


def _flight(one: LiveAttempt, name: str, now: float, sizes: tuple[int, int, int], width: int) -> Text:
    agent, question, node = sizes
    took = duration(max(0.0, now - one.at))
    line = Text.assemble((f"{took:>{_TOOK}}  ", "cyan"))
    if agent:
        line.append(_fit(name, agent) + "  ")
    epoch = f"#{one.epoch}" if one.epoch else ""
    line.append(_fit(one.question_id + epoch, question) + "  ")
    line.append(_fit(one.node or "starting", max(node, 8)) + "  ", style="green")
    if width >= _ROOMY:
        line.append(f"step {one.steps:>3,}  {number_of(one.calls, 'call'):<9}  ", style="dim")
    said = doing_words(one, now) or (f"step {one.steps:,}" if one.steps else "")
    line.append(cut(said, max(1, width - line.cell_len)), style="dim")
    return line


def cut(text: str, width: int) -> str:
    """As one safe line that is cut only where it is too long."""
    flat = one_line(text, 10_000)
    return flat if cell_len(flat) <= width else one_line(text, max(1, width))


def _fit(text: str, width: int) -> str:
    said = cut(text, width)
    return said + " " * max(0, width - cell_len(said))


def rule(words: str, width: int) -> str:
    """Words on a line across the screen."""
    said = cut(f"── {words}", max(4, width - 1))
    said += " "
    return said + "─" * max(0, width - cell_len(said))
