"""Claims about stored runs, checked: `ragrounds compare --assert`.

Every measure is a mean over questions, unweighted over datasets, as in the tables; so a sum of measures is the mean of
each question's own sum, and its interval is the paired bootstrap that the tables show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.compare.claims import (
    Claim,
    Condition,
    Decision,
    LiveClaim,
    Term,
    all_hold,
    cancels,
    decide,
    parse_claim,
    resolved,
)
from ragrounds.evals.compare.comparability import ComparisonBasis, comparison_basis
from ragrounds.evals.compare.figures import Values
from ragrounds.evals.compare.frontier import CostMeasure, costs_of
from ragrounds.evals.compare.sequential_stop import StoppedRuns, early_stops
from ragrounds.evals.engine.question_order import QuestionRound
from ragrounds.evals.scorers import scorer_name
from ragrounds.evals.stats import stratified_mean, wilson
from ragrounds.evals.store.store import Store
from ragrounds.records import Question, Run, outcome

_COSTS: Mapping[str, CostMeasure] = {
    "cost": "cost_uncached",
    "cost_paid": "cost_paid",
    "tokens": "tokens",
    "calls": "calls",
    "seconds": "seconds",
}


class ClaimVerdict(Struct, frozen=True, kw_only=True):
    """A claim with its decision."""

    claim: str
    decision: Decision
    scorer: str
    """That accuracy is by."""
    conditions: tuple[ConditionVerdict, ...]


class ConditionVerdict(Struct, frozen=True, kw_only=True):
    """One condition: its sum (left side minus right side) with the interval that decided it."""

    decision: Decision
    value: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None
    questions: int = 0
    reason: str = ""
    """Why nothing can be told, where that is not the width of the interval."""


def check_claims(
    store: Store,
    runs: Sequence[Run],
    claims: Sequence[str],
    *,
    scorer: str | None = None,
    common: bool = False,
    seed: int = 0,
) -> list[ClaimVerdict]:
    """Decide claims about stored runs under one scorer, by default the first headline.

    Raises:
        UserError: a claim that cannot be read or names another run; runs that cannot be compared.
    """
    read = [resolved(parse_claim(text), runs) for text in claims]
    early = early_stops(store, runs)
    basis = comparison_basis(store, runs, [scorer_name(scorer)] if scorer else [], common, answered=bool(early))
    if not basis.scorers:
        raise UserError("These runs have no scores yet: nothing can be claimed of them.")
    checked = _Assertions(
        {run.id: run for run in runs}, basis, basis.scorers[0], StoppedRuns(store, runs, basis, early), seed
    )
    return [checked.claim(claim) for claim in read]


@dataclass(frozen=True)
class _Assertions:
    """What claims are checked against."""

    runs: Mapping[str, Run]
    basis: ComparisonBasis
    scorer: str
    stopped: StoppedRuns
    seed: int

    def claim(self, claim: Claim) -> ClaimVerdict:
        """The decision of a claim, with its conditions."""
        conditions = tuple(self.condition(condition) for condition in claim.conditions)
        decision = all_hold([condition.decision for condition in conditions])
        return ClaimVerdict(claim=claim.text, decision=decision, scorer=self.scorer, conditions=conditions)

    def condition(self, condition: Condition) -> ConditionVerdict:
        """The decision of a condition: by the interval that tables show; of runs that ended early by the one that is
        valid at any number of questions."""
        asked = self.basis.asked(self.scorer)
        columns = []
        for term in condition.terms:
            values = self._values(term, asked)
            if values is None:
                return _undecided(condition, f"the {term.measure} of {term.run} is not known")
            columns.append((term.factor, values))
        named = [term.run for term in condition.terms]
        if condition.level is not None and self.stopped.concerns(*named):
            if any(term.measure in _COSTS for term in condition.terms):
                return _undecided(
                    condition, "how many questions these runs have depends on their results: no interval holds"
                )
            if cancels(condition):
                return _undecided(condition, "it compares a run with itself")
            return _followed(condition, self.stopped.rounds(self.scorer, *named), columns)
        kept: list[Question] = []
        sums: list[float] = []
        for question in asked:
            numbers = [(factor, values.get(question.id)) for factor, values in columns]
            if all(number is not None for _, number in numbers):
                kept.append(question)
                sums.append(condition.constant + sum(factor * (number or 0.0) for factor, number in numbers))
        if not kept:
            return _undecided(condition, "no question has a score")
        value, low, high = _estimate(condition, kept, sums, self.seed)
        missing = len(asked) - len(kept)
        return ConditionVerdict(
            decision=decide(condition, value, low, high),
            value=value,
            low=low,
            high=high,
            level=condition.level,
            questions=len(kept),
            reason=f"{missing:,} questions have no score and are left out" if missing else "",
        )

    def _values(self, term: Term, asked: Sequence[Question]) -> Values | None:
        """Question id → the term's measure there; ``None``: not known of this run."""
        run, epochs = self.runs[term.run], self.basis.epochs
        attempts = self.basis.summaries[run.id]
        if term.measure == "accuracy":
            return self.basis.values(self.scorer, run, asked)[0]
        if term.measure in _COSTS:
            costs = costs_of(run, attempts, _COSTS[term.measure], epochs)
            return None if costs is None else {question.id: costs.get(question.id, 0.0) for question in asked}
        scores = self.basis.scores[run.id].get(self.scorer, [])
        read = {(score.question_id, score.epoch): score.answer_status for score in scores}
        shares = dict.fromkeys((question.id for question in asked), 0.0)
        for attempt in attempts:
            ended = outcome(attempt.status, read.get((attempt.question_id, attempt.epoch)))
            if attempt.question_id in shares and ended == term.measure:
                shares[attempt.question_id] += 1 / epochs
        return shares


