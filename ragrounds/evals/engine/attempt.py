"""One attempt: a question through one agent's graph, to a final text and a status, scored and written."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import traceback
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from langgraph.errors import GraphRecursionError
from msgspec import Struct

from ragrounds.agents.agent import Agent, Limits
from ragrounds.agents.systems import is_foreign, open_system
from ragrounds.agents.systems.in_process import InProcessSystem
from ragrounds.base.contracts import Closing, FinishedAttempt, System
from ragrounds.base.errors import NotReplayed, SharedHostEnded, StopRun, SystemFailed, UserError
from ragrounds.base.records import FINAL, TOKENS_APART, Answer, Attempt, Gold, Question, Run, Score, Status, blank
from ragrounds.evals.engine.attempt_log import LONGEST_REASON, MAX_STEPS, AttemptEnded
from ragrounds.evals.engine.attempts_at_once import AttemptsAtOnce
from ragrounds.evals.engine.context import AttemptContext, guard_of
from ragrounds.evals.engine.drawn_values import AgentDraws
from ragrounds.evals.engine.in_flight import IN_FLIGHT
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.engine.run_reads import RunReads
from ragrounds.evals.engine.thread_bridge import grow_threads
from ragrounds.evals.scorers import score_by
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.store.codec import attempt_rows, score_rows
from ragrounds.evals.store.journal import StoreJournal, attempt_payer
from ragrounds.evals.store.store import Store, now
from ragrounds.evals.trace.run_facts import UNHEARD, was_heard
from ragrounds.evals.trace.traces import calls
from ragrounds.graphs import catalogue
from ragrounds.models.faults import CallFailed
from ragrounds.prompts.loader import PromptFolder

Scorers = Callable[[Question], Sequence[ScorerRecord]]
"""The scorers of a question."""
OnEnd = Callable[[FinishedAttempt], None]
"""Called when an attempt has ended, before it is written."""


class WorkItem(Struct, frozen=True):
    """A question in one epoch, with the runs that are still to answer it.

    All of it is done by one worker, so that equal calls of several agents meet there and are made once.
    """

    question: Question
    gold: Gold
    epoch: int
    planned_runs: tuple[PlannedRun, ...]


class _OpenedRun(Struct, frozen=True):
    """A run while its attempts are made: what all of them share."""

    number: int
    system: _BuiltInGraph | System
    prompts: PromptFolder
    caps: Limits
    made: Collection[tuple[str, int]]
    """Attempts that the store has."""
    scored: frozenset[str]
    """The scorers of these."""
    at_once: AttemptsAtOnce | None
    """Those of a foreign system that are in flight, where its calls are heard at the wire."""
    draws: AgentDraws
    reads: RunReads
    inner: Any
    """:class:`ragrounds.evals.engine.inner_attempts.InnerAgents`, where agents run inside this one."""


class AttemptRunner:
    """Makes the attempts of some runs. Their systems are opened once."""

    def __init__(
        self, store: Store, journal: StoreJournal, planned_runs: Sequence[PlannedRun], scorers: Scorers
    ) -> None:
        self._store = store
        self._journal = journal
        self._scorers = scorers
        self._missed: set[str] = set()
        self._alone = asyncio.Lock()
        """Held by an attempt that is made again because the process of its system ended with several in hand."""
        self._runs = {
            planned.run.id: _OpenedRun(
                number=store.number(planned.run),
                system=(system := _opened(planned.agent)),
                prompts=PromptFolder(planned.agent.card.prompts, planned.agent.layout),
                caps=planned.agent.caps,
                made=store.done(planned.run),
                scored=frozenset(store.score_codes(planned.run)),
                at_once=None if isinstance(system, _BuiltInGraph) or system.takes_context else AttemptsAtOnce(),
                draws=AgentDraws(planned.agent, here=isinstance(system, InProcessSystem)),
                reads=RunReads(store, planned, asks=journal.mode != "replay"),
                inner=self._inner(planned) if planned.inner else None,
            )
            for planned in planned_runs
        }
        # A system's own plain functions each hold a thread for as long as they run.
        grow_threads()
        if any(is_foreign(one.card) for planned in planned_runs for one in planned.agent.whole):
            from ragrounds.recorder.function import MOST_THREADS

            grow_threads(MOST_THREADS)

    def _inner(self, planned: PlannedRun) -> Any:
        module = import_module("ragrounds.evals.engine.inner_attempts")  # a leaf: most runs have no use of it
        return module.InnerAgents(planned.inner, self._journal, partial(_by_system, self._journal), self._alone)

    def _goes_on(self, run: Run) -> bool:
        """Whether a replay goes on after a run's attempt was not held by the journal: no attempt of another agent has
        been missed."""
        self._missed.add(run.id)
        return len(self._missed) < len(self._runs)

    async def close(self) -> None:
        """Close what the systems hold open: connections to an endpoint."""
        for opened in self._runs.values():
            if isinstance(opened.system, Closing):
                await opened.system.close()
            if opened.inner:
                await opened.inner.close()

    async def __call__(self, planned: PlannedRun, item: WorkItem, on_end: OnEnd) -> FinishedAttempt:
        """Make one attempt, score it, call `on_end`, and write it with its scores.

        Raises:
            StopRun: the run cannot go on.
        """
        run = planned.run
        opened = self._runs[run.id]
        context = await self._context(planned, item)

        async def made(system: _BuiltInGraph | System) -> Attempt:
            with IN_FLIGHT.flying(run, item.question.id, item.epoch, now(), context), opened.reads.listening():
                return await _attempt(system, context, run, self._journal, partial(self._goes_on, run))

        apart = opened.at_once.attempt(item.question) if opened.at_once else contextlib.nullcontext()
        async with apart:
            try:
                attempt = await made(opened.system)
            except SharedHostEnded as ended:
                before = context
                self._journal.begins_again(before.payer)
                async with self._alone, ended.alone() as system:
                    context = await self._context(planned, item)
                    context.unanswered, context.billable = before.unanswered, before.billable
                    context.note("again", f"{ended} with several attempts in hand; this one was made again, alone")
                    attempt = await made(system)
        finished = _scored(attempt, planned, item, self._scorers, context.billable)
        on_end(finished)
        scores = finished.scores
        if (attempt.question_id, attempt.epoch) in opened.made:
            scores = (*scores, *self._scores_of_before(planned, finished))
        read = await opened.reads.rows(attempt)
        await self._store.writer.write(
            lambda: [*attempt_rows(attempt, opened.number), *score_rows(scores, opened.number), *read]
        )
        return finished

    async def _context(self, planned: PlannedRun, item: WorkItem) -> AttemptContext:
        """What an attempt goes by."""
        card, opened = planned.agent.card, self._runs[planned.run.id]
        payer = attempt_payer(planned.run, item.question.id, item.epoch)
        return AttemptContext(
            item=item.question,
            epoch=item.epoch,
            parameters=planned.agent.parameters,
            models=planned.models,
            searcher=planned.searcher,
            toolbox=planned.tools,
            prices=planned.prices,
            prompts=opened.prompts,
            journal=self._journal,
            limits=opened.caps,
            recorded=card.record,
            question_only=card.question_only,
            payer=payer,
            at_once=opened.at_once,
            drawn=await opened.draws.of(self._journal, item.question, item.epoch, payer),
            gold=item.gold.documents if card.oracle else None,
            change=planned.change(item.question, item.gold, item.epoch) if planned.change is not None else None,
            guard=guard_of(card, item.question, item.gold),
            inside=opened.inner.of(item.gold) if opened.inner else None,
        )

    def _scores_of_before(self, planned: PlannedRun, finished: FinishedAttempt) -> list[Score]:
        """The scores that an attempt of before has and this one has not, a judge's perhaps, as missing ones: they are
        of another text."""
        run, attempt, made = planned.run, finished.attempt, {score.scorer for score in finished.scores}
        others = self._runs[run.id].scored - made
        return [
            Score(
                question_id=attempt.question_id,
                epoch=attempt.epoch,
                scorer=name,
                value=None,
                answer_status="empty" if blank(attempt.text) else "answered",
                reason="the attempt was repeated, and this scorer has not scored the new one",
            )
            for name in (self._store.scored_by(run, attempt.question_id, attempt.epoch, others) if others else ())
        ]


def stored_attempt(store: Store, planned: PlannedRun, item: WorkItem, scorers: Scorers) -> FinishedAttempt | None:
    """Give an attempt that the store holds and that need not be made again; ``None``: it holds no such."""
    attempt = store.attempt(planned.run, item.question.id, item.epoch)
    if attempt is None or attempt.status not in FINAL:
        return None
    return _scored(attempt, planned, item, scorers, attempt.cost_paid)


def _scored(
    attempt: Attempt, planned: PlannedRun, item: WorkItem, scorers: Scorers, billable: float | None
) -> FinishedAttempt:
    scores = tuple([score_by(scorer, attempt, item.question, item.gold) for scorer in scorers(item.question)])
    return FinishedAttempt(planned.run, attempt, scores, _tokens_made(attempt), billable)


def _tokens_made(attempt: Attempt) -> int | None:
    """Tokens of the calls that were not answered from the journal; ``None``: a call's usage is unknown."""
    total = 0
    for call in calls(attempt.events):
        if call.kind == "model" and call.role not in TOKENS_APART and not call.cached:
            if call.usage is None:
                if not call.error:
                    return None
                continue
            total += call.usage.input + call.usage.output
    return total


