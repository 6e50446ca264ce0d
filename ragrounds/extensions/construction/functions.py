"""Benchmarks made from a user's reports, queries and corpora, by the pipelines of papers.

A request of :mod:`ragrounds.extensions.construction.requests` names one pipeline and its input; :func:`build` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Annotated

from msgspec import Struct

from ragrounds.api import arguments
from ragrounds.api.arguments import MODEL, Arg, check
from ragrounds.api.event_loop import finish
from ragrounds.api.execution import ServedExecution
from ragrounds.api.progress import RunListener
from ragrounds.api.servers import probe_model_servers, server_defaults
from ragrounds.api.workspace import closing, open_store
from ragrounds.base.contracts import Searcher
from ragrounds.base.records import FINAL, Run
from ragrounds.base.settings import Settings
from ragrounds.base.specs import Value
from ragrounds.evals.engine.budget import BudgetStop
from ragrounds.evals.engine.circuit_breaker import CircuitBreaker
from ragrounds.evals.engine.plan import OpenedAgent, PlannedRun, find_or_start_run, model_texts, open_models
from ragrounds.evals.engine.progress import ReplayProgress, finished_attempts
from ragrounds.evals.engine.replayed_runs import ReplayedRuns
from ragrounds.evals.engine.scheduler import replay
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.leases import Lease
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.extensions.construction.card import BuiltCard, count, provenance, stage_count
from ragrounds.extensions.construction.files import (
    FILE,
    GRADES,
    Finish,
    check_folder,
    json_lines,
    not_listed,
    rejections,
    write_built,
)
from ragrounds.extensions.construction.items import ItemSet
from ragrounds.extensions.construction.outcome import KeptScorer
from ragrounds.extensions.construction.pipeline import Pipeline, results
from ragrounds.models.prices import read_prices
from ragrounds.ui.text import number_of, safe


class BuildExecution(ServedExecution, frozen=True):
    """Output folder of a benchmark, and models and limits of its pipeline."""

    out: Annotated[Path, Arg("The folder that the benchmark is written to: new, or made before.", short="-o")]
    model: Annotated[
        str | None,
        Arg(
            "For every stage that none is named for: provider:model[temperature=0,…], such as openai:gpt-4o-mini.",
            short="-m",
            group=MODEL,
        ),
    ] = None
    base_url: arguments.BaseUrl = None
    alias: arguments.Alias = None
    limit: arguments.Limit = None
    seed: arguments.Seed = 0
    new: arguments.New = False


class PreparedBuild(Struct, frozen=True, kw_only=True):
    """A pipeline with its items, before a model is called."""

    pipeline: Pipeline
    item_set: ItemSet
    finish: Finish
    model: str | None = None
    """Model of every stage without a specific one; ``None`` for the execution's."""
    models: Mapping[str, str] = MappingProxyType({})
    """Models of named roles."""
    parameters: Mapping[str, Value] = MappingProxyType({})
    searcher: Searcher | None = None


class BuildRequest(Struct, frozen=True, kw_only=True):
    """A pipeline, and its input."""

    def prepare(self, execution: BuildExecution, settings: Settings, listener: RunListener) -> PreparedBuild:
        """Read the items. No model is called.

        Raises:
            UserError: the input is missing, cannot be read, or contains no items.
        """
        raise NotImplementedError


class BuildResult(Struct, frozen=True, kw_only=True):
    """Result of :func:`build`."""

    card: BuiltCard
    """Card of the benchmark; a size of 0 means that nothing was kept."""
    rejected: Path
    """File of the items that were not kept, with the reasons."""
    grades: Path | None
    """File of all grades that models gave, written even if nothing was kept; ``None`` if there are no grades."""
    following: tuple[str, ...]
    """Commands to try next."""
    ended: str
    """Reason why not all items were started; empty if all were."""
    failed: bool
    """True if an item failed; the same call tries it again."""
    made: int
    """Number of model calls that were made."""
    reused: int
    """Number of model calls that were answered from the journal."""


