"""Pipelines as data, their runs in the store, and the results of items read from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from ragrounds.agents.agent import Agent, Card
from ragrounds.base.records import Attempt, Gold, Question, Run
from ragrounds.base.specs import Spec, Value
from ragrounds.evals.store.store import Store
from ragrounds.extensions.construction.items import ItemSet
from ragrounds.extensions.construction.outcome import JsonObject, Outcome, read_outcome


class Pipeline(Struct, frozen=True, kw_only=True):
    """One way to make a benchmark."""

    name: str
    """Name of the pipeline's command: ``case-questions``."""
    graph: str
    """Import path of the graph: ``ragrounds.extensions.construction.case_questions:build``."""
    summary: str
    source: str
    """Paper and section that the pipeline follows."""
    stages: tuple[str, ...]
    """Nodes of the graph in their order."""
    parameters: dict[str, bool | int | float | str] = field(default_factory=dict)
    """Parameters that the graph reads from its context, with the defaults."""
    searches: bool = False

    def agent(self, parameters: Mapping[str, Value], models: Mapping[str, str]) -> Agent:
        """Return the agent of a run, with `parameters` in addition to the defaults, and models by role."""
        values = {**self.parameters, **parameters}
        changed = {name: value for name, value in values.items() if self.parameters.get(name) != value}
        card = Card(
            graph=self.graph,
            summary=self.summary,
            source=self.source,
            searches=self.searches,
            question_only=False,
            models=dict(models),
            output="answer",
        )
        return Agent(spec=str(Spec(self.name, changed)), card=card, parameters=dict(values))


class ItemResult(Struct, frozen=True, kw_only=True):
    """An item and its outcome."""

    question: Question
    gold: Gold
    outcome: Outcome | None
    """Outcome; ``None`` if the item failed, or was not run."""
    status: Literal["kept", "rejected", "failed", "not run"]
    reason: str = ""
    """Reason why the item failed, or was not run."""

    @property
    def product(self) -> JsonObject:
        """Product of the pipeline for the item; empty if it was not kept."""
        return self.outcome.product if self.outcome else {}


def results(store: Store, run: Run, item_set: ItemSet, ended: str = "") -> list[ItemResult]:
    """Return every item with its outcome, in the items' order. `ended` is the reason why the run ended before its last
    item."""
    attempts = {attempt.question_id: attempt for attempt in store.attempts(run)}
    return [
        _item_result(question, item_set.items.golds[question.id], attempts.get(question.id), ended)
        for question in item_set.items.questions
    ]


def _item_result(question: Question, gold: Gold, attempt: Attempt | None, ended: str) -> ItemResult:
    outcome = read_outcome(attempt) if attempt else None
    if outcome is not None:
        return ItemResult(question=question, gold=gold, outcome=outcome, status="kept" if outcome.kept else "rejected")
    failed = attempt is not None and attempt.status == "failed"
    return ItemResult(
        question=question,
        gold=gold,
        outcome=None,
        status="failed" if failed else "not run",
        reason=attempt.reason if attempt else ended,
    )


def kept_results(all_results: Sequence[ItemResult]) -> list[ItemResult]:
    """Return the items that the graph kept."""
    return [item_result for item_result in all_results if item_result.status == "kept"]
