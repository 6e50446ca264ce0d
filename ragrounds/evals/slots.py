"""Places for attempts in flight."""

from __future__ import annotations

import asyncio
from collections import deque


class Slots:
    """Their number may change at any time; nothing in flight is ended by that."""

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self.taken = 0
        self.paused = 0
        """Attempts that gave their place away while they wait."""
        self.writing = 0
        """Attempts that have ended and are being written."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    def place(self) -> Place:
        """A place that was acquired, to be left once."""
        return Place(self)

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

    async def sleep(self, seconds: float) -> None:
        """Wait, with the place given to somebody else meanwhile.

        Attempts that have begun come before new ones when places get free, and at most as many wait without a place as
        there are places, so that what is begun does not pile up. However it ends, a place is held again.
        """
        if self.paused >= self.count:
            await asyncio.sleep(seconds)
            return
        self.paused += 1
        self.release()
        place: asyncio.Future[None] | None = None
        try:
            await asyncio.sleep(seconds)
            if self.taken < self.count:
                self.taken += 1
                return
            place = asyncio.get_running_loop().create_future()
            self._waiting.appendleft(place)
            await place
        except asyncio.CancelledError:
            if place is None or place.cancelled():
                self.taken += 1  # one too many for the moment in which the attempt ends
            raise
        finally:
            self.paused -= 1

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


class Place:
    """One attempt's place. While it is being written, others go on; but no more than there are places are written at a
    time, so that a slow disk slows the run and does not fill the memory."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._writing = False

    def leave_to_write(self) -> None:
        """The attempt has ended and is only written any more."""
        if self._slots.writing < self._slots.count:
            self._writing = True
            self._slots.writing += 1
            self._slots.release()

    def leave(self) -> None:
        """The attempt is over."""
        if self._writing:
            self._slots.writing -= 1
        else:
            self._slots.release()
