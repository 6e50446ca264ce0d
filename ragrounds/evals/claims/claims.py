"""The small language of claims, and a claim followed while questions are answered.

`ragrounds compare --assert` and `ragrounds run --until` read the same language:

    accuracy(search_o1) - accuracy(vanilla_rag[top_k=8]) > 0.02 @ 95%
    separated(search_o1, vanilla_rag) @ 95%
    accuracy(a) >= 60% and failed(a) < 0.01
    score(a) > 0.3 @ 95%

A claim is one or more conditions joined by ``and``. A condition compares two sums of terms; a term is a number, or a
measure of a run, or a number times one. ``N%`` is N / 100. ``@ LEVEL`` asks for confidence: the claim holds where the
whole two-sided interval of that level does, fails where no part of it does, and is undecided otherwise. Without it
the point estimates decide.

:class:`LiveClaim` takes rounds of questions one after the other and says how the claim stands, by intervals that are
valid at any number of rounds. Nothing here reads a store: see `ragrounds.evals.claims.assertions`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Run
from ragrounds.evals.compare.stopped_runs import ClaimVerdict, ConditionVerdict, Decision
from ragrounds.evals.engine.question_order import QuestionRound
from ragrounds.evals.scorers import described
from ragrounds.evals.stats.sequential import ConfidenceSequence
from ragrounds.evals.store.run_names import run_among

Relation = Literal[">", ">=", "<", "<="]
MEASURES = (
    "accuracy",
    "score",
    "cost",
    "cost_paid",
    "tokens",
    "model_calls",
    "seconds",
    "failed",
    "blocked",
    "capped",
    "paused",
    "refused",
    "abstained",
    "unreadable",
    "empty",
)
"""What a term may be: the mean score (`accuracy`: by a scorer whose 1 is a right answer); what a question costs
(`cost`: dollars uncached); shares of outcomes."""
BOUNDED_MEASURES = ("accuracy", "score", *MEASURES[MEASURES.index("failed") :])
"""Measures between 0 and 1. The others have no upper bound, so no confidence sequence by betting."""
ENDINGS = frozenset({"failed", "blocked", "capped", "paused"})
"""Measures that an attempt's status alone tells, whatever its kind of question and its scorer."""
_ROUNDING = 1e-9
_LEVEL = 0.95
"""Of `separated`, where none is named."""
_TOKEN = re.compile(r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)(?P<percent>\s*%)?|(?P<name>[A-Za-z_]+)"
                    r"|(?P<sign>>=|<=|[-+*()<>@,]))")  # fmt: skip
_BOUNDARY = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\](),]')

MeasureValue = Callable[[str, str, str], float | None]
"""(measure, run, question id) → the question's value, a mean over its epochs, 0 to 1; ``None``: missing."""


class Term(Struct, frozen=True):
    """A number times a measure of a run."""

    factor: float
    measure: str
    run: str
    """As it was written: a run's id or its beginning, or an agent's text or name."""


class Condition(Struct, frozen=True, kw_only=True):
    """Σ terms + constant, compared with 0."""

    terms: tuple[Term, ...]
    constant: float
    relation: Relation
    level: float | None = None
    """Confidence asked for; ``None``: the point estimate decides."""
    apart: bool = False
    """A `separated(a, b)`: the difference is not 0, in either direction."""

    @property
    def of_endings(self) -> bool:
        """Whether it is only about how attempts ended: it concerns every kind of question."""
        return all(term.measure in ENDINGS for term in self.terms)

    @property
    def of_difference(self) -> bool:
        """Whether it is about a difference: what is alike on both sides weighs nothing."""
        return len(self.terms) > 1 and abs(sum(term.factor for term in self.terms)) < _ROUNDING


class Claim(Struct, frozen=True):
    """Conditions that must all hold."""

    text: str
    conditions: tuple[Condition, ...]


