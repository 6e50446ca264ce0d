"""Release gate: rules in tiers as one TOML file, and the verdict on them after every question.

    [runs]                                   # name in the rules → agent, or stored run
    new = "vanilla_rag[top_k=8]"
    old = "direct"

    [critical]
    "not worse" = "accuracy(new) - accuracy(old) > -5%"
    [supporting]
    "answers" = "refused(new) < 10%"
    [advisory]
    "cheap" = { claim = "cost(new) < 0.01", most = 0.1 }

A rule is a claim (:mod:`ragrounds.evals.claims.claims`) without a level: the policy's `error` applies to all rules.
Each condition of a rule is followed by two one-sided tests that are valid at any number of questions
(:mod:`ragrounds.evals.stats.one_sided`): it *holds* at the error `error`, it *fails* at `error / k` with k conditions
in the critical and supporting rules.

**GO** if all critical rules hold. GO is wrong only if some critical rule is false and was still shown to hold. The
chance of that is at most `error`, without a correction (an intersection-union test). **NO-GO** if a critical rule
fails, or more than half of the supporting rules. NO-GO is wrong only if one of the k conditions was shown to fail
although it holds. The chance of that is at most k × error / k (Bonferroni). Only one of the two verdicts can be wrong
for any given truth. Advisory rules decide nothing.

An unknown value (a judge that failed, a call without a price) counts as the worst in the test that a rule holds and as
the best in the test that it fails. So missing values never decide.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, get_args

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Attempt, Question, Run, Score
from ragrounds.base.text import parse_toml
from ragrounds.evals.claims.claims import (
    Claim,
    Condition,
    MeasureValue,
    all_hold,
    cancels,
    check_measures,
    claimed_sum,
    parse_claim,
)
from ragrounds.evals.claims.sequential_stop import ClaimStop, earlier_record, measured_value, save_stop
from ragrounds.evals.compare.frontier import CLAIMED_COSTS, attempt_cost
from ragrounds.evals.compare.stopped_runs import ClaimVerdict, ConditionVerdict, Decision
from ragrounds.evals.engine.question_order import QuestionRound, draw_rounds, rounds_within
from ragrounds.evals.scorers import described, headline_of, scores_by_default
from ragrounds.evals.stats.one_sided import OneSided, lower_end, questions_to, reach
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.filter_fields import BOUNDED_MEASURES

Tier = Literal["critical", "supporting", "advisory"]
Verdict = Literal["GO", "NO-GO", "UNDECIDED"]
TIERS: tuple[Tier, ...] = get_args(Tier)
_HORIZON = 100
"""Multiple of the questions so far up to which a decision is predicted."""


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Claim of a policy; in a file it may be a text alone."""

    claim: str
    """Text of the claim; its runs are names of the policy."""
    dataset: str = ""
    """Dataset whose questions count; if empty, the unweighted mean over datasets, as in tables."""
    most: Annotated[float, Meta(gt=0, lt=1e300)] | None = None
    """Upper bound of a cost: larger values of a question count as this."""


Rules = dict[str, str | Rule]


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules that must be shown to hold before a release."""

    runs: Annotated[dict[str, Annotated[str, Meta(min_length=1)]], Meta(min_length=1)]
    """Name → agent's text or stored run."""
    critical: Annotated[Rules, Meta(min_length=1)]
    supporting: Rules = {}
    advisory: Rules = {}
    error: Annotated[float, Meta(gt=0, lt=0.5)] = 0.05
    seed: Annotated[int, Meta(ge=-(2**62), le=2**62)] = 0
    """Seed of the order in which questions are asked and counted."""
    scorer: str = ""
    run: dict[str, Any] | None = None
    """Arguments of :func:`ragrounds.run`; ``None`` if the runs are stored ones."""

    @property
    def rules(self) -> Iterator[tuple[Tier, str, Rule, Claim]]:
        """Every rule with its tier, its name and its claim."""
        for tier in TIERS:
            for name, rule_or_text in getattr(self, tier).items():
                rule = Rule(claim=rule_or_text) if isinstance(rule_or_text, str) else rule_or_text
                yield tier, name, rule, parse_claim(rule.claim)

    @property
    def text(self) -> str:
        """Critical rules as one claim, which is stored with the runs that the gate ended."""
        return " and ".join(claim.text for tier, _, _, claim in self.rules if tier == "critical")