def build(request: BuildRequest, execution: BuildExecution, listener: RunListener | None = None) -> BuildResult:
    """Run a pipeline over its items, and write the benchmark with its card into a folder for
    :func:`ragrounds.api.data.add`.

    Args:
        request: one of :mod:`ragrounds.extensions.construction.requests`, such as
            ``CaseQuestions(reports="files:reports/")``.
        execution: the folder, the models, and the limits.
        listener: receives the events of the run.

    Raises:
        UserError: items that cannot be read, no model, a folder with other contents, or another process that is
            building the same.
    """
    check(request)
    check(execution)
    settings, observer, out = execution.used_settings, listener or RunListener(), execution.out
    breaker = CircuitBreaker(execution.failure_limit)
    prepared = request.prepare(execution, settings, observer)
    pipeline, items = prepared.pipeline, prepared.item_set
    check_folder(out, pipeline.name)
    with open_store(settings) as store, ExitStack() as resources:
        planned = _planned_run(store, prepared, execution, settings)
        model_names = ", ".join(sorted({model.spec for model in planned.models.values()}))
        work_text = f"{number_of(len(items.items), 'item')} of {safe(items.items.name)}"
        observer.message(f"{planned.run.id}: {work_text}, {safe(model_names)}")
        lease = resources.enter_context(Lease(store.engine, [planned.run.id], observer.message))
        recorded = StoreJournal(store, execution.journal)
        scorers = (KeptScorer(),)

        async def carry_out() -> str:
            async with closing(planned.all_models, recorded):
                finished = finished_attempts(store, [planned])
                done = {run: {attempt.key for attempt in attempts} for run, attempts in finished.items()}
                with observer.progress(ReplayProgress(store, [planned], finished)) as progress_listener:
                    return await replay(
                        ReplayedRuns(store, recorded, [planned], lambda question: scorers, done),
                        items.items.questions,
                        items.items.golds,
                        concurrency=execution.in_flight,
                        stops=[BudgetStop(execution.budget), breaker, lease],
                        listener=progress_listener,
                    )

        ended = finish(carry_out())
        calls_text = number_of(recorded.calls_made, "model call")
        observer.message(f"{calls_text} made, {recorded.reused:,} answered from the journal.")
        if ended:
            observer.message(f"Ended early: {ended}. The same command resumes.")
        item_results = results(store, planned.run, items, ended)
        product = prepared.finish(item_results)
        stages = count(pipeline.stages, items, item_results)
        if product.stage:
            reasons = [drop.reason for drop in product.dropped if drop.stage == product.stage]
            stages.append(stage_count(product.stage, stages[-1].kept, reasons))
        provenance_record = provenance(
            store,
            planned.run,
            pipeline,
            items,
            stages,
            figures=product.figures,
            notes=[*product.notes, *not_listed(items)],
        )
        card = BuiltCard(benchmark=product.benchmark, made=provenance_record)
        rejected = {FILE: json_lines(rejections(items, item_results, product.dropped))}
        card = write_built(out, {**product.files, **rejected}, card)
    return BuildResult(
        card=card,
        rejected=out / FILE,
        grades=out / GRADES if GRADES in product.files else None,
        following=tuple(command.replace("{out}", quote(str(out))) for command in product.following),
        ended=ended,
        failed=any(result.status == "failed" for result in item_results),
        made=recorded.calls_made,
        reused=recorded.reused,
    )


def _planned_run(store: Store, prepared: PreparedBuild, execution: BuildExecution, settings: Settings) -> PlannedRun:
    """Resume or start the run of a prepared pipeline.

    With the journal mode ``fresh``, every item is processed again in a new run; an interrupted fresh run is resumed.

    Raises:
        UserError: no model, or one that cannot be opened.
    """
    agent, searcher = prepared.pipeline.agent(prepared.parameters, prepared.models), prepared.searcher
    model, prices = prepared.model or execution.model or settings.model, read_prices(settings.home)
    defaults = server_defaults(execution.base_url, execution.alias, settings)
    models = model_texts(agent, model, defaults).values()
    servers = probe_model_servers(store, models, execution.server_changed, execution.journal)
    opened_agent = OpenedAgent(
        agent, open_models(agent, model, {}, prices, defaults, servers.texts, settings.home), searcher
    )
    items, run_ids = prepared.item_set.items, {run.id for run in store.runs()}
    run = find_or_start_run(store, items, opened_agent, 1, new=execution.new, servers=servers.facts)
    if execution.journal == "fresh" and run.id in run_ids and not _is_fresh_run(store, run):
        run = find_or_start_run(store, items, opened_agent, 1, new=True, servers=servers.facts)
    return PlannedRun(agent, opened_agent.models, searcher, run=run, prices=prices)


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
