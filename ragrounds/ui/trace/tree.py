"""An attempt as a tree: attempt → (round) → step → call, each node with what happened in it and what it took.

A step that ran inside another (a graph inside a node) is its child. A step of which all that is known is one call is
one node with it. Steps that repeat as a cycle are rounds. Tokens and dollars of a node are the sums of its children; a
sum of which a part is not known is not known. The time of a node is from its beginning to its end, with all below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import TOKENS_APART, Attempt, Call, Called, Entered, Event, Gold, Step
from ragrounds.evals.trace.hops import Hop, hops_of
from ragrounds.evals.trace.traces import TracedCall
from ragrounds.evals.trace.traces import steps as steps_of
from ragrounds.ui.trace.row_text import RowText, call_row, written_row

Kind = Literal["attempt", "round", "step", "call"]
_LONGEST_ROUND = 8
"""Steps of the longest cycle that is looked for."""
_DEEPEST = 40
"""Steps inside each other; what is deeper stands at that depth."""
OUTSIDE = "(outside of any node)"


class Span(Struct, frozen=True):
    """When a part ran, in seconds since the epoch."""

    begin: float
    end: float


def union_seconds(spans: Sequence[Span]) -> float:
    """Seconds in which at least one of them ran."""
    total, reached = 0.0, float("-inf")
    for span in sorted(spans, key=lambda one: one.begin):
        total += max(0.0, span.end - max(span.begin, reached))
        reached = max(reached, span.end)
    return total


def measured(seconds: float, at: float) -> float | None:
    """Seconds, where they were measured: what was imported has neither a time nor a duration."""
    return seconds if seconds or at else None


class NodeFigures(Struct, frozen=True):
    """What a node took: seconds, tokens in and out, dollars at full price. ``None``: not known."""

    seconds: float | None = None
    tokens: int | None = 0
    cost: float | None = 0.0


class Node(Struct, frozen=True, kw_only=True):
    """A node of the tree. `key` names it within its attempt and stays the same when more steps follow."""

    key: str
    kind: Kind
    label: str
    """What it is, by which nodes are the same: a node's name, the kind of a call."""
    figures: NodeFigures
    row: RowText
    """What its row says."""
    folded: RowText
    """What its row says where all below it is folded away."""
    children: tuple[Node, ...] = ()
    step: Step | None = None
    call: Call | None = None
    """Also of a step of which one call is all that is known."""
    place: int = -1
    """The place of `call` among the calls of the attempt."""
    troubled: bool = False
    """An error, or a try that failed, here or below."""


class CallFacts(Struct, frozen=True):
    """What rows say of the calls of an attempt; each by the call's place among them."""

    calls: Sequence[TracedCall] = ()
    hops: Mapping[int, Hop] = {}
    answer: int = -1
    """The call whose reply is the answer; -1: none."""
    outcome: tuple[tuple[str, str], ...] = ()
    """The answer and what it is worth, with styles: ``C ✓``."""


NO_CALLS = CallFacts()


def call_facts(
    calls: Sequence[TracedCall], gold: Gold, answer: str = "", outcome: tuple[tuple[str, str], ...] = ()
) -> CallFacts:
    """What rows say of the calls of an attempt, in their order; the last whose reply is the `answer` gave it."""
    hops = {hop.call: hop for hop in hops_of(calls, gold)}
    text = answer.strip()
    given = [place for place, one in enumerate(calls) if text and one.reply and one.reply.text.strip() == text]
    return CallFacts(calls, hops, given[-1] if given else -1, outcome)


def attempt_tree(attempt: Attempt, known: CallFacts = NO_CALLS) -> Node:
    """The tree of a stored attempt; without `known`, its rows hold no text."""
    used = attempt.usage
    seconds = measured(attempt.seconds, attempt.at)
    figures = NodeFigures(seconds, used.input + used.output if used else None, attempt.cost_uncached)
    end = None if seconds is None or not attempt.at else attempt.at + attempt.seconds
    row = RowText(attempt.question_id, known.outcome or ((attempt.status, "key"),))
    return event_tree(attempt.events, figures, end, row, known, attempt.status != "completed")


