"""Running a pipeline: its graph over the items as a run of the store, and the outcomes read back from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from ragrounds.build.intake import Intake
from ragrounds.build.outcome import KeptScorer, Outcome, read_outcome
from ragrounds.build.pipeline import Pipeline
from ragrounds.contracts import Model, Searcher
from ragrounds.evals.engine.budget import Budget
from ragrounds.evals.engine.plan import Listener, PlannedRun, Stop, find_or_start_run, open_models
from ragrounds.evals.engine.scheduler import replay
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.models.prices import Price
from ragrounds.records import Attempt, Gold, Question, Run
from ragrounds.specs import Value


class Result(Struct, frozen=True, kw_only=True):
    """An item and what became of it."""

    question: Question
    gold: Gold
    outcome: Outcome | None
    """``None``: it failed, or was not run."""
    status: Literal["kept", "rejected", "failed", "not run"]
    reason: str = ""
    """Why it failed, or was not run."""


def plan_build(
    store: Store,
    pipeline: Pipeline,
    intake: Intake,
    *,
    parameters: Mapping[str, Value],
    model: str | None,
    models: Mapping[str, str] = MappingProxyType({}),
    searcher: Searcher | None = None,
    prices: Mapping[str, Price] = MappingProxyType({}),
    defaults: Mapping[str, Value | None] = MappingProxyType({}),
    new: bool = False,
) -> PlannedRun:
    """The run of this pipeline on these items, begun or gone on with. `models` are those of named roles, `model` is for
    all others.

    Raises:
        UserError: no model, or one that cannot be opened.
    """
    agent = pipeline.agent(parameters, models)
    opened: dict[str, Model] = open_models(agent, model, {}, prices, defaults)
    run = find_or_start_run(store, intake.items, agent, opened, searcher, 1, new)
    return PlannedRun(run, agent, opened, searcher, prices)


async def carry_out(
    store: Store,
    journal: StoreJournal,
    planned: PlannedRun,
    intake: Intake,
    *,
    concurrency: int = 16,
    budget: Budget | None = None,
    stops: Sequence[Stop] = (),
    listener: Listener = lambda finished: None,
) -> str:
    """Run what is not done yet; gives why it ended early, or an empty text.

    Raises:
        StopRun: the run cannot go on, or was interrupted; the same command goes on.
    """
    items = intake.items
    scorers = (KeptScorer(),)
    return await replay(
        store,
        journal,
        [planned],
        items.questions,
        items.golds,
        lambda question: scorers,
        concurrency=concurrency,
        budget=budget,
        stops=stops,
        listener=listener,
    )


def results(store: Store, run: Run, intake: Intake, ended: str = "") -> list[Result]:
    """Every item with its outcome, in the items' order. `ended`: why the run ended before its last item."""
    attempts = {attempt.question_id: attempt for attempt in store.attempts(run)}
    return [
        _result(question, intake.items.golds[question.id], attempts.get(question.id), ended)
        for question in intake.items.questions
    ]


def _result(question: Question, gold: Gold, attempt: Attempt | None, ended: str) -> Result:
    outcome = read_outcome(attempt) if attempt else None
    if outcome is not None:
        return Result(question=question, gold=gold, outcome=outcome, status="kept" if outcome.kept else "rejected")
    failed = attempt is not None and attempt.status == "failed"
    return Result(
        question=question,
        gold=gold,
        outcome=None,
        status="failed" if failed else "not run",
        reason=attempt.reason if attempt else ended,
    )


def kept(all_results: Sequence[Result]) -> list[Result]:
    """Those that the graph kept."""
    return [result for result in all_results if result.status == "kept"]
