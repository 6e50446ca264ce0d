"""A pipeline as data, its run in the store, and every item's result read back from there."""

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
    """As the command has it: ``case-questions``."""
    graph: str
    """``ragrounds.extensions.construction.case_questions:build``."""
    summary: str
    source: str
    """The paper and the section that it follows."""
    stages: tuple[str, ...]
    """The graph's nodes in their order."""
    parameters: dict[str, bool | int | float | str] = field(default_factory=dict)
    """What the graph reads from its context, with the defaults."""
    searches: bool = False

    def agent(self, parameters: Mapping[str, Value], models: Mapping[str, str]) -> Agent:
        """The agent of a run: `parameters` set beside the defaults, and models by role."""
        settled = {**self.parameters, **parameters}
        changed = {name: value for name, value in settled.items() if self.parameters.get(name) != value}
        card = Card(
            graph=self.graph,
            summary=self.summary,
            source=self.source,
            searches=self.searches,
            question_only=False,
            models=dict(models),
            output="answer",
        )
        return Agent(spec=str(Spec(self.name, changed)), card=card, parameters=dict(settled))


class ItemResult(Struct, frozen=True, kw_only=True):
    """An item and what became of it."""

    question: Question
    gold: Gold
    outcome: Outcome | None
    """``None``: it failed, or was not run."""
    status: Literal["kept", "rejected", "failed", "not run"]
    reason: str = ""
    """Why it failed, or was not run."""

    @property
    def product(self) -> JsonObject:
        """What the pipeline made of it; empty where it was not kept."""
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
    """The run of this pipeline on these items, resumed or started. `models` are those of named roles, `model` is for
    all others; `meet` asks the servers of models, by their texts, what they are. Under `fresh` every item is worked on
    anew, in another run; one that was begun so and broken off is resumed.

    Raises:
        UserError: no model, or one that cannot be opened.
    """
    agent = pipeline.agent(parameters, models)
    met = meet(model_texts(agent, model, defaults).values())
    opened = OpenedAgent(agent, open_models(agent, model, {}, prices, defaults, met.texts), searcher)
    known = {run.id for run in store.runs()}
    run = find_or_start_run(store, item_set.items, opened, 1, new=new, servers=met.facts)
    if fresh and run.id in known and not _begun_anew(store, run):
        run = find_or_start_run(store, item_set.items, opened, 1, new=True, servers=met.facts)
    return PlannedRun(run, agent, opened.models, searcher, prices)


def _begun_anew(store: Store, run: Run) -> bool:
    """Whether a run is broken off, or has failed items, and nothing in it was answered from before it began: all it
    has was asked anew, and paid for."""
    attempts = list(store.attempts(run))
    if sum(attempt.status in FINAL for attempt in attempts) >= run.count:
        return False
    again = any(one.fingerprint == run.fingerprint and one.created < run.created for one in store.runs())
    return again or not any(call.cached for attempt in attempts for call in calls(attempt.events))


def results(store: Store, run: Run, item_set: ItemSet, ended: str = "") -> list[ItemResult]:
    """Every item with its outcome, in the items' order. `ended`: why the run ended before its last item."""
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
    """Those that the graph kept."""
    return [result for result in all_results if result.status == "kept"]
