"""The attempts of one system that are made at once, and whether they hear of each other.

A system may keep what it is asked in an object that all attempts share, such as an agent of module level with a memory.
Then a call of one attempt holds another's question, and the answer depends on what else was being answered. It is seen
in the calls, said beside the figures, and from then on the system's attempts are made one after the other.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ragrounds.base.records import Question

_PLAIN = re.compile(r"[A-Za-z0-9 ,.;:()%+-]{40,}")
"""Text that reads the same in every JSON. Shorter ones may stand in a call by chance."""
_LOOKED_AT = 4
"""Other attempts whose questions are looked for in one call: those that began last."""
_ALL, _EVERY = 200, 8
"""Calls that are looked at from the first on, and then every so many: looking takes a tenth of a millisecond."""


class AttemptsAtOnce:
    """The attempts of one system that are in flight."""

    def __init__(self) -> None:
        self.mixed = False
        """An attempt has heard of another."""
        self._words: dict[int, tuple[str, bytes]] = {}
        """Number of an attempt → its question's id, and some of its words; none: they are too few."""
        self._begun = self._calls = 0
        self._ended = asyncio.Condition()

    @asynccontextmanager
    async def attempt(self, question: Question) -> AsyncIterator[None]:
        """Make an attempt while the block lasts, alone where the system's attempts hear of each other."""
        async with self._ended:
            await self._ended.wait_for(lambda: not (self.mixed and self._words))
            self._begun += 1
            number = self._begun
            self._words[number] = question.id, max(_PLAIN.findall(question.text), key=len, default="").encode()
        try:
            yield
        finally:
            del self._words[number]
            async with self._ended:
                self._ended.notify_all()

    def heard(self, question: Question, body: bytes) -> str:
        """The id of a question of another attempt in flight that the body of a call for this one holds; empty: none was
        found."""
        self._calls += 1
        if len(self._words) < 2 or (self._calls > _ALL and self._calls % _EVERY):
            return ""
        own = " ".join((question.text, *question.options.values())).encode()
        others = [(id, words) for id, words in reversed(self._words.copy().values()) if id != question.id and words]
        for id, words in others[:_LOOKED_AT]:
            if words in body and words not in own:
                self.mixed = True
                return id
        return ""
