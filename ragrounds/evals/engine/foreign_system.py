"""Running a system that is not ours: one attempt, seen, held to its caps and ended as any other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar
from uuid import uuid4

from ragrounds.contracts import Context, Request, Server, System
from ragrounds.errors import AskedPerson
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.evals.engine.recording.callbacks import CallbackRecorder
from ragrounds.records import Answer, Passage, Reply

R = TypeVar("R", bound=Reply)
MAX_STEPS = 1000
"""Steps of one attempt of a graph. Every built-in graph ends by its own limits, far below."""


class AttemptObservation:
    """What a system tells of one attempt (contract: :class:`ragrounds.contracts.Observation`)."""

    def __init__(self, context: AttemptContext, *, takes_context: bool) -> None:
        self._context = context
        self._calls = CallbackRecorder(context)
        self.thread = uuid4().hex
        self.max_steps = MAX_STEPS
        self.callbacks: Sequence[object] = () if takes_context else (self._calls,)
        self.missed = 0
        """Calls that no boundary saw."""

    @property
    def context(self) -> Context:
        """The attempt's context."""
        return self._context

    async def ask(self, server: Server[R], request: Request, kind: type[R], *, role: str = "answering") -> R:
        """Have a server answer, as a model is asked."""
        return await self._context.complete(server, request, kind, role=role, prices=self._context.prices)

    def entered(self, task: str, node: str) -> int:
        """Record that a step began."""
        return self._context.entered(task, node)

    def left(self, task: str, node: str, changes: object, error: str = "") -> None:
        """Record that a step ended."""
        self._context.left(task, node, changes, error)

    def found(
        self, query: str, passages: Sequence[Passage], tool: str, *, node: str = "", seconds: float = 0.0
    ) -> None:
        """Record a search inside the system's process."""
        self._context.note("search", f"{tool}: {len(passages)} passages for {query!r}")

    def unrecorded(self, what: str) -> None:
        """Count a call that cannot be replayed."""
        self.missed += 1
        self._context.note("not_recorded", what)

    def close(self) -> None:
        """Say what was seen. Where it was no call, the attempt's tokens and cost are not known."""
        called = self._calls.seen
        self._context.note("tier", "observed through callbacks" if called else "timed only: no call was seen")
        if not called:
            self._context.usage = self._context.cost_paid = self._context.cost_uncached = None

    def note(self, what: str, text: str) -> None:
        """Leave a remark in the trace."""
        self._context.note(what, text)


async def run_system(system: System, context: AttemptContext) -> Answer:
    """Have a system answer the attempt's question.

    Raises:
        AttemptEnded: a cap is reached, or the system asked a person and nobody is there.
    """
    seconds = context.limits.seconds
    seen = AttemptObservation(context, takes_context=system.takes_context)
    try:
        async with asyncio.timeout(seconds) as clock:
            return await system.answer(context.item, seen)
    except TimeoutError as error:
        if not clock.expired():  # a time-out of the system's own
            raise
        raise AttemptEnded("capped", f"the attempt's cap of {seconds or 0:g} seconds is reached") from error
    except AskedPerson as asked:
        raise AttemptEnded("paused", f"the system asked a person: {' '.join(str(asked).split())[:300]}") from asked
    finally:
        if not system.takes_context:
            seen.close()
