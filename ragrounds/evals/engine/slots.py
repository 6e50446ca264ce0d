"""ResizableSemaphore for attempts in flight."""

from __future__ import annotations

import asyncio

from ragrounds.models.places import ResizableSemaphore


class Slots(ResizableSemaphore):
    """Attempts have them from their first step to their last, but for long waits."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.paused = 0
        """Attempts that gave their place away while they wait."""
        self.writing = 0
        """Attempts that have ended and are being written."""

    def place(self) -> Place:
        """A place that was acquired, to be left once."""
        return Place(self)

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
