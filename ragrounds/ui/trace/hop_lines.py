"""The hops of attempts as lines, without a terminal: what each search asked, where gold stood, what became of it.

A line has columns of fixed places, so that the hops of one number stand below each other. Where there is room, a hop is
its query with its signs; where there is less, its signs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.store.causes import CAUSES, Cause
from ragrounds.evals.store.hop_reading import HopsOfAttempt
from ragrounds.evals.store.hops import FoundPassage, Hop
from ragrounds.evals.store.summaries import AttemptSummary
from ragrounds.evals.store.traces import TracedCall
from ragrounds.ui.call_words import HopSigns, hop_signs
from ragrounds.ui.text import number_of, one_line, safe
from ragrounds.ui.trace.agent_names import agent_cell
from ragrounds.ui.trace.attempt_list import mark
from ragrounds.ui.trace.layout import Cells, TextBlock, fit

LEGEND = "★3 gold at rank 3   ● seen   ◐ cut   ○ not in a prompt   · no gold   ↻ repeated   ! failed"
NARROW_LEGEND = "★3 gold's rank  ● seen ◐ cut ○ not shown  · no gold  ↻ again  ! failed"
_LEAST = 7
"""Columns of a hop that is signs alone: ``↻10★12●`` with a space."""
_WORDS = 16
"""Columns from which on a hop shows its query."""
_GENEROUS = 24
"""Columns of a hop from which on the question may have more than its name."""
_WIDEST = 48
_MORE = 4
"""Columns for how many hops stand beyond the last column: ``+12``."""
_CAUSE = max(map(len, CAUSES)) + 1
_SHOWN_ANSWER = 80
"""Characters of an answer that a line keeps."""
_UNREAD = " (unread)"
"""Stands after the option that a scorer counts where nothing was read."""


class HopLine(Struct, frozen=True, kw_only=True):
    """What a line shows of an attempt."""

    hops: tuple[HopSigns, ...] = ()
    answer: str = ""
    cause: Cause | None = None
    made: bool = True
    """Whether there is an attempt."""


def hop_line(read: HopsOfAttempt) -> HopLine:
    """The line of an attempt that was read; it keeps no passage and no prompt."""
    summary = read.summary
    answer = (_answer(read) if summary.outcome == "answered" else "") or summary.outcome.replace("_", " ")
    if summary.outcome == "unreadable" and summary.question.options and summary.prediction:
        answer = f"{summary.prediction[: _SHOWN_ANSWER - len(_UNREAD)]}{_UNREAD}"
    return HopLine(
        hops=tuple(hop_signs(hop) for hop in read.hops),
        answer=answer[:_SHOWN_ANSWER],
        cause=read.cause,
        made=read.attempt is not None,
    )


def _answer(read: HopsOfAttempt) -> str:
    """The option; of an answer in words its first words: what a judge said of it is no answer."""
    if read.summary.question.options or read.attempt is None:
        return read.summary.prediction
    return read.attempt.text.strip()


class HopColumns(Struct, frozen=True):
    """Where the columns of a line stand, in cells."""

    agent: int
    question: int
    hop: int
    """Of one hop."""
    shown: int
    """Hops beside each other."""
    answer: int
    cause: int
    rest: int
    """Cells that the hops leave."""


def hop_columns(width: int, agents: Mapping[str, str], most: int) -> HopColumns:
    """The columns of a list of `width`, whose attempts have at most so many hops."""
    agent = min(max(5, *map(len, agents.values())), 8 if width < 100 else 14 if width < 160 else 24) if agents else 0
    answer = 4 if width < 100 else 11 if width < 160 else 20
    beside = 2 + 1 + (agent + 1 if agent else 0) + answer + _CAUSE
    question = 9 if width < 100 else 18 if width < 160 else 34
    if (width - beside - question) // max(1, most) < _GENEROUS:
        question = 9  # the queries say more than the beginning of the question
    room = width - beside - question
    shown = max(1, min(max(1, most), room // _LEAST))
    hop = max(_LEAST, min(_WIDEST, room // shown))
    left = max(0, room - shown * hop)
    more = max(0, left - _MORE)
    return HopColumns(agent, question + more, hop, shown, answer, _CAUSE, left - more)


def hop_heading(columns: HopColumns, first: int, most: int) -> str:
    """The headings of the columns; `first` is the first hop that is shown, from 0."""
    names = [f"search {number}" if columns.hop >= 10 else f"{number}" for number in range(first + 1, most + 1)]
    shown = "".join(fit(name, columns.hop) for name in names[: columns.shown])
    head = "  " + (fit("agent", columns.agent) + " " if columns.agent else "") + fit("question", columns.question) + " "
    hops = fit(shown, columns.shown * columns.hop + columns.rest)
    return head + hops + fit("answer" if columns.answer > 6 else "ans", columns.answer) + fit("likely", columns.cause)


def hop_cells(
    summary: AttemptSummary | None,
    line: HopLine | None,
    columns: HopColumns,
    agents: Mapping[str, str],
    first: int = 0,
    chosen: int | None = None,
) -> Cells:
    """The cells of an attempt's line.

    Args:
        summary: ``None``: not read yet.
        line: ``None``: not read yet.
        columns: of the list.
        agents: run id → short name; empty for one run.
        first: the first hop that is shown, from 0.
        chosen: the hop under the cursor, from 0; ``None``: none.
    """
    if summary is None:
        return [("…", "dim")]
    cells: Cells = [mark(summary)]
    if columns.agent:
        cells.append((agent_cell(agents, summary.run.id, columns.agent) + " ", "key"))
    cells.append((fit(_name(summary, columns.question), columns.question) + " ", "plain"))
    if line is None:
        return [*cells, ("…", "dim")]
    for number in range(first, first + columns.shown):
        if number < len(line.hops):
            cells += _hop(line.hops[number], columns.hop, number == chosen)
        else:
            nothing = "no search" if not line.hops and not number and line.made else ""
            cells.append((fit(nothing, columns.hop), "dim"))
    beyond = len(line.hops) - first - columns.shown
    cells.append((fit(f"+{beyond}" if beyond > 0 else "", columns.rest), "dim"))
    style = mark(summary)[1]
    answer = line.answer
    if len(answer) >= columns.answer and answer.endswith(_UNREAD):
        answer = answer.removesuffix(_UNREAD) + "?"
    cells.append((fit(one_line(answer, columns.answer), columns.answer - 1) + " ", style))
    cells.append((fit(line.cause.word if line.cause else "", columns.cause), "note"))
    return cells


def _name(summary: AttemptSummary, width: int) -> str:
    name = safe(summary.question.id.rpartition("/")[2][:80])
    epoch = f"#{summary.epoch} " if summary.run.epochs > 1 else ""
    text = f"  {one_line(summary.question.text[: width * 2], width)}" if width >= 18 else ""
    return epoch + name + text


def _hop(hop: HopSigns, width: int, chosen: bool) -> Cells:
    if width < _WORDS:
        count = f"{hop.found}" if width >= _LEAST + 3 and not hop.failed else ""
        cells: Cells = [(fit(count + hop.signs, width - 1), hop.style)]
    else:
        signs = hop.signs if hop.failed else f"{hop.found}{hop.signs}"
        room = width - 2 - len(signs)
        query = one_line(hop.query, room) if hop.query else "(query not kept)"
        cells = [(fit(query, room) + " ", "plain"), (signs, hop.style)]
    return [*((text, "hit" if chosen else style) for text, style in cells), (" ", "plain")]


def hop_blocks(read: HopsOfAttempt, number: int) -> list[TextBlock]:
    """A hop in full, and what came of the attempt.

    Args:
        read: with the fates of all passages.
        number: of the hop, from 0.
    """
    return list(_blocks(read, number))


def _blocks(read: HopsOfAttempt, number: int) -> Iterator[TextBlock]:
    summary = read.summary
    if read.attempt is None:
        yield TextBlock("Not made yet.", "dim")
        return
    yield _outcome(read)
    if read.cause is not None:
        yield TextBlock(read.cause.said, "trouble")
    if not read.hops:
        yield TextBlock("No search was made.", "dim")
        return
    hop = read.hops[min(number, len(read.hops) - 1)]
    yield TextBlock(f"search {hop.number} of {len(read.hops)}, {_of(hop, read)}", "heading")
    yield TextBlock(hop.query or "(the query is not recorded)")
    if hop.error:
        yield TextBlock(f"failed: {hop.error}", "trouble")
    for one in hop.found:
        star = "★ " if one.gold else "  "
        title = one_line(one.passage.title or one.passage.text[:200], 80)
        new = "" if one.new else ", found before"
        yield TextBlock(
            f"{star}{one.rank}. {title}  [{fate_words(one, read.calls)}{new}]", "gold" if one.gold else "plain"
        )
    if summary.gold.documents and not hop.gold_ranks and not hop.error:
        yield TextBlock(f"gold: {', '.join(summary.gold.documents[:5])}", "dim")


def _outcome(read: HopsOfAttempt) -> TextBlock:
    summary = read.summary
    sign, style = mark(summary)
    gold = f", gold {one_line(summary.gold.answer, 60)}" if summary.gold.answer else ""
    answer = f"read as {one_line(summary.prediction, 60)}" if summary.prediction else summary.outcome.replace("_", " ")
    scorer = f" by {summary.scorer}" if summary.scorer else ""
    return TextBlock(f"{sign}{summary.question.id}: {answer}{scorer}{gold}", style if style != "dim" else "plain")


def _of(hop: Hop, read: HopsOfAttempt) -> str:
    parts = [f"in {hop.traced.call.node}"] if hop.traced.call.node else []
    if hop.repeats is not None:
        parts.append(f"the same as search {hop.repeats}")
    if not hop.error:
        parts.append(f"{number_of(len(hop.found), 'passage')}, {hop.new} new")
        if hop.gold_ranks:
            parts.append(f"gold at {', '.join(str(rank) for rank in hop.gold_ranks)}")
        elif read.summary.gold.documents:
            parts.append("no gold")
    return ", ".join(parts)


def fate_words(one: FoundPassage, made: Sequence[TracedCall]) -> str:
    """What became of a passage, in words: which later prompts held it."""
    if not one.prompts:
        return "not known whether seen" if one.fate == "not known" else "in no later prompt"
    names: dict[str, None] = {}
    for place in one.prompts:
        call = made[place].call
        names[f"{call.node or call.role}{' (cut)' if place in one.cut_in else ''}"] = None
    return f"seen by {', '.join(list(names)[:4])}" + (" …" if len(names) > 4 else "")
