"""Claims about stored runs, checked: `ragrounds compare --assert`.

Every measure is the figure of the tables, unweighted over datasets, and so is its interval. A sum of means is the mean
of each question's own sum; with a figure of the whole corpus in it (a micro-F1) it is a sum of ratios.

Attempts that are still open bound it: a score counts an attempt that failed, is paused or was never made as 0; once it
is made it may have the best score. A share of endings counts only those that are still to be made. Nothing bounds a
cost, a score that is no share, or a ratio of sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import Question, Run, outcome
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
from ragrounds.evals.compare.comparability import ComparisonBasis, comparison_basis
from ragrounds.evals.compare.figures import design, outcomes_in, ratio_estimate
from ragrounds.evals.compare.frontier import CLAIMED_COSTS, costs_of
from ragrounds.evals.compare.question_values import Parts, QuestionValues, Values
from ragrounds.evals.compare.stopped_runs import ClaimVerdict, ConditionVerdict, Decision, StoppedRuns, early_stops
from ragrounds.evals.engine.question_order import QuestionRound
from ragrounds.evals.scorers import described, scorer_name
from ragrounds.evals.stats import Estimate, combined_mean
from ragrounds.evals.stats.sign_flips import difference_and_test
from ragrounds.evals.store.store import AttemptKey, Store

_SCORES = ("accuracy", "score")


FEWEST = 10
"""Questions (duplicates count once) from which a claim with a level is decided: three whose true share is .05 have an
interval all above it in 14 of 100 samples."""
AGAINST = 50
"""Questions that a condition names."""
WIDE = "the interval includes both sides of the claim: more questions make it narrower"
"""Why a claim is undecided where nothing else stands in its way."""


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
    """Decide claims about stored runs under one scorer, by default the first headline; `names`: run id → what a claim
    may call it.

    Raises:
        UserError: a claim that cannot be read or names another run; runs that cannot be compared.
    """
    written = [parse_claim(text) for text in claims]
    read = [resolved(claim, runs, names) for claim in written]
    early = early_stops(store, runs)
    basis = comparison_basis(store, runs, [scorer_name(scorer)] if scorer else [], common, answered=bool(early))
    if not basis.scorers:
        raise UserError("These runs have no scores yet: no claim can be checked.")
    checked = _Assertions(
        {run.id: run for run in runs}, basis, basis.scorers[0], StoppedRuns(store, runs, basis, early), seed
    )
    for claim in written:
        check_measures(claim, basis.scorers[0])
    return [checked.claim(*each) for each in zip(read, written, strict=True)]


@dataclass(frozen=True)
class _Assertions:
    """What claims are checked against."""

    runs: Mapping[str, Run]
    basis: ComparisonBasis
    scorer: str
    stopped: StoppedRuns
    seed: int

    def claim(self, claim: Claim, written: Claim) -> ClaimVerdict:
        """The decision of a claim, with its conditions as they were written."""
        conditions = tuple(
            self.condition(condition, claimed_sum(shown))
            for condition, shown in zip(claim.conditions, written.conditions, strict=True)
        )
        decision = all_hold([condition.decision for condition in conditions])
        return ClaimVerdict(claim=claim.text, decision=decision, scorer=self.scorer, conditions=conditions)

    def condition(self, condition: Condition, shown: ClaimedSum) -> ConditionVerdict:
        """The decision of a condition: by the interval that tables show; of runs that ended early by the one that is
        valid at any number of questions."""
        asked = self._asked(condition)
        columns = []
        for term in condition.terms:
            values = self._values(term, asked)
            if values is None:
                return _undecided(condition, shown, f"the {term.measure} of {term.run} is unknown")
            columns.append((term.factor, values))
        named = [term.run for term in condition.terms]
        if condition.level is not None and self.stopped.concerns(*named):
            if any(term.measure in CLAIMED_COSTS for term in condition.terms):
                return _undecided(
                    condition, shown, "the number of questions depends on the results: no interval is valid"
                )
            if cancels(condition):
                return _undecided(condition, shown, "it compares a run with itself")
            if any(_of_corpus(values) for _, values in columns):
                return _undecided(
                    condition,
                    shown,
                    f"{self.scorer} is not a mean over questions: it has no valid interval for these runs",
                )
            return _followed(condition, shown, self._rounds(condition, named), columns, self._open(condition, asked))
        kept = [one for one in asked if all(values.get(one.id) is not None for _, values in columns)]
        if not kept:
            return _undecided(condition, shown, "no question has a score")
        judged = self._judged(condition, kept, [values for _, values in columns])
        if judged is None:
            return _undecided(condition, shown, "there is nothing to count")
        made, decision, reasons = judged
        missing = len(asked) - len(kept)
        reasons += [f"{missing:,} questions have no score and are left out"] if missing else []
        if made.low is None:
            reasons.append("too few questions, or too little variation, for an interval")
        open_ = self._open(condition, asked)
        turned = self._turned(condition, kept, columns, open_, decision)
        if decision == "undecided" and any(one.count for one in open_):
            wide = f"; whatever their results, {WIDE}" if not reasons else ""
            reasons = [_open_words(condition, open_) + (": they could decide this" if turned else wide), *reasons]
        elif turned:
            decision, reasons = "undecided", [f"{_open_words(condition, open_)}: they could reverse this", *reasons]
        low, high = shown.interval(made.low, made.high)
        known = [one.id for one in kept]
        against, alike = ([], 0) if decision == "holds" else _against(condition, known, columns, open_)
        return ConditionVerdict(
            decision=decision,
            measured=shown.measured,
            claimed=shown.claimed,
            value=shown.figure(made.value),
            low=low,
            high=high,
            level=condition.level,
            questions=len(kept),
            reason="; ".join(reasons),
            against=tuple(against[:AGAINST]),
            against_count=len(against),
            alike=alike,
        )

    def _judged(
        self, condition: Condition, kept: Sequence[Question], columns: Sequence[Values]
    ) -> tuple[Estimate, Decision, list[str]] | None:
        """A condition's estimate with its decision, and why nothing can be told; ``None``: nothing to count."""
        made = self._estimate(condition, kept, columns)
        if made is None:
            return None
        if condition.level is not None and len(set(map(cluster_of, kept))) < FEWEST:
            return made, "undecided", [f"a claim with a level needs {FEWEST} questions or more"]
        return made, decide(condition, made.value, made.low, made.high), []

    def _turned(
        self,
        condition: Condition,
        kept: Sequence[Question],
        columns: Sequence[tuple[float, Values]],
        open_: Sequence[OpenShare],
        decision: Decision,
    ) -> bool:
        """Whether attempts that are still open could turn a decision, or make one where nothing can be told."""
        if not any(one.count for one in open_):
            return False
        unbounded = any(
            one.count and (_of_corpus(values) or not self._is_share(term))
            for term, one, (_, values) in zip(condition.terms, open_, columns, strict=True)
        )
        if unbounded:
            return True
        signs = set()
        for up in (False, True):
            ends = [at_end(factor, values, one, up) for (factor, values), one in zip(columns, open_, strict=True)]
            judged = self._judged(condition, kept, ends)
            if judged is None or judged[1] != decision:
                return True
            signs.add(judged[0].value > 0)
        return condition.apart and decision == "holds" and len(signs) > 1

    def _open(self, condition: Condition, asked: Sequence[Question]) -> list[OpenShare]:
        """The open attempts of each term."""
        status, epochs = self.basis.status, self.basis.epochs
        return [open_share(status[term.run], asked, epochs, term.measure) for term in condition.terms]

    def _is_share(self, term: Term) -> bool:
        """Whether a measure lies between 0 and 1."""
        if term.measure in _SCORES:
            return described(self.scorer).unit == "percent"
        return term.measure not in CLAIMED_COSTS

    def _rounds(self, condition: Condition, named: Sequence[str]) -> Sequence[QuestionRound]:
        """The draws of runs that ended early that a condition is about."""
        return self.stopped.rounds("" if condition.of_endings else self.scorer, *named)

    def _asked(self, condition: Condition) -> Sequence[Question]:
        """The questions that a condition is about: how attempts ended concerns every kind of question; a score, what
        was read of answers, and what stands beside them, the questions of the scorer."""
        return self.basis.questions if condition.of_endings else self.basis.asked(self.scorer)

    def _estimate(self, condition: Condition, kept: Sequence[Question], columns: Sequence[Values]) -> Estimate | None:
        """The mean of a condition's sums over questions, with its interval; with a ratio in it the sum of ratios. The
        interval of a difference of two runs is the one of the tables, which leaves 0 out where their test does."""
        if any(map(_of_corpus, columns)):
            return ratio_estimate(
                [[_parts_of(values, one.id) for one in kept] for values in columns],
                [term.factor for term in condition.terms],
                kept,
                described(self.scorer),
                self.seed,
                constant=condition.constant,
                level=condition.level or 0.95,
            )
        known = [[values[question.id] or 0.0 for question in kept] for values in columns]
        strata, clusters = design(kept)
        factors = [term.factor for term in condition.terms]

        def mean(level: float) -> Estimate:
            return combined_mean(
                known,
                factors,
                strata,
                clusters,
                constant=condition.constant,
                attempts=outcomes_in(described(self.scorer), self.basis.epochs),
                bounded=self._shares(condition),
                level=level,
                seed=self.seed,
            )

        level, measures = condition.level or 0.95, {term.measure for term in condition.terms}
        if measures <= set(_SCORES) and sorted(factors) == [-1.0, 1.0]:
            return difference_and_test(known, strata, clusters, mean, level, condition.constant)[0]
        return mean(level)

    def _shares(self, condition: Condition) -> bool:
        """Whether every measure lies between 0 and 1."""
        return all(self._is_share(term) for term in condition.terms)

    def _values(self, term: Term, asked: Sequence[Question]) -> Values | None:
        """Question id → the term's measure there; ``None``: not known of this run."""
        run, epochs = self.runs[term.run], self.basis.epochs
        attempts = self.basis.summaries[run.id]
        if term.measure in _SCORES:
            return self.basis.values(self.scorer, run, asked)[0]
        if term.measure in CLAIMED_COSTS:
            costs = costs_of(run, attempts, CLAIMED_COSTS[term.measure], epochs)
            return None if costs is None else {question.id: costs.get(question.id, 0.0) for question in asked}
        read = self.basis.read[run.id].get(self.scorer, {})
        shares = dict.fromkeys((question.id for question in asked), 0.0)
        for attempt in attempts:
            ended = outcome(attempt.status, read.get((attempt.question_id, attempt.epoch)))
            if attempt.question_id in shares and ended == term.measure:
                shares[attempt.question_id] += 1 / epochs
        return shares


