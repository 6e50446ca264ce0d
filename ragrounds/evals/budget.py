"""A run's budget: when it is used up no further question is begun, and every agent has answered the same questions."""

from __future__ import annotations

import time

from msgspec import Struct

from ragrounds.records import Attempt


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a command may use, over all its agents. ``None``: no limit.

    What is in flight when a limit is reached is finished, so up to one question of each running attempt goes beyond it.
    """

    cost: float | None = None
    """Dollars really spent."""
    tokens: int | None = None
    """Tokens in and out of calls that were made (not those answered from the journal)."""
    seconds: float | None = None
    """Wall-clock seconds since the command began."""


class Spending:
    """What was used so far."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._started = time.monotonic()
        self._cost: float | None = 0.0
        self._tokens: int | None = 0
        self.ended = ""
        """Why the run ended early; empty: it did not."""

    def hear(self, attempt: Attempt, made: int | None) -> None:
        """Count a finished attempt; `made`: tokens of the calls that it made itself, ``None``: unknown."""
        self._cost = None if self._cost is None or attempt.spent is None else self._cost + attempt.spent
        self._tokens = None if self._tokens is None or made is None else self._tokens + made

    def used_up(self) -> bool:
        """Whether a limit is reached. An unknown sum has reached every limit: what cannot be counted cannot be kept
        within one."""
        budget = self._budget
        if budget.cost is not None and (self._cost is None or self._cost >= budget.cost):
            said = "the cost of a call is unknown" if self._cost is None else f"${self._cost:.4f} are spent"
            self.ended = f"the budget of ${budget.cost:g} is used up: {said}"
        elif budget.tokens is not None and (self._tokens is None or self._tokens >= budget.tokens):
            said = "the tokens of a call are unknown" if self._tokens is None else f"{self._tokens:,} were used"
            self.ended = f"the budget of {budget.tokens:,} tokens is used up: {said}"
        elif budget.seconds is not None and time.monotonic() - self._started >= budget.seconds:
            self.ended = f"the time of {budget.seconds:g} seconds is over"
        return bool(self.ended)
