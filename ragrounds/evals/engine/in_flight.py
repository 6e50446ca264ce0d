"""What is in flight: attempts of this process that have begun and not ended.

Nothing of it is in the store, and nothing is copied until somebody looks: the logs of the attempts are read where they
are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from ragrounds.base.records import Entered, Left, Run
from ragrounds.evals.engine.attempt_log import AttemptLog

_LONGEST = 300
"""Characters of what a call asks."""


class LiveCall(Struct, frozen=True, kw_only=True):
    """A call that has begun and not ended."""

    kind: str
    actor: str
    what: str
    """The query of a search, the role of a model's call."""
    node: str
    step: int
    at: float
    """When it began, in seconds since the epoch."""


class LiveAttempt(Struct, frozen=True, kw_only=True):
    """An attempt that has begun and not ended."""

    run: str
    """The run's id."""
    agent: str
    question_id: str
    epoch: int
    at: float
    """When it began, in seconds since the epoch."""
    node: str
    """The node that is running, the one entered last; empty: none."""
    steps: int
    """Nodes that were entered."""
    model_calls: int
    """Calls of models that ended."""
    searches: int
    """Searches that ended."""
    tokens: int | None
    cost_uncached: float | None
    doing: tuple[LiveCall, ...]
    """Calls in flight, in the order in which they began. None: the node itself works."""


class InFlight:
    """The attempts in flight of a process; safe to use from any thread."""

    def __init__(self) -> None:
        self._flights: dict[int, tuple[Run, str, int, float, AttemptLog]] = {}
        self._numbers = itertools.count()

    @contextmanager
    def flying(self, run: Run, question_id: str, epoch: int, at: float, log: AttemptLog) -> Iterator[None]:
        """Count an attempt as in flight while the block lasts."""
        number = next(self._numbers)
        self._flights[number] = run, question_id, epoch, at, log
        try:
            yield
        finally:
            del self._flights[number]

    def attempts(self) -> tuple[LiveAttempt, ...]:
        """All attempts in flight, in the order in which they began."""
        return tuple(_live(*flight) for flight in self._flights.copy().values())


IN_FLIGHT = InFlight()
"""The attempts in flight of this process."""


def _live(run: Run, question_id: str, epoch: int, at: float, log: AttemptLog) -> LiveAttempt:
    # The log goes on while it is read: what is looked at is a copy.
    events, doing, usage = log.events.copy(), list(log.doing.values()), log.usage
    entered = [event for event in events if isinstance(event, Entered)]
    left = {event.step for event in events if isinstance(event, Left)}
    return LiveAttempt(
        run=run.id,
        agent=run.agent,
        question_id=question_id,
        epoch=epoch,
        at=at,
        node=next((event.node for event in reversed(entered) if event.step not in left), ""),
        steps=len(entered),
        model_calls=log.calls["model"],
        searches=log.calls["search"],
        tokens=usage.input + usage.output if usage else None,
        cost_uncached=log.cost_uncached,
        doing=tuple(
            LiveCall(
                kind=call.kind, actor=call.actor, what=call.what[:_LONGEST], node=call.node, step=call.step, at=call.at
            )
            for call in sorted(doing)
        ),
    )
