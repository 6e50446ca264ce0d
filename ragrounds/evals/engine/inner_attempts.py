"""Attempts of agents inside the attempt of another, which a wrapper such as `self_consistency` makes.

Each has a separate context (question, epoch, models, corpus, prompts, occurrences), so that its calls equal those of
the agent alone, and the journal makes them once for both. Events, sums and caps are those of the enclosing attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from dataclasses import fields
from typing import Any

from msgspec.structs import replace

from ragrounds.agents.systems.kinds import kind_of
from ragrounds.base.contracts import Attempted, Request, Server, System
from ragrounds.base.errors import SharedHostEnded
from ragrounds.base.records import Attempt, Event, Gold, Question, Reply
from ragrounds.base.text import fold
from ragrounds.evals.engine.attempt_log import MAX_STEPS, AttemptLog
from ragrounds.evals.engine.attempts_at_once import AttemptsAtOnce
from ragrounds.evals.engine.context import AttemptContext, R, guard_of
from ragrounds.evals.engine.plan import OpenedAgent
from ragrounds.evals.engine.recorded_randomness import AgentRandomness
from ragrounds.evals.engine.thread_bridge import ThreadBridge
from ragrounds.evals.scorers import described, headline_of, score_by
from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.graphs import catalogue
from ragrounds.prompts.loader import PromptFolder
from ragrounds.recorder.observer import STEP, step_here

ForeignRun = Callable[[System, AttemptContext, str], Any]
"""Function that lets a system answer and returns its :class:`ragrounds.base.records.Answer`."""


class _SharedEvents(list[Event]):
    """Events of one attempt that are also events of the enclosing attempt."""

    def __init__(self, around: list[Event]) -> None:
        super().__init__()
        self._around = around

    def append(self, event: Event) -> None:
        """Add an event to both attempts."""
        super().append(event)
        self._around.append(event)


class InnerContext(AttemptContext):
    """Context of an attempt inside another. Its log is that of the enclosing attempt (see below the class)."""

    def __init__(self, around: AttemptContext, **overrides: Any) -> None:
        vars(self).update(vars(around))
        self.around = around
        around._step()  # the enclosing node is entered before the nodes inside it
        self.task = step_here().rpartition("|")[2].rpartition(":")[2]
        self.shared = _SharedEvents(around.events)
        self.likely = False
        self.likelihood: float | None = None
        self._occurrences, self._passages, self._options_read = Counter(), {}, False
        self._threads = ThreadBridge()
        for name, value in overrides.items():
            setattr(self, name, value)

    async def complete(self, model: Server[R], request: Request, kind: type[R], **more: Any) -> R:
        """Complete a request as in any attempt, and record the probability of an answer if it is requested."""
        needs_likelihood = self.likely and kind is Reply and more.get("role", "answering") == "answering"
        if needs_likelihood and request.logprobs is None:
            request = replace(request, logprobs=0)
        reply = await super().complete(model, request, kind, **more)
        if needs_likelihood:
            tokens = reply.logprobs or ()
            mean = sum(token.logprob for token in tokens) / len(tokens) if tokens else None
            self.likelihood = None if mean is None else math.exp(min(0.0, mean))
        return reply

    def entered(self, task: str, node: str, inside: str = "") -> int:
        """Record that a node began, inside the enclosing one."""
        return super().entered(task, node, inside or STEP.get() or self.task)

    def _step(self) -> tuple[int, str]:
        step, node = super()._step()
        return (step, node) if step >= 0 else self._steps.get(self.task, (-1, "", 0.0))[:2]


for _field in fields(AttemptLog):  # a property takes precedence over the object's own attribute
    _name = _field.name

    def _get(self: InnerContext, name: str = _name) -> Any:
        return self.shared if name == "events" else getattr(self.around, name)

    def _set(self: InnerContext, value: object, name: str = _name) -> None:
        setattr(self.around, name, value)

    setattr(InnerContext, _name, property(_get, _set))


class InnerAgents:
    """Agents inside another, opened once for all attempts of a run.

    Args:
        opened: as :attr:`ragrounds.evals.engine.plan.PlannedRun.inner`.
        journal: records calls.
        foreign: runs a user's system.
        alone: lock for an attempt that is repeated because its process ended while it made several attempts.
    """

    def __init__(
        self,
        opened: Mapping[str, tuple[OpenedAgent, ...]],
        journal: StoreJournal,
        foreign: ForeignRun,
        alone: asyncio.Lock,
    ) -> None:
        self._agents = {
            key: tuple(_InnerAgent(agent, journal, foreign, alone) for agent in agents)
            for key, agents in opened.items()
        }

    def attempts_at(self, gold: Gold) -> Callable[..., Awaitable[Attempted]]:
        """Return a function that makes attempts at the question of `gold` (:attr:`AttemptContext.inside`)."""

        async def attempt(around: AttemptContext, parameter: str, *, which: int, epoch: int, likely: bool) -> Attempted:
            """Make an attempt like :meth:`ragrounds.base.contracts.Context.attempt_of`."""
            return await self._agents[parameter][which].attempt(around, gold, epoch, likely)

        return attempt

    async def close(self) -> None:
        """Close the resources of the agents' systems."""
        for inner_agent in (inner for agents in self._agents.values() for inner in agents):
            await inner_agent.close()


