"""Print the longest turn of the event loop in a run after its first answer, in seconds of its thread's processor time.

    python -m tests.api.longest_turn QUESTIONS URL AGENT …

The clock would count what other processes do. What is imported and opened before the first answer keeps nobody waiting.
"""

import sys
import time
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ragrounds as rr
from ragrounds.tools.retrievers import bm25


class Turns(rr.RunListener):
    """Measure every turn."""

    def __init__(self) -> None:
        self.longest, self.began = (0.0, ""), False
        run_handle = events.Handle._run

        def measured(handle: events.Handle) -> None:
            started = time.thread_time()
            run_handle(handle)
            if self.began:
                self.longest = max(self.longest, (time.thread_time() - started, repr(handle)))

        events.Handle._run = measured  # type: ignore[method-assign]

    @contextmanager
    def progress(self, progress: Any, *, pilot: bool = False) -> Iterator[Callable[[Any], None]]:
        yield lambda finished: setattr(self, "began", True)


if __name__ == "__main__":
    benchmark, url, *agents = sys.argv[1:]
    bm25._WORTH = 20_000  # about the seventieth search has numba loaded: others are in flight, and some are answered
    turns = Turns()
    rr.run(benchmark, agents, model="openai:test", base_url=url, corpus="sample", concurrency=64, listener=turns)
    assert "ragrounds.tools.index.postings_numba" in sys.modules
    print(*turns.longest)
