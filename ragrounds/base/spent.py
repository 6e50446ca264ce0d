"""Tokens, dollars and seconds that calls took, and sums of values of which some are unknown."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

NumberT = TypeVar("NumberT", int, float)


def known_sum(values: Iterable[NumberT | None]) -> NumberT | None:
    """Return the sum, or ``None`` if a value is unknown. The sum of floats does not depend on their order."""
    numbers = list(values)
    # fsum is exact: databases return rows in different orders, and their totals must be equal.
    add: Any = math.fsum if float in map(type, numbers) else sum
    return None if None in numbers else add(numbers)


class Usage(Struct, frozen=True):
    """Tokens of one reply. `cached` is a part of `input`, `reasoning` a part of `output`."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
        )

    @property
    def total(self) -> int:
        """Return the number of tokens, in and out."""
        return self.input + self.output


class Spent(Struct, frozen=True, kw_only=True):
    """Sum over some calls. A value that is unknown for one of them is unknown for the sum: ``None``, never 0."""

    calls: int = 0
    """Number of model calls."""
    usage: Usage | None = Usage()
    cost_paid: float | None = 0.0
    """US dollars really paid: a call that the journal answered costs nothing."""
    cost_uncached: float | None = 0.0
    """Full price: US dollars that the calls cost with an empty journal."""
    seconds: float = 0.0
    unanswered: int = 0
    """Number of requests without a readable answer. A provider may bill them: if there are any, costs are at least
    these.
    """

    def __add__(self, other: Spent) -> Spent:
        return total_spent((self, other))

    @property
    def without_answer(self) -> Spent:
        """Return the sum of calls without any answer: tokens and dollars of 0 are unknown then.

        Dollars paid are 0 if no request was sent; a provider may bill a request without an answer.
        """
        if self.tokens or self.cost_uncached:
            return self
        return replace(self, usage=None, cost_uncached=None, cost_paid=None if self.unanswered else self.cost_paid)

    @property
    def tokens(self) -> int | None:
        """Return the number of tokens, in and out; ``None`` if unknown."""
        return self.usage.total if self.usage else None


def total_spent(parts: Iterable[Spent]) -> Spent:
    """Return the sum of all parts, whose order does not matter."""
    calls = unanswered = 0
    usage: Usage | None = Usage()
    paid, uncached, seconds = list[float | None](), list[float | None](), list[float]()
    for part in parts:
        calls += part.calls
        unanswered += part.unanswered
        usage = None if usage is None or part.usage is None else usage + part.usage
        paid.append(part.cost_paid)
        uncached.append(part.cost_uncached)
        seconds.append(part.seconds)
    return Spent(
        calls=calls,
        usage=usage,
        cost_paid=known_sum([0.0, *paid]),
        cost_uncached=known_sum([0.0, *uncached]),
        seconds=math.fsum(seconds),
        unanswered=unanswered,
    )
