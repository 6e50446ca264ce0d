"""The memory of a vLLM server: prompts in blocks, each known by its own text and all that stands before it.

As vLLM's block manager (V1) does it: a request is admitted when its blocks fit beside those of the requests that are
running, and keeps them until it ends; the blocks of what has ended are kept until others need the room, those that were
used longest ago first and of one request its last ones first. What has not been admitted waits in a queue, by priority
(lower first) and then as it came; nothing overtakes the first.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import heapq
import itertools
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator

BLOCK = 64
"""Characters: vLLM's blocks are 16 tokens."""


class BlockPool:
    """Keeps `size` blocks, and runs at most `at_once` requests."""

    def __init__(self, size: int, at_once: int = 256) -> None:
        self._size, self._at_once = size, at_once
        self._held: Counter[bytes] = Counter()
        self._kept: OrderedDict[bytes, None] = OrderedDict()
        self._queue: list[tuple[int, int, tuple[bytes, ...], asyncio.Future[int]]] = []
        self._numbers = itertools.count()
        self._running = 0
        self._seen: set[bytes] = set()
        self.found = 0
        """Blocks of prompts that were there already."""
        self.looked = 0
        """Blocks of all prompts."""
        self.best = 0
        """Blocks that would have been there in a memory without end: no order finds more."""

    @contextlib.asynccontextmanager
    async def running(self, prompt: str, answer: str = "", priority: int = 0) -> AsyncIterator[int]:
        """Run a request from its admission to its end; gives how many of its prompt's first characters were there."""
        chain = blocks(prompt + answer)[: self._size]
        asked = min(len(prompt) // BLOCK, len(chain))
        admitted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (priority, next(self._numbers), chain, admitted))
        self._admit()
        try:
            found = min(await admitted, asked)
            self.found += found
            self.looked += asked
            self.best += next((place for place, block in enumerate(chain[:asked]) if block not in self._seen), asked)
            self._seen.update(chain)
            yield found * BLOCK
        finally:
            if not admitted.cancelled():
                self._running -= 1
                self._leave(chain)
            self._admit()

    def _admit(self) -> None:
        while self._queue and self._running < self._at_once:
            _, _, chain, admitted = self._queue[0]
            if sum(block not in self._held for block in chain) > self._size - len(self._held):
                return
            heapq.heappop(self._queue)
            if not admitted.done():  # it may have been cut off while it waited
                self._running += 1
                admitted.set_result(self._hold(chain))

    def _hold(self, chain: tuple[bytes, ...]) -> int:
        """Hold the blocks of a request; returns how many of its first ones are there."""
        there = (place for place, block in enumerate(chain) if block not in self._held and block not in self._kept)
        found = next(there, len(chain))
        for block in chain:
            self._held[block] += 1
            self._kept.pop(block, None)
        while len(self._held) + len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return found

    def _leave(self, chain: tuple[bytes, ...]) -> None:
        for block in reversed(chain):
            self._held[block] -= 1
            if not self._held[block]:
                del self._held[block]
                self._kept[block] = None


def blocks(text: str) -> tuple[bytes, ...]:
    """The whole blocks of a text."""
    chain, made = b"", []
    for start in range(0, len(text) - BLOCK + 1, BLOCK):
        chain = hashlib.sha256(chain + text[start : start + BLOCK].encode()).digest()
        made.append(chain)
    return tuple(made)
