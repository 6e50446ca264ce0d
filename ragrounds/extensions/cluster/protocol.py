"""Protocol between the leader of a replay and its workers.

It has messages in msgpack, one a frame, and the two ends of the link that carries them (a pipe, an actor of Ray)."""

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
    """First message to a worker: the runs and its settings."""

    recipe: Recipe
    runs: tuple[Run, ...]
    """Runs, one for each agent of the recipe, in its order."""
    home: str
    store: str | None
    mode: Mode
    concurrency: int
    """Number of attempts in flight."""
    share: float
    """Worker's share of the models' rate limits."""
    folder: str
    path: tuple[str, ...]
    """Working folder and import path of the leader: an agent's file or a user's graph may be named relative to them."""
    store_timeout: float = 0.0
    """Seconds to wait for a store that no longer answers."""


class CapacityShare(Struct, frozen=True, tag=True):
    """Message to a worker with its new share, after other workers have joined or left."""

    concurrency: int
    share: float


class Assignment(Struct, frozen=True, tag=True):
    """Message to a worker that asked for work: a question in one epoch."""

    number: int
    question: Question
    gold: Gold
    epoch: int
    planned_runs: tuple[int, ...]
    """Indices of the runs of :class:`WorkerSetup` that are to answer it."""


class EndOfWork(Struct, frozen=True, tag=True):
    """Message to a worker: there is no more work. `now`: begin nothing further, not even assigned work."""

    now: bool = False


class WorkRequest(Struct, frozen=True, tag=True):
    """Message from a worker: it can take another item."""


class AttemptReport(Struct, frozen=True, tag=True):
    """Message from a worker: an attempt has ended and is written."""

    number: int
    planned_run: int
    """Index of its run in :class:`WorkerSetup`."""
    attempt: Attempt
    """The attempt; its events are only the calls that were tried again."""
    scores: tuple[Score, ...]
    tokens: int | None
    billable: float | None
    """Tokens and billable cost as in :class:`ragrounds.base.contracts.FinishedAttempt`."""
    calls_made: int
    reused: int
    searches: int
    tool_calls: int
    """Totals of this worker so far: model calls made and answered from the journal, searches and tool calls made."""
    flows: tuple[ServerTraffic, ...] = ()
    """Current traffic of the worker to servers."""


class WorkerFailure(Struct, frozen=True, tag=True):
    """Message from a worker: the run cannot go on."""

    reason: str


class WorkerDone(Struct, frozen=True, tag=True):
    """Last message from a worker: it ends as requested."""

    reason: str = ""
    """Reason for the end, if the leader did not ask for it."""


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
    """Leader's end of the link to one worker."""

    @property
    def name(self) -> str:
        """Name of the worker in messages to the user."""

    def post(self, frame: bytes) -> None:
        """Send a frame; to a worker that is gone, nothing is sent."""

    async def receive(self) -> bytes | None:
        """Return the worker's next frame; ``None`` if it has ended, or is lost."""

    @property
    def process_note(self) -> str:
        """Worker's process and its state, in parentheses after a space; empty if unknown."""

    async def beat(self) -> None:
        """Wait until the worker answers."""

    async def activity(self) -> Activity | None:
        """Return the activity of the worker's process; ``None`` if unknown."""

    async def kill(self) -> None:
        """End the worker at once, whatever it does; :meth:`receive` returns ``None`` then."""

    async def end(self) -> str:
        """Make sure that the worker is gone soon, even if it still works. Return how it ended; empty: properly."""


class SendFrame(Protocol):
    """Worker's end of the link, by which it answers."""

    def __call__(self, frame: bytes) -> None: ...
