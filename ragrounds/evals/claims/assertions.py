"""Check of claims about stored runs: `ragrounds compare --assert`.

Every measure is the figure of the tables, unweighted over datasets, and so is its interval. A sum of means is the mean
of each question's own sum; if it contains a figure of the whole corpus (a micro-F1), it is a sum of ratios.

Attempts that are still open bound it. A score counts an attempt that failed, is paused or was never made as 0; once it
is made it may have the best score. A share of outcomes counts only attempts that are still to be made. Nothing bounds a
cost, a score that is not a share, or a ratio of sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import AttemptKey, Question, Run, outcome
from ragrounds.evals.benchmarks.benchmark import cluster_of
from ragrounds.evals.claims.claims import (
    Claim,
    ClaimedSum,
    Condition,
    LiveClaim,
    Term,
    all_hold,
    cancels,
    check_measures,
    claimed_sum,
    decide,
    parse_claim,
    resolved,
)
from ragrounds.evals.compare.comparability import ComparisonSet, comparison_basis
from ragrounds.evals.compare.figures import design, outcomes_in, ratio_estimate
from ragrounds.evals.compare.frontier import CLAIMED_COSTS, costs_of
from ragrounds.evals.compare.question_values import Parts, QuestionValues, Values
from ragrounds.evals.compare.stopped_runs import (
    WIDE,
    ClaimVerdict,
    ConditionVerdict,
    Decision,
    StoppedRuns,
    early_stops,
)
from ragrounds.evals.engine.question_order import QuestionRound
from ragrounds.evals.scorers import described, scorer_name
from ragrounds.evals.stats import Estimate, combined_mean
from ragrounds.evals.stats.sign_flips import difference_and_test
from ragrounds.evals.store.store import Store

_SCORES = ("accuracy", "score")


FEWEST = 10
"""Smallest number of questions (duplicates count once) for which a claim with a level is decided: three questions whose
true share is .05 have an interval all above it in 14 of 100 samples."""
AGAINST = 50
"""Largest number of questions that a condition names."""


def check_claims(
    store: Store,
    runs: Sequence[Run],
    claims: Sequence[str],
    *,
    scorer: str | None = None,
    common: bool = False,
    seed: int = 0,
    names: Mapping[str, str] | None = None,
) -> list[ClaimVerdict]:
    """Decide claims about stored runs under one scorer, by default the first headline.

    `names` maps run ids to the names by which claims may refer to them.

    Raises:
        UserError: a claim cannot be read or names another run; the runs cannot be compared.
    """
    parsed_claims = [parse_claim(text) for text in claims]
    resolved_claims = [resolved(claim, runs, names) for claim in parsed_claims]
    stopped_early = early_stops(store, runs)
    basis = comparison_basis(store, runs, [scorer_name(scorer)] if scorer else [], common, answered=bool(stopped_early))
    if not basis.scorers:
        raise UserError("These runs have no scores yet: no claim can be checked.")
    assertions = _Assertions(
        {run.id: run for run in runs}, basis, basis.scorers[0], StoppedRuns(store, runs, basis, stopped_early), seed
    )
    for claim in parsed_claims:
        check_measures(claim, basis.scorers[0])
    return [assertions.claim(*claim_pair) for claim_pair in zip(resolved_claims, parsed_claims, strict=True)]


@dataclass(frozen=True)
class _Assertions:
    """Runs, scores and settings that claims are checked against."""

    runs: Mapping[str, Run]
    basis: ComparisonSet
    scorer: str
    stopped: StoppedRuns
    seed: int

    def claim(self, claim: Claim, as_written: Claim) -> ClaimVerdict:
        """Return the decision of a claim, with its conditions as they were written."""
        conditions = tuple(
            self.condition(condition, claimed_sum(shown_sum))
            for condition, shown_sum in zip(claim.conditions, as_written.conditions, strict=True)
        )
        decision = all_hold([condition.decision for condition in conditions])
        return ClaimVerdict(claim=claim.text, decision=decision, scorer=self.scorer, conditions=conditions)

    def condition(self, condition: Condition, claimed_sum: ClaimedSum) -> ConditionVerdict:
        """Return the decision of a condition by the interval that tables show.

        For runs that stopped early it is decided by the interval that is valid at any number of questions.
        """
        # Shares of attempts by status concern every kind of question. A score, an answer status, and measures combined
        # with these concern the questions of the scorer.
        of_endings = condition.of_endings
        questions = self.basis.questions if of_endings else self.basis.questions_for(self.scorer)
        columns: list[Values] = []
        for term in condition.terms:
            values = self._values(term, questions)
            if values is None:
                return _undecided(condition, claimed_sum, f"the {term.measure} of {term.run} is unknown")
            columns.append(values)
        run_ids = [term.run for term in condition.terms]
        status, epochs = self.basis.status, self.basis.epochs
        open_shares = [open_share(status[term.run], questions, epochs, term.measure) for term in condition.terms]
        if condition.level is not None and self.stopped.concerns(*run_ids):
            if any(term.measure in CLAIMED_COSTS for term in condition.terms):
                return _undecided(
                    condition, claimed_sum, "the number of questions depends on the results: no interval is valid"
                )
            if cancels(condition):
                return _undecided(condition, claimed_sum, "it compares a run with itself")
            if any(map(_is_ratio, columns)):
                return _undecided(
                    condition,
                    claimed_sum,
                    f"{self.scorer} is not a mean over questions: it has no valid interval for these runs",
                )
            rounds = self.stopped.rounds("" if of_endings else self.scorer, *run_ids)
            return _sequential_verdict(condition, claimed_sum, rounds, columns, open_shares)
        scored_questions = [
            question for question in questions if all(values.get(question.id) is not None for values in columns)
        ]
        if not scored_questions:
            return _undecided(condition, claimed_sum, "no question has a score")
        estimate_and_decision = self._estimate_and_decide(condition, scored_questions, columns)
        if estimate_and_decision is None:
            return _undecided(condition, claimed_sum, "there is nothing to count")
        estimate, decision, reasons = estimate_and_decision
        missing = len(questions) - len(scored_questions)
        reasons += [f"{missing:,} questions have no score and are left out"] if missing else []
        if estimate.low is None:
            reasons.append("too few questions, or too little variation, for an interval")
        could_change = self._could_change(condition, scored_questions, columns, open_shares, decision)
        if decision == "undecided" and any(share.count for share in open_shares):
            explanation = f"; whatever their results, {WIDE}" if not reasons else ""
            effect = ": they could decide this" if could_change else explanation
            reasons.insert(0, _open_note(condition, open_shares) + effect)
        elif could_change:
            decision = "undecided"
            reasons.insert(0, f"{_open_note(condition, open_shares)}: they could reverse this")
        low, high = claimed_sum.interval(estimate.low, estimate.high)
        scored_ids = [question.id for question in scored_questions]
        against, alike = (
            ([], 0) if decision == "holds" else _questions_against(condition, scored_ids, columns, open_shares)
        )
        return ConditionVerdict(
            decision=decision,
            measured=claimed_sum.measured,
            claimed=claimed_sum.claimed,
            value=claimed_sum.figure(estimate.value),
            low=low,
            high=high,
            level=condition.level,
            questions=len(scored_questions),
            reason="; ".join(reasons),
            against=tuple(against[:AGAINST]),
            against_count=len(against),
            alike=alike,
        )

    def _estimate_and_decide(
        self, condition: Condition, questions: Sequence[Question], columns: Sequence[Values]
    ) -> tuple[Estimate, Decision, list[str]] | None:
        """Return a condition's estimate, its decision, and the reasons why it is undecided; ``None`` if there is
        nothing to count."""
        estimate = self._estimate(condition, questions, columns)
        if estimate is None:
            return None
        if condition.level is not None and len(set(map(cluster_of, questions))) < FEWEST:
            return estimate, "undecided", [f"a claim with a level needs {FEWEST} questions or more"]
        return estimate, decide(condition, estimate.value, estimate.low, estimate.high), []

    def _could_change(
        self,
        condition: Condition,
        questions: Sequence[Question],
        columns: Sequence[Values],
        open_shares: Sequence[OpenShare],
        decision: Decision,
    ) -> bool:
        """Return True if attempts that are still open could change the decision or bring one about."""
        if not any(share.count for share in open_shares):
            return False
        terms = list(zip(condition.terms, columns, open_shares, strict=True))
        if any(share.count and (_is_ratio(values) or not self._is_share(term)) for term, values, share in terms):
            return True  # nothing bounds them
        signs = set()
        for upwards in (False, True):
            extreme_columns = [at_end(term.factor, values, share, upwards) for term, values, share in terms]
            estimate_and_decision = self._estimate_and_decide(condition, questions, extreme_columns)
            if estimate_and_decision is None or estimate_and_decision[1] != decision:
                return True
            signs.add(estimate_and_decision[0].value > 0)
        return condition.apart and decision == "holds" and len(signs) > 1

    def _is_share(self, term: Term) -> bool:
        """Return True if a measure lies between 0 and 1."""
        if term.measure in _SCORES:
            return described(self.scorer).unit == "percent"
        return term.measure not in CLAIMED_COSTS

    def _estimate(
        self, condition: Condition, questions: Sequence[Question], columns: Sequence[Values]
    ) -> Estimate | None:
        """Return the mean of a condition's sums over questions with its interval, or a sum of ratios if it contains a
        ratio.

        The interval of a difference of two runs is the one of the tables, which excludes 0 exactly if their test is
        significant.
        """
        if any(map(_is_ratio, columns)):
            return ratio_estimate(
                [[_parts_of(values, question.id) for question in questions] for values in columns],
                [term.factor for term in condition.terms],
                questions,
                self.seed,
                constant=condition.constant,
                level=condition.level or 0.95,
            )
        return estimate_sum(
            condition,
            questions,
            [[values[question.id] or 0.0 for question in questions] for values in columns],
            attempts=outcomes_in(described(self.scorer), self.basis.epochs),
            bounded=all(map(self._is_share, condition.terms)),
            level=condition.level or 0.95,
            seed=self.seed,
        )

    def _values(self, term: Term, questions: Sequence[Question]) -> Values | None:
        """Return question id → the term's measure; ``None`` if it is not known for this run."""
        run, epochs = self.runs[term.run], self.basis.epochs
        attempts = self.basis.summaries[run.id]
        if term.measure in _SCORES:
            return self.basis.values(self.scorer, run, questions)[0]
        if term.measure in CLAIMED_COSTS:
            costs = costs_of(run, attempts, CLAIMED_COSTS[term.measure], epochs)
            return None if costs is None else {question.id: costs.get(question.id, 0.0) for question in questions}
        answer_statuses = self.basis.read[run.id].get(self.scorer, {})
        shares = dict.fromkeys((question.id for question in questions), 0.0)
        for attempt in attempts:
            attempt_outcome = outcome(attempt.status, answer_statuses.get(attempt.key))
            if attempt.question_id in shares and attempt_outcome == term.measure:
                shares[attempt.question_id] += 1 / epochs
        return shares


