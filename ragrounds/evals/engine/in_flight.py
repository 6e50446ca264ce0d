"""What is in flight in this process: attempts that have begun and not ended, with their steps as they happen.

Nothing is written for it and nothing is copied until somebody looks: the logs of the attempts are read where they are.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from ragrounds.evals.engine.attempt_log import AttemptLog
from ragrounds.records import Entered, Event, Left, Run

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
    calls: int
    """Calls that ended."""
    tokens: int | None
    cost_uncached: float | None
    doing: tuple[LiveCall, ...]
    """Calls in flight, in the order in which they began. None: the node itself works."""
    events: int
    """Events so far: another number says that something has happened."""


class _Flight(Struct, frozen=True):
    run: Run
    question_id: str
    epoch: int
    at: float
    log: AttemptLog


class InFlight:
    """The attempts in flight of a process; safe to use from any thread."""

    def __init__(self) -> None:
        self._flights: dict[int, _Flight] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @contextmanager
    def flying(self, run: Run, question_id: str, epoch: int, at: float, log: AttemptLog) -> Iterator[None]:
        """Count an attempt as in flight while the block lasts."""
        number = next(self._numbers)
        with self._lock:
            self._flights[number] = _Flight(run, question_id, epoch, at, log)
        try:
            yield
        finally:
            with self._lock:
                self._flights.pop(number, None)

    def attempts(self) -> tuple[LiveAttempt, ...]:
        """All attempts in flight, in the order in which they began."""
        with self._lock:
            flights = list(self._flights.values())
        return tuple(_live(flight) for flight in flights)

    def events(self, run: str, question_id: str, epoch: int, after: int = 0) -> tuple[Event, ...] | None:
        """The events of an attempt in flight from number `after` on; ``None``: it is not in flight (any more)."""
        with self._lock:
            flights = list(self._flights.values())
        for flight in flights:
            if (flight.run.id, flight.question_id, flight.epoch) == (run, question_id, epoch):
                return tuple(flight.log.events[after:])
        return None


IN_FLIGHT = InFlight()
"""The attempts in flight of this process."""


def _live(flight: _Flight) -> LiveAttempt:
    log = flight.log
    # The log goes on while it is read: what is looked at is a copy.
    events, doing, usage = list(log.events), list(log.doing.values()), log.usage
    entered = [event for event in events if isinstance(event, Entered)]
    left = {event.step for event in events if isinstance(event, Left)}
    return LiveAttempt(
        run=flight.run.id,
        agent=flight.run.agent,
        question_id=flight.question_id,
        epoch=flight.epoch,
        at=flight.at,
        node=next((event.node for event in reversed(entered) if event.step not in left), ""),
        steps=len(entered),
        calls=log.calls,
        tokens=usage.input + usage.output if usage else None,
        cost_uncached=log.cost_uncached,
        doing=tuple(
            LiveCall(
                kind=call.kind,
                actor=call.actor,
                what=call.what[:_LONGEST],
                node=call.node,
                step=call.step,
                at=call.at,
            )
            for call in sorted(doing)
        ),
        events=len(events),
    )
