"""Language of claims, and claims that are followed while questions are answered.

`ragrounds compare --assert` and `ragrounds run --until` read the same language:

    accuracy(search_o1) - accuracy(vanilla_rag[top_k=8]) > 0.02 @ 95%
    separated(search_o1, vanilla_rag) @ 95%
    accuracy(a) >= 60% and failed(a) < 0.01
    score(a) > 0.3 @ 95%

A claim is one or more conditions joined by ``and``. A condition compares two sums of terms. A term is a number, a
measure of a run, or a number times a measure. ``N%`` is N / 100. ``@ LEVEL`` asks for confidence: the claim holds if
the whole two-sided interval of that level does, fails if no part of it does, and is undecided otherwise. Without a
level the point estimates decide.

:class:`LiveClaim` takes rounds of questions one after the other and returns the verdict by intervals that are valid at
any number of rounds. This module never reads a store: see `ragrounds.evals.claims.assertions`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Question, Run, Status
from ragrounds.evals.compare.figures import table_mean
from ragrounds.evals.compare.stopped_runs import ClaimVerdict, ConditionVerdict, Decision
from ragrounds.evals.engine.question_order import QuestionRound
from ragrounds.evals.scorers import described
from ragrounds.evals.stats.sequential import ConfidenceSequence
from ragrounds.evals.store.run_names import run_among
from ragrounds.evals.trace.expressions import COMPARISONS, SIGNS, Comparison, TokenReader
from ragrounds.evals.trace.filter_fields import BOUNDED_MEASURES, MEASURES

ENDINGS = frozenset(get_args(Status))
"""Statuses of attempts. A measure that is named by one does not depend on the kind of question and the scorer."""
_MIRRORED = str.maketrans("<>", "><")
_ROUNDING = 1e-9
_SEPARATED_LEVEL = 0.95
"""Level of `separated` if the claim gives none."""
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)(?:\s*%)?)|(?P<word>[A-Za-z_]+)"
    r"|(?P<sign>>=|<=|[-+*()<>@,]))"
)
_BOUNDARY = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\](),]')

MeasureValue = Callable[[str, str, str], float | None]
"""Function (measure, run, question id) → the question's value, a mean over its epochs, 0 to 1; ``None`` if missing."""


class Term(Struct, frozen=True):
    """A number times a measure of a run."""

    factor: float
    measure: str
    run: str
    """Run as it was written: an id or its beginning, or an agent's text or name."""


class Condition(Struct, frozen=True, kw_only=True):
    """Condition that compares Σ terms + constant with 0."""

    terms: tuple[Term, ...]
    constant: float
    relation: Comparison
    level: float | None = None
    """Requested confidence; if ``None``, the point estimate decides."""
    apart: bool = False
    """True for `separated(a, b)`: the difference is not 0, in either direction."""

    @property
    def of_endings(self) -> bool:
        """True if the condition is only about the status of attempts, so that it concerns every kind of question."""
        return all(term.measure in ENDINGS for term in self.terms)

    @property
    def of_difference(self) -> bool:
        """True if the condition is about a difference, so that questions with equal values on both sides do not
        count."""
        return len(self.terms) > 1 and abs(sum(term.factor for term in self.terms)) < _ROUNDING


class Claim(Struct, frozen=True):
    """Conditions that must all hold."""

    text: str
    conditions: tuple[Condition, ...]


class ClaimedSum(Struct, frozen=True, kw_only=True):
    """Condition as it was claimed: the measured sum on one side, its claimed bound on the other."""

    measured: str
    """Measured sum, such as ``accuracy(a) - accuracy(b)``."""
    claimed: str
    """Claimed bound, such as ``> 0.02``."""
    sign: float
    constant: float

    def figure(self, value: float | None) -> float | None:
        """Return the measured figure from the sum that is compared with 0 (left side minus right side)."""
        return None if value is None else self.sign * (value - self.constant)

    def interval(self, low: float | None, high: float | None) -> tuple[float | None, float | None]:
        """Return the ends of the interval of the measured figure."""
        ends = self.figure(low), self.figure(high)
        return ends if self.sign > 0 else ends[::-1]


