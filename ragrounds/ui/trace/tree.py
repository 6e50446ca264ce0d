"""An attempt as a tree: attempt → (repeated) → step → call, each node with what its part of it took.

Tokens and dollars of a node are the sums of its children; a sum of which a part is not known is not known. Time is
the node's own: steps may run side by side, so only a group of repeated steps adds its children's up.

A loaded attempt also has what the journal holds of its calls; each is read when it is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal

from msgspec import Struct

from ragrounds.evals.store.arenas import AnswerVerdict, answer_verdicts
from ragrounds.evals.store.retries import EarlierAttempt, earlier_attempts
from ragrounds.evals.store.summaries import AttemptSummary, Pages
from ragrounds.evals.store.traces import TracedCall, traced_call
from ragrounds.evals.store.traces import steps as steps_of
from ragrounds.records import TOKENS_APART, Attempt, Call, Score, Step

Measure = Literal["time", "tokens", "cost"]
MEASURES: tuple[Measure, ...] = ("time", "tokens", "cost")
"""What the share of a node can be a share of."""
Kind = Literal["attempt", "group", "round", "step", "call"]
_LONGEST_ROUND = 8
"""Steps of the longest cycle that is looked for."""


class NodeFigures(Struct, frozen=True):
    """What a node took: seconds, tokens in and out, dollars uncached. ``None``: not known."""

    seconds: float | None = None
    tokens: int | None = 0
    cost: float | None = 0.0

    def amount(self, measure: Measure) -> float | None:
        """The figure of a measure; ``None``: not known."""
        return {"time": self.seconds, "tokens": self.tokens, "cost": self.cost}[measure]


class Node(Struct, frozen=True, kw_only=True):
    """A node of the tree. `key` names it within its attempt and stays the same when more steps follow."""

    key: str
    kind: Kind
    label: str
    figures: NodeFigures
    children: tuple[Node, ...] = ()
    step: Step | None = None
    call: Call | None = None
    troubled: bool = False
    """An error, or a try that failed, here or below."""


def attempt_tree(attempt: Attempt) -> Node:
    """The tree of an attempt, from its recorded events."""
    children = _grouped([_step(step) for step in steps_of(attempt.events)])
    used = attempt.usage
    figures = NodeFigures(
        measured(attempt.seconds, attempt.at), used.input + used.output if used else None, attempt.cost_uncached
    )
    return Node(
        key="attempt",
        kind="attempt",
        label=attempt.question_id,
        figures=figures,
        children=children,
        troubled=attempt.status != "completed" or any(child.troubled for child in children),
    )


def measured(seconds: float, at: float) -> float | None:
    """Seconds, where they were measured: what was imported has neither a time nor a duration."""
    return seconds if seconds or at else None


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, from the top."""
    yield node
    for child in node.children:
        yield from walk(child)


def _step(step: Step) -> Node:
    calls = tuple(_call(call, step.index, number) for number, call in enumerate(step.calls))
    timed = [call.figures.seconds or 0.0 for call in calls]
    seconds = step.seconds if step.seconds is not None else (sum(timed) if timed else None)
    seconds = None if seconds is None else measured(seconds, step.at)
    return Node(
        key=f"step {step.index}",
        kind="step",
        label=step.node or "(outside of any node)",
        figures=_summed(calls, seconds),
        children=calls,
        step=step,
        troubled=bool(step.error)
        or any(call.troubled for call in calls)
        or any(note.what == "traceback" for note in step.notes),
    )


def _call(call: Call, step: int, number: int) -> Node:
    used = call.usage
    tokens, cost = used.input + used.output if used else None, call.cost_uncached
    if call.error:
        # A call that failed is in no ledger.
        tokens, cost = 0, 0.0
    elif call.kind != "model" or call.role in TOKENS_APART:
        tokens = 0
    passages = f" -> {len(call.passages)} passages" if call.kind == "search" and not call.error else ""
    return Node(
        key=f"step {step} call {number}",
        kind="call",
        label=f"model: {call.role}" if call.kind == "model" else f"{call.kind}{passages}",
        figures=NodeFigures(measured(call.seconds, call.at), tokens, cost),
        call=call,
        troubled=bool(call.error or call.faults),
    )


def _summed(nodes: Sequence[Node], seconds: float | None) -> NodeFigures:
    tokens, cost = [node.figures.tokens for node in nodes], [node.figures.cost for node in nodes]
    return NodeFigures(
        seconds,
        None if None in tokens else sum(value for value in tokens if value is not None),
        None if None in cost else sum(value for value in cost if value is not None),
    )


def _grouped(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The same nodes, but steps or cycles of steps that follow each other several times are one node with a count."""
    grouped: list[Node] = []
    at = 0
    while at < len(nodes):
        length, times = _cycle([node.label for node in nodes[at:]])
        if times == 1:
            grouped.append(nodes[at])
            at += 1
            continue
        members = nodes[at : at + length * times]
        children = tuple(members) if length == 1 else tuple(_round(members, n, length) for n in range(times))
        names = " + ".join(node.label for node in members[:length])
        grouped.append(
            Node(
                key=f"group {members[0].key}",
                kind="group",
                label=f"{names} ×{times}",
                figures=_summed(children, _total(children)),
                children=children,
                troubled=any(child.troubled for child in children),
            )
        )
        at += length * times
    return tuple(grouped)


def _round(members: Sequence[Node], number: int, length: int) -> Node:
    part = tuple(members[number * length : (number + 1) * length])
    return Node(
        key=f"round {part[0].key}",
        kind="round",
        label=f"round {number + 1}",
        figures=_summed(part, _total(part)),
        children=part,
        troubled=any(child.troubled for child in part),
    )


def _total(nodes: Sequence[Node]) -> float | None:
    known = [node.figures.seconds for node in nodes if node.figures.seconds is not None]
    return sum(known) if known else None


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


class LoadedAttempt:
    """An attempt with its tree. One that was not run yet is a tree of one node."""

    def __init__(self, pages: Pages, summary: AttemptSummary) -> None:
        self.summary = summary
        self.attempt: Attempt | None = pages.store.attempt(summary.run, summary.question.id, summary.epoch)
        self.scores: tuple[Score, ...] = pages.scores(summary) if self.attempt else ()
        self.root = attempt_tree(self.attempt) if self.attempt else _nothing(summary)
        self._store = pages.store
        self.earlier: tuple[EarlierAttempt, ...] = ()
        if self.attempt is not None and self.attempt.retry:
            self.earlier = earlier_attempts(pages.store, summary.run, summary.question.id, summary.epoch)
        self._recorded: dict[str, TracedCall] = {}

    def recorded(self, call: Call) -> TracedCall:
        """A call with its request and its response, from the journal."""
        if call.key not in self._recorded or not call.key:
            self._recorded[call.key] = traced_call(self._store, call)
        return self._recorded[call.key]

    @cached_property
    def answer_verdicts(self) -> list[AnswerVerdict]:
        """What judges said of this answer in arenas."""
        return answer_verdicts(self._store, self.summary.run.id, self.summary.question.id, self.summary.epoch)

    def calls(self) -> list[tuple[Node, Call]]:
        """Every call with the node of its step, in the order of the steps."""
        steps = [node for node in walk(self.root) if node.step is not None]
        return [(step, child.call) for step in steps for child in step.children if child.call is not None]


def _nothing(summary: AttemptSummary) -> Node:
    return Node(key="attempt", kind="attempt", label=summary.question.id, figures=NodeFigures(None, None, None))
