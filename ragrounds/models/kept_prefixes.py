"""How many attempts at once leave a server's prefix cache whole.

Each call of an attempt may begin with what an earlier one was computed for: reasoning that goes on, one answer judged
on many statements. Where more attempts are in flight than the server's memory holds, each pushes out what the next
begins with, and all of it is computed again (LRU finds nothing in a loop longer than its memory). The server says how
much it found (``cached_tokens``): by that a number that fits is searched for. No call of what has begun ever waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextvars import ContextVar

from ragrounds.base.records import Usage
from ragrounds.models.options import VLLM
from ragrounds.models.traffic import ResizableSemaphore

_START, _LEAST = 8, 3
_LAST, _SHORT = 4, 128
"""Prompts of an attempt that the next one is held against; tokens that both must have, more than a system prompt."""


class KeptPrefixes:
    """Finds how many attempts at once fit, up to the number of `places`, where one of the `models` is vLLM's.

    It begins with a few. With every attempt that ends, and every fourth beginning that is kept, one more is let in,
    until beginnings are lost: then half as many, and one more after a round of calls that lost nothing. A number that
    lost something after that is tried again after four times as many rounds as the last time.
    """

    def __init__(self, places: ResizableSemaphore, models: Iterable[str] = ()) -> None:
        self._places, self._most = places, places.count
        self._starting = any(model.startswith(f"{VLLM}:") for model in models)
        self._searching = self._starting
        if self._starting:
            places.resize(min(_START, self._most))
        self.reported = False  # that a server had anything of a prompt
        self._kept = self._lost = self._clean = self._patience = self._round = 0

    @property
    def round(self) -> int:
        """How often the number has changed since the start; -1: more than that are still in flight."""
        return self._round if self._places.taken <= self._places.count else -1

    def ended(self) -> None:
        """An attempt has ended: as long as nothing was lost, one more is let in."""
        if self._starting and self._places.count < self._most:
            self._places.resize(self._places.count + 1)

    def observe(self, kept: bool, calling: int) -> None:
        """Count a call whose beginning was computed in this round, and whether it was still there; `calling` calls are
        in flight. Where these are few, attempts are at something else, and fewer would leave the server idle."""
        count = self._places.count
        if not self._searching or (self._places.taken < count if kept else 2 * calling < count):
            return
        self._kept, self._lost = self._kept + kept, self._lost + (not kept)
        if self._lost > max(2, self._kept // 20):
            less = max(1, count // 8) if self._patience else count - count // 2
            self._starting, self._clean, self._patience = False, 0, 4 * self._patience
            self._searching = count - less >= _LEAST  # where not even a few fit, it is not their number
            self._change(count - less if self._searching else self._most)
        elif self._starting and self._kept % 4 == 0:
            self.ended()
        elif self._kept >= 2 * count:
            self._clean, self._patience = self._clean + 1, max(1, self._patience)
            more = not self._starting and self._clean >= self._patience and count < self._most
            self._change(count + more)

    def _change(self, count: int) -> None:
        self._kept = self._lost = 0
        if count != self._places.count:
            self._clean, self._round = 0, self._round + 1
            self._places.resize(count)


class AskedPrompts:
    """The last prompts of one attempt, by who was asked."""

    def __init__(self, kept: KeptPrefixes) -> None:
        self._kept = kept
        self._asked: deque[tuple[str, str, int]] = deque(maxlen=_LAST)

    def answered(self, who: str, prompt: str, usage: Usage, calling: int) -> None:
        """Take note of a prompt, and of how much the server had of it, as :meth:`KeptPrefixes.observe`."""
        self._kept.reported |= usage.cached > 0
        begun, shared = self._kept.round, 0
        for asked, text, then in self._asked:
            if asked == who and then == begun >= 0 and prompt.startswith(part := text[: 3 * len(text) // 4]):
                shared = max(shared, len(part))
        self._asked.append((who, prompt, begun))
        expected = usage.input * shared / max(1, len(prompt))
        if expected >= _SHORT and self._kept.reported:
            self._kept.observe(usage.cached >= 0.8 * expected, calling)


ASKED: ContextVar[AskedPrompts | None] = ContextVar("asked", default=None)
"""The prompts of the attempt that is running. Whoever runs many attempts sets it."""