class _InnerAgent:
    def __init__(self, opened: OpenedAgent, journal: StoreJournal, foreign: ForeignRun, alone: asyncio.Lock) -> None:
        card = opened.agent.card
        self._opened, self._journal, self._foreign, self._alone = opened, journal, foreign, alone
        self._prompts = PromptFolder(card.prompts, opened.agent.layout)
        kind = kind_of(card)
        self._system = kind.open()
        self._graph = None if self._system else catalogue.build(card.graph).compile()
        self._inner = InnerAgents(opened.inner, journal, foreign, alone)
        self._at_once = None if kind.takes_context() else AttemptsAtOnce()
        self._draws = AgentRandomness(opened.agent) if kind.records_randomness() else None

    async def attempt(self, around: AttemptContext, gold: Gold, epoch: int, likely: bool) -> Attempted:
        """Make one attempt of this agent at the question of `around`."""
        opened, card, question, draws = self._opened, self._opened.agent.card, around.item, self._draws
        context = InnerContext(
            around,
            epoch=epoch,
            likely=likely,
            parameters=opened.agent.parameters,
            models=opened.models,
            searcher=opened.searcher,
            toolbox=opened.tools,
            prompts=self._prompts,
            recorded=card.record,
            question_only=card.question_only,
            at_once=self._at_once,
            recorded_randomness=await draws.values_for(self._journal, question, epoch, around.payer) if draws else None,
            gold=gold.documents if card.oracle else None,
            guard=guard_of(card, question, gold),
            inside=self._inner.attempts_at(gold),
        )
        try:
            text, choice = await (self._by_system(context) if self._system else self._by_graph(context))
        finally:
            context.close()
        return Attempted(text, choice, read_answer(text, choice, question), context.likelihood)

    async def _by_graph(self, context: AttemptContext) -> tuple[str, str]:
        text: object = ""
        choice = ""
        assert self._graph is not None
        async for event in self._graph.astream(
            {}, {"recursion_limit": MAX_STEPS}, context=context, stream_mode="updates"
        ):
            for changes in event.values():
                if isinstance(changes, dict) and "answer" in changes:
                    text, choice = changes["answer"], changes.get("choice", "")
        return (text if isinstance(text, str) else ""), choice

    async def _by_system(self, context: AttemptContext) -> tuple[str, str]:
        """Let a system answer outside of the wrapper's graph: the context variables that LangGraph sets for graphs in
        its nodes are not for it.
        """
        from langchain_core.runnables.config import var_child_runnable_config

        agent, system = self._opened.agent.spec, self._system
        assert system is not None

        async def answered(target: System) -> tuple[str, str]:
            """Run the system in a separate context."""
            plain = copy_context()
            plain.run(var_child_runnable_config.set, None)
            plain.run(STEP.set, "")
            system_answer = await asyncio.create_task(self._foreign(target, context, agent), context=plain)
            return system_answer.text, system_answer.choice

        async with self._at_once.attempt(context.item) if self._at_once else contextlib.nullcontext():
            try:
                return await answered(system)
            except SharedHostEnded as ended:
                context._occurrences.clear()
                async with self._alone, ended.alone() as alone:
                    context.note("again", f"{ended} with several attempts in hand; this one was made again, alone")
                    return await answered(alone)

    async def close(self) -> None:
        """Close its system, and those inside it."""
        close = getattr(self._system, "close", None)
        if close is not None:
            await close()
        await self._inner.close()


def read_answer(text: str, choice: str, question: Question) -> str:
    """Return an answer as the headline scorer reads it (:attr:`ragrounds.base.contracts.Attempted.read`)."""
    attempt = Attempt(run="", question_id=question.id, epoch=0, status="completed", text=text, choice=choice)
    scorer = described(headline_of([question])[0].scorer)
    if question.kind != "choice" or not scorer.computes:
        return fold(text) if read_long(attempt).status == "answered" else ""
    score = score_by(scorer, attempt, question, Gold(question_id=question.id, answer=""))
    return score.prediction if score.answer_status == "answered" else ""