def read_policy(text: str, name: str) -> Policy:
    """Parse the text of a policy's file.

    Raises:
        UserError: the text is not TOML; a key is unknown; a rule cannot be read or could never be shown; a run in a
            rule is not named.
    """
    policy_text, keys = f"The policy {name!r}", Policy.__struct_fields__
    try:
        raw = parse_toml(text)
        for key in raw:
            if key not in keys:
                raise UserError(
                    f"{policy_text} has no key {key!r}.{nearest(key, keys)} Its keys are {', '.join(keys)}."
                )
        for key, content in (("runs", "a name for each agent"), ("critical", "a rule that must hold")):
            if raw.get(key, {}) == {}:
                raise UserError(f"{policy_text} needs [{key}] with at least {content}: see docs/how-to/gate.md.")
        policy = msgspec.convert(raw, Policy)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UserError(f"{policy_text}: {error}. See docs/how-to/gate.md.") from error
    if len(set(policy.runs.values())) < len(policy.runs):
        raise UserError(f"{policy_text}: two names of [runs] mean the same run. Give it one name.")
    for tier in TIERS:
        for rule_name, rule_or_text in getattr(policy, tier).items():
            rule = Rule(claim=rule_or_text) if isinstance(rule_or_text, str) else rule_or_text
            try:
                problems = [
                    _rule_problem(condition, rule, policy.runs) for condition in parse_claim(rule.claim).conditions
                ]
            except UserError as error:
                problems = [str(error)]
            if any(problems):
                raise UserError(f"{policy_text}: the {tier} rule {rule_name!r}: {next(filter(None, problems))}")
    return policy


def _rule_problem(condition: Condition, rule: Rule, runs: Mapping[str, str]) -> str:
    """Return the reason why a condition cannot be used in a gate; empty if it can."""
    for term in condition.terms:
        if term.run not in runs:
            return f"{term.run!r} is not in [runs].{nearest(term.run, runs)} Named there: {', '.join(runs)}."
    if condition.apart:
        return "separated() has no side that fails; write which one is to be better: accuracy(a) - accuracy(b) > 0."
    if condition.level is not None:
        return "it has a level (@), and the policy has one for all rules; leave it out, and set error = 0.05."
    costs = {term.measure for term in condition.terms if term.measure not in BOUNDED_MEASURES}
    if len(costs | {term.measure for term in condition.terms if costs}) > 1:
        return "it adds up measures of different units; write a rule for each."
    if costs and rule.most is None:
        return f"{min(costs)} has no upper bound; add most = the largest that a question may count as."
    if not costs and rule.most is not None:
        return f"most goes with a cost; {condition.terms[0].measure} lies between 0 and 1. Leave it out."
    if cancels(condition):
        return "it compares a run with itself; name two of [runs]."
    lowest, span = _scale(condition, rule.most)
    if -lowest / span <= 1e-9 or -lowest / span >= 1 - 1e-9:
        return (
            "its limit is the end of what there can be, so no number of questions can show it; allow for some, such as "
            "failed(new) < 2%."
        )
    return ""


def _upwards(condition: Condition) -> Condition:
    """Return the equivalent condition whose relation is "above 0"."""
    if condition.relation in (">", ">="):
        return condition
    terms = tuple(replace(term, factor=-term.factor) for term in condition.terms)
    return replace(condition, terms=terms, constant=-condition.constant, relation=">")


def _scale(condition: Condition, highest_cost: float | None) -> tuple[float, float]:
    """Return the lowest value of the sum of an upwards condition, and the width of its range."""
    factors = [term.factor * (highest_cost or 1.0) for term in _upwards(condition).terms]
    return _upwards(condition).constant + sum(min(0.0, factor) for factor in factors), sum(map(abs, factors))


