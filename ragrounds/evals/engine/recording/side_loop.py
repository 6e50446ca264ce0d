"""Journal on a separate event loop, for calls from threads: a system may block the loop of its attempt while it waits
for these very threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TypeVar
from weakref import WeakKeyDictionary

from ragrounds.evals.store.journal import StoreJournal
from ragrounds.recorder.wire import Unsent

R = TypeVar("R")
_sides: WeakKeyDictionary[StoreJournal, SideLoop] = WeakKeyDictionary()
_making = threading.Lock()


class SideLoop:
    """Thread with a loop, and a second journal of the same store and mode as an attempt's."""

    def __init__(self, beside: StoreJournal) -> None:
        self.loop = asyncio.new_event_loop()
        self._closed = False
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self.loop.run_forever, name="ragrounds-journal", daemon=True)
        self._thread.start()
        self.journal = asyncio.run_coroutine_threadsafe(_journal(beside), self.loop).result()
        beside.on_close(self.close)

    def begin(self, work: Callable[[], Coroutine[object, object, R]]) -> Future[R]:
        """Start some work on the loop, from another thread.

        Raises:
            Unsent: the journal is closed; a loop that has stopped would never end the work.
        """
        with self._closing:
            if self._closed:
                raise Unsent("the journal was closed before this call began")
            return asyncio.run_coroutine_threadsafe(work(), self.loop)

    def close(self) -> None:
        """Close the journal, and end the thread."""
        with self._closing:
            self._closed = True
        asyncio.run_coroutine_threadsafe(_close(self.journal), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def side_of(journal: StoreJournal) -> SideLoop:
    """Return the side loop of a journal; it is created at the first call."""
    with _making:
        if journal not in _sides:
            _sides[journal] = SideLoop(journal)
        return _sides[journal]


async def _journal(beside: StoreJournal) -> StoreJournal:
    return beside.another()


async def _close(journal: StoreJournal) -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:  # threads that were left behind wait for these
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    journal.close()
