"""What the process that leads a replay and its workers say to each other: msgpack, one message a frame.

The line between the leader of a replay and one worker, seen from either end. What carries it is another matter.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
from msgspec import Struct

from ragrounds.evals.engine.plan import Recipe
from ragrounds.evals.store.journal import Mode
from ragrounds.models.traffic import ServerTraffic
from ragrounds.records import Attempt, Gold, Question, Run, Score


class WorkerSetup(Struct, frozen=True, tag=True):
    """To a worker, first: what it is to work at."""

    recipe: Recipe
    runs: tuple[Run, ...]
    """One for each agent of the recipe, in its order."""
    home: str
    store: str | None
    mode: Mode
    slots: int
    """Attempts in flight."""
    share: float
    """The part of the models' rate limits that is this worker's."""
    folder: str
    path: tuple[str, ...]
    """The leader's working folder and import path: an agent's file or a user's own graph may be named by them."""


class CapacityShare(Struct, frozen=True, tag=True):
    """To a worker: others have come or gone."""

    slots: int
    share: float


class Assignment(Struct, frozen=True, tag=True):
    """To a worker that wants work: a item of it."""

    number: int
    question: Question
    gold: Gold
    epoch: int
    planned_runs: tuple[int, ...]


class EndOfWork(Struct, frozen=True, tag=True):
    """To a worker: there is no more work. `now`: begin nothing further, also of what was given."""

    now: bool = False


class WorkRequest(Struct, frozen=True, tag=True):
    """From a worker: a place is free."""


class AttemptReport(Struct, frozen=True, tag=True):
    """From a worker: an attempt has ended and is written."""

    number: int
    planned: int
    attempt: Attempt
    """Without its events."""
    scores: tuple[Score, ...]
    tokens: int | None
    """As :attr:`ragrounds.evals.engine.plan.FinishedAttempt.made`."""
    made: int
    reused: int
    """Calls of this worker so far: made, answered from the journal."""
    flows: tuple[ServerTraffic, ...] = ()
    """Its calls to servers now."""


class WorkerFailure(Struct, frozen=True, tag=True):
    """From a worker: the run cannot go on."""

    reason: str


class WorkerDone(Struct, frozen=True, tag=True):
    """From a worker, last: it ends, as it was told to."""


ToWorker = WorkerSetup | CapacityShare | Assignment | EndOfWork
FromWorker = WorkRequest | AttemptReport | WorkerFailure | WorkerDone
_encoder = msgspec.msgpack.Encoder()
_to_worker: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToWorker)
_from_worker: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromWorker)


def encode(message: ToWorker | FromWorker) -> bytes:
    """A message as bytes."""
    return _encoder.encode(message)


def to_worker(frame: bytes) -> ToWorker:
    """Read what a worker is told."""
    message: ToWorker = _to_worker.decode(frame)
    return message


def from_worker(frame: bytes) -> FromWorker:
    """Read what a worker tells."""
    message: FromWorker = _from_worker.decode(frame)
    return message


class WorkerLink(Protocol):
    """The leader's end."""

    @property
    def name(self) -> str:
        """The worker, as a user is told of it."""

    def post(self, frame: bytes) -> None:
        """Send; to a worker that is gone: nothing happens."""

    async def receive(self) -> bytes | None:
        """The worker's next frame; ``None``: it has ended, or is lost."""

    async def end(self) -> str:
        """Make sure that the worker is gone, soon where it still works; gives how it ended, empty: properly."""


class SendFrame(Protocol):
    """The worker's end: frames come to it one by one, and it answers by this."""

    def __call__(self, frame: bytes) -> None: ...
