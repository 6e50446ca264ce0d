"""A number of places that whoever comes takes in order."""

from __future__ import annotations

import asyncio
from collections import deque


class ResizableSemaphore:
    """Their number may change at any time; nobody who has one loses it by that."""

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def wanted(self) -> int:
        """How many wait for a place."""
        return sum(not place.done() for place in self._waiting)

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