def event_tree(
    events: Sequence[Event],
    figures: NodeFigures,
    end: float | None,
    row: RowText,
    known: CallFacts = NO_CALLS,
    troubled: bool = False,
) -> Node:
    """The tree of these events under a node with `figures` and `row`, which ended at `end` (``None``: not known)."""
    children = _Builder(events, end, known).children()
    return Node(
        key="attempt",
        kind="attempt",
        label=row.name,
        figures=figures,
        row=row,
        folded=row,
        children=children,
        troubled=troubled or any(child.troubled for child in children),
    )


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, from the top."""
    yield node
    for child in node.children:
        yield from walk(child)


class _Builder:
    """Puts nodes together from flat events."""

    def __init__(self, events: Sequence[Event], end: float | None, known: CallFacts) -> None:
        self._steps = {step.index: step for step in steps_of(events)}
        self._facts = known
        called = [event for event in events if isinstance(event, Called)]
        homes = _writers(self._steps.values(), called, known.hops)
        for place, index in homes.items():
            call, outside, home = called[place].call, self._steps[-1], self._steps[index]
            self._steps[-1] = replace(outside, calls=tuple(one for one in outside.calls if one is not call))
            self._steps[index] = replace(home, calls=(*home.calls, call))
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
        self._places: dict[int, list[int]] = {}
        for place, event in enumerate(called):
            self._places.setdefault(homes.get(place, event.step), []).append(place)
        entered = {event.step for event in events if isinstance(event, Entered)}
        # What was made outside of all steps, or in one of which nothing else is known, stands at the top.
        for index in [index for index in self._places if index not in entered and index != -1]:
            self._places.setdefault(-1, []).extend(self._places.pop(index))

    def children(self) -> tuple[Node, ...]:
        """The nodes right below the attempt."""
        return self._below(-1)

    def _below(self, index: int) -> tuple[Node, ...]:
        step = self._steps.get(index)
        calls = step.calls if step else ()
        nodes = [
            self._call(call, index, number, place)
            for number, (call, place) in enumerate(zip(calls, self._places.get(index, ()), strict=False))
        ]
        nodes += [self._step(inner) for inner in self._inside.get(index, ())]
        nodes.sort(key=_began)  # where no times are known, calls stay before steps
        return _rounds(nodes)

    def _step(self, step: Step) -> Node:
        below = self._below(step.index)
        name = step.node or OUTSIDE
        seconds = step.seconds
        if seconds is None and step.at and self._end is not None:  # never left: the attempt ended inside it
            seconds = max(0.0, self._end - step.at)
        if seconds is None:
            timed = [node.figures.seconds for node in below if node.figures.seconds is not None]
            seconds = sum(timed) if timed else None
        figures = _summed(below, None if seconds is None else measured(seconds, step.at))
        troubled = bool(step.error) or any(node.troubled for node in below)
        troubled = troubled or any(note.what == "traceback" for note in step.notes)
        node = Node(
            key=f"step {step.index}",
            kind="step",
            label=name,
            figures=figures,
            row=RowText(name),
            folded=RowText(name),
            children=below,
            step=step,
            troubled=troubled,
        )
        if len(below) == 1 and below[0].kind == "call":
            only = below[0]
            row = self._row(name, only.place)
            return replace(node, row=row, folded=row, children=(), call=only.call, place=only.place)
        row = written_row(name, step.changes) if not below else node.row
        return replace(node, row=row, folded=_folded(name, below) if below else row)

    def _call(self, call: Call, step: int, number: int, place: int) -> Node:
        used = call.usage
        tokens, cost = used.input + used.output if used else None, call.cost_uncached
        if call.error:
            # A call that failed is in no ledger.
            tokens, cost = 0, 0.0
        elif call.kind != "model" or call.role in TOKENS_APART:
            tokens = 0
        row = self._row(call.role if call.kind == "model" else call.kind, place)
        return Node(
            key=f"step {step} call {number}",
            kind="call",
            label=f"model: {call.role}" if call.kind == "model" else call.kind,
            figures=NodeFigures(measured(call.seconds, call.at), tokens, cost),
            row=row,
            folded=row,
            call=call,
            place=place,
            troubled=bool(call.error or call.faults),
        )

    def _row(self, name: str, place: int) -> RowText:
        known = self._facts
        if not 0 <= place < len(known.calls):
            return RowText(name)
        if place not in self._rows:
            self._rows[place] = call_row(name, known.calls[place], known.hops.get(place))
        row = replace(self._rows[place], name=name)
        return replace(row, said=(*known.outcome, *row.said)) if place == known.answer else row


def _writers(steps: Iterable[Step], called: Sequence[Called], hops: Mapping[int, Hop]) -> dict[int, int]:
    """The places of searches in no node, whose time is not known → the first step that wrote any of their passages.
    Left behind the answer they would seem to have come last.

    Args:
        steps: of the attempt.
        called: its calls in their order.
        hops: its searches, each by its call's place.
    """
    homes: dict[int, int] = {}
    inner = sorted((step for step in steps if step.index >= 0), key=lambda step: (step.at, step.index))
    for place, hop in hops.items():
        if not hop.untimed or place >= len(called) or called[place].step != -1:
            continue
        known = {text for one in hop.found for text in (one.passage.id, one.passage.text.strip()) if text}
        home = next((step.index for step in inner if _holds(step.changes, known)), None)
        if home is not None:
            homes[place] = home
    return homes


def _holds(value: object, known: set[str]) -> bool:
    """Whether any of these texts stands in what a node wrote to the state."""
    if isinstance(value, str):
        return value.strip() in known
    if isinstance(value, Mapping):
        return any(_holds(one, known) for one in value.values())
    return isinstance(value, list | tuple) and any(_holds(one, known) for one in value)


def _folded(name: str, below: Sequence[Node]) -> RowText:
    """What a row says of what is folded away below it: its first search, else its last reply."""
    leaves = [node for one in below for node in walk(one) if node.call is not None]
    searches = [node for node in leaves if node.call is not None and node.call.kind == "search"]
    if searches:
        more = ((f", {len(searches)} searches", "dim"),) if len(searches) > 1 else ()
        first = searches[0].row
        return RowText(name, quote=first.quote, tail=(*first.tail, *more))
    said = [node.row for node in leaves if node.row.quote]
    return RowText(name, said=said[-1].said, quote=said[-1].quote) if said else RowText(name)


def _summed(nodes: Sequence[Node], seconds: float | None) -> NodeFigures:
    tokens, cost = [node.figures.tokens for node in nodes], [node.figures.cost for node in nodes]
    return NodeFigures(
        seconds,
        None if None in tokens else sum(value for value in tokens if value is not None),
        None if None in cost else sum(value for value in cost if value is not None),
    )


def _rounds(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The same nodes, but a cycle of several that follows itself is as many rounds."""
    made: list[Node] = []
    at = round_number = 0
    while at < len(nodes):
        length, times = _cycle([node.label for node in nodes[at:]])
        if times == 1 or length == 1:
            made += nodes[at : at + times]
            at += times
            continue
        for _ in range(times):
            round_number += 1
            made.append(_round(nodes[at : at + length], round_number))
            at += length
    return tuple(made)


