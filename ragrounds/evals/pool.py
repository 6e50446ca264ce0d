"""A steady pool of attempts in flight on one event loop: whatever its work comes from, and whoever is told of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from ragrounds.errors import UserError
from ragrounds.evals.strands import Finished, Piece, Source, Strand

Attempting = Callable[[Strand, Piece], Awaitable[Finished]]


class Slots:
    """Places for attempts in flight. Their number may change at any time; nothing in flight is ended by that."""

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Wait for a place and take it; first come, first served."""
        if self.taken < self.count and not self._waiting:
            self.taken += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.release()
            else:
                self._waiting.remove(place)
            raise

    def release(self) -> None:
        """Give a place back."""
        self.taken -= 1
        self._hand_out()

    def resize(self, count: int) -> None:
        """Change the number of places."""
        self.count = max(1, count)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self.taken < self.count:
            place = self._waiting.popleft()
            if not place.done():
                self.taken += 1
                place.set_result(None)


async def run_pool(source: Source, attempting: Attempting, slots: Slots, ends: list[BaseException]) -> None:
    """Take pieces from `source` as places get free, until it has none.

    The strands of a piece follow each other, so that equal calls meet. The next piece is asked for when a place is
    free and nothing of the last one waits. As soon as something stands in `ends` nothing further is begun, and what is
    in flight is finished; an error of the user's kind that ends an attempt is put there.
    """

    async def one(strand: Strand, piece: Piece) -> None:
        try:
            source.hear(await attempting(strand, piece))
        except UserError as error:
            ends.append(error)
        finally:
            slots.release()

    waiting: deque[tuple[Strand, Piece]] = deque()
    async with asyncio.TaskGroup() as group:
        while True:
            await slots.acquire()
            if not waiting and not ends and (piece := await source.next()) is not None:
                waiting.extend((strand, piece) for strand in piece.strands)
            if ends or not waiting:
                slots.release()
                return
            group.create_task(one(*waiting.popleft()))