class _BuiltInGraph(Struct, frozen=True):
    """A built-in graph, compiled."""

    graph: Any
    nests: bool
    """Other graphs run inside its nodes, whose steps are streamed too."""


def _opened(agent: Agent) -> _BuiltInGraph | System:
    card = agent.card
    if is_foreign(card):
        return open_system(card)
    return _BuiltInGraph(catalogue.build(card.graph).compile(), catalogue.nests(card.graph, agent.parameters))


async def _answers(built: _BuiltInGraph, context: AttemptContext) -> AsyncIterator[tuple[object, str]]:
    """Run a built-in graph; give its answer, and the letter beside it, whenever a node has written one."""
    config = {"recursion_limit": MAX_STEPS}
    stream = built.graph.astream({}, config, context=context, stream_mode="tasks", subgraphs=built.nests)
    async for event in stream:
        space, task = event if built.nests else ((), event)
        if "result" not in task:
            context.entered(task["id"], task["name"], task_of(space))
            continue
        changes = task["result"]
        context.left(task["id"], task["name"], changes, str(task["error"] or ""))
        if not space and isinstance(changes, dict) and "answer" in changes:  # not from a nested graph
            yield changes["answer"], changes.get("choice", "")


def task_of(space: Sequence[str]) -> str:
    """The task in which a graph runs, from its place (``("node:task", …)``); empty: in none."""
    return space[-1].rpartition(":")[2] if space else ""


