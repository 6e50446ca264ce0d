"""Hops of attempts in lines, for the viewer and outside of it, and as JSON: query of each search, ranks and fate of
gold.

Columns have fixed positions, so that hops with the same number are aligned. On a wide line a hop is its query with its
signs, on a narrow one its signs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ragrounds.evals.scorers.answer_status import answer_text
from ragrounds.evals.trace.causes import CAUSES, Cause
from ragrounds.evals.trace.hop_reading import HopsOfAttempt
from ragrounds.evals.trace.summaries import AttemptSummary
from ragrounds.ui.call_words import HopSigns, hop_signs, search_words
from ragrounds.ui.text import one_line, safe
from ragrounds.ui.trace.attempt_list import agent_cell, mark, short_id
from ragrounds.ui.trace.layout import Cells, fit

LEGEND = "8 passages   ★3 gold at rank 3   ● seen   ◐ cut   ○ not in a prompt   · no gold   ↻ repeated   ! failed"
NARROW_LEGEND = "8 passages ★3 gold's rank ● seen ◐ cut ○ not shown · no gold ↻ again ! failed"
_LEAST = 7
"""Columns of a hop with signs alone: ``↻10★12●`` with a space."""
_WORDS = 16
"""Columns from which on a hop shows its query."""
_GENEROUS = 24
"""Columns of a hop from which on the question may show more than its name."""
_WIDEST = 48
_MORE = 4
"""Columns for the number of hops beyond the last column, with a space: ``+12``."""
_CAUSE = max(map(len, CAUSES)) + 1
_SHOWN_ANSWER = 80
"""Characters kept of an answer."""
_NARROWEST = 60
"""Minimal columns of a line."""
_MOST = 6
"""Hops next to each other: few attempts have more, and their columns would leave no room for queries."""


class HopLine(Struct, frozen=True, kw_only=True):
    """Content of an attempt's line."""

    hops: tuple[HopSigns, ...] = ()
    answer: str = ""
    cause: Cause | None = None
    nothing: str = ""
    """Text in place of the hops; empty if the attempt has hops or was not run."""


def hop_line(read: HopsOfAttempt) -> HopLine:
    """Return the line of an attempt that was read. It keeps no passage and no prompt."""
    summary = read.summary
    answer = summary.prediction
    if read.attempt is not None and not summary.question.options:
        # The prediction of an answer in words is a judge's verdict.
        answer = answer_text(read.attempt, summary.question).strip()
    if summary.outcome not in ("answered", "unreadable") or not answer:
        answer = summary.outcome.replace("_", " ")
    return HopLine(
        hops=tuple(hop_signs(hop) for hop in read.hops),
        answer=answer[:_SHOWN_ANSWER],
        cause=read.cause,
        nothing=search_words(read.attempt, read.calls) if read.attempt and not read.hops else "",
    )


class HopColumns(Struct, frozen=True):
    """Widths of the columns of a line, in cells."""

    agent: int
    question: int
    hop: int
    """Cells of one hop."""
    visible: int
    """Number of hops next to each other."""
    answer: int
    cause: int


