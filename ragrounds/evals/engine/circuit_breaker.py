"""Circuit breaker: it ends a run most of whose attempts fail, so that a dead server does not fail every question. It
also ends judging, an arena, and the making of a benchmark.

It counts each run separately, because the share of one broken agent among four good ones is small. All of a command's
runs end together, between two questions: agents stay comparable on the same questions, and a failed attempt is made
again when the run is resumed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

from msgspec import Struct

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.errors import UserError

LEAST = 20
"""Number of attempts of a run that must have ended before a share of them counts."""
WINDOW = 100
"""Number of most recent attempts in the share: it also detects a server that dies after a thousand answers."""
NEVER = "never"
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s?%")


class FailureLimit(Struct, frozen=True, kw_only=True):
    """Largest number of attempts of a run that may fail. Both ``None``: all of them."""

    share: float | None = None
    """Share of the last `WINDOW` attempts that ended, at least `LEAST` of them; above 0, at most 1."""
    count: int | None = None
    """Number of attempts of one run in this command."""

    def __str__(self) -> str:
        if self.share is not None:
            return f"{100 * self.share:g}%"
        return NEVER if self.count is None else str(self.count)


def failure_limit(value: str | int) -> FailureLimit:
    """Parse ``20%``, a number of attempts, or ``never``.

    Raises:
        UserError: it is none of these.
    """
    text = str(value).strip()
    if text == NEVER:
        return FailureLimit()
    if percent := _PERCENT.fullmatch(text):
        if 0 < float(percent[1]) <= 100:
            return FailureLimit(share=float(percent[1]) / 100)
    elif text.isdecimal() and text.isascii() and int(text) and not isinstance(value, bool):
        return FailureLimit(count=int(text))
    raise UserError(
        f"--fail-after {text!r}: expected a share such as 20%, a number of failed attempts such as 50, or {NEVER}."
    )


@dataclass(eq=False)
class _Ended:
    """Results of one run or one judge that ended."""

    last: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))
    """True for each of the last attempts that failed."""
    failed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class FailureCount:
    """Count of failures, for each run or judge separately, against a limit.

    Args:
        limit: how many may fail.
        noun: what is counted: ``attempts``, ``judgements``.
    """

    def __init__(self, limit: FailureLimit, noun: str = "attempts") -> None:
        self._limit, self._noun = limit, noun
        self._ended: defaultdict[str, _Ended] = defaultdict(_Ended)
        self._reached = ""

    def reached(self) -> str:
        """Return a message about the run or judge that fails, with the most frequent reason; empty below the limit."""
        return self._reached

    def count(self, key: str, name: str, failed: bool, reason: str = "") -> None:
        """Count an attempt or judgement that ended.

        Args:
            key: of the run or the judge.
            name: its name in the message.
            failed: True if it failed.
            reason: the reason of the failure.
        """
        ended = self._ended[key]
        # The window is not the whole run, because a server that dies after a thousand answers would be a small share of
        # it.
        ended.last.append(failed)
        if not failed:
            return
        ended.failed += 1
        ended.reasons[" ".join(reason.split())] += 1
        limit, share = self._limit, sum(ended.last) / len(ended.last)
        if limit.count is not None and ended.failed >= limit.count:
            self._open(ended, f"{ended.failed:,} {self._noun} of {name} failed")
        elif limit.share is not None and len(ended.last) >= LEAST and share >= limit.share:
            window_words = f"the last {WINDOW}" if len(ended.last) == WINDOW else f"{len(ended.last):,}"
            self._open(ended, f"{sum(ended.last):,} of {window_words} {self._noun} of {name} failed")

    def _open(self, ended: _Ended, message: str) -> None:
        # The first reason is kept: failures while the run winds down are caused by its end.
        if not self._reached:
            [(reason, count)] = ended.reasons.most_common(1)
            reason = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"
            self._reached = (
                f"{message} (--fail-after {self._limit}), {count:,} of them by: {reason or 'no reason given'}"
            )


class CircuitBreaker(FailureCount):
    """Stopping rule that ends runs whose attempts fail (contract: :class:`ragrounds.base.contracts.Stop`)."""

    epochs_together = False

    def observe(self, finished: FinishedAttempt) -> None:
        """Count an attempt that ended."""
        attempt = finished.attempt
        self.count(finished.run.id, finished.run.agent, attempt.status == "failed", attempt.reason)


_LONGEST = 200
"""Number of letters of a reason that are shown."""