class FollowedCondition:
    """Condition of a rule, followed question by question. Once it holds or fails, this stays."""

    def __init__(self, condition: Condition, rule: Rule, runs: Mapping[str, str], fails: float, holds: float) -> None:
        self._original, self._up, self._rule, self._ids = condition, _upwards(condition), rule, runs
        self._lowest, self._span = _scale(condition, rule.most)
        self.limit = -self._lowest / self._span
        self._errors = holds, fails
        self._above, self._below = OneSided(self.limit), OneSided(1 - self.limit)
        self._worst: list[float] = []
        self._best: list[float] = []
        self._missing = self._cut = 0
        self.decision: Decision = "undecided"

    def worth(self, question_round: QuestionRound, value: MeasureValue) -> list[float]:
        """Return the lowest and the highest value of a round, 0 to 1; empty if it has no question of the rule's
        dataset."""
        parts = [part for part in question_round.parts if self._rule.dataset in ("", part[0].benchmark)]
        shares_by_part = [[self._share(question.id, value) for question in part] for part in parts]
        self._missing += any(share is None for part in shares_by_part for share in part)
        completed = [
            [[bound if share is None else share for share in part] for part in shares_by_part] for bound in (0.0, 1.0)
        ]
        means = [
            sum(sum(part) / len(part) for part in completed_sums) / len(completed_sums)
            for completed_sums in completed
            if completed_sums
        ]
        return [min(1.0, max(0.0, mean)) for mean in means]

    def add(self, question_round: QuestionRound, value: MeasureValue) -> None:
        """Count a round."""
        if self.decision != "undecided" or not (bounds := self.worth(question_round, value)):
            return
        worst, best = bounds
        self._worst.append(worst)
        self._best.append(best)
        holds = self._above.add(worst) >= reach(self._errors[0])
        fails = self._below.add(1 - best) >= reach(self._errors[1])
        self.decision = "holds" if holds else "fails" if fails else "undecided"

    def _share(self, question: str, value: MeasureValue) -> float | None:
        total = self._up.constant
        for term in self._up.terms:
            number = value(term.measure, self._ids[term.run], question)
            if number is None:
                return None
            if self._rule.most is not None and number > self._rule.most:
                self._cut, number = self._cut + 1, self._rule.most
            total += term.factor * number
        return (total - self._lowest) / self._span

    def share_of(self, effect: float) -> tuple[float, float, float]:
        """Return the share of a truth this far beyond the limit, the share to which errors of a judge pull it, and the
        sum of squared changes by a verdict."""
        factors = [term.factor for term in self._up.terms]
        middle, squares = self._up.constant + sum(factors) / 2, sum(factor**2 for factor in factors)
        return (effect - self._lowest) / self._span, (middle - self._lowest) / self._span, squares / self._span**2

    def effect_of(self, share: float) -> float:
        """Return the distance of a share beyond the limit, in the claim's units."""
        return self._lowest + self._span * share

    def _figure(self, share: float) -> float:
        """Return the measured figure in the claim's units if the values have this mean."""
        total = self._lowest + self._span * share
        claimed = claimed_sum(self._original)
        return round(claimed.figure(total if self._up is self._original else -total) or 0.0, 12) + 0.0

    @property
    def state(self) -> ConditionVerdict:
        """Verdict on the condition, with the interval of its two tests."""
        claimed, n = claimed_sum(self._original), len(self._worst)
        verdict = ConditionVerdict(
            decision=self.decision,
            measured=claimed.measured,
            claimed=claimed.claimed,
            level=1 - sum(self._errors),
            questions=n,
            rounds=n,
            missing=self._missing,
            reason="; ".join(self._doubts()),
        )
        if not n:
            return verdict
        worst, best = np.array(self._worst), np.array(self._best)
        bounds = lower_end(worst, reach(self._errors[0])), 1 - lower_end(1 - best, reach(self._errors[1]))
        low, high = sorted(map(self._figure, bounds))
        return replace(verdict, value=self._figure(float((worst + best).mean() / 2)), low=low, high=high)

    def _doubts(self) -> Iterable[str]:
        if self._missing:
            yield f"{self._missing:,} not known: counted as the worst for holds, as the best for fails"
        if self._cut:
            yield f"{self._cut:,} values above most = {self._rule.most:g} count as it"
        if not self._worst and self._rule.dataset:
            yield f"no question of {self._rule.dataset} was counted"

    def questions_needed(self) -> int | None:
        """Return the total number of questions that decide it, if further ones are like those so far; ``None`` if out
        of reach."""
        if not self._worst:
            return None
        limit, worst, best = _HORIZON * len(self._worst), np.array(self._worst), np.array(self._best)
        predicted = [
            questions_to(worst, self.limit, reach(self._errors[0]), limit),
            questions_to(1 - best, 1 - self.limit, reach(self._errors[1]), limit),
        ]
        counts = [max(count, len(worst) + 1) for count in predicted if count is not None]
        return min(counts) if counts else None


