"""Replaying questions through agents: a steady pool of attempts in flight on one event loop."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from langgraph.errors import GraphRecursionError
from msgspec import Struct

from ragrounds.agents.agent import Agent
from ragrounds.contracts import Model, Scorer, Searcher
from ragrounds.errors import StopRun, UserError
from ragrounds.evals.budget import Budget, Spending
from ragrounds.evals.interrupting import interruptible
from ragrounds.evals.journal import StoreJournal
from ragrounds.evals.session import Session
from ragrounds.evals.store.store import Store, now
from ragrounds.evals.trail import AttemptEnded
from ragrounds.evals.tree import calls
from ragrounds.graphs import catalogue, own
from ragrounds.models.faults import CallFailed
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Attempt, Gold, Question, Run, Score, Status

FINAL: frozenset[str] = frozenset({"completed", "refused", "capped"})
"""Attempts with another status are tried again when their run goes on. What a provider answered for good (a response
without choices) is in the journal, so trying again costs nothing."""


LONGEST = 1000
"""Steps of one attempt."""


class Strand(Struct, frozen=True):
    """One run of the replay: its agent, ready to go."""

    run: Run
    agent: Agent
    models: Mapping[str, Model]
    searcher: Searcher | None


class Finished(Struct, frozen=True):
    """What the progress display is told of an attempt."""

    run: Run
    attempt: Attempt
    scores: tuple[Score, ...]


Listener = Callable[[Finished], None]
Scorers = Callable[[Question], Sequence[Scorer]]


async def replay(
    store: Store,
    journal: StoreJournal,
    strands: Sequence[Strand],
    questions: Sequence[Question],
    golds: Mapping[str, Gold],
    scorers: Scorers,
    *,
    concurrency: int = 16,
    budget: Budget | None = None,
    listener: Listener = lambda finished: None,
) -> str:
    """Answer every question with every strand, as often as the run has epochs, leaving out what is done.

    All agents of one question follow each other in the queue, so that equal calls meet. Attempts are written with
    their scores as soon as they end.

    Returns:
        Why the run ended before its last question (its budget is used up); empty: it did not.

    Raises:
        StopRun: the run cannot go on, or was interrupted; everything that ended is kept, and the same command goes on
            from there.
    """
    _no_uploads()
    numbers = {strand.run.id: store.number(strand.run) for strand in strands}
    compiled = {strand.run.id: _compiled(strand.agent) for strand in strands}
    spending = Spending(budget or Budget())
    waiting = _waiting(store, strands, questions, spending)
    ends: list[BaseException] = []

    async def one(strand: Strand, question: Question, epoch: int) -> None:
        session = _session(strand, question, golds[question.id], epoch, journal)
        attempt = await _attempt(compiled[strand.run.id], session, strand.run)
        scores = tuple(scorer.score(attempt, question, golds[question.id]) for scorer in scorers(question))
        number = numbers[strand.run.id]
        await store.writer.write(lambda: store.attempt_rows(attempt, number) + store.score_rows(scores, number))
        spending.hear(attempt, _made(attempt))
        listener(Finished(strand.run, attempt, scores))

    async def work() -> None:
        for strand, question, epoch in waiting:
            if ends:
                return
            try:
                await one(strand, question, epoch)
            except UserError as error:
                ends.append(error)

    with interruptible(ends):
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(max(1, concurrency)):
                    group.create_task(work())
        except asyncio.CancelledError:
            if not ends:  # not by our own second Ctrl-C
                raise
    if ends:
        raise ends[0]
    return spending.ended


def _waiting(
    store: Store, strands: Sequence[Strand], questions: Sequence[Question], spending: Spending
) -> Iterator[tuple[Strand, Question, int]]:
    done = {strand.run.id: store.done(strand.run) for strand in strands}
    epochs = max((strand.run.epochs for strand in strands), default=0)
    for epoch, question in itertools.product(range(epochs), questions):
        left = [
            strand
            for strand in strands
            if epoch < strand.run.epochs and done[strand.run.id].get((question.id, epoch)) not in FINAL
        ]
        # Asked between questions, never inside one: agents stay comparable on the same questions.
        if left and spending.used_up():
            return
        yield from ((strand, question, epoch) for strand in left)


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


def _session(strand: Strand, question: Question, gold: Gold, epoch: int, journal: StoreJournal) -> Session:
    return Session(
        item=question,
        epoch=epoch,
        parameters=strand.agent.parameters,
        models=strand.models,
        searcher=strand.searcher,
        prompts=PromptFolder(strand.agent.card.prompts),
        journal=journal,
        limits=strand.agent.card.limits,
        question_only=strand.agent.card.question_only,
        gold=gold.documents if strand.agent.card.oracle else None,
    )


class _BuiltIn(Struct, frozen=True):
    """A built-in graph, ready to run."""

    graph: Any
    nests: bool
    """Other graphs run inside its nodes, whose steps are streamed too."""


def _compiled(agent: Agent) -> _BuiltIn | own.OwnGraph:
    card = agent.card
    if own.is_own(card.graph):
        return own.open_own(card.graph, card.input, card.output)
    return _BuiltIn(catalogue.build(card.graph).compile(), catalogue.nests(card.graph, agent.parameters))


async def _answers(built: _BuiltIn, session: Session) -> AsyncIterator[Any]:
    """Run a built-in graph; gives its answer whenever a node has written one."""
    # Every built-in graph ends by its own limits, far below this one.
    config = {"recursion_limit": LONGEST}
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


async def _attempt(graph: _BuiltIn | own.OwnGraph, session: Session, run: Run) -> Attempt:
    at, start = now(), time.perf_counter()
    status: Status = "completed"
    reason, answer = "", None
    try:
        async with asyncio.timeout(session.limits.seconds) as cap:
            if isinstance(graph, own.OwnGraph):
                from ragrounds.evals.observing import run_own

                answer = await run_own(graph, session, LONGEST)
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
        status, reason = "capped", f"the graph did not end within {LONGEST} steps"
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
        spent=session.spent,
        cold=session.cold,
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


def _no_uploads() -> None:
    """LangSmith's variables in the environment would upload every trace; nothing leaves unless asked for."""
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING"):
        os.environ[name] = "false"
