"""What a claim is told by rounds of questions, one after the other: values, intervals, the decision."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.compare.expressions import Claim, Condition, Decision, decide, together
from ragrounds.evals.engine.question_order import QuestionRound
from ragrounds.evals.stats.sequential import ConfidenceSequence

SHARES = ("accuracy", "failed", "blocked", "refused", "abstained", "unreadable")
"""Measures between 0 and 1. The others have no upper bound, so no confidence sequence by betting."""

Value = Callable[[str, str, str], float | None]
"""(measure, run, question id) → the question's value, a mean over its epochs, 0 to 1; ``None``: missing."""


class WatchedCondition(Struct, frozen=True, kw_only=True):
    """A condition (left side minus right side) as it stands, by an interval that is valid at any stopping time."""

    decision: Decision
    value: float | None
    low: float | None
    high: float | None
    level: float
    p: float | None
    """Always-valid p value of: the two sides are equal."""
    rounds: int
    """Draws that it rests on: questions, where there is one dataset and no duplicate."""
    missing: int
    """Draws without a score, which it leaves out."""


class Watched(Struct, frozen=True, kw_only=True):
    """A claim as it stands."""

    claim: str
    decision: Decision
    questions: int
    """Answered by all agents, and counted in the order in which they were drawn."""
    conditions: tuple[WatchedCondition, ...]


class Watch:
    """Follows a claim.

    Raises:
        UserError: a condition without a level, on a measure that is not a share, or on nothing but one run less
            itself.
    """

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._conditions = [_Followed(condition, claim.text) for condition in claim.conditions]
        self._questions = 0

    def hear(self, drawn: QuestionRound, value: Value) -> None:
        """Count the next round."""
        for condition in self._conditions:
            condition.hear(drawn, value)
        self._questions += len(drawn.questions)

    @property
    def decision(self) -> Decision:
        """As it stands: once told, it stays."""
        return together([one.decision for one in self._conditions])

    @property
    def now(self) -> Watched:
        """Everything about it."""
        return Watched(
            claim=self._claim.text,
            decision=self.decision,
            questions=self._questions,
            conditions=tuple(one.now for one in self._conditions),
        )


class _Followed:
    """One condition and its confidence sequence."""

    def __init__(self, condition: Condition, claim: str) -> None:
        self._condition = condition
        self._level = _checked(condition, claim)
        factors = [term.factor for term in condition.terms]
        least = condition.constant + sum(min(0.0, factor) for factor in factors)
        most = condition.constant + sum(max(0.0, factor) for factor in factors)
        self._sequence = ConfidenceSequence(least, most, level=self._level, null=0.0)
        self._missing = 0
        self.decision: Decision = "cannot tell"

    def hear(self, drawn: QuestionRound, value: Value) -> None:
        sums = []
        for part in drawn.parts:
            found = [self._sum(question.id, value) for question in part]
            known = [number for number in found if number is not None]
            if not known:
                self._missing += 1
                return
            sums.append(sum(known) / len(known))
        self._sequence.hear(sum(sums) / len(sums))
        now = self._sequence.now
        if now is not None and self.decision == "cannot tell":
            self.decision = decide(self._condition, now.mean, now.low, now.high)

    def _sum(self, question: str, value: Value) -> float | None:
        total = self._condition.constant
        for term in self._condition.terms:
            number = value(term.measure, term.run, question)
            if number is None:
                return None
            total += term.factor * number
        return total

    @property
    def now(self) -> WatchedCondition:
        found = self._sequence.now
        return WatchedCondition(
            decision=self.decision,
            value=found.mean if found else None,
            low=found.low if found else None,
            high=found.high if found else None,
            level=self._level,
            p=found.p if found else None,
            rounds=found.n if found else 0,
            missing=self._missing,
        )


def _checked(condition: Condition, claim: str) -> float:
    """The level, where the condition is one that can be watched."""
    unbounded = [term.measure for term in condition.terms if term.measure not in SHARES]
    if unbounded:
        raise UserError(
            f"A run cannot be stopped by {claim!r}: {unbounded[0]} has no upper bound, so no interval of it stays "
            f"valid while it is watched. Measures that can be watched: {', '.join(SHARES)}."
        )
    if condition.level is None:
        raise UserError(
            f"A run cannot be stopped by {claim!r}: without a level the first question would decide. Add one, such "
            "as @ 95%."
        )
    together_: dict[tuple[str, str], float] = {}
    for term in condition.terms:
        key = (term.measure, term.run)
        together_[key] = together_.get(key, 0.0) + term.factor
    if not any(together_.values()):
        raise UserError(f"A run cannot be stopped by {claim!r}: it compares a run with itself.")
    return condition.level