def _open_words(condition: Condition, open_: Sequence[OpenShare]) -> str:
    """How many attempts of which runs are open."""
    counts = {
        term.run: f"{one.count:,} of {one.of:,} attempts of {term.run} are open"
        for term, one in zip(condition.terms, open_, strict=True)
        if one.count
    }
    return " and ".join(counts.values())


def _against(
    condition: Condition,
    asked: Sequence[str],
    columns: Sequence[tuple[float, Values]],
    open_: Sequence[OpenShare],
) -> tuple[list[str], int]:
    """The questions whose own sum breaks a condition, the furthest from it first; none where it has no direction. Of a
    difference those are counted alone that have none: they would break any margin. A question with an open attempt is
    no evidence."""
    if condition.apart:
        return [], 0
    questions = [one for one in asked if not any(one in share.shares for share in open_)]
    up = condition.relation in (">", ">=")
    sums = {
        one: condition.constant + sum(factor * (values[one] or 0.0) for factor, values in columns) for one in questions
    }
    broken = [one for one in questions if decide(replace(condition, level=None), sums[one], None, None) == "fails"]
    ordered = sorted(broken, key=lambda one: sums[one] if up else -sums[one])
    if not condition.of_difference:
        return ordered, 0
    apart = [one for one in ordered if not math.isclose(sums[one], condition.constant, abs_tol=1e-9)]
    return apart, len(ordered) - len(apart)


