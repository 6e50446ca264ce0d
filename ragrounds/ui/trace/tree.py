"""Tree of an attempt: attempt → (round) → step → call, each node with its text and its figures.

A step that ran inside another (a graph inside a node) is its child. A step with a single call and no other data is one
node with it. Steps that repeat as a cycle are rounds. Tokens and dollars of a node are the sums of its children; a sum
with an unknown part is unknown. The time of a node is from its beginning to its end, including all nodes below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import TOKENS_APART, Attempt, Call, Called, Entered, Event, Gold, Step
from ragrounds.base.spent import known_sum
from ragrounds.evals.trace.hops import Hop, hops_of
from ragrounds.evals.trace.traces import TracedCall
from ragrounds.evals.trace.traces import steps as steps_of
from ragrounds.ui.trace.row_text import RowText, call_row, written_row

Kind = Literal["attempt", "round", "step", "call"]
_LONGEST_ROUND = 8
"""Maximal steps of a cycle."""
_DEEPEST = 40
"""Maximal depth of nested steps; deeper steps are shown at that depth."""
OUTSIDE = "(outside of any node)"


class Span(Struct, frozen=True):
    """Time in which a part ran, in seconds since the epoch."""

    begin: float
    end: float


def union_seconds(spans: Sequence[Span]) -> float:
    """Return the seconds in which at least one of the spans ran."""
    total, reached = 0.0, float("-inf")
    for span in sorted(spans, key=lambda span: span.begin):
        total += max(0.0, span.end - max(span.begin, reached))
        reached = max(reached, span.end)
    return total


def measured(seconds: float, started_at: float) -> float | None:
    """Return the seconds if they were measured: imported attempts have neither a time nor a duration."""
    return seconds if seconds or started_at else None


class NodeFigures(Struct, frozen=True):
    """Figures of a node: seconds, tokens in and out, dollars at full price. ``None``: unknown."""

    seconds: float | None = None
    tokens: int | None = 0
    cost: float | None = 0.0


class Node(Struct, frozen=True, kw_only=True):
    """Node of the tree. `key` identifies it within its attempt and stays the same when more steps follow."""

    key: str
    kind: Kind
    label: str
    """Label by which nodes are compared: a node's name, the kind of a call."""
    figures: NodeFigures
    row: RowText
    """Text of its row."""
    folded: RowText | None = None
    """Text of its row while the nodes below are folded; ``None``: `row`."""
    children: tuple[Node, ...] = ()
    step: Step | None = None
    call: Call | None = None
    """Call of a call node, or of a step with a single call and no other data."""
    call_number: int = -1
    """Number of `call` among the calls of the attempt, from 0; -1 without a call."""
    troubled: bool = False
    """True if there is an error or a failed try here or below."""


class CallFacts(Struct, frozen=True):
    """Data of an attempt's calls for the rows of its tree, by the number of the call."""

    calls: Sequence[TracedCall] = ()
    hops: Mapping[int, Hop] = {}
    answer: int = -1
    """Number of the call whose reply is the answer; -1 if there is no such call."""
    outcome: tuple[tuple[str, str], ...] = ()
    """Answer and its worth, with styles: ``C ✓``."""


NO_CALLS = CallFacts()


def call_facts(
    calls: Sequence[TracedCall], gold: Gold, answer: str = "", outcome: tuple[tuple[str, str], ...] = ()
) -> CallFacts:
    """Return the data of an attempt's calls for its tree; the last call whose reply equals `answer` gave the answer."""
    hops = {hop.call: hop for hop in hops_of(calls, gold)}
    text = answer.strip()
    answering = [number for number, call in enumerate(calls) if text and call.reply and call.reply.text.strip() == text]
    return CallFacts(calls, hops, answering[-1] if answering else -1, outcome)


