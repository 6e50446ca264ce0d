"""One attempt: a question through one agent's graph, to a final text and a status, scored and written to the store."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import traceback
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from importlib import import_module
from typing import Any

from langgraph.errors import GraphRecursionError
from msgspec import Struct

from ragrounds.agents.agent import Limits
from ragrounds.agents.systems.kinds import kind_of, reads_of_systems
from ragrounds.base.contracts import Closing, FinishedAttempt, System
from ragrounds.base.errors import HostEnded, NotReplayed, SharedHostEnded, StopRun, SystemFailed, UserError
from ragrounds.base.records import FINAL, TOKENS_APART, Answer, Attempt, Gold, Question, Run, Score, Status, blank
from ragrounds.base.spent import total_spent
from ragrounds.evals.engine.attempt_log import (
    CALL_HAD_FAILED,
    LONGEST_REASON,
    MAX_STEPS,
    REFUSED,
    AttemptEnded,
    repeats,
)
from ragrounds.evals.engine.attempts_at_once import AttemptsAtOnce
from ragrounds.evals.engine.context import AttemptContext, guard_of
from ragrounds.evals.engine.in_flight import IN_FLIGHT
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.engine.recorded_randomness import AgentRandomness
from ragrounds.evals.engine.replayed_runs import ReplayedRuns, Scorers
from ragrounds.evals.engine.run_reads import RunDependencies
from ragrounds.evals.engine.thread_bridge import grow_threads
from ragrounds.evals.scorers import score_by
from ragrounds.evals.store.codec import attempt_rows, score_rows
from ragrounds.evals.store.journal import StoreJournal, attempt_payer
from ragrounds.evals.store.store import Store, now
from ragrounds.evals.trace.run_facts import MASKED, UNHEARD, was_heard
from ragrounds.evals.trace.traces import calls
from ragrounds.graphs import catalogue
from ragrounds.models.faults import CallFailed
from ragrounds.prompts.loader import PromptFolder
from ragrounds.recorder.redaction import HIDDEN

Answers = Callable[[AttemptContext], AsyncIterator[tuple[object, str]]]
"""Function that makes an attempt, and yields the answer and the chosen letter whenever they change."""
OnEnd = Callable[[FinishedAttempt], None]
"""Callback for an attempt that has ended, before it is written."""


class WorkItem(Struct, frozen=True):
    """Question in one epoch, with the runs that are still to answer it.

    One worker does all of it, so that equal calls of several agents are made in the same worker, and only once.
    """

    question: Question
    gold: Gold
    epoch: int
    planned_runs: tuple[PlannedRun, ...]


class _OpenedRun(Struct, frozen=True):
    """Run in progress: the objects that all its attempts share."""

    number: int
    system: object
    """A user's system, which may have connections to close. ``None`` for a built-in graph."""
    answers: Answers
    prompts: PromptFolder
    caps: Limits
    finished: Collection[tuple[str, int]]
    """Attempts that are in the store, also failed ones that are made again. The scheduler skips those that are settled.
    """
    scored: frozenset[str]
    """Scorers of the attempts in the store."""
    at_once: AttemptsAtOnce | None
    """Attempts of a foreign system that are in flight, if its calls are recorded at the wire; ``None`` otherwise."""
    draws: AgentRandomness | None
    """Recorded clock and random values of a user's code; ``None`` if they are not recorded."""
    reads: RunDependencies | None
    """Dependencies of users' systems; ``None`` if the run has no such system."""
    inner: Any
    """Instance of :class:`ragrounds.evals.engine.inner_attempts.InnerAgents`, if agents run inside this one."""