def estimate_sum(
    condition: Condition,
    questions: Sequence[Question],
    columns: Sequence[Sequence[float]],
    *,
    attempts: int,
    bounded: bool,
    level: float,
    seed: int = 0,
) -> Estimate:
    """Return the mean of a condition's sums over questions as the tables weigh them, with the interval of the tables.

    Args:
        condition: condition whose terms are measured.
        questions: questions that count.
        columns: for each term the values of the questions.
        attempts: number of epochs that each value is a mean over.
        bounded: True if all values lie between 0 and 1.
        level: coverage of the interval.
        seed: seed of the bootstrap.
    """
    strata, clusters = design(questions)
    factors = [term.factor for term in condition.terms]

    def mean(level: float) -> Estimate:
        return combined_mean(
            columns,
            factors,
            strata,
            clusters,
            constant=condition.constant,
            attempts=attempts,
            bounded=bounded,
            level=level,
            seed=seed,
        )

    if {term.measure for term in condition.terms} <= set(_SCORES) and sorted(factors) == [-1.0, 1.0]:
        return difference_and_test(columns, strata, clusters, mean, level, condition.constant, attempts)[0]
    return mean(level)


def _open_note(condition: Condition, open_shares: Sequence[OpenShare]) -> str:
    """Return a text with the number of open attempts of each run."""
    counts = {
        term.run: f"{share.count:,} of {share.of:,} attempts of {term.run} are open"
        for term, share in zip(condition.terms, open_shares, strict=True)
        if share.count
    }
    return " and ".join(counts.values())


