"""One attempt: a question through one agent's graph, to a final text and a status, scored and written."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec
from langgraph.errors import GraphRecursionError
from msgspec import Struct

from ragrounds.agents.agent import Agent
from ragrounds.errors import StopRun, UserError
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.evals.engine.plan import FINAL, Ended, FinishedAttempt, PlannedRun, Scorers, WorkItem
from ragrounds.evals.store.codec import attempt_rows, score_rows
from ragrounds.evals.store.journal import StoreJournal, attempt_payer
from ragrounds.evals.store.store import Store, now
from ragrounds.evals.store.traces import calls
from ragrounds.graphs import catalogue
from ragrounds.graphs import user_graph as own
from ragrounds.models.faults import CallFailed
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Attempt, Run, Status

MAX_STEPS = 1000
"""Steps of one attempt."""


class AttemptRunner:
    """Makes attempts of these planned_runs: their graphs are compiled once."""

    def __init__(
        self, store: Store, journal: StoreJournal, planned_runs: Sequence[PlannedRun], scorers: Scorers
    ) -> None:
        self._store = store
        self._journal = journal
        self._scorers = scorers
        self._numbers = {planned.run.id: store.number(planned.run) for planned in planned_runs}
        self._compiled = {planned.run.id: _compiled(planned.agent) for planned in planned_runs}

    async def __call__(self, planned: PlannedRun, item: WorkItem, ended: Ended) -> FinishedAttempt:
        """Make one attempt, tell `ended`, and write it with its scores.

        Raises:
            StopRun: the run cannot go on.
        """
        run = planned.run
        session = _session(planned, item, self._journal)
        attempt = await _attempt(self._compiled[run.id], session, run)
        finished = _finished(attempt, planned, item, self._scorers)
        ended(finished)
        store, number = self._store, self._numbers[run.id]
        await store.writer.write(lambda: attempt_rows(attempt, number) + score_rows(finished.scores, number))
        return finished


def kept(store: Store, planned: PlannedRun, item: WorkItem, scorers: Scorers) -> FinishedAttempt | None:
    """What the store holds of an attempt that need not be made again; ``None``: nothing such."""
    attempt = store.attempt(planned.run, item.question.id, item.epoch)
    return _finished(attempt, planned, item, scorers) if attempt and attempt.status in FINAL else None


def _finished(attempt: Attempt, planned: PlannedRun, item: WorkItem, scorers: Scorers) -> FinishedAttempt:
    scores = tuple(scorer.score(attempt, item.question, item.gold) for scorer in scorers(item.question))
    return FinishedAttempt(planned.run, attempt, scores, _made(attempt))


def _made(attempt: Attempt) -> int | None:
    """Tokens of the calls that were not answered from the journal."""
    total = 0
    for call in calls(attempt.events):
        if call.kind == "model" and not call.cached:
            if call.usage is None:
                if not call.error:
                    return None
                continue
            total += call.usage.input + call.usage.output
    return total


def _session(planned: PlannedRun, item: WorkItem, journal: StoreJournal) -> AttemptContext:
    return AttemptContext(
        item=item.question,
        epoch=item.epoch,
        parameters=planned.agent.parameters,
        models=planned.models,
        searcher=planned.searcher,
        prices=planned.prices,
        prompts=PromptFolder(planned.agent.card.prompts),
        journal=journal,
        limits=planned.agent.card.limits,
        question_only=planned.agent.card.question_only,
        payer=attempt_payer(planned.run, item.question.id, item.epoch),
        gold=item.gold.documents if planned.agent.card.oracle else None,
    )


class _BuiltIn(Struct, frozen=True):
    """A built-in graph, ready to run."""

    graph: Any
    nests: bool
    """Other graphs run inside its nodes, whose steps are streamed too."""


def _compiled(agent: Agent) -> _BuiltIn | own.OwnGraph:
    card = agent.card
    if own.is_own(card.graph):
        return own.open_own(card.graph, card.input, card.output, card.nests)
    return _BuiltIn(catalogue.build(card.graph).compile(), catalogue.nests(card.graph, agent.parameters))


async def _answers(built: _BuiltIn, session: AttemptContext) -> AsyncIterator[Any]:
    """Run a built-in graph; gives its answer whenever a node has written one."""
    # Every built-in graph ends by its own limits, far below this one.
    config = {"recursion_limit": MAX_STEPS}
    told = built.graph.astream({}, config, context=session, stream_mode="tasks", subgraphs=built.nests)
    async for space, event in told if built.nests else _outermost(told):
        if "result" not in event:
            session.entered(event["id"], event["name"])
            continue
        changes = _plain(event["result"])
        session.left(event["id"], event["name"], changes, str(event["error"] or ""))
        if not space and "answer" in changes:  # not from a graph inside a node
            yield changes["answer"]


async def _outermost(told: AsyncIterator[Any]) -> AsyncIterator[tuple[tuple[str, ...], Any]]:
    async for event in told:
        yield (), event


async def _attempt(graph: _BuiltIn | own.OwnGraph, session: AttemptContext, run: Run) -> Attempt:
    at, start = now(), time.perf_counter()
    status: Status = "completed"
    reason, answer = "", None
    try:
        async with asyncio.timeout(session.limits.seconds) as cap:
            if isinstance(graph, own.OwnGraph):
                from ragrounds.evals.engine.foreign_graph import run_own

                answer = await run_own(graph, session, MAX_STEPS)
            else:
                async for given in _answers(graph, session):
                    answer = given
    except AttemptEnded as ended:
        status, reason = ended.status, ended.reason
    except TimeoutError as error:
        if cap.expired():  # in the middle of a call; between calls the session ends it
            status, reason = "capped", f"the attempt's cap of {session.limits.seconds:g} seconds is reached"
        else:
            status, reason = "failed", f"TimeoutError: {error}"
    except CallFailed as failed:
        status, reason = "failed", f"{failed.kind}: {failed.message}"
    except GraphRecursionError:
        status, reason = "capped", f"the graph did not end within {MAX_STEPS} steps"
    except (UserError, StopRun):
        raise
    except Exception as error:
        # A graph with a fault in it must not end the run; the trace says where it was.
        status, reason = "failed", f"{type(error).__name__}: {error}"
        session.note("traceback", "".join(traceback.format_exception(error)))
    text = answer if isinstance(answer, str) else ""
    if status == "capped" and not text:
        text = session.last_reply
    return Attempt(
        run=run.id,
        question_id=session.item.id,
        epoch=session.epoch,
        status=status,
        text=text,
        reason=reason,
        usage=session.usage,
        cost_paid=session.cost_paid,
        cost_uncached=session.cost_uncached,
        seconds=round(time.perf_counter() - start, 4),
        at=at,
        calls=session.calls,
        events=tuple(session.events),
    )


def _plain(value: Any) -> dict[str, Any]:
    """A node's changes as JSON-able values; what is not becomes its text."""
    if not isinstance(value, Mapping):
        return {}
    return {str(key): msgspec.to_builtins(item, enc_hook=repr) for key, item in value.items()}