def _of_corpus(values: Values) -> bool:
    """Whether these are of a figure that is a ratio of sums."""
    return isinstance(values, QuestionValues) and bool(values.parts)


def _parts_of(values: Values, question: str) -> Parts:
    """The parts of a ratio; a mean is one whose denominators are 1."""
    if isinstance(values, QuestionValues) and values.parts:
        return values.parts[question]
    return ((values[question] or 0.0, 1.0),)


def _followed(
    condition: Condition,
    shown: ClaimedSum,
    rounds: Sequence[QuestionRound],
    columns: Sequence[tuple[float, Values]],
    open_: Sequence[OpenShare],
) -> ConditionVerdict:
    """The decision by an interval that is valid at any number of questions."""
    live = LiveClaim(Claim("", (condition,)))
    known = {(term.measure, term.run): values for term, (_, values) in zip(condition.terms, columns, strict=True)}
    for drawn in rounds:
        live.add(drawn, lambda measure, run, question: known[measure, run].get(question))
    (state,) = live.state.conditions
    asked = [question.id for drawn in rounds for part in drawn.parts for question in part]
    scored = [one for one in asked if all(values.get(one) is not None for _, values in columns)]
    against, alike = ([], 0) if state.decision == "holds" else _against(condition, scored, columns, open_)
    left_out = f"; {state.missing:,} have no score and are left out" if state.missing else ""
    # The state is of the condition with the runs' ids, the sum the same.
    return replace(
        state,
        measured=shown.measured,
        claimed=shown.claimed,
        questions=live.state.questions,
        reason="the number of questions depends on the results: the interval is always valid" + left_out,
        against=tuple(against[:AGAINST]),
        against_count=len(against),
        alike=alike,
    )


