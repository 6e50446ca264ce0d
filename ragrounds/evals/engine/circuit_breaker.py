"""The circuit breaker: it ends a run most of whose attempts fail, so that a dead server does not burn every question.

It counts each run by itself, because the share of one broken agent among four good ones is small. All of a command's
runs end together, between two questions: agents stay comparable on the same questions, and a failed attempt is made
again when the run is resumed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

from msgspec import Struct

from ragrounds.contracts import FinishedAttempt
from ragrounds.errors import UserError

FAIL_AFTER = "50%"
"""The share of failed attempts that ends a run where nothing else is asked for."""
LEAST = 20
"""Attempts of a run that must have ended before a share of them counts."""
WINDOW = 100
"""The last attempts, of which the share is taken: a server that dies after a thousand answers is found too."""
NEVER = "never"
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s?%")


class FailureLimit(Struct, frozen=True, kw_only=True):
    """How many attempts of a run may fail. Both ``None``: all of them."""

    share: float | None = None
    """Of the last `WINDOW` attempts that ended, and of `LEAST` at least; above 0, at most 1."""
    count: int | None = None
    """Attempts of one run in this command."""

    def __str__(self) -> str:
        if self.share is not None:
            return f"{100 * self.share:g}%"
        return NEVER if self.count is None else str(self.count)


def failure_limit(given: str | int) -> FailureLimit:
    """Read ``20%``, a number of attempts, or ``never``.

    Raises:
        UserError: it is none of these.
    """
    text = str(given).strip()
    if text == NEVER:
        return FailureLimit()
    if percent := _PERCENT.fullmatch(text):
        if 0 < float(percent[1]) <= 100:
            return FailureLimit(share=float(percent[1]) / 100)
    elif text.isdecimal() and text.isascii() and int(text) and not isinstance(given, bool):
        return FailureLimit(count=int(text))
    raise UserError(
        f"--fail-after {text!r}: expected a share such as 20%, a number of failed attempts such as 50, or {NEVER}."
    )


@dataclass(eq=False)
class _Ended:
    """The attempts of one run that ended."""

    last: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))
    """Whether each of the last ones failed."""
    failed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class CircuitBreaker:
    """Ends runs whose attempts fail (contract: :class:`ragrounds.contracts.Stop`)."""

    epochs_together = False

    def __init__(self, limit: FailureLimit) -> None:
        self._limit = limit
        self._runs: defaultdict[str, _Ended] = defaultdict(_Ended)
        self._reached = ""

    def observe(self, finished: FinishedAttempt) -> None:
        """Count an attempt that ended."""
        ended = self._runs[finished.run.id]
        failed = finished.attempt.status == "failed"
        ended.last.append(failed)
        if not failed:
            return
        ended.failed += 1
        ended.reasons[" ".join(finished.attempt.reason.split())] += 1
        limit, share = self._limit, sum(ended.last) / len(ended.last)
        if limit.count is not None and ended.failed >= limit.count:
            self._open(finished, f"{ended.failed:,} attempts of {finished.run.agent} failed")
        elif limit.share is not None and len(ended.last) >= LEAST and share >= limit.share:
            of = f"the last {WINDOW}" if len(ended.last) == WINDOW else f"{len(ended.last):,}"
            self._open(finished, f"{sum(ended.last):,} of {of} attempts of {finished.run.agent} failed")

    def reached(self) -> str:
        """Say which agent's attempts fail and what failed most often; empty: not so many fail."""
        return self._reached

    def _open(self, finished: FinishedAttempt, what: str) -> None:
        if not self._reached:
            [(reason, count)] = self._runs[finished.run.id].reasons.most_common(1)
            reason = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"
            self._reached = f"{what} (--fail-after {self._limit}), {count:,} of them by: {reason}"


_LONGEST = 200
"""Letters of a reason that are shown."""
