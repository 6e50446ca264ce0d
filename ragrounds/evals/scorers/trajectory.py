"""Scorer ``trajectory``: did an attempt take the way that was expected? Nodes of the graph, tools, and search queries,
each compared in one of five ways; 1.0 or 0.0. It says nothing about the answer.

| mode | what the attempt may do |
|---|---|
| ``exact`` | the expected steps, in their order, nothing else |
| ``in_order`` | the expected steps in their order, others between them |
| ``any_order`` | the expected steps in any order, others beside them |
| ``unordered`` | the expected steps in any order, nothing else |
| ``subset`` | nothing but expected steps, not all of them |

Expectations are JSON Lines: ``{"question": "pubmedqa/123", "nodes": […], "tools": […], "queries": […], "mode":
"in_order"}``; ``"*"`` stands for every question without a line of its own. What a line leaves out is not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from msgspec import UNSET as _UNSET
from msgspec import Struct, UnsetType

from ragrounds.contracts import SearchRequest, SearchResult
from ragrounds.errors import UserError
from ragrounds.evals.benchmarks.benchmark import fold
from ragrounds.evals.scorers.answer_status import AnswerRead
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import calls, node_path
from ragrounds.files import broken, convert, read_jsonl, shown
from ragrounds.records import Attempt, Call, Gold, Kind, Question, Score, blank
from ragrounds.specs import parse

Mode = Literal["exact", "in_order", "any_order", "unordered", "subset"]
EVERY = "*"


class Expected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The way that is expected of an attempt."""

    question: str = EVERY
    mode: Mode = "in_order"
    nodes: tuple[str, ...] | UnsetType = _UNSET
    """Nodes of the graph, in the order they are entered."""
    tools: tuple[str, ...] | UnsetType = _UNSET
    """Names of searchers and tools, without their parameters, in the order they are called."""
    queries: tuple[str, ...] | UnsetType = _UNSET
    """What is searched for; case and spacing do not matter."""


class Trajectory(ScorerRecord, frozen=True, kw_only=True):
    """Scores the way an attempt took against what is expected of its question; no value where nothing is."""

    name: str = "trajectory"
    summary: str = "attempts that took the expected way"
    method: str = "the share of attempts whose nodes, tools and queries were the expected ones"
    kinds: tuple[Kind, ...] = ("choice", "long", "extraction")
    reads: str = "the nodes, tools and queries of the attempt"
    beside: bool = False
    needs: str = "expectations"
    expected: Mapping[str, Expected] = MappingProxyType({})
    """By question id, or ``*``."""
    query: Callable[[Call], str | None] = lambda call: None
    """What a search call asked for: it stands in the journal, not in the attempt. ``None``: not known."""

    def command(self, runs: Sequence[str]) -> str:
        """`ragrounds score` with a file of expectations."""
        return f"ragrounds score {' '.join(runs)} --trajectory FILE"

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """The reason names the first part that differs, with what was seen; the prediction lists the nodes."""
        expected = self.expected.get(question.id) or self.expected.get(EVERY)
        value: float | None = None
        reason = "nothing is expected of this question"
        if attempt.status == "not_run":
            reason = attempt.reason or "not run"
        elif expected is not None:
            reason = self._difference(attempt, expected)
            value = float(not reason)
        read = AnswerRead("answered" if not blank(attempt.text) else "empty")
        return self.scored(attempt, value, read, " → ".join(node_path(attempt.events)), reason)

    def _difference(self, attempt: Attempt, expected: Expected) -> str:
        asked = [call for call in calls(attempt.events) if call.kind != "model"]
        if not isinstance(expected.nodes, UnsetType) and not follows(
            node_path(attempt.events), expected.nodes, expected.mode
        ):
            return f"nodes: {_listed(node_path(attempt.events))}"
        tools = [parse(call.actor).name if call.actor else "" for call in asked]
        if not isinstance(expected.tools, UnsetType) and not follows(tools, expected.tools, expected.mode):
            return f"tools: {_listed(tools)}"
        if not isinstance(expected.queries, UnsetType):
            queries = [self.query(call) for call in asked if call.kind == "search"]
            known = [fold(query) for query in queries if query is not None]
            if len(known) < len(queries):
                return "queries: some are not in the journal"
            if not follows(known, [fold(query) for query in expected.queries], expected.mode):
                return f"queries: {_listed(known)}"
        return ""


def queries_of(store: Store) -> Callable[[Call], str | None]:
    """How to look up what a search call asked for, in a store's journal."""

    def query(call: Call) -> str | None:
        """What the search asked for; ``None``: the journal does not hold it."""
        found = store.call(call.key, SearchRequest, SearchResult) if call.key else None
        return found[0].query if found else None

    return query


def follows(actual: Sequence[str], expected: Sequence[str], mode: Mode) -> bool:
    """Whether a sequence of steps is as expected."""
    if mode == "exact":
        return list(actual) == list(expected)
    if mode == "in_order":
        rest = iter(actual)
        return all(step in rest for step in expected)
    seen, wanted = Counter(actual), Counter(expected)
    if mode == "any_order":
        return wanted <= seen
    return seen == wanted if mode == "unordered" else seen <= wanted


def read_expected(file: Path) -> dict[str, Expected]:
    """Expectations from a file, by question id.

    Raises:
        UserError: a broken line, or two lines for one question.
    """
    found: dict[str, Expected] = {}
    for place, value in read_jsonl(file):
        expected = convert(value, Expected, file, place)
        if expected.question in found:
            raise broken(file, f"the question {shown(expected.question)} stands twice", place)
        found[expected.question] = expected
    if not found:
        raise UserError(f"The file {str(file)!r} holds no expectations.")
    return found


def _listed(steps: Sequence[str]) -> str:
    return ", ".join(steps) if steps else "none"


TRAJECTORY = Trajectory()