def claimed_sum(condition: Condition) -> ClaimedSum:
    """Return a condition with its measures on one side and its numbers on the other.

    The first measure has no minus.
    """
    sign = -1.0 if condition.terms[0].factor < 0 else 1.0
    relation = condition.relation if sign > 0 else condition.relation.translate(_MIRRORED)
    parts = []
    for index, term in enumerate(condition.terms):
        factor = sign * term.factor
        factor_text = "" if abs(factor) == 1 else f"{_number_text(abs(factor))} * "
        operator = "" if not index else " - " if factor < 0 else " + "
        parts.append(f"{operator}{factor_text}{term.measure}({term.run})")
    claimed = "not 0" if condition.apart else f"{relation} {_number_text(-sign * condition.constant)}"
    return ClaimedSum(measured="".join(parts), claimed=claimed, sign=sign, constant=condition.constant)


def _number_text(number: float) -> str:
    return f"{number + 0.0:.6g}"


def check_measures(claim: Claim, scorer: str) -> None:
    """Raise UserError if the claim calls a score an accuracy although 1 is not a right answer.

    Raises:
        UserError: the claim is about accuracy, and the scorer's 1 is not a right answer.
    """
    accuracy_term = next(
        (term for condition in claim.conditions for term in condition.terms if term.measure == "accuracy"), None
    )
    if accuracy_term is not None and not described(scorer).accuracy:
        raise UserError(
            f"The claim {claim.text!r} is about accuracy, but with {scorer} a score of 1 is not a right answer. "
            f"Write score({accuracy_term.run})."
        )


def check_rules(rules: Sequence[tuple[str, str, Claim]], scorer: str, questions: Sequence[Question]) -> None:
    """Raise UserError if the rules of a policy, each with its name and dataset, do not fit the questions or scorer."""
    record, datasets = described(scorer), sorted({question.benchmark for question in questions})
    if not questions:
        raise UserError(f"No question is scored by {scorer}. Name another scorer in the policy.")
    for name, dataset, claim in rules:
        if dataset and dataset not in datasets:
            suggestion = nearest(dataset, datasets)
            raise UserError(
                f"The rule {name!r}: no question is of {dataset!r}.{suggestion} There: {', '.join(datasets)}."
            )
        check_measures(claim, scorer)
        measures = {term.measure for condition in claim.conditions for term in condition.terms}
        if measures & {"accuracy", "score"} and (record.ratio or record.unit != "percent"):
            raise UserError(
                f"The rule {name!r}: {scorer} is no mean of values between 0 and 1, so no interval of it stays valid "
                "while it is watched. Use `ragrounds compare --assert`, or name another scorer."
            )


def decide(condition: Condition, value: float, low: float | None, high: float | None) -> Decision:
    """Decide a condition by its sum's estimate, or by its interval if it has a level.

    It is undecided if the interval is not known (``None``), or if the interval of `separated` contains 0: its ends
    belong to it.
    """
    if condition.level is None:
        return "holds" if COMPARISONS[condition.relation](value, 0) else "fails"
    if low is None or high is None:
        return "undecided"
    if condition.apart:
        return "holds" if low > 0 or high < 0 else "undecided"
    at_low, at_high = (COMPARISONS[condition.relation](end, 0) for end in (low, high))
    return "undecided" if at_low != at_high else "holds" if at_low else "fails"


def all_hold(decisions: list[Decision]) -> Decision:
    """Combine several decisions: all must hold, and a single failure decides."""
    return "fails" if "fails" in decisions else "undecided" if "undecided" in decisions else "holds"


def parse_claim(text: str) -> Claim:
    """Parse a claim.

    Raises:
        UserError: the text does not follow the grammar; the message gives the position.
    """
    return _Parser(text, _TOKEN).claim()


