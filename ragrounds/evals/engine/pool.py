"""A steady pool of attempts in flight on one event loop: whatever its work comes from, and whoever is told of it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import deque
from collections.abc import Awaitable, Callable, Iterator

from ragrounds.errors import UserError
from ragrounds.evals.engine.slots import Slots
from ragrounds.evals.engine.strands import Ended, Finished, Piece, Source, Strand
from ragrounds.models.waiting import sleeping

_COLLECT = 20_000
"""Objects made between looks for cycles among the newest; Python's own is 700."""
Attempting = Callable[[Strand, Piece, Ended], Awaitable[Finished]]


async def run_pool(source: Source, attempting: Attempting, slots: Slots, ends: list[BaseException]) -> None:
    """Take pieces from `source` as places get free, until it has none.

    The strands of a piece follow each other, so that equal calls meet. The next piece is asked for when a place is
    free and nothing of the last one waits. As soon as something stands in `ends` nothing further is begun, and what is
    in flight is finished; an error of the user's kind that ends an attempt is put there.
    """

    async def one(strand: Strand, piece: Piece) -> None:
        sleeping.set(slots.sleep)
        place = slots.place()

        def ended(finished: Finished) -> None:
            source.over(finished)
            place.leave_to_write()

        try:
            source.hear(await attempting(strand, piece, ended))
        except UserError as error:
            ends.append(error)
        finally:
            place.leave()

    waiting: deque[tuple[Strand, Piece]] = deque()
    with _seldom_collected():
        async with asyncio.TaskGroup() as group:
            while True:
                await slots.acquire()
                if not waiting and not ends and (piece := await source.next()) is not None:
                    waiting.extend((strand, piece) for strand in piece.strands)
                if ends or not waiting:
                    slots.release()
                    return
                group.create_task(one(*waiting.popleft()))


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Look for garbage in cycles less often: what was imported and opened stays, and attempts leave little."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_COLLECT, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
