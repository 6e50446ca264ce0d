"""What is in flight: attempts that have begun and not ended, of this process, and of others as they were half a second
ago.

Nothing of it is in the store, and nothing is copied until somebody looks: the logs of the attempts are read where they
are. So that other processes see them too, a process writes them to a file of its own in ``HOME/live`` while it makes
attempts and another looks, which touches a file. One that cannot write makes its attempts all the same.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.evals.engine.attempt_log import AttemptLog
from ragrounds.evals.store.codec import storable
from ragrounds.records import Entered, Left, Run

_LOG = logging.getLogger(__name__)
_LONGEST = 300
"""Characters of what a call asks."""
_EVERY = 0.5
"""Seconds between two writes of the file."""
_STALE = 5.0
"""Seconds after which a file that was not written again is of a process that is no more."""
_LOOKED = "live.looked"
"""The file beside ``HOME/live`` that a process touches which looks."""
_LARGEST = 64_000_000
"""Bytes of such a file that are read."""


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
        calls=log.calls,
        tokens=usage.input + usage.output if usage else None,
        cost_uncached=log.cost_uncached,
        doing=tuple(
            LiveCall(
                kind=call.kind, actor=call.actor, what=call.what[:_LONGEST], node=call.node, step=call.step, at=call.at
            )
            for call in sorted(doing)
        ),
    )


@contextmanager
def live_feed(home: Path) -> Iterator[None]:
    """Show other processes what is in flight in this one while the block lasts."""
    file = home / "live" / f"{os.getpid()}-{secrets.token_hex(4)}"
    ended = threading.Event()

    def write() -> None:
        beside = file.with_suffix(".new")
        try:
            while not ended.wait(_EVERY):
                if not _is_fresh(home / _LOOKED):
                    continue
                file.parent.mkdir(mode=0o700, exist_ok=True)
                beside.touch(mode=0o600)
                beside.write_bytes(msgspec.msgpack.encode([storable(one) for one in IN_FLIGHT.attempts()]))
                beside.replace(file)
        except OSError as error:
            _LOG.info("attempts cannot be followed from elsewhere while they run: %s", error)
        for path in (beside, file):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    thread = threading.Thread(target=write, name="ragrounds-live", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_STALE)


def _is_fresh(file: Path) -> bool:
    with suppress(OSError):
        return time.time() - file.stat().st_mtime <= _STALE
    return False


def live_attempts(home: Path) -> tuple[LiveAttempt, ...]:
    """The attempts in flight in all processes that use a home, in the order in which they began, as they were half a
    second ago. What a dead process has left behind is not believed, and removed."""
    found: dict[tuple[str, str, int], LiveAttempt] = {}
    with suppress(OSError):
        (home / _LOOKED).touch(mode=0o600)
        for file in sorted((home / "live").iterdir()):
            with suppress(OSError, ValueError):
                if not _is_fresh(file):
                    file.unlink()
                elif not file.suffix:
                    with file.open("rb") as opened:
                        told = msgspec.msgpack.decode(opened.read(_LARGEST), type=tuple[LiveAttempt, ...])
                    found |= {(one.run, one.question_id, one.epoch): one for one in told}
    return tuple(sorted(found.values(), key=lambda one: one.at))