class _Parser(TokenReader):
    """Parser of a claim, from left to right."""

    def claim(self) -> Claim:
        """Parse the whole claim."""
        conditions = [self._condition()]
        while self.skip("and"):
            conditions.append(self._condition())
        if self.text[self.position :].strip():
            raise self._wrong("'@', 'and' or the end")
        return Claim(self.text, tuple(conditions))

    def _condition(self) -> Condition:
        if self.skip("separated"):
            self._expect("(")
            first = self._run()
            self._expect(",")
            second = self._run()
            self._expect(")")
            pair = (Term(1.0, "score", first), Term(-1.0, "score", second))
            level = self._level() or _SEPARATED_LEVEL
            return Condition(terms=pair, constant=0.0, relation=">", level=level, apart=True)
        left, left_constant = self._sum()
        relation = self.skip(">", ">=", "<", "<=")
        if not relation:
            raise self._wrong("'>', '>=', '<' or '<='")
        right, right_constant = self._sum()
        terms = (*left, *(replace(term, factor=-term.factor) for term in right))
        if not terms:
            raise UserError(f"The claim {self.text!r} has no run: write, for example, accuracy(RUN) > 0.5.")
        constant = left_constant - right_constant
        return Condition(terms=terms, constant=constant, relation=SIGNS[relation], level=self._level())

    def _level(self) -> float | None:
        if not self.skip("@"):
            return None
        start, level = self.position, self._number()
        if level is None or not 0.5 <= level < 1:
            self.position = start
            raise self._wrong("a confidence from 50% to below 100%, such as 95%")
        return level

    def _sum(self) -> tuple[list[Term], float]:
        terms: list[Term] = []
        constant = 0.0
        sign = self.skip("+", "-") or "+"
        while sign:
            factor, number = (1.0 if sign == "+" else -1.0), self._number()
            if number is None or self.skip("*"):
                terms.append(self._term(factor * (1.0 if number is None else number)))
            else:
                constant += factor * number
            sign = self.skip("+", "-")
        return terms, constant

    def _term(self, factor: float) -> Term:
        token = self.peek()
        name = token.text
        if token.kind != "word":
            raise self._wrong("a number, or a measure such as accuracy(RUN)")
        if name not in MEASURES:
            raise UserError(
                f"Cannot read the claim {self.text!r}: unknown measure {name!r}.{nearest(name, MEASURES)} Known: "
                f"{', '.join(MEASURES)}; separated(RUN, RUN) takes no comparison."
            )
        self.take()
        self._expect("(")
        run = self._run()
        self._expect(")")
        return Term(factor, name, run)

    def _number(self) -> float | None:
        """Read a number; ``%`` divides it by 100. Return ``None`` if the next token is not a number."""
        token = self.peek()
        if token.kind != "number":
            return None
        value = float(token.text.removesuffix("%")) / (100 if token.text.endswith("%") else 1)
        if not math.isfinite(value):
            raise self._wrong("a number that is finite")
        self.take()
        return value

    def _run(self) -> str:
        """Read a run, up to the comma or bracket that ends it. A spec may contain brackets and commas of its own."""
        start, depth = self.position, 0
        for mark in _BOUNDARY.finditer(self.text, start):
            sign = mark.group()
            if depth == 0 and sign in ",)":
                if run := self.text[start : mark.start()].strip():
                    self.position = mark.start()
                    return run
                break
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(sign, 0)
        raise self._wrong("a run and ')'")

    def _expect(self, sign: str) -> None:
        if not self.skip(sign):
            raise self._wrong(repr(sign))

    def _wrong(self, expected: str) -> UserError:
        """Return the error that names the expected and the actual text at this position."""
        rest = self.text[self.position :].lstrip()
        position, actual = len(self.text) - len(rest), repr(rest[:12]) if rest else "the end"
        return UserError(
            f"Cannot read the claim {self.text!r}: expected {expected} at position {position}, found {actual}."
        )


