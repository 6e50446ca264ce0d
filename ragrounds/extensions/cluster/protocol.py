"""The protocol between the leader of a replay and its workers: messages in msgpack, one a frame, and the two ends of
the link that carries them (a pipe, an actor of Ray)."""

from __future__ import annotations

from typing import Protocol

import msgspec
from msgspec import Struct

from ragrounds.base.processes import Activity
from ragrounds.base.records import Attempt, Gold, Question, Run, Score
from ragrounds.evals.engine.plan import Recipe
from ragrounds.evals.store.journal import Mode
from ragrounds.models.traffic import ServerTraffic


class WorkerSetup(Struct, frozen=True, tag=True):
    """To a worker, first: what it is to work at."""

    recipe: Recipe
    runs: tuple[Run, ...]
    """One for each agent of the recipe, in its order."""
    home: str
    store: str | None
    mode: Mode
    concurrency: int
    """Attempts in flight."""
    share: float
    """The part of the models' rate limits that is this worker's."""
    folder: str
    path: tuple[str, ...]
    """The leader's working folder and import path: an agent's file or a user's own graph may be named by them."""
    store_timeout: float = 0.0
    """Seconds for which a store that does not answer any more is waited for."""


class CapacityShare(Struct, frozen=True, tag=True):
    """To a worker: others have come or gone."""

    concurrency: int
    share: float


class Assignment(Struct, frozen=True, tag=True):
    """To a worker that asked for work: a question in one epoch."""

    number: int
    question: Question
    gold: Gold
    epoch: int
    planned_runs: tuple[int, ...]
    """Places among the runs of :class:`WorkerSetup` that are to answer it."""


class EndOfWork(Struct, frozen=True, tag=True):
    """To a worker: there is no more work. `now`: begin nothing further, also of what was given."""

    now: bool = False


class WorkRequest(Struct, frozen=True, tag=True):
    """From a worker: a place is free."""


class AttemptReport(Struct, frozen=True, tag=True):
    """From a worker: an attempt has ended and is written."""

    number: int
    planned_run: int
    """Its place among the runs of :class:`WorkerSetup`."""
    attempt: Attempt
    """Of its events only calls that were tried again."""
    scores: tuple[Score, ...]
    tokens: int | None
    billable: float | None
    """Both as in :class:`ragrounds.base.contracts.FinishedAttempt`."""
    made: int
    reused: int
    searches: int
    """Of this worker so far: model calls made and answered from the journal, and searches made."""
    flows: tuple[ServerTraffic, ...] = ()
    """Its calls to servers now."""


class WorkerFailure(Struct, frozen=True, tag=True):
    """From a worker: the run cannot go on."""

    reason: str


class WorkerDone(Struct, frozen=True, tag=True):
    """From a worker, last: it ends, as it was asked to."""

    how: str = ""
    """What asked it where the leader did not."""


ToWorker = WorkerSetup | CapacityShare | Assignment | EndOfWork
FromWorker = WorkRequest | AttemptReport | WorkerFailure | WorkerDone
_encoder = msgspec.msgpack.Encoder()
_to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
_from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)


def encode(message: ToWorker | FromWorker) -> bytes:
    """Encode a message as a frame."""
    return _encoder.encode(message)


def to_worker(frame: bytes) -> ToWorker:
    """Decode a frame from the leader."""
    return _to_worker.decode(frame)


def from_worker(frame: bytes) -> FromWorker:
    """Decode a frame from a worker."""
    return _from_worker.decode(frame)


class WorkerLink(Protocol):
    """The leader's end of the link to one worker."""

    @property
    def name(self) -> str:
        """The worker's name in messages to the user."""

    def post(self, frame: bytes) -> None:
        """Send a frame. To a worker that is gone nothing is sent."""

    async def receive(self) -> bytes | None:
        """Give the worker's next frame; ``None``: it has ended, or is lost."""

    @property
    def place(self) -> str:
        """Which process it is and how it stands, in parentheses after a space; empty: not known."""

    async def beat(self) -> None:
        """Wait until the worker answers."""

    async def activity(self) -> Activity | None:
        """Give what the worker's process does; ``None``: not known."""

    async def kill(self) -> None:
        """End the worker at once, whatever it does: :meth:`receive` gives ``None`` then."""

    async def end(self) -> str:
        """Make sure that the worker is gone, soon where it still works. Give how it ended; empty: properly."""


class SendFrame(Protocol):
    """The worker's end: it answers by this."""

    def __call__(self, frame: bytes) -> None: ...