def _followed(
    condition: Condition, rounds: Sequence[QuestionRound], columns: Sequence[tuple[float, Values]]
) -> ConditionVerdict:
    """The decision by an interval that is valid at any number of questions."""
    live = LiveClaim(Claim("", (condition,)))
    known = {(term.measure, term.run): values for term, (_, values) in zip(condition.terms, columns, strict=True)}
    for drawn in rounds:
        live.add(drawn, lambda measure, run, question: known[measure, run].get(question))
    (state,) = live.state.conditions
    left_out = f"; {state.missing:,} have no score and are left out" if state.missing else ""
    return ConditionVerdict(
        decision=state.decision,
        value=state.value,
        low=state.low,
        high=state.high,
        level=state.level,
        questions=live.state.questions,
        reason="how many questions these runs have depends on their results: the interval is always valid" + left_out,
    )


def _undecided(condition: Condition, reason: str) -> ConditionVerdict:
    return ConditionVerdict(decision="cannot tell", level=condition.level, reason=reason)


def _estimate(
    condition: Condition, questions: Sequence[Question], sums: Sequence[float], seed: int
) -> tuple[float, float, float]:
    """The mean of a condition's sums over questions, and the ends of its interval."""
    level = condition.level or 0.95
    strata, clusters = [question.benchmark for question in questions], [question.cluster for question in questions]
    estimate = stratified_mean(sums, strata, clusters, level=level, seed=seed)
    lone = len(set(strata)) == 1 and len({one.cluster or one.id for one in questions}) == len(questions)
    if len(condition.terms) == 1 and lone and _shares(condition):
        factor = condition.terms[0].factor
        plain = [(number - condition.constant) / factor if factor else 0.0 for number in sums]
        if all(abs(number - round(number)) < 1e-9 and -1e-9 < number < 1 + 1e-9 for number in plain):
            # The share of one run, right or wrong: Wilson's interval, as the tables have it.
            ends = [condition.constant + factor * end for end in wilson(round(sum(plain)), len(plain), level)]
            return estimate.value, min(ends), max(ends)
    if estimate.low == estimate.high and _shares(condition):
        # A bootstrap of equal values has no width, however few they are. With no unlike one among n clusters, the share
        # of unlike ones is still below 1 - (α/2)^(1/n) (Clopper and Pearson 1934), each off by the widest step at most.
        n = min(len({one.cluster or one.id for one in questions if one.benchmark == name}) for name in set(strata))
        beyond = 1 - ((1 - level) / 2) ** (1 / n)
        highest = condition.constant + sum(max(0.0, term.factor) for term in condition.terms)
        lowest = condition.constant + sum(min(0.0, term.factor) for term in condition.terms)
        value = estimate.value
        return value, value - beyond * (value - lowest), value + beyond * (highest - value)
    return estimate.value, estimate.low, estimate.high


def _shares(condition: Condition) -> bool:
    """Whether every measure lies between 0 and 1."""
    return not any(term.measure in _COSTS for term in condition.terms)