def _questions_against(
    condition: Condition,
    question_ids: Sequence[str],
    columns: Sequence[Values],
    open_shares: Sequence[OpenShare],
) -> tuple[list[str], int]:
    """Return the questions whose own sum breaks a condition, the furthest from it first, and the number of questions
    without any difference.

    The list is empty if the condition has no direction. For a condition on a difference, questions without any
    difference are only counted, because they would break any margin. A question with an open attempt is not evidence.
    """
    if condition.apart:
        return [], 0
    questions = [id for id in question_ids if not any(id in share.shares for share in open_shares)]
    is_lower_bound = condition.relation in (">", ">=")
    terms = list(zip(condition.terms, columns, strict=True))
    sums = {
        id: condition.constant + sum(term.factor * (values[id] or 0.0) for term, values in terms) for id in questions
    }
    broken = [id for id in questions if decide(replace(condition, level=None), sums[id], None, None) == "fails"]
    ordered = sorted(broken, key=lambda id: sums[id] if is_lower_bound else -sums[id])
    if not condition.of_difference:
        return ordered, 0
    with_difference = [id for id in ordered if not math.isclose(sums[id], condition.constant, abs_tol=1e-9)]
    return with_difference, len(ordered) - len(with_difference)


def _is_ratio(values: Values) -> bool:
    """Return True if these values belong to a figure that is a ratio of sums."""
    return isinstance(values, QuestionValues) and bool(values.parts)