def _undecided(condition: Condition, shown: ClaimedSum, reason: str) -> ConditionVerdict:
    return ConditionVerdict(
        decision="undecided", measured=shown.measured, claimed=shown.claimed, level=condition.level, reason=reason
    )


_UNMADE = frozenset({"paused", "not_run"})
_UNSCORED = _UNMADE | {"failed"}
"""The same attempts by which the first line of a comparison says that a difference could still turn round."""


class OpenShare(Struct, frozen=True, kw_only=True):
    """The attempts of a term of a claim that are still open."""

    shares: Mapping[str, float]
    """Question id → share of its attempts; those without an open one are not in it."""
    count: int
    """Attempts that are open."""
    of: int


def open_share(status: Mapping[AttemptKey, str], asked: Sequence[Question], epochs: int, measure: str) -> OpenShare:
    """Which attempts could still change a measure of a run.

    Args:
        status: of the run's attempts.
        asked: the questions that the measure is over.
        epochs: of each question.
        measure: of the claim. Of a score a failed attempt is open, for it can be made again.
    """
    still = (_UNSCORED if measure in _SCORES else _UNMADE) - {measure}
    counts = {one.id: sum(status.get((one.id, epoch), "not_run") in still for epoch in range(epochs)) for one in asked}
    return OpenShare(
        shares={question: count / epochs for question, count in counts.items() if count},
        count=sum(counts.values()),
        of=len(asked) * epochs,
    )


def at_end(factor: float, values: Values, share: OpenShare, up: bool) -> Values:
    """The values of a term that make the claimed sum largest (`up`) or smallest."""
    if (factor > 0) != up:
        return values
    return {
        question: None if value is None else min(1.0, value + share.shares.get(question, 0.0))
        for question, value in values.items()
    }