class RuleVerdict(Struct, frozen=True, kw_only=True):
    """Verdict on a rule."""

    name: str
    tier: Tier
    dataset: str
    claim: ClaimVerdict
    needs: int | None
    """Total number of questions that decide an undecided rule, if they are like those so far; ``None`` if more than a
    hundred times as many."""


class FollowedGate:
    """Rules of a policy, followed question by question.

    Args:
        policy: policy with the rules.
        ids: name in the policy → run id.
    """

    def __init__(self, policy: Policy, ids: Mapping[str, str]) -> None:
        condition_count = sum(len(claim.conditions) for tier, _, _, claim in policy.rules if tier != "advisory")
        self.rules = [
            (
                tier,
                name,
                rule,
                [
                    FollowedCondition(
                        condition,
                        rule,
                        ids,
                        policy.error / (1 if tier == "advisory" else condition_count),
                        policy.error,
                    )
                    for condition in claim.conditions
                ],
            )
            for tier, name, rule, claim in policy.rules
        ]
        self._text, self.questions = policy.text, 0

    def add(self, question_round: QuestionRound, value: MeasureValue) -> None:
        """Count the next round of questions."""
        for *_, conditions in self.rules:
            for condition in conditions:
                condition.add(question_round, value)
        self.questions += len(question_round.questions)

    def _tier_decisions(self, tier: Tier) -> list[Decision]:
        return [
            all_hold([condition.decision for condition in conditions])
            for rule_tier, *_, conditions in self.rules
            if rule_tier == tier
        ]

    @property
    def verdict(self) -> Verdict:
        """Verdict on the rules so far."""
        critical, supporting = self._tier_decisions("critical"), self._tier_decisions("supporting")
        if "fails" in critical or 2 * supporting.count("fails") > len(supporting):
            return "NO-GO"
        return "GO" if all_hold(critical) == "holds" else "UNDECIDED"

    @property
    def decision(self) -> Decision:
        """Verdict as the decision of a claim."""
        decisions: dict[Verdict, Decision] = {"GO": "holds", "NO-GO": "fails", "UNDECIDED": "undecided"}
        return decisions[self.verdict]

    @property
    def state(self) -> ClaimVerdict:
        """Verdict on the critical rules as one claim, as it is stored with the runs."""
        parts = [
            condition.state for tier, *_, conditions in self.rules if tier == "critical" for condition in conditions
        ]
        return ClaimVerdict(claim=self._text, decision=self.decision, questions=self.questions, conditions=tuple(parts))

    def verdicts(self) -> Iterator[RuleVerdict]:
        """Yield the verdict on every rule."""
        for tier, name, rule, conditions in self.rules:
            decision = all_hold([condition.decision for condition in conditions])
            needs = (
                [condition.questions_needed() for condition in conditions if condition.decision == "undecided"]
                if decision == "undecided"
                else []
            )
            yield RuleVerdict(
                name=name,
                tier=tier,
                dataset=rule.dataset,
                claim=ClaimVerdict(
                    claim=rule.claim, decision=decision, conditions=tuple(condition.state for condition in conditions)
                ),
                needs=max(filter(None, needs), default=None) if all(needs) else None,
            )


