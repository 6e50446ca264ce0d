"""Release gate: rules in tiers as one TOML file, and the verdict on them after every question or on stored runs.

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
Each condition of a rule has two one-sided tests: it *holds* at the error `error`, it *fails* at `error / k` with k
conditions in the critical and supporting rules. While runs are made, the tests are valid at any number of questions
(:mod:`ragrounds.extensions.gate.one_sided`). Stored runs are tested once, on all their answers, by the intervals of the
tables; the order of questions has no influence. Both weigh questions as the tables do.

**GO** if all critical rules hold. GO is wrong only if some critical rule is false and was still shown to hold. The
chance of that is at most `error`, without a correction (an intersection-union test). **NO-GO** if a critical rule
fails, or more than half of the supporting rules. NO-GO is wrong only if one of the k conditions was shown to fail
although it holds. The chance of that is at most k × error / k (Bonferroni). Only one of the two verdicts can be wrong
for any given truth. Advisory rules decide nothing.

An unknown value (a judge that failed, a call without a price, an answer that was not made) counts as the worst in the
test that a rule holds and as the best in the test that it fails. So missing values never decide.

The error is shared out among all tests on the same answers (:mod:`ragrounds.extensions.gate.counted_tests`).
"""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from ragrounds.base.digests import text_digest
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Attempt, Question, Run, Score
from ragrounds.base.text import parse_toml
from ragrounds.evals.claims.assertions import FEWEST, estimate_sum
from ragrounds.evals.claims.claims import (
    Claim,
    Condition,
    MeasureValue,
    all_hold,
    cancels,
    check_rules,
    claimed_sum,
    parse_claim,
)
from ragrounds.evals.claims.sequential_stop import ClaimStop, earlier_record, save_stop
from ragrounds.evals.compare.figures import outcomes_in, table_mean
from ragrounds.evals.compare.frontier import CLAIMED_COSTS, attempt_cost
from ragrounds.evals.compare.stopped_runs import ClaimVerdict, ConditionVerdict, Decision, StopRecord
from ragrounds.evals.engine.question_order import QuestionRound, cluster_rounds, draw_rounds, rounds_within
from ragrounds.evals.scorers import described, headline_of, questions_of
from ragrounds.evals.stats import Estimate
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.filter_fields import BOUNDED_MEASURES
from ragrounds.extensions.gate.counted_tests import error_share, number_of_test
from ragrounds.extensions.gate.one_sided import OneSided, lower_end, questions_to, reach

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
    """Seed of the order in which questions are asked and counted. It has no influence on stored runs."""
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
    """Condition of a rule, followed question by question or tested once. Once it holds or fails, this stays."""

    def __init__(self, condition: Condition, rule: Rule, runs: Mapping[str, str], fails: float, holds: float) -> None:
        self._original, self._up, self._rule, self._ids = condition, _upwards(condition), rule, runs
        self._lowest, self._span = _scale(condition, rule.most)
        self.limit = -self._lowest / self._span
        self._errors = holds, fails
        self._above, self._below = OneSided(self.limit), OneSided(1 - self.limit)
        self._draws: list[tuple[float, float, float]] = []
        """Lowest value, highest value and weight of each round."""
        self._questions: list[Question] = []
        self._shares: list[float | None] = []
        """Value of each question, 0 to 1; ``None`` if it is not known."""
        self._tested: tuple[float, float] | None = None
        """Lower and upper end of a single test, 0 to 1; ``None`` if every round is tested."""
        self._cut = 0
        self.decision: Decision = "undecided"

    def worth(self, question_round: QuestionRound, value: MeasureValue) -> tuple[float, float, float] | None:
        """Return the lowest and the highest value of a round and its weight, 0 to 1; ``None`` if it has no question of
        the rule's dataset."""
        questions = self._of_dataset(question_round.questions)
        shares = {question.id: self._share(question.id, value) for question in questions}
        self._questions += questions
        self._shares += shares.values()
        worst = question_round.weigh(lambda question: shares[question.id] or 0.0, self._rule.dataset)
        unknown = question_round.weigh(lambda question: float(shares[question.id] is None), self._rule.dataset)
        return None if worst is None or unknown is None else (worst[0], worst[0] + unknown[0], worst[1])

    def _of_dataset(self, questions: Iterable[Question]) -> list[Question]:
        return [question for question in questions if self._rule.dataset in ("", question.benchmark)]

    def add(self, question_round: QuestionRound, value: MeasureValue) -> None:
        """Count a round."""
        if self.decision != "undecided" or (draw := self.worth(question_round, value)) is None:
            return
        self._draws.append(draw)
        worst, best, weight = draw
        holds = self._above.add(worst, weight) >= reach(self._errors[0])
        fails = self._below.add(weight - best, weight) >= reach(self._errors[1])
        self.decision = "holds" if holds else "fails" if fails else "undecided"

    def test(self, questions: Sequence[Question], value: MeasureValue, scorer: str, epochs: int) -> None:
        """Test all answers once by the interval of the tables.

        Costs are tested by betting, which holds for any distribution, and so are answers that are too few, too similar
        or in too few clusters for that interval.

        Args:
            questions: all questions of the runs.
            value: function that returns the value of a question.
            scorer: scorer of the scores.
            epochs: number of epochs of the runs.
        """
        questions = self._of_dataset(questions)
        if not questions:
            return
        self._draws = list(filter(None, (self.worth(cluster, value) for cluster in cluster_rounds(questions))))
        low, high = self._betting_ends()
        # A cluster of more than a tenth of the weight alone can move the figure further than the interval is wide.
        if self._rule.most is None and self._columns()[2].sum() >= FEWEST:
            # Shares of few questions change in steps: without half a step the errors are up to 1.9 times as large.
            step = max(abs(term.factor) for term in self._up.terms) / (2 * len(questions))
            ends = [self._table_interval(questions, value, scorer, epochs, end) for end in (0, 1)]
            if ends[0].low is not None and ends[1].high is not None:
                low = max(0.0, (ends[0].low - step) / self._span + self.limit)
                high = min(1.0, (ends[1].high + step) / self._span + self.limit)
        self._tested = low, high
        self.decision = "holds" if low > self.limit else "fails" if high < self.limit else "undecided"

    def _table_interval(
        self, questions: Sequence[Question], value: MeasureValue, scorer: str, epochs: int, end: int
    ) -> Estimate:
        """Return the interval of the tables with unknown values at the lower end (0) or the upper end (1)."""
        columns = []
        for term in self._up.terms:
            unknown = float((term.factor > 0) == bool(end))
            numbers = [value(term.measure, self._ids[term.run], question.id) for question in questions]
            columns.append([unknown if number is None else number for number in numbers])
        attempts, level = outcomes_in(described(scorer), epochs), 1 - 2 * self._errors[end]
        return estimate_sum(self._up, questions, columns, attempts=attempts, bounded=True, level=level)

    def _share(self, question: str, value: MeasureValue) -> float | None:
        total = self._up.constant
        for term in self._up.terms:
            number = value(term.measure, self._ids[term.run], question)
            if number is None:
                return None
            if self._rule.most is not None and number > self._rule.most:
                self._cut, number = self._cut + 1, self._rule.most
            total += term.factor * number
        return min(1.0, max(0.0, (total - self._lowest) / self._span))

    def _figure(self, share: float) -> float:
        """Return the measured figure in the claim's units if the values have this mean."""
        total = self._lowest + self._span * share
        claimed = claimed_sum(self._original)
        return round(claimed.figure(total if self._up is self._original else -total) or 0.0, 12) + 0.0

    def _columns(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        worst, best, weights = np.array(self._draws).T
        return worst, best, weights

    def _betting_ends(self) -> tuple[float, float]:
        """Return the lower and the upper end of the means that neither test by betting excludes."""
        worst, best, weights = self._columns()
        holds, fails = map(reach, self._errors)
        return lower_end(worst, holds, weights), 1 - lower_end(weights - best, fails, weights)

    @property
    def state(self) -> ConditionVerdict:
        """Verdict on the condition, with the interval of its two tests."""
        claimed = claimed_sum(self._original)
        verdict = ConditionVerdict(
            decision=self.decision,
            measured=claimed.measured,
            claimed=claimed.claimed,
            level=1 - sum(self._errors),
            questions=len(self._questions),
            rounds=len(self._draws),
            missing=self._shares.count(None),
            reason="; ".join(self._doubts()),
        )
        if not self._draws:
            return verdict
        pairs = list(zip(self._questions, self._shares, strict=True))
        known_shares = [(question, share) for question, share in pairs if share is not None]
        mean = table_mean(*zip(*(known_shares or [(question, 0.5) for question, _ in pairs]), strict=True))
        ends = self._tested or self._betting_ends()
        low, high = sorted(map(self._figure, (min(ends[0], mean), max(ends[1], mean))))
        return replace(verdict, value=self._figure(mean), low=low, high=high)

    def _doubts(self) -> Iterable[str]:
        if missing := self._shares.count(None):
            yield f"{missing:,} not known: counted as the worst for holds, as the best for fails"
        if self._cut:
            yield f"{self._cut:,} values above most = {self._rule.most:g} count as it"
        if not self._draws and self._rule.dataset:
            yield f"no question of {self._rule.dataset} was counted"

    def questions_needed(self) -> int | None:
        """Return the total number of questions that decide it, if further ones are like those so far; ``None`` if out
        of reach."""
        if not self._draws:
            return None
        n, (worst, best, weights) = len(self._draws), self._columns()
        predicted = [
            questions_to(worst, self.limit, reach(self._errors[0]), _HORIZON * n, weights),
            questions_to(weights - best, 1 - self.limit, reach(self._errors[1]), _HORIZON * n, weights),
        ]
        counts = [max(count, n + 1) for count in predicted if count is not None]
        return math.ceil(min(counts) * len(self._questions) / n) if counts else None


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
        error: error of its tests; by default that of the policy.
    """

    def __init__(self, policy: Policy, ids: Mapping[str, str], error: float | None = None) -> None:
        self.error = policy.error if error is None else error
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
                        self.error / (1 if tier == "advisory" else condition_count),
                        self.error,
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

    def test(self, questions: Sequence[Question], value: MeasureValue, scorer: str, epochs: int) -> None:
        """Test all answers once."""
        for *_, conditions in self.rules:
            for condition in conditions:
                condition.test(questions, value, scorer, epochs)
        self.questions = len(questions)

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
    """Stop rule that ends the runs of one replay when a gate reaches its verdict. For stored runs use :meth:`test`.

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
        self._ids = {name: run.id for name, run in runs.items()}
        self._set_number(1)
        self.claim = Claim(policy.text, ())
        self._all, self._max_questions = list(questions), max_questions
        conditions = [condition for *_, claim in policy.rules for condition in claim.conditions]
        self.scorer = policy.scorer or headline_of(self._all)[0].scorer
        self._every = all(condition.of_endings for condition in conditions) and not policy.scorer
        self.applicable = self._all if self._every else questions_of(described(self.scorer), self._all)
        """Questions that the scorer scores."""
        rules = [(name, rule.dataset, claim) for _, name, rule, claim in policy.rules]
        check_rules(rules, self.scorer, self.applicable)
        rounds = draw_rounds(self.applicable, self.seed)
        self.rounds = rounds if max_questions is None else rounds_within(rounds, max_questions)
        self.last = "no question is left" if len(self.rounds) == len(rounds) else "--max-questions is reached"
        self._measures = {term.measure for condition in conditions for term in condition.terms}
        self._values = defaultdict(dict)
        self._next, self._earlier = 0, None
        self._test = ""

    def _set_number(self, number: int) -> None:
        """Begin a gate with the share of the error that test `number` on these answers has."""
        self.number = number
        self.gate = FollowedGate(self.policy, self._ids, self.policy.error * error_share(number))
        self._live: Any = self.gate

    def begin(self, store: Store) -> None:
        """Load the attempts that the runs have already, and record that the runs are followed.

        Raises:
            UserError: a run was followed in another order.
            StopRun: the store cannot be written.
        """
        earlier_record(store, self.runs, self.claim.text, self.seed)
        self._count_test(store, str(self.seed))
        self.read(store)
        save_stop(store, self.record())

    def test(self, store: Store) -> None:
        """Test all answers of stored runs once, and record it. Failed attempts are not made again.

        Raises:
            StopRun: the store cannot be written.
        """
        self.read(store, failed=True, count=False)
        deciding = [claim for tier, _, _, claim in self.policy.rules if tier != "advisory"]
        measures = sorted({term.measure for claim in deciding for part in claim.conditions for term in part.terms})
        answers = [
            (key, epoch, [values[measure] for measure in measures])
            for key, epochs in sorted(self._values.items())
            for epoch, values in sorted(epochs.items())
        ]
        self._count_test(store, msgspec.json.encode(answers).decode())
        self.gate.test(self.applicable, self._value, self.scorer, min(run.epochs for run in self.runs))
        record = replace(self.record(), fixed=True, seed=0)
        # Verdicts of one policy on different answers have different claims in the store, so that all are kept.
        claim = f"gate {self._test}"
        store.write_stop(record.runs, claim, record.seed, msgspec.msgpack.encode(record))

    def record(self, reason: str = "") -> StopRecord:
        """Return the record of the policy's test that is kept with its runs."""
        return replace(super().record(reason), test=self._test, number=self.number)

    def _count_test(self, store: Store, order_or_answers: str) -> None:
        """Set the number of this test among those on the same answers; the same test keeps its number."""
        rules = [(tier, rule, claim.text) for tier, _, rule, claim in self.policy.rules if tier != "advisory"]
        content = self.policy.error, sorted(self._ids.items()), self.scorer, rules
        self._test = text_digest(msgspec.json.encode(content).decode(), order_or_answers)
        self._set_number(number_of_test(store, self.runs, self._test))

    def reached(self) -> str:
        """Return the reason why no further question is to be started; empty to go on."""
        verdict = self.gate.verdict
        return "" if verdict == "UNDECIDED" else f"the gate says {verdict} after {self.gate.questions:,} questions"

    def _measured(self, measure: str, run: Run, attempt: Attempt, score: Score | None) -> float | None:
        """Return the contribution of an attempt to a measure; ``None`` if it is not known."""
        if measure in CLAIMED_COSTS:
            return attempt_cost(run, attempt, CLAIMED_COSTS[measure])
        if measure in ("accuracy", "score") and score is None and attempt.status == "completed":
            return None  # not scored, which is not the same as wrong
        return super()._measured(measure, run, attempt, score)