async def _by_system(journal: StoreJournal, system: System, context: AttemptContext, agent: str) -> Answer:
    """Have a system that is not ours answer.

    Raises:
        NotReplayed: this is a replay, and nothing of it is recorded.
    """
    # Here: what records others' clients is of no use to the graphs that ship.
    from ragrounds.evals.engine.foreign_system import run_system

    told = await run_system(system, context, journal)
    heard = journal.mode != "replay" or was_heard(context.events)
    if not heard and not getattr(system, "sealed", False):
        raise NotReplayed(f"{agent} cannot be replayed: {UNHEARD}.")
    return told


async def _attempt(
    system: _BuiltInGraph | System,
    context: AttemptContext,
    run: Run,
    journal: StoreJournal,
    goes_on: Callable[[], bool],
) -> Attempt:
    """`goes_on`: whether the others are asked where this one cannot be replayed."""
    at, start = now(), time.perf_counter()
    status: Status = "completed"
    reason = ""
    answer: object = None
    choice = ""
    try:
        async with asyncio.timeout(context.limits.seconds) as cap:
            if isinstance(system, _BuiltInGraph):
                async for given, letter in _answers(system, context):
                    answer, choice = given, letter
            else:
                told = await _by_system(journal, system, context, run.agent)
                answer, choice = told.text, told.choice
    except AttemptEnded as ended:
        status, reason = ended.status, ended.reason
    except TimeoutError as error:
        if cap.expired():  # in the middle of a call; between calls the context ends it
            status, reason = "capped", f"the attempt's cap of {context.limits.seconds:g} seconds is reached"
        else:
            status, reason = "failed", f"TimeoutError: {error}"
    except CallFailed as failed:
        status, reason = "failed", f"{failed.kind}: {failed.message}"
    except GraphRecursionError as error:  # by the graph's own limit, where it has one
        limit = re.search(r"\d+", str(error))
        status, reason = "capped", f"the graph did not finish within {limit[0] if limit else MAX_STEPS} steps"
    except NotReplayed as missed:
        if not goes_on():
            raise
        status, reason = "failed", str(missed)
    except (UserError, StopRun, SharedHostEnded):
        raise
    except Exception as error:
        # A graph with a fault in it must not end the run; the trace says where it was.
        status, reason = "failed", f"{type(error).__name__}: {error}"
        if context.last_failure and context.last_failure not in reason:
            reason += f" (a call had failed: {context.last_failure})"
        own = error.trace if isinstance(error, SystemFailed) else ""
        context.note("traceback", own or "".join(traceback.format_exception(error)))
    finally:
        context.close()
    text = answer if isinstance(answer, str) else ""
    if status == "capped" and not text:
        text = context.last_reply
    return Attempt(
        run=run.id,
        question_id=context.item.id,
        epoch=context.epoch,
        status=status,
        text=text,
        choice=choice,
        model_calls=context.calls["model"],
        searches=context.calls["search"],
        tool_calls=context.calls["tool"],
        unrecorded=context.missed,
        unanswered=context.unanswered,
        reason=reason[:LONGEST_REASON],
        usage=context.usage,
        cost_paid=context.cost_paid,
        cost_uncached=context.cost_uncached,
        seconds=round(time.perf_counter() - start, 4),
        at=at,
        events=tuple(context.events),
    )
