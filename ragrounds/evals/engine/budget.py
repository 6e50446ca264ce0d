"""Budget of a run: once it is used up, no further question is begun, so that all agents have answered the same
questions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from operator import attrgetter

from msgspec import Struct

from ragrounds.base.contracts import FinishedAttempt, Model
from ragrounds.base.errors import UserError
from ragrounds.base.records import Reply
from ragrounds.base.spent import Usage, known_sum
from ragrounds.evals.trace.traces import calls

_REMEDY = "Give one: MODEL[price_input=…,price_output=…] or prices.toml, in dollars per million tokens"


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of a command, over all its agents. ``None``: no limit.

    Attempts in flight when a limit is reached are finished, so up to one question of each running attempt exceeds it.
    """

    cost: float | None = None
    """Dollars really paid."""
    tokens: int | None = None
    """Tokens in and out of calls that were made (not those answered from the journal)."""
    seconds: float | None = None
    """Wall-clock seconds since the command began."""


def check_prices(models: Iterable[Model]) -> None:
    """Check that a limit on cost can be checked: every model has a price.

    Raises:
        UserError: the price of a model is unknown.
    """
    for model in models:
        if model.price(Reply(text="", usage=Usage(1, 1), busy=0.0)) is None:
            raise UserError(
                f"A limit on cost needs a price of {model.spec.partition('[')[0]}, and none is known. {_REMEDY}, or "
                "leave --max-cost out."
            )


class BudgetStop:
    """Stopping rule that ends a run whose budget is used up (contract: :class:`ragrounds.base.contracts.Stop`)."""

    epochs_together = False

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._started = time.monotonic()
        self._cost: float | None = 0.0
        self._tokens: int | None = 0
        self._unpriced = ""
        """Model of the first call whose cost is unknown; empty if there is none or it is not recorded."""

    @property
    def parts(self) -> tuple[tuple[str, float | None, float], ...]:
        """Return the unit (dollars, tokens or seconds), the used amount (``None``: not known) and the value of each
        limit.
        """
        budget, spent = self._budget, time.monotonic() - self._started
        counted = (("dollars", self._cost, budget.cost), ("tokens", self._tokens, budget.tokens))
        return tuple(
            (unit, used, limit)
            for unit, used, limit in (*counted, ("seconds", spent, budget.seconds))
            if limit is not None
        )

    def room(self, started_attempts: int, ended: int) -> float:
        """Return half of the number of attempts that may still begin, estimated from those that have ended; 0 without
        an estimate.
        """
        affordable = (limit * ended / used if used else 0 for _, used, limit in self.parts)
        return min(((n_affordable - started_attempts) / 2 for n_affordable in affordable), default=math.inf)

    def observe(self, finished: FinishedAttempt) -> None:
        """Count a finished attempt."""
        if finished.billable is None and not self._unpriced:
            unpriced = [call for call in calls(finished.attempt.events) if call.cost_uncached is None]
            # A call that failed has no cost either: one with a reply comes first.
            unpriced.sort(key=attrgetter("is_counted"), reverse=True)
            self._unpriced = unpriced[0].actor.partition("[")[0] if unpriced else ""
        self.count(finished.billable, finished.tokens_made)

    def count(self, cost_paid: float | None, tokens_made: int | None) -> None:
        """Add dollars really paid, and tokens of calls that were made. ``None`` and negative values mean not known."""
        self._cost = known_sum((self._cost, None if cost_paid is None or cost_paid < 0 else cost_paid))
        self._tokens = known_sum((self._tokens, None if tokens_made is None or tokens_made < 0 else tokens_made))

    def reached(self) -> str:
        """Return a message about the limit that is reached; empty if none is.

        An unknown sum counts as over every limit, because it cannot be checked.
        """
        budget, rest = self._budget, "without calls then in flight"
        if budget.cost is not None and (self._cost is None or self._cost >= budget.cost):
            if self._cost is None:
                reason = f"no price of {self._unpriced} is known. {_REMEDY}" if self._unpriced else ""
                return f"the budget of ${budget.cost:g} cannot be checked: {reason or 'the cost of a call is unknown'}"
            return f"the budget of ${budget.cost:g} is used up: ${self._cost:.4f}, {rest}"
        if budget.tokens is not None and (self._tokens is None or self._tokens >= budget.tokens):
            if self._tokens is None:
                return f"the budget of {budget.tokens:,} tokens cannot be checked: the tokens of a call are unknown"
            return f"the budget of {budget.tokens:,} tokens is used up: {self._tokens:,}, {rest}"
        if budget.seconds is not None and time.monotonic() - self._started >= budget.seconds:
            return f"the time budget of {budget.seconds:g} seconds is used up"
        return ""