def hop_columns(width: int, agents: Mapping[str, str], hop_count: int) -> HopColumns:
    """Return the columns of a list of `width` cells whose attempts have at most `hop_count` hops."""
    agent = min(max(5, *map(len, agents.values())), 8 if width < 100 else 14 if width < 160 else 24) if agents else 0
    answer = 4 if width < 100 else 11 if width < 160 else 20
    other_columns = 2 + 1 + (agent + 1 if agent else 0) + answer + _CAUSE
    question = 9 if width < 100 else 18 if width < 160 else 34
    hop_count = max(1, min(hop_count, _MOST))
    if (width - other_columns - question) // hop_count < _GENEROUS:
        question = 9  # queries are more informative than the beginning of the question
    room = width - other_columns - question - _MORE
    visible = max(1, min(hop_count, room // _LEAST))
    hop = max(_LEAST, min(_WIDEST, room // visible))
    return HopColumns(agent, question + max(0, room - visible * hop), hop, visible, answer, _CAUSE)


def hop_heading(columns: HopColumns, first: int) -> str:
    """Return the headings of the columns; `first` is the first visible hop, from 0."""
    numbers = range(first + 1, first + columns.visible + 1)
    titles = "".join(fit(f"search {number}" if columns.hop >= 10 else f"{number}", columns.hop) for number in numbers)
    head = "  " + (fit("agent", columns.agent) + " " if columns.agent else "") + fit("question", columns.question) + " "
    hops = fit(titles, columns.visible * columns.hop + _MORE)
    return head + hops + fit("answer" if columns.answer > 6 else "ans", columns.answer) + fit("likely", columns.cause)


def hop_cells(
    summary: AttemptSummary | None,
    line: HopLine | None,
    columns: HopColumns,
    agents: Mapping[str, str],
    first: int = 0,
    selected_hop: int | None = None,
) -> Cells:
    """Return the cells of an attempt's line.

    Args:
        summary: the attempt; ``None``: not read yet.
        line: its content; ``None``: not read yet.
        columns: columns of the list.
        agents: run id → short name; empty for one run.
        first: first visible hop, from 0.
        selected_hop: hop under the cursor, from 0; ``None``: the cursor is on another line.
    """
    if summary is None:
        return [("…", "dim")]
    cells: Cells = [mark(summary)]
    if columns.agent:
        cells.append((agent_cell(agents, summary.run.id, columns.agent) + " ", "key"))
    name = safe(short_id(summary))
    epoch, width = f"#{summary.epoch} " if summary.run.epochs > 1 else "", columns.question
    text = f"  {one_line(summary.question.text[: width * 2], width)}" if width >= 18 else ""
    cells.append((fit(epoch + name + text, width) + " ", "plain"))
    if line is None:
        return [*cells, ("…", "dim")]
    for number in range(first, first + columns.visible):
        if number < len(line.hops):
            cells += one_hop(line.hops[number], columns.hop, line.hops[number].query, number == selected_hop)
        else:
            cells.append((fit("" if number else line.nothing, columns.hop), "dim"))
    beyond = len(line.hops) - first - columns.visible
    cells.append((fit(f"+{beyond}" if beyond > 0 else "", _MORE), "dim"))
    style = mark(summary)[1]
    cells.append((fit(one_line(line.answer, columns.answer), columns.answer - 1) + " ", style))
    cells.append((fit(line.cause.word if line.cause else "", columns.cause), "note"))
    return cells


def one_hop(hop: HopSigns, width: int, query: str, is_selected: bool = False) -> Cells:
    """Return a hop in `width` cells: its query with its signs, or its signs alone if the width is small."""
    if width < _WORDS:
        count = f"{hop.passage_count}" if width >= _LEAST + 3 and not hop.failed else ""
        cells: Cells = [(fit(count + hop.signs, width - 1), hop.style)]
    else:
        signs = hop.signs if hop.failed else f"{hop.passage_count}{hop.signs}"
        room = width - 2 - len(signs)
        query = one_line(query, room) if query else "(query not kept)"
        cells = [(fit(query, room) + " ", "plain"), (signs, hop.style)]
    return [*((text, "hit" if is_selected else style) for text, style in cells), (" ", "plain")]


def hop_text(read: Iterable[HopsOfAttempt], width: int, agents: Mapping[str, str]) -> str:
    """Return one line per attempt, the headings first and the legend last; empty without attempts.

    Args:
        read: attempts with the fates of gold.
        width: columns of the lines.
        agents: run id → short name; empty: the agent has no column.
    """
    attempt_lines: list[tuple[AttemptSummary, HopLine]] = [(attempt.summary, hop_line(attempt)) for attempt in read]
    if not attempt_lines:
        return ""
    columns = hop_columns(max(width, _NARROWEST), agents, max(len(line.hops) for _, line in attempt_lines))
    lines = [hop_heading(columns, 0)]
    for summary, line in attempt_lines:
        lines.append("".join(text for text, _ in hop_cells(summary, line, columns, agents)))
    legend = LEGEND if width >= len(LEGEND) else NARROW_LEGEND
    return "\n".join([*(line.rstrip() for line in lines), legend])


def hop_json(read: HopsOfAttempt) -> dict[str, object]:
    """Return an attempt with its hops as values that JSON can hold."""
    cause = read.cause
    return {
        "run": read.summary.run.id,
        "agent": read.summary.run.agent,
        "question_id": read.summary.question.id,
        "epoch": read.summary.epoch,
        "outcome": read.summary.outcome,
        "value": read.summary.value,
        "prediction": read.summary.prediction,
        "hops": [
            {
                "number": hop.number,
                "query": hop.query,
                "found": len(hop.found),
                "new": hop.new,
                "repeats": hop.repeats,
                "error": hop.error,
                "gold": [
                    {"rank": passage.rank, "passage": passage.passage.id, "fate": passage.fate}
                    for passage in hop.found
                    if passage.gold
                ],
            }
            for hop in read.hops
        ],
        "cause": None if cause is None else {"word": cause.word, "text": cause.text, "hop": cause.hop},
    }