class AttemptRunner:
    """Runner of the attempts of some runs. Their systems are opened once."""

    def __init__(self, runs: ReplayedRuns) -> None:
        store, journal, planned_runs = runs.store, runs.journal, runs.planned_runs
        self._store = store
        self._journal = journal
        self._scorers = runs.scorers
        self._missed: set[str] = set()
        self._alone = asyncio.Lock()
        """Lock of an attempt that is repeated because the process of its system ended while it made several attempts.
        """
        self._runs = {planned.run.id: self._opened(planned) for planned in planned_runs}
        # Each plain function of a user's system holds a thread for as long as it runs.
        grow_threads()
        if any(opened.reads for opened in self._runs.values()):
            from ragrounds.recorder.function import MOST_THREADS

            grow_threads(MOST_THREADS)
        self._watch = contextlib.ExitStack()
        if any(opened.at_once is not None for opened in self._runs.values()):
            from ragrounds.recorder.watch import installed

            # Clients stay patched between attempts: with one in flight, each would patch them again.
            self._watch.enter_context(installed())

    def _opened(self, planned: PlannedRun) -> _OpenedRun:
        """Open the system of a run, or compile its graph, and the agents inside it."""
        run, agent, store, journal, inner = planned.run, planned.agent, self._store, self._journal, None
        kind, graph = kind_of(agent.card), agent.card.graph
        system = kind.open()
        answers = (
            self._system_answers(run, system)
            if system
            else partial(_graph_answers, catalogue.compiled(graph), catalogue.nests(graph, agent.parameters))
        )
        if planned.inner:  # imported here: most runs do not need it
            inner_attempts = import_module("ragrounds.evals.engine.inner_attempts")
            inner = inner_attempts.InnerAgents(planned.inner, journal, partial(_by_system, journal), self._alone)
        dependencies = reads_of_systems(part.card for part in agent.with_inner)
        return _OpenedRun(
            number=store.number(run),
            system=system,
            answers=answers,
            prompts=PromptFolder(agent.card.prompts, agent.layout),
            caps=agent.caps,
            finished=store.done(run),
            scored=frozenset(store.scorers(run)),
            at_once=None if kind.takes_context() else AttemptsAtOnce(),
            draws=AgentRandomness(agent) if kind.records_randomness() else None,
            reads=RunDependencies(store, planned.run, dependencies, asks=journal.mode != "replay")
            if dependencies
            else None,
            inner=inner,
        )

    def _system_answers(self, run: Run, system: System) -> Answers:
        """Return a function that yields the one answer of a user's system."""

        async def answers(context: AttemptContext) -> AsyncIterator[tuple[object, str]]:
            """Yield the answer."""
            answer = await _by_system(self._journal, system, context, run.agent)
            yield answer.text, answer.choice

        return answers

    def _should_continue(self, run: Run) -> bool:
        """Return True if a replay continues after the journal lacked a call of this run: another run is still without
        such a gap.
        """
        self._missed.add(run.id)
        return len(self._missed) < len(self._runs)

    async def close(self) -> None:
        """Close the connections that the systems hold open, and no longer watch clients."""
        self._watch.close()
        for opened in self._runs.values():
            if isinstance(opened.system, Closing):
                await opened.system.close()
            if opened.inner:
                await opened.inner.close()

    async def __call__(self, planned: PlannedRun, item: WorkItem, on_end: OnEnd) -> FinishedAttempt:
        """Make one attempt, score it, call `on_end`, and write it with its scores.

        Raises:
            StopRun: the run cannot continue.
        """
        run = planned.run
        opened = self._runs[run.id]
        context = await self._context(planned, item)

        async def make_attempt(answers: Answers) -> Attempt:
            listening = opened.reads.listening() if opened.reads else contextlib.nullcontext()
            with IN_FLIGHT.flying(run, now(), context), listening:
                return await _attempt(answers, context, run, partial(self._should_continue, run))

        at_once_slot = opened.at_once.attempt(item.question) if opened.at_once else contextlib.nullcontext()
        async with at_once_slot:
            try:
                attempt = await make_attempt(opened.answers)
            except SharedHostEnded as ended:
                lost = context
                self._journal.begins_again(lost.payer)
                async with self._alone, ended.alone() as system:
                    context = await self._context(planned, item)
                    # Recorded calls are served and counted again. Requests without an answer are in no journal, but a
                    # provider may bill them.
                    context.unanswered, context.billable = lost.unanswered, lost.unrecorded_cost
                    context.note("again", f"{ended} with several attempts in hand; this one was made again, alone")
                    attempt = await make_attempt(self._system_answers(run, system))
        finished = _scored(attempt, planned, item, self._scorers, context.billable)
        on_end(finished)
        scores = finished.scores
        if attempt.key in opened.finished:
            scores = (*scores, *self._missing_scores(planned, finished))
        dependency_rows = await opened.reads.rows(attempt) if opened.reads else ()
        other_rows = [*self._store.scorer_rows(run, scores), *dependency_rows]
        await self._store.writer.write(
            lambda: [*attempt_rows(attempt, opened.number), *score_rows(scores, opened.number), *other_rows]
        )
        return finished

    async def _context(self, planned: PlannedRun, item: WorkItem) -> AttemptContext:
        """Return the context of an attempt: everything that it may use."""
        card, opened = planned.agent.card, self._runs[planned.run.id]
        payer = attempt_payer(planned.run, item.question.id, item.epoch)
        draws = opened.draws
        randomness = await draws.values_for(self._journal, item.question, item.epoch, payer) if draws else None
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
            recorded_randomness=randomness,
            gold=item.gold.documents if card.oracle else None,
            change=planned.change(item.question, item.gold, item.epoch) if planned.change is not None else None,
            guard=guard_of(card, item.question, item.gold),
            inside=opened.inner.attempts_at(item.gold) if opened.inner else None,
        )

    def _missing_scores(self, planned: PlannedRun, finished: FinishedAttempt) -> list[Score]:
        """Return missing scores for scorers that have scored an earlier attempt but not this one, such as judges.

        The earlier scores belong to another text.
        """
        run, attempt, present = planned.run, finished.attempt, {score.scorer for score in finished.scores}
        absent = self._runs[run.id].scored - present
        return [
            Score(
                question_id=attempt.question_id,
                epoch=attempt.epoch,
                scorer=name,
                value=None,
                answer_status="empty" if blank(attempt.text) else "answered",
                reason="the attempt was repeated, and this scorer has not scored the new one",
            )
            for name in (self._store.scored_by(run, attempt.question_id, attempt.epoch, absent) if absent else ())
        ]


