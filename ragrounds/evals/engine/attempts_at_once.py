"""Concurrent attempts of one system, and the detection of shared state between them.

A system may keep its question in an object that all attempts share, such as an agent of module level with a memory.
Then a call of one attempt contains another's question, and the answer depends on the other attempts in flight. This is
detected in the calls and reported next to the figures, and from then on the system's attempts are made one after the
other.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ragrounds.base.records import Question

_PLAIN = re.compile(r"[A-Za-z0-9 ,.;:()%+-]{40,}")
"""Text that reads the same in every JSON. A shorter text may be in a call by chance."""
_LOOKED_AT = 4
"""Number of other attempts whose questions are looked for in one call: those that began last."""
_CHECKED_FIRST, _CHECK_INTERVAL = 200, 8
"""Number of calls that are all checked, and the interval of checks after them: a check takes a tenth of a millisecond.
"""


class AttemptsAtOnce:
    """Attempts of one system that are in flight."""

    def __init__(self) -> None:
        self.mixed = False
        """True if a call of one attempt contained the question of another."""
        self._questions: dict[int, tuple[str, bytes]] = {}
        """Question id and some words of the question, by the number of the attempt; the words are empty if they are too
        few.
        """
        self._n_started = self._calls = 0
        self._ended = asyncio.Condition()

    @asynccontextmanager
    async def attempt(self, question: Question) -> AsyncIterator[None]:
        """Register an attempt while the block lasts. It runs alone if the system's attempts share state."""
        async with self._ended:
            await self._ended.wait_for(lambda: not (self.mixed and self._questions))
            self._n_started += 1
            number = self._n_started
            self._questions[number] = question.id, max(_PLAIN.findall(question.text), key=len, default="").encode()
        try:
            yield
        finally:
            del self._questions[number]
            async with self._ended:
                self._ended.notify_all()

    def heard(self, question: Question, body: bytes) -> str:
        """Return the id of another attempt's question that the body of a call contains; empty if none was found."""
        self._calls += 1
        if len(self._questions) < 2 or (self._calls > _CHECKED_FIRST and self._calls % _CHECK_INTERVAL):
            return ""
        own_text = " ".join((question.text, *question.options.values())).encode()
        other_questions = [
            (id, words) for id, words in reversed(self._questions.copy().values()) if id != question.id and words
        ]
        for id, words in other_questions[:_LOOKED_AT]:
            if words in body and words not in own_text:
                self.mixed = True
                return id
        return ""