def resolved(claim: Claim, runs: Sequence[Run], names: Mapping[str, str] | None = None) -> Claim:
    """Return the claim with its runs named by their ids; `names` maps run ids to user-defined names.

    Raises:
        UserError: a name in the claim matches no run or several runs.
    """

    def resolve(term: Term) -> Term:
        return replace(term, run=run_among(term.run, runs, "The claim's", names).id)

    conditions = (replace(condition, terms=tuple(map(resolve, condition.terms))) for condition in claim.conditions)
    return replace(claim, conditions=tuple(conditions))


class LiveClaim:
    """Claim that is followed round by round.

    Raises:
        UserError: a condition has no level, is about a measure that is not a share, or compares a run with itself.
    """

    def __init__(self, claim: Claim, claim_as_written: Claim | None = None) -> None:
        """
        Args:
            claim: claim with run ids.
            claim_as_written: claim as the user wrote it, to be shown; by default `claim`.
        """
        self._claim = claim
        shown_sums = map(claimed_sum, (claim_as_written or claim).conditions)
        self._conditions = [
            _LiveCondition(condition, claim.text, shown_sum)
            for condition, shown_sum in zip(claim.conditions, shown_sums, strict=True)
        ]
        self._questions = 0

    def add(self, question_round: QuestionRound, value: MeasureValue) -> None:
        """Count the next round of questions."""
        for condition in self._conditions:
            condition.add(question_round, value)
        self._questions += len(question_round.questions)

    @property
    def decision(self) -> Decision:
        """Decision so far; once the claim holds or fails, this stays."""
        return all_hold([condition.decision for condition in self._conditions])

    @property
    def state(self) -> ClaimVerdict:
        """Verdict on the claim after the rounds so far."""
        return ClaimVerdict(
            claim=self._claim.text,
            decision=self.decision,
            questions=self._questions,
            conditions=tuple(condition.state for condition in self._conditions),
        )


class _LiveCondition:
    """Condition with its confidence sequence."""

    def __init__(self, condition: Condition, claim: str, claimed_sum: ClaimedSum) -> None:
        self._condition, self._claimed = condition, claimed_sum
        self._level = _checked(condition, claim)
        factors = [term.factor for term in condition.terms]
        lowest = condition.constant + sum(min(0.0, factor) for factor in factors)
        highest = condition.constant + sum(max(0.0, factor) for factor in factors)
        self._sequence = ConfidenceSequence(lowest, highest, level=self._level, null=0.0)
        self._counted: list[tuple[Question, float]] = []
        self._missing = 0
        self.decision: Decision = "undecided"

    def add(self, question_round: QuestionRound, value: MeasureValue) -> None:
        """Count a round. A round without a score in some dataset is left out."""
        sums = {question.id: self._sum(question.id, value) for question in question_round.questions}
        weighed = question_round.weigh(lambda question: sums[question.id])
        if weighed is None:
            self._missing += 1
            return
        self._counted += [(q, total) for q in question_round.questions if (total := sums[q.id]) is not None]
        self._sequence.add(*weighed)
        p = self._sequence.p  # the interval includes 0 until then
        if p is not None and p <= 1 - self._level and self.decision == "undecided":
            interval = self._sequence.interval
            assert interval is not None
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
        """Verdict on the condition after the rounds so far."""
        interval = self._sequence.interval
        claimed = self._claimed
        verdict = ConditionVerdict(
            measured=claimed.measured,
            claimed=claimed.claimed,
            decision=self.decision,
            level=self._level,
            missing=self._missing,
        )
        if interval is None:
            return verdict
        mean = table_mean(*zip(*self._counted, strict=True))
        low, high = claimed.interval(min(interval.low, mean), max(interval.high, mean))
        return replace(verdict, value=claimed.figure(mean), low=low, high=high, p=interval.p, rounds=interval.n)


def _checked(condition: Condition, claim: str) -> float:
    """Return the level of a condition that can be followed.

    Raises:
        UserError: the condition cannot be followed during a run.
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
    """Return True if the terms cancel each other: the condition compares a run with itself."""
    factors: dict[tuple[str, str], float] = {}
    for term in condition.terms:
        key = (term.measure, term.run)
        factors[key] = factors.get(key, 0.0) + term.factor
    return not any(factors.values())