class GateStop(ClaimStop):
    """Stop rule that ends the runs of one replay when a gate reaches its verdict. For stored runs use :meth:`read`.

    Args:
        policy: policy with the rules.
        runs: name in the policy → run.
        questions: questions of the benchmark.
        max_questions: largest number of questions to count.

    Raises:
        UserError: a rule is for an unknown dataset, or about accuracy with a scorer whose 1 is not a right answer; the
            scorer scores no question.
    """

    def __init__(
        self, policy: Policy, runs: Mapping[str, Run], questions: Iterable[Question], max_questions: int | None = None
    ):
        self.runs, self.seed, self.policy = tuple(runs.values()), policy.seed, policy
        self.gate = FollowedGate(policy, {name: run.id for name, run in runs.items()})
        self.claim = Claim(policy.text, ())
        self._live: Any = self.gate
        self._all, self._max_questions = list(questions), max_questions
        conditions = [condition for *_, claim in policy.rules for condition in claim.conditions]
        self.scorer = policy.scorer or headline_of(self._all)[0].scorer
        self._every = all(condition.of_endings for condition in conditions) and not policy.scorer
        record = described(self.scorer)
        by_default = [question for question in self._all if self._every or scores_by_default(record, question)]
        applicable = by_default or [question for question in self._all if record.suits(question)]
        _check_questions(policy, self.scorer, applicable)
        rounds = draw_rounds(applicable, self.seed)
        self.rounds = rounds if max_questions is None else rounds_within(rounds, max_questions)
        self.last = "no question is left" if len(self.rounds) == len(rounds) else "--max-questions is reached"
        self._measures = {term.measure for condition in conditions for term in condition.terms}
        self._values = defaultdict(dict)
        self._next, self._earlier = 0, None

    def begin(self, store: Store) -> None:
        """Load the attempts that the runs have already, and record that the runs are followed.

        Raises:
            UserError: a run was followed in another order.
            StopRun: the store cannot be written.
        """
        earlier_record(store, self.runs, self.claim.text, self.seed)
        self.read(store)
        save_stop(store, self.record())

    def read(self, store: Store, *, failed: bool = False, count: bool = True) -> None:
        """Count the attempts that the runs have already. Failed attempts are made again, unless `failed` counts them
        too."""
        for run in self.runs:
            scores = {(score.question_id, score.epoch): score for score in store.scores(run, self.scorer)}
            attempt_keys = store.done(run) if failed else store.settled(run)
            for attempt in store.summaries(run):
                if (key := (attempt.question_id, attempt.epoch)) in attempt_keys:
                    self._take(run, attempt, scores.get(key))
        if count:
            self._count()

    def pilot(self, condition: FollowedCondition) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the values of a condition in complete rounds that were not counted, (rounds, epochs)."""
        rows = []
        for question_round in filter(self._complete, self.rounds):
            epochs = range(min(run.epochs for run in self.runs))
            bounds_by_epoch = [condition.worth(question_round, partial(self._epoch_value, epoch)) for epoch in epochs]
            rows += [[bounds[0] for bounds in bounds_by_epoch]] if all(bounds_by_epoch) else []
        return np.array(rows)

    def _epoch_value(self, epoch: int, measure: str, run: str, question: str) -> float | None:
        return self._values[run, question][epoch][measure]

    def observe(self, finished: FinishedAttempt) -> None:
        """Record an attempt that ended."""
        scorer_score = next((score for score in finished.scores if score.scorer == self.scorer), None)
        self._take(finished.run, finished.attempt, scorer_score)
        self._count()

    def reached(self) -> str:
        """Return the reason why no further question is to be started; empty to go on."""
        verdict = self.gate.verdict
        return "" if verdict == "UNDECIDED" else f"the gate says {verdict} after {self.gate.questions:,} questions"

    def _take(self, run: Run, attempt: Attempt, score: Score | None) -> None:
        values = {measure: _measured(measure, run, attempt, score) for measure in self._measures}
        self._values[run.id, attempt.question_id][attempt.epoch] = values


def _measured(measure: str, run: Run, attempt: Attempt, score: Score | None) -> float | None:
    """Return the contribution of an attempt to a measure; ``None`` if it is not known."""
    if measure in CLAIMED_COSTS:
        return attempt_cost(run, attempt, CLAIMED_COSTS[measure])
    if measure in ("accuracy", "score") and score is None and attempt.status == "completed":
        return None  # not scored, which is not the same as wrong
    return measured_value(measure, attempt.status, score)


def _check_questions(policy: Policy, scorer: str, questions: Sequence[Question]) -> None:
    """Raise UserError if the rules do not fit the questions or the scorer."""
    record, datasets = described(scorer), sorted({question.benchmark for question in questions})
    if not questions:
        raise UserError(f"No question is scored by {scorer}. Name another scorer in the policy.")
    for _, name, rule, claim in policy.rules:
        if rule.dataset and rule.dataset not in datasets:
            suggestion = nearest(rule.dataset, datasets)
            raise UserError(
                f"The rule {name!r}: no question is of {rule.dataset!r}.{suggestion} There: {', '.join(datasets)}."
            )
        check_measures(claim, scorer)
        score_measures = {term.measure for condition in claim.conditions for term in condition.terms} & {
            "accuracy",
            "score",
        }
        if score_measures and (record.ratio or record.unit != "percent"):
            raise UserError(
                f"The rule {name!r}: {scorer} is no mean of values between 0 and 1, so no interval of it stays valid "
                "while it is watched. Use `ragrounds compare --assert`, or name another scorer."
            )
