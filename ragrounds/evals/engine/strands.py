"""The words of a replay: what is run, what is handed out, what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from ragrounds.agents.agent import Agent
from ragrounds.contracts import Model, Scorer, Searcher
from ragrounds.models.prices import Price
from ragrounds.records import Attempt, Gold, Question, Run, Score

FINAL: frozenset[str] = frozenset({"completed", "blocked", "capped"})
"""Attempts with another status are tried again when their run goes on. What a provider answered for good (a response
without choices) is in the journal, so trying again costs nothing."""


class Strand(Struct, frozen=True):
    """One run of the replay: its agent, ready to go."""

    run: Run
    agent: Agent
    models: Mapping[str, Model]
    searcher: Searcher | None
    prices: Mapping[str, Price] = {}
    """The user's own, for what the searcher uses; models have theirs."""


class Piece(Struct, frozen=True):
    """What is handed out at once: a question in one epoch, with the strands that are still to answer it.

    All of it is done by one worker, so that equal calls of several agents meet there.
    """

    question: Question
    gold: Gold
    epoch: int
    strands: tuple[Strand, ...]


class Finished(Struct, frozen=True):
    """What a source, the stops and the progress display are told of an attempt."""

    run: Run
    attempt: Attempt
    """Without its events where another process made it."""
    scores: tuple[Score, ...]
    made: int | None = None
    """Tokens of the calls that were not answered from the journal; ``None``: unknown."""


Listener = Callable[[Finished], None]
Scorers = Callable[[Question], Sequence[Scorer]]


class Stop(Protocol):
    """A reason to end a run before its last question: a budget, or a comparison that is decided."""

    @property
    def whole(self) -> bool:
        """Whether a question is to be asked in all its epochs before the next; else epoch after epoch."""

    def hear(self, finished: Finished) -> None:
        """An attempt ended. They come in no particular order."""

    def reached(self) -> str:
        """Why no further question is to be begun; empty: go on. Asked between questions, never inside one."""


Ended = Callable[[Finished], None]
"""To be told of an attempt that has ended and is still to be written."""


class Source(Protocol):
    """Where a pool gets its work from."""

    async def next(self) -> Piece | None:
        """The next piece; ``None``: there is none left, or none is to be begun any more."""

    def over(self, finished: Finished) -> None:
        """An attempt has ended; it is still to be written."""

    def hear(self, finished: Finished) -> None:
        """An attempt is written."""
