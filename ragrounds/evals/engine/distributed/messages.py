"""What the process that leads a replay and its workers say to each other: msgpack, one message a frame."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.evals.engine.planning import Recipe
from ragrounds.evals.store.journal import Mode
from ragrounds.models.traffic import ServerTraffic
from ragrounds.records import Attempt, Gold, Question, Run, Score


class Hello(Struct, frozen=True, tag=True):
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


class Share(Struct, frozen=True, tag=True):
    """To a worker: others have come or gone."""

    slots: int
    share: float


class Given(Struct, frozen=True, tag=True):
    """To a worker that wants work: a piece of it."""

    number: int
    question: Question
    gold: Gold
    epoch: int
    strands: tuple[int, ...]


class Enough(Struct, frozen=True, tag=True):
    """To a worker: there is no more work. `now`: begin nothing further, also of what was given."""

    now: bool = False


class Wanted(Struct, frozen=True, tag=True):
    """From a worker: a place is free."""


class Told(Struct, frozen=True, tag=True):
    """From a worker: an attempt has ended and is written."""

    number: int
    strand: int
    attempt: Attempt
    """Without its events."""
    scores: tuple[Score, ...]
    tokens: int | None
    """As :attr:`ragrounds.evals.engine.strands.Finished.made`."""
    made: int
    reused: int
    """Calls of this worker so far: made, answered from the journal."""
    flows: tuple[ServerTraffic, ...] = ()
    """Its calls to servers now."""


class Failed(Struct, frozen=True, tag=True):
    """From a worker: the run cannot go on."""

    reason: str


class Over(Struct, frozen=True, tag=True):
    """From a worker, last: it ends, as it was told to."""


ToWorker = Hello | Share | Given | Enough
FromWorker = Wanted | Told | Failed | Over
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
