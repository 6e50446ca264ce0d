"""Adaptive number of attempts in flight, so that a server's prefix cache is not overwritten.

A call may begin with text that an earlier call of the same attempt was computed for: reasoning that goes on, one answer
judged on many statements. If more attempts are in flight than the server's memory holds, each evicts the beginning that
the next one needs, and everything is computed again (LRU has no hits in a loop longer than its memory). The server
reports how much it had cached (``cached_tokens``): a number that fits is searched for with that. Calls of attempts that
have begun never wait.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar

from ragrounds.base.records import Usage
from ragrounds.models.traffic import ResizableSemaphore

_START, _LEAST = 8, 3
_LAST, _SHORT = 4, 128
"""Number of an attempt's last prompts that the next one is compared with; minimal shared tokens, more than a system
prompt has."""


class KeptPrefixes:
    """Search for the number of concurrent attempts that fits, up to the semaphore's count, if vLLM serves a model.

    It begins with a few. With every attempt that ends, and with every fourth cached beginning, one more is admitted,
    until beginnings are lost: then the number is halved, and grows by one after a round of calls that lost nothing. A
    number that lost something after that is tried again after four times as many rounds as the last time.
    """

    def __init__(self, semaphore: ResizableSemaphore) -> None:
        self._slots, self._max_count = semaphore, semaphore.count
        self._starting = self._searching = True
        semaphore.resize(min(_START, self._max_count))
        self.reported = False  # True once a server reported cached tokens
        self._kept_count = self._lost = self._clean = self._rounds_to_wait = self._round = 0

    @property
    def round(self) -> int:
        """Number of changes of the limit since the start; -1 while more attempts than the limit are in flight."""
        return self._round if self._slots.taken <= self._slots.count else -1

    def ended(self) -> None:
        """Note that an attempt has ended: as long as nothing was lost, one more is admitted."""
        if self._starting and self._slots.count < self._max_count:
            self._slots.resize(self._slots.count + 1)

    def observe(self, was_kept: bool, calling: int) -> None:
        """Count a call whose beginning was computed in this round.

        If few calls are in flight, attempts are busy with something else, and fewer would leave the server idle.

        Args:
            was_kept: True if the beginning was still cached.
            calling: number of calls in flight.
        """
        count = self._slots.count
        if not self._searching or (self._slots.taken < count if was_kept else 2 * calling < count):
            return
        self._kept_count, self._lost = self._kept_count + was_kept, self._lost + (not was_kept)
        if self._lost > max(2, self._kept_count // 20):
            less = max(1, count // 8) if self._rounds_to_wait else count - count // 2
            self._starting, self._clean, self._rounds_to_wait = False, 0, 4 * self._rounds_to_wait
            self._searching = count - less >= _LEAST  # if not even a few fit, their number is not the cause
            self._change(count - less if self._searching else self._max_count)
        elif self._starting and self._kept_count % 4 == 0:
            self.ended()
        elif self._kept_count >= 2 * count:
            self._clean, self._rounds_to_wait = self._clean + 1, max(1, self._rounds_to_wait)
            more = not self._starting and self._clean >= self._rounds_to_wait and count < self._max_count
            self._change(count + more)

    def _change(self, count: int) -> None:
        self._kept_count = self._lost = 0
        if count != self._slots.count:
            self._clean, self._round = 0, self._round + 1
            self._slots.resize(count)


class AskedPrompts:
    """Last prompts of one attempt, by model."""

    def __init__(self, prefixes: KeptPrefixes) -> None:
        self._prefixes = prefixes
        self._recent: deque[tuple[str, str, int]] = deque(maxlen=_LAST)

    def answered(self, who: str, prompt: str, usage: Usage, calling: int) -> None:
        """Record a prompt and the part of it that the server had cached, for :meth:`KeptPrefixes.observe`."""
        self._prefixes.reported |= usage.cached > 0
        current_round, shared = self._prefixes.round, 0
        for model, text, prompt_round in self._recent:
            if (
                model == who
                and prompt_round == current_round >= 0
                and prompt.startswith(part := text[: 3 * len(text) // 4])
            ):
                shared = max(shared, len(part))
        self._recent.append((who, prompt, current_round))
        expected = usage.input * shared / max(1, len(prompt))
        if expected >= _SHORT and self._prefixes.reported:
            self._prefixes.observe(usage.cached >= 0.8 * expected, calling)


ASKED: ContextVar[AskedPrompts | None] = ContextVar("asked", default=None)
"""Prompts of the running attempt. The code that runs many attempts sets it."""
