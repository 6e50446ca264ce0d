"""One attempt opened: its tree, and what the journal holds of its calls, read when it is looked at."""

from __future__ import annotations

from functools import cached_property

from ragrounds.evals.arena.told import Told, told
from ragrounds.evals.store.outlines import Outline
from ragrounds.evals.store.pages import Pages
from ragrounds.evals.store.traces import TracedCall, traced_call
from ragrounds.records import Attempt, Call, Score
from ragrounds.ui.trace.shape import Figures, Node, shape, walk


class Opened:
    """An attempt with its tree. One that was not run yet is a tree of one node."""

    def __init__(self, pages: Pages, outline: Outline) -> None:
        self.outline = outline
        self.attempt: Attempt | None = pages.store.attempt(outline.run, outline.question.id, outline.epoch)
        self.scores: tuple[Score, ...] = pages.scores(outline) if self.attempt else ()
        self.root = shape(self.attempt) if self.attempt else _nothing(outline)
        self._store = pages.store
        self._recorded: dict[str, TracedCall] = {}

    def recorded(self, call: Call) -> TracedCall:
        """A call with its request and its response."""
        if call.key not in self._recorded or not call.key:
            self._recorded[call.key] = traced_call(self._store, call)
        return self._recorded[call.key]

    @cached_property
    def told(self) -> list[Told]:
        """What judges said of this answer in arenas."""
        return told(self._store, self.outline.run.id, self.outline.question.id, self.outline.epoch)

    def calls(self) -> list[tuple[Node, Call]]:
        """Every call with the node of its step, in order."""
        steps = [node for node in walk(self.root) if node.step is not None]
        return [(step, child.call) for step in steps for child in step.children if child.call is not None]


def _nothing(outline: Outline) -> Node:
    return Node(key="attempt", kind="attempt", label=outline.question.id, figures=Figures(None, None, None))