def stored_attempt(store: Store, planned: PlannedRun, item: WorkItem, scorers: Scorers) -> FinishedAttempt | None:
    """Return a stored attempt that need not be made again; ``None`` if there is no such attempt."""
    attempt = store.attempt(planned.run, item.question.id, item.epoch)
    if attempt is None or attempt.status not in FINAL:
        return None
    return _scored(attempt, planned, item, scorers, attempt.cost_paid)


def _scored(
    attempt: Attempt, planned: PlannedRun, item: WorkItem, scorers: Scorers, billable: float | None
) -> FinishedAttempt:
    scores = tuple([score_by(scorer, attempt, item.question, item.gold) for scorer in scorers(item.question)])
    new_calls = [
        call.spent
        for call in calls(attempt.events)
        if call.kind == "model" and not call.cached and call.role not in TOKENS_APART and call.is_counted
    ]
    return FinishedAttempt(planned.run, attempt, scores, total_spent(new_calls).tokens, billable)


async def _graph_answers(graph: Any, nests: bool, context: AttemptContext) -> AsyncIterator[tuple[object, str]]:
    """Run a compiled graph, and yield its answer and the chosen letter whenever a node has written one.

    If it `nests`, other graphs run inside its nodes, and their steps are streamed too.
    """
    config = {"recursion_limit": MAX_STEPS}
    stream = graph.astream({}, config, context=context, stream_mode="tasks", subgraphs=nests)
    async for event in stream:
        namespace, task = event if nests else ((), event)
        if "result" not in task:
            # A namespace is the path of tasks in which a graph runs: ("node:task", …).
            context.entered(task["id"], task["name"], namespace[-1].rpartition(":")[2] if namespace else "")
            continue
        changes = task["result"]
        context.left(task["id"], task["name"], changes, str(task["error"] or ""))
        if not namespace and isinstance(changes, dict) and "answer" in changes:  # not from a nested graph
            yield changes["answer"], changes.get("choice", "")


