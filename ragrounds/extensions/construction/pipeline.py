"""Pipelines as data, their runs in the store, and the results of items read from there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from ragrounds.agents.agent import Agent, Card
from ragrounds.base.contracts import Searcher
from ragrounds.base.records import FINAL, Attempt, Gold, Question, Run
from ragrounds.base.specs import Spec, Value
from ragrounds.evals.engine.plan import OpenedAgent, PlannedRun, find_or_start_run, model_texts, open_models
from ragrounds.evals.engine.servers import MetServers
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.extensions.construction.items import ItemSet
from ragrounds.extensions.construction.outcome import JsonObject, Outcome, read_outcome
from ragrounds.models.prices import Price


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


def plan_build(
    store: Store,
    pipeline: Pipeline,
    item_set: ItemSet,
    *,
    parameters: Mapping[str, Value],
    model: str | None,
    models: Mapping[str, str],
    searcher: Searcher | None,
    prices: Mapping[str, Price],
    defaults: Mapping[str, Value | None],
    new: bool,
    fresh: bool,
    meet: Callable[[Iterable[str]], MetServers],
) -> PlannedRun:
    """Resume or start the run of this pipeline on these items.

    `models` are those of named roles, `model` is for all others. `meet` probes the servers of models, given the models'
    texts. With `fresh`, every item is processed again in a new run; an interrupted fresh run is resumed.

    Raises:
        UserError: no model, or one that cannot be opened.
    """
    agent = pipeline.agent(parameters, models)
    servers = meet(model_texts(agent, model, defaults).values())
    opened_agent = OpenedAgent(agent, open_models(agent, model, {}, prices, defaults, servers.texts), searcher)
    run_ids = {run.id for run in store.runs()}
    run = find_or_start_run(store, item_set.items, opened_agent, 1, new=new, servers=servers.facts)
    if fresh and run.id in run_ids and not _is_fresh_run(store, run):
        run = find_or_start_run(store, item_set.items, opened_agent, 1, new=True, servers=servers.facts)
    return PlannedRun(run, agent, opened_agent.models, searcher, prices)


def _is_fresh_run(store: Store, run: Run) -> bool:
    """Return True if an unfinished run, or one with failed items, has only answers that were made and paid
    for in it.
    """
    attempts = list(store.attempts(run))
    if sum(attempt.status in FINAL for attempt in attempts) >= run.count:
        return False
    has_predecessor = any(
        other.fingerprint == run.fingerprint and other.created < run.created for other in store.runs()
    )
    return has_predecessor or not any(call.cached for attempt in attempts for call in calls(attempt.events))


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