def _parts_of(values: Values, question: str) -> Parts:
    """Return the parts of a ratio. A mean is treated as a ratio whose denominators are 1."""
    if isinstance(values, QuestionValues) and values.parts:
        return values.parts[question]
    return ((values[question] or 0.0, 1.0),)


def _sequential_verdict(
    condition: Condition,
    claimed: ClaimedSum,
    rounds: Sequence[QuestionRound],
    columns: Sequence[Values],
    open_shares: Sequence[OpenShare],
) -> ConditionVerdict:
    """Return the verdict on a condition by an interval that is valid at any number of questions."""
    live_claim = LiveClaim(Claim("", (condition,)))
    values_by_term = {(term.measure, term.run): values for term, values in zip(condition.terms, columns, strict=True)}
    for question_round in rounds:
        live_claim.add(question_round, lambda measure, run, question: values_by_term[measure, run].get(question))
    (state,) = live_claim.state.conditions
    question_ids = [question.id for question_round in rounds for part in question_round.parts for question in part]
    scored = [id for id in question_ids if all(values.get(id) is not None for values in columns)]
    against, alike = (
        ([], 0) if state.decision == "holds" else _questions_against(condition, scored, columns, open_shares)
    )
    left_out = f"; {state.missing:,} have no score and are left out" if state.missing else ""
    # The state describes the condition with run ids in place of the names in the claim; the sum is the same.
    return replace(
        state,
        measured=claimed.measured,
        claimed=claimed.claimed,
        questions=live_claim.state.questions,
        reason="the number of questions depends on the results: the interval is always valid" + left_out,
        against=tuple(against[:AGAINST]),
        against_count=len(against),
        alike=alike,
    )


def _undecided(condition: Condition, claimed: ClaimedSum, reason: str) -> ConditionVerdict:
    return ConditionVerdict(
        decision="undecided", measured=claimed.measured, claimed=claimed.claimed, level=condition.level, reason=reason
    )


_UNMADE = frozenset({"paused", "not_run"})
_UNSCORED = _UNMADE | {"failed"}
"""Statuses of attempts that could still change a score.

The first line of a comparison uses the same ones when it says that a difference could still be reversed.
"""


class OpenShare(Struct, frozen=True, kw_only=True):
    """Open attempts of a term of a claim."""

    shares: Mapping[str, float]
    """Question id → share of its attempts that are open; questions without an open attempt are left out."""
    count: int
    """Number of open attempts."""
    of: int


def open_share(status: Mapping[AttemptKey, str], questions: Sequence[Question], epochs: int, measure: str) -> OpenShare:
    """Return the attempts that could still change a measure of a run.

    Args:
        status: question id and epoch → status of the run's attempt.
        questions: questions that the measure is over.
        epochs: number of epochs of each question.
        measure: measure of the claim. For a score, a failed attempt is open because it can be made again.
    """
    open_statuses = (_UNSCORED if measure in _SCORES else _UNMADE) - {measure}
    counts = {
        question.id: sum(status.get((question.id, epoch), "not_run") in open_statuses for epoch in range(epochs))
        for question in questions
    }
    return OpenShare(
        shares={question: count / epochs for question, count in counts.items() if count},
        count=sum(counts.values()),
        of=len(questions) * epochs,
    )


def at_end(factor: float, values: Values, share: OpenShare, up: bool) -> Values:
    """Return the values of a term that make the claimed sum largest (`up`) or smallest."""
    if (factor > 0) != up:
        return values
    return {
        question: None if value is None else min(1.0, value + share.shares.get(question, 0.0))
        for question, value in values.items()
    }
