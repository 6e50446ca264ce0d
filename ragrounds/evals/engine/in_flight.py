"""Attempts in flight: attempts of this process that have begun and not ended.

They are not in the store, and nothing is copied until a reader asks: the logs of the attempts are read directly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from ragrounds.base.records import Entered, Left, Run
from ragrounds.base.spent import Spent
from ragrounds.evals.engine.attempt_log import AttemptLog

_LONGEST = 300
"""Largest number of characters of a call's query."""


class LiveCall(Struct, frozen=True, kw_only=True):
    """Call that has begun and not ended."""

    kind: str
    actor: str
    subject: str
    """Query of a search, or role of a model's call."""
    node: str
    step: int
    started_at: float
    """Time at which it began, in seconds since the epoch."""


class LiveAttempt(Struct, frozen=True, kw_only=True):
    """Attempt that has begun and not ended."""

    run: str
    """Id of the run."""
    agent: str
    question_id: str
    epoch: int
    started_at: float
    """Time at which it began, in seconds since the epoch."""
    node: str
    """Node that is running, the one entered last; empty if no node is running."""
    steps: int
    """Number of nodes that were entered."""
    model_calls: int
    """Number of model calls that ended."""
    searches: int
    """Number of searches that ended."""
    spent: Spent
    doing: tuple[LiveCall, ...]
    """Calls in flight, in the order in which they began. Empty while the node itself works."""


class InFlight:
    """Attempts in flight of a process; safe to use from any thread."""

    def __init__(self) -> None:
        self._flights: dict[int, tuple[Run, str, int, float, AttemptLog]] = {}
        self._numbers = itertools.count()

    @contextmanager
    def flying(self, run: Run, question_id: str, epoch: int, started_at: float, log: AttemptLog) -> Iterator[None]:
        """Count an attempt as in flight while the block lasts."""
        number = next(self._numbers)
        self._flights[number] = run, question_id, epoch, started_at, log
        try:
            yield
        finally:
            del self._flights[number]

    def attempts(self) -> tuple[LiveAttempt, ...]:
        """Return all attempts in flight, in the order in which they began."""
        return tuple(_live(*flight) for flight in self._flights.copy().values())


IN_FLIGHT = InFlight()
"""Attempts in flight of this process."""


def _live(run: Run, question_id: str, epoch: int, started_at: float, log: AttemptLog) -> LiveAttempt:
    # The log changes while it is read, so a copy is used.
    events, doing = log.events.copy(), list(log.doing.values())
    entered = [event for event in events if isinstance(event, Entered)]
    left = {event.step for event in events if isinstance(event, Left)}
    return LiveAttempt(
        run=run.id,
        agent=run.agent,
        question_id=question_id,
        epoch=epoch,
        started_at=started_at,
        node=next((event.node for event in reversed(entered) if event.step not in left), ""),
        steps=len(entered),
        model_calls=log.calls["model"],
        searches=log.calls["search"],
        spent=log.spent,
        doing=tuple(
            LiveCall(
                kind=call.kind,
                actor=call.actor,
                subject=call.subject[:_LONGEST],
                node=call.node,
                step=call.step,
                started_at=call.started_at,
            )
            for call in sorted(doing)
        ),
    )