async def _by_system(journal: StoreJournal, system: System, context: AttemptContext, agent: str) -> Answer:
    """Let a foreign system answer.

    Raises:
        NotReplayed: this is a replay, and none of its calls is recorded.
    """
    # The import is local: the built-in graphs do not need the recorder of other clients.
    from ragrounds.evals.engine.foreign_system import run_system

    answer = await run_system(system, context, journal)
    is_recorded = journal.mode != "replay" or was_heard(context.events)
    if not is_recorded and not getattr(system, "sealed", False):
        raise NotReplayed(f"{agent} cannot be replayed: {UNHEARD}.")
    return answer


async def _attempt(answers: Answers, context: AttemptContext, run: Run, should_continue: Callable[[], bool]) -> Attempt:
    """Make an attempt once and return it.

    `should_continue` returns True if the other runs continue although this one cannot be replayed.
    """
    started_at, start = now(), time.perf_counter()
    status: Status = "completed"
    reason = ""
    answer: object = None
    choice = ""
    may_be_refused = True  # not where a repetition may succeed: a refusal is final
    try:
        # In real time, so that a call that hangs ends. Between calls the context checks the time of the recording.
        async with asyncio.timeout(context.limits.seconds) as cap:
            async for latest_answer, letter in answers(context):
                answer, choice = latest_answer, letter
    except AttemptEnded as ended:
        status, reason = ended.status, ended.reason
    except TimeoutError as error:
        if cap.expired():  # during a call; between calls the context ends the attempt
            status, reason = "capped", f"the attempt's cap of {context.limits.seconds:g} seconds is reached"
        else:
            status, reason = "failed", f"TimeoutError: {error}"
    except CallFailed as failed:
        status, reason = "failed", f"{failed.kind}: {failed.message}"
    except GraphRecursionError as error:  # the graph's own limit, if it has one
        limit = re.search(r"\d+", str(error))
        status, reason = "capped", f"the graph did not finish within {limit[0] if limit else MAX_STEPS} steps"
    except NotReplayed as missed:
        if not should_continue():
            raise
        status, reason, may_be_refused = "failed", str(missed), False
    except (UserError, StopRun, SharedHostEnded):
        raise
    except Exception as error:
        # A graph with a defect must not end the run; the trace shows the defect.
        status, reason = "failed", f"{type(error).__name__}: {error}"
        may_be_refused = not isinstance(error, HostEnded)
        if context.last_failure and not repeats(reason, context.last_failure):
            reason += f"{CALL_HAD_FAILED}{context.last_failure})"
        own_trace = error.trace if isinstance(error, SystemFailed | HostEnded) else ""
        context.note("traceback", own_trace or "".join(traceback.format_exception(error)))
    finally:
        context.close()
    text = context.redacted(answer) if isinstance(answer, str) else ""
    if context.is_refused and may_be_refused and not text and status in ("completed", "failed"):
        status, reason = "blocked", REFUSED
    choice, reason = context.redacted(choice), context.redacted(reason)
    if status == "capped" and not text:
        text = context.last_reply
    if context.masked:
        context.note(MASKED, f"{context.masked:,} keys in texts of the system or its tools were replaced by {HIDDEN}")
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
        usage=context.spent.usage,
        cost_paid=context.spent.cost_paid,
        cost_uncached=context.spent.cost_uncached,
        seconds=round(time.perf_counter() - start + context.shift, 4),
        waited=context.waited if context.calls["model"] else None,
        at=started_at,
        events=tuple(context.events),
    )