def attempt_tree(attempt: Attempt, call_facts: CallFacts = NO_CALLS) -> Node:
    """Return the tree of a stored attempt; without `call_facts`, its rows have no text."""
    seconds = measured(attempt.seconds, attempt.at)
    end = None if seconds is None or not attempt.at else attempt.at + attempt.seconds
    row = RowText(attempt.question_id, call_facts.outcome or ((attempt.status, "key"),))
    children, shown = _Builder(attempt.events, end, call_facts).below(-1), attempt.with_unknowns()
    return Node(
        key="attempt",
        kind="attempt",
        label=row.name,
        figures=NodeFigures(seconds, shown.spent.tokens, shown.cost_uncached),
        row=row,
        children=children,
        troubled=attempt.status != "completed" or any(child.troubled for child in children),
    )


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, from the top."""
    yield node
    for child in node.children:
        yield from walk(child)


class _Builder:
    """Builder of nodes from flat events."""

    def __init__(self, events: Sequence[Event], end: float | None, call_facts: CallFacts) -> None:
        self._steps = {step.index: step for step in steps_of(events)}
        self._facts = call_facts
        called = [event for event in events if isinstance(event, Called)]
        self._rows: dict[int, RowText] = {}
        self._end = end
        self._inside: dict[int, list[Step]] = {}
        above: dict[int, list[int]] = {}
        for step in self._steps.values():
            inside = step.parent in self._steps and 0 <= step.parent < step.index
            around = [*above.get(step.parent, []), step.parent][:_DEEPEST] if inside else []
            above[step.index] = around
            if step.index >= 0:
                self._inside.setdefault(around[-1] if around else -1, []).append(step)
        self._call_numbers: dict[int, list[int]] = {}
        for number, event in enumerate(called):
            self._call_numbers.setdefault(event.step, []).append(number)
        entered = {event.step for event in events if isinstance(event, Entered)}
        # Calls outside of all steps, or in a step without other data, are shown at the top.
        for index in [index for index in self._call_numbers if index not in entered and index != -1]:
            self._call_numbers.setdefault(-1, []).extend(self._call_numbers.pop(index))

    def below(self, index: int) -> tuple[Node, ...]:
        """Return the nodes right below a step, or below the attempt (-1)."""
        step = self._steps.get(index)
        calls = step.calls if step else ()
        nodes = [
            self._call(call, index, number, call_number)
            for number, (call, call_number) in enumerate(zip(calls, self._call_numbers.get(index, ()), strict=False))
        ]
        nodes += [self._step(inner) for inner in self._inside.get(index, ())]
        nodes.sort(key=_begin_time)  # without times, calls stay before steps
        return _rounds(nodes)

    def _step(self, step: Step) -> Node:
        below = self.below(step.index)
        name = step.node or OUTSIDE
        seconds = step.seconds
        if seconds is None and step.at and self._end is not None:  # the attempt ended inside this step
            seconds = max(0.0, self._end - step.at)
        if seconds is None:
            timed = [node.figures.seconds for node in below if node.figures.seconds is not None]
            seconds = sum(timed) if timed else None
        figures = _sum_figures(below, None if seconds is None else measured(seconds, step.at))
        troubled = bool(step.error) or any(node.troubled for node in below)
        troubled = troubled or any(note.what == "traceback" for note in step.notes)
        node = Node(
            key=f"step {step.index}",
            kind="step",
            label=name,
            figures=figures,
            row=RowText(name) if below else written_row(name, step.changes),
            step=step,
            troubled=troubled,
        )
        if len(below) == 1 and below[0].kind == "call":
            number = below[0].call_number
            return replace(node, row=self._row(name, number), call=below[0].call, call_number=number)
        return replace(node, folded=_folded_row(name, below), children=below) if below else node

    def _call(self, call: Call, step: int, number: int, call_number: int) -> Node:
        tokens, cost = call.spent.tokens, call.cost_uncached
        if call.error:
            # The ledger has no entry for a failed call.
            tokens, cost = 0, 0.0
        elif call.kind != "model" or call.role in TOKENS_APART:
            tokens = 0
        row = self._row(call.role if call.kind == "model" else call.kind, call_number)
        return Node(
            key=f"step {step} call {number}",
            kind="call",
            label=f"model: {call.role}" if call.kind == "model" else call.kind,
            figures=NodeFigures(measured(call.seconds, call.at), tokens, cost),
            row=row,
            call=call,
            call_number=call_number,
            troubled=bool(call.error or call.faults),
        )

    def _row(self, name: str, call_number: int) -> RowText:
        facts = self._facts
        if not 0 <= call_number < len(facts.calls):
            return RowText(name)
        if call_number not in self._rows:
            self._rows[call_number] = call_row(name, facts.calls[call_number], facts.hops.get(call_number))
        row = replace(self._rows[call_number], name=name)
        return replace(row, annotations=(*facts.outcome, *row.annotations)) if call_number == facts.answer else row


def _folded_row(name: str, below: Sequence[Node]) -> RowText:
    """Return the row of a folded node: its first search, else its last reply."""
    leaves = [node for top in below for node in walk(top) if node.call is not None]
    searches = [node for node in leaves if node.call is not None and node.call.kind == "search"]
    if searches:
        more = ((f", {len(searches)} searches", "dim"),) if len(searches) > 1 else ()
        first = searches[0].row
        return RowText(name, quote=first.quote, tail=(*first.tail, *more))
    quoted = [node.row for node in leaves if node.row.quote]
    return RowText(name, annotations=quoted[-1].annotations, quote=quoted[-1].quote) if quoted else RowText(name)


def _sum_figures(nodes: Sequence[Node], seconds: float | None) -> NodeFigures:
    return NodeFigures(
        seconds,
        known_sum(node.figures.tokens for node in nodes),
        known_sum(node.figures.cost for node in nodes),
    )


def _rounds(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes, with the repetitions of a cycle of several nodes grouped into rounds."""
    grouped: list[Node] = []
    index = round_number = 0
    while index < len(nodes):
        length, times = _cycle([node.label for node in nodes[index:]])
        if times == 1 or length == 1:
            grouped += nodes[index : index + times]
            index += times
            continue
        for _ in range(times):
            round_number += 1
            grouped.append(_round(nodes[index : index + length], round_number))
            index += length
    return tuple(grouped)


def _round(members: Sequence[Node], number: int) -> Node:
    spans = [
        Span(begin, begin + node.figures.seconds)
        for node in members
        if (begin := _begin_time(node)) and node.figures.seconds is not None  # only measured times
    ]
    name = f"round {number}"
    return Node(
        key=f"round {members[0].key}",
        kind="round",
        label=name,
        figures=_sum_figures(members, union_seconds(spans) if spans else None),
        row=RowText(name),
        folded=_folded_row(name, members),
        children=tuple(members),
        troubled=any(node.troubled for node in members),
    )


def _cycle(labels: Sequence[str]) -> tuple[int, int]:
    """Return the length of the cycle that the labels begin with, and how often it repeats; (1, 1) without repetition.

    The cycle that covers most labels is taken, and of these the shortest.
    """
    best, covered = (1, 1), 1
    for length in range(1, min(_LONGEST_ROUND, len(labels) // 2) + 1):
        first, times = labels[:length], 1
        while labels[times * length : (times + 1) * length] == first:
            times += 1
        if times > 1 and times * length > covered:
            best, covered = (length, times), times * length
    return best


def _begin_time(node: Node) -> float:
    """Return when a node began, in seconds since the epoch; 0 if unknown."""
    source = node.step or node.call
    if source is not None and source.at:
        return source.at
    return min((_begin_time(child) for child in node.children), default=0.0)