def _round(members: Sequence[Node], number: int) -> Node:
    began = [(_began(node), node.figures.seconds) for node in members]
    spans = [Span(at, at + seconds) for at, seconds in began if at and seconds is not None]  # those that were measured
    name = f"round {number}"
    return Node(
        key=f"round {members[0].key}",
        kind="round",
        label=name,
        figures=_summed(members, union_seconds(spans) if spans else None),
        row=RowText(name),
        folded=_folded(name, members),
        children=tuple(members),
        troubled=any(node.troubled for node in members),
    )


def _cycle(labels: Sequence[str]) -> tuple[int, int]:
    """The length of the cycle that these labels begin with and how often it comes: the one that covers most, of
    those the shortest; (1, 1) where nothing repeats."""
    best, covered = (1, 1), 1
    for length in range(1, min(_LONGEST_ROUND, len(labels) // 2) + 1):
        first, times = labels[:length], 1
        while labels[times * length : (times + 1) * length] == first:
            times += 1
        if times > 1 and times * length > covered:
            best, covered = (length, times), times * length
    return best


def _began(node: Node) -> float:
    """When a node began, in seconds since the epoch; 0: not known."""
    begun = node.step or node.call
    if begun is not None and begun.at:
        return begun.at
    return min((_began(child) for child in node.children), default=0.0)
