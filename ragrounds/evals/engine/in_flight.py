"""Attempts in flight: attempts of this process that have begun and not ended.

They are not in the store, and nothing is copied until a reader asks: the logs of the attempts are read directly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from ragrounds.base.records import Entered, Left, Run
from ragrounds.evals.engine.attempt_log import AttemptLog


class LiveAttempt(Struct, frozen=True):
    """Attempt that has begun and not ended."""

    run: str
    """Id of the run."""
    started_at: float
    """Time at which it began, in seconds since the epoch."""
    node: str
    """Node that is running, the one entered last; empty if no node is running."""


class InFlight:
    """Attempts in flight of a process; safe to use from any thread."""

    def __init__(self) -> None:
        self._flights: dict[int, tuple[Run, float, AttemptLog]] = {}
        self._numbers = itertools.count()

    @contextmanager
    def flying(self, run: Run, started_at: float, log: AttemptLog) -> Iterator[None]:
        """Count an attempt as in flight while the block lasts."""
        number = next(self._numbers)
        self._flights[number] = run, started_at, log
        try:
            yield
        finally:
            del self._flights[number]

    def attempts(self) -> tuple[LiveAttempt, ...]:
        """Return all attempts in flight, in the order in which they began."""
        return tuple(_live(*flight) for flight in self._flights.copy().values())


IN_FLIGHT = InFlight()
"""Attempts in flight of this process."""


def _live(run: Run, started_at: float, log: AttemptLog) -> LiveAttempt:
    events = log.events.copy()  # the log changes while it is read
    left = {event.step for event in events if isinstance(event, Left)}
    entered = (event for event in reversed(events) if isinstance(event, Entered))
    return LiveAttempt(run.id, started_at, next((event.node for event in entered if event.step not in left), ""))