class ClaimedSum(Struct, frozen=True, kw_only=True):
    """A condition as it was claimed: what was measured on one side, the number that it was claimed to reach on the
    other."""

    measured: str
    """``accuracy(a) - accuracy(b)``."""
    claimed: str
    """``> 0.02``."""
    sign: float
    constant: float

    def figure(self, value: float | None) -> float | None:
        """What was measured, from the sum that is compared with 0 (left side less right side)."""
        return None if value is None else self.sign * (value - self.constant)

    def interval(self, low: float | None, high: float | None) -> tuple[float | None, float | None]:
        """The ends of the interval of what was measured."""
        ends = self.figure(low), self.figure(high)
        return ends if self.sign > 0 else ends[::-1]


def claimed_sum(condition: Condition) -> ClaimedSum:
    """A condition with its measures on one side and its numbers on the other; the first measure has no minus."""
    sign = -1.0 if condition.terms[0].factor < 0 else 1.0
    mirrored: dict[Relation, Relation] = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
    relation = condition.relation if sign > 0 else mirrored[condition.relation]
    parts = []
    for place, term in enumerate(condition.terms):
        factor = sign * term.factor
        times = "" if abs(factor) == 1 else f"{_written(abs(factor))} * "
        joint = "" if not place else " - " if factor < 0 else " + "
        parts.append(f"{joint}{times}{term.measure}({term.run})")
    claimed = "not 0" if condition.apart else f"{relation} {_written(-sign * condition.constant)}"
    return ClaimedSum(measured="".join(parts), claimed=claimed, sign=sign, constant=condition.constant)


def _written(number: float) -> str:
    return f"{number + 0.0:.6g}"


def check_measures(claim: Claim, scorer: str) -> None:
    """Refuse to call a score an accuracy whose 1 is no right answer.

    Raises:
        UserError: the claim does.
    """
    named = next((one for each in claim.conditions for one in each.terms if one.measure == "accuracy"), None)
    if named is not None and not described(scorer).accuracy:
        raise UserError(
            f"The claim {claim.text!r} is about accuracy, but with {scorer} a score of 1 is not a right answer. "
            f"Write score({named.run})."
        )


def decide(condition: Condition, value: float, low: float | None, high: float | None) -> Decision:
    """Decide a condition by its sum's estimate, or by its interval where a level was asked for.

    Nothing can be told where the interval is not known (``None``), or where that of `separated` holds 0: its ends
    belong to it."""
    if condition.level is None:
        return "holds" if _compares(value, condition.relation) else "fails"
    if low is None or high is None:
        return "undecided"
    if condition.apart:
        return "holds" if low > 0 or high < 0 else "undecided"
    ends = {_compares(low, condition.relation), _compares(high, condition.relation)}
    return "undecided" if len(ends) == 2 else "holds" if True in ends else "fails"


def all_hold(decisions: list[Decision]) -> Decision:
    """Several decisions as one: all must hold, and one that fails decides."""
    return "fails" if "fails" in decisions else "undecided" if "undecided" in decisions else "holds"


def _compares(value: float, relation: Relation) -> bool:
    return {">": value > 0, ">=": value >= 0, "<": value < 0, "<=": value <= 0}[relation]


def parse_claim(text: str) -> Claim:
    """Read a claim.

    Raises:
        UserError: the text does not follow the grammar; the message points at the place.
    """
    reader = _Reader(text)
    conditions = [_condition(reader)]
    while reader.taken("and"):
        conditions.append(_condition(reader))
    if reader.at_end():
        return Claim(text, tuple(conditions))
    raise reader.wrong("'@', 'and' or the end")


class _Reader:
    """A claim's text, and the place up to which it is read."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def at_end(self) -> bool:
        """Whether only white space is left."""
        return not self.text[self.at :].strip()

    def peek(self) -> re.Match[str] | None:
        """The next number, word or sign."""
        return _TOKEN.match(self.text, self.at)

    def taken(self, *words: str) -> str | None:
        """The next word or sign, if it is one of these; it is then behind us."""
        found = self.peek()
        if found is None or (found["name"] or found["sign"]) not in words:
            return None
        self.at = found.end()
        return found["name"] or found["sign"]

    def number(self) -> float | None:
        """Read a number, with ``%`` a hundredth of it; ``None``: the next is none."""
        found = self.peek()
        if found is None or found["number"] is None:
            return None
        value = float(found["number"]) / (100 if found["percent"] else 1)
        if not math.isfinite(value):
            raise self.wrong("a number that is finite")
        self.at = found.end()
        return value

    def reference(self) -> str:
        """A run, up to the comma or bracket that ends it; a spec has brackets and commas of its own."""
        start, depth = self.at, 0
        for mark in _BOUNDARY.finditer(self.text, start):
            sign = mark.group()
            if depth == 0 and sign in ",)":
                self.at = mark.start()
                run = self.text[start : self.at].strip()
                if not run:
                    break
                return run
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(sign, 0)
        self.at = start
        raise self.wrong("a run and ')'")

    def expect(self, sign: str) -> None:
        """Read this sign, or say that it was expected."""
        if not self.taken(sign):
            raise self.wrong(repr(sign))

    def wrong(self, expected: str) -> UserError:
        """The error that names what was expected and found at this place."""
        at = self.at + len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
        found = repr(self.text[at : at + 12]) if at < len(self.text) else "the end"
        return UserError(f"Cannot read the claim {self.text!r}: expected {expected} at position {at}, found {found}.")


def _condition(reader: _Reader) -> Condition:
    if reader.taken("separated"):
        reader.expect("(")
        first = reader.reference()
        reader.expect(",")
        second = reader.reference()
        reader.expect(")")
        pair = (Term(1.0, "score", first), Term(-1.0, "score", second))
        level = _level(reader)
        return Condition(terms=pair, constant=0.0, relation=">", level=level or _LEVEL, apart=True)
    left, left_constant = _sum(reader)
    relation = reader.taken(">", ">=", "<", "<=")
    if relation is None:
        raise reader.wrong("'>', '>=', '<' or '<='")
    right, right_constant = _sum(reader)
    terms: tuple[Term, ...] = (*left, *(Term(-term.factor, term.measure, term.run) for term in right))
    if not terms:
        raise UserError(f"The claim {reader.text!r} has no run: write, for example, accuracy(RUN) > 0.5.")
    signs: dict[str, Relation] = {">": ">", ">=": ">=", "<": "<", "<=": "<="}
    return Condition(
        terms=terms, constant=left_constant - right_constant, relation=signs[relation], level=_level(reader)
    )


def _level(reader: _Reader) -> float | None:
    if not reader.taken("@"):
        return None
    place = reader.at
    level = reader.number()
    if level is None or not 0.5 <= level < 1:
        reader.at = place
        raise reader.wrong("a confidence from 50% to below 100%, such as 95%")
    return level


def _sum(reader: _Reader) -> tuple[tuple[Term, ...], float]:
    terms: list[Term] = []
    constant = 0.0
    sign = reader.taken("+", "-") or "+"
    while True:
        factor = 1.0 if sign == "+" else -1.0
        number = reader.number()
        if number is None or reader.taken("*"):
            terms.append(_term(reader, factor * (1.0 if number is None else number)))
        else:
            constant += factor * number
        following = reader.taken("+", "-")
        if following is None:
            return tuple(terms), constant
        sign = following


def _term(reader: _Reader, factor: float) -> Term:
    found = reader.peek()
    name = found["name"] if found else None
    if found is None or name is None:
        raise reader.wrong("a number, or a measure such as accuracy(RUN)")
    if name not in MEASURES:
        raise UserError(
            f"Cannot read the claim {reader.text!r}: unknown measure {name!r}.{nearest(name, MEASURES)} Known: "
            f"{', '.join(MEASURES)}; separated(RUN, RUN) takes no comparison."
        )
    reader.at = found.end()
    reader.expect("(")
    run = reader.reference()
    reader.expect(")")
    return Term(factor, name, run)


def resolved(claim: Claim, runs: Sequence[Run], names: Mapping[str, str] | None = None) -> Claim:
    """The claim with its runs named by their ids; `names`: run id → what users call it.

    Raises:
        UserError: it names another run, or not one alone.
    """

    def named(condition: Condition) -> Condition:
        terms = tuple(replace(term, run=run_among(term.run, runs, "The claim's", names).id) for term in condition.terms)
        return replace(condition, terms=terms)

    return replace(claim, conditions=tuple(named(condition) for condition in claim.conditions))


class LiveClaim:
    """A claim that is followed, round by round.

    Raises:
        UserError: a condition without a level, on a measure that is not a share, or on nothing but one run less
            itself.
    """

    def __init__(self, claim: Claim, written: Claim | None = None) -> None:
        """
        Args:
            claim: with the runs' ids.
            written: the same as it was written, to be shown; by default `claim`.
        """
        self._claim = claim
        self._conditions = [
            _LiveCondition(condition, claim.text, claimed_sum(shown))
            for condition, shown in zip(claim.conditions, (written or claim).conditions, strict=True)
        ]
        self._questions = 0

    def add(self, drawn: QuestionRound, value: MeasureValue) -> None:
        """Count the next round of questions."""
        for condition in self._conditions:
            condition.add(drawn, value)
        self._questions += len(drawn.questions)

    @property
    def decision(self) -> Decision:
        """The decision so far; once it holds or fails, it stays."""
        return all_hold([one.decision for one in self._conditions])

    @property
    def state(self) -> ClaimVerdict:
        """How the claim stands after the rounds so far."""
        return ClaimVerdict(
            claim=self._claim.text,
            decision=self.decision,
            questions=self._questions,
            conditions=tuple(one.state for one in self._conditions),
        )


class _LiveCondition:
    """One condition with its confidence sequence."""

    def __init__(self, condition: Condition, claim: str, shown: ClaimedSum) -> None:
        self._condition, self._shown = condition, shown
        self._level = _checked(condition, claim)
        factors = [term.factor for term in condition.terms]
        least = condition.constant + sum(min(0.0, factor) for factor in factors)
        most = condition.constant + sum(max(0.0, factor) for factor in factors)
        self._sequence = ConfidenceSequence(least, most, level=self._level, null=0.0)
        self._missing = 0
        self.decision: Decision = "undecided"

    def add(self, drawn: QuestionRound, value: MeasureValue) -> None:
        """Count a round; one without a score in some dataset is left out."""
        sums = []
        for part in drawn.parts:
            found = [self._sum(question.id, value) for question in part]
            known = [number for number in found if number is not None]
            if not known:
                self._missing += 1
                return
            sums.append(sum(known) / len(known))
        self._sequence.add(sum(sums) / len(sums))
        interval = self._sequence.interval
        if interval is not None and self.decision == "undecided":
            self.decision = decide(self._condition, interval.mean, interval.low, interval.high)

    def _sum(self, question: str, value: MeasureValue) -> float | None:
        total = self._condition.constant
        for term in self._condition.terms:
            number = value(term.measure, term.run, question)
            if number is None:
                return None
            total += term.factor * number
        return total

    @property
    def state(self) -> ConditionVerdict:
        """How the condition stands after the rounds so far."""
        found = self._sequence.interval
        low, high = self._shown.interval(found.low, found.high) if found else (None, None)
        return ConditionVerdict(
            measured=self._shown.measured,
            claimed=self._shown.claimed,
            decision=self.decision,
            value=self._shown.figure(found.mean) if found else None,
            low=low,
            high=high,
            level=self._level,
            p=found.p if found else None,
            rounds=found.n if found else 0,
            missing=self._missing,
        )


def _checked(condition: Condition, claim: str) -> float:
    """The level of a condition that can be followed.

    Raises:
        UserError: it cannot be.
    """
    unbounded = [term.measure for term in condition.terms if term.measure not in BOUNDED_MEASURES]
    if unbounded:
        raise UserError(
            f"A run cannot be stopped by {claim!r}: {unbounded[0]} has no upper bound, so its interval is not valid "
            f"during a run. Measures for --until: {', '.join(BOUNDED_MEASURES)}."
        )
    if condition.level is None:
        raise UserError(
            f"A run cannot be stopped by {claim!r}: without a level the first question would decide. Add one, such "
            "as @ 95%."
        )
    if cancels(condition):
        raise UserError(f"A run cannot be stopped by {claim!r}: it compares a run with itself.")
    return condition.level


def cancels(condition: Condition) -> bool:
    """Whether its terms cancel each other: it compares a run with itself."""
    factors: dict[tuple[str, str], float] = {}
    for term in condition.terms:
        key = (term.measure, term.run)
        factors[key] = factors.get(key, 0.0) + term.factor
    return not any(factors.values())
