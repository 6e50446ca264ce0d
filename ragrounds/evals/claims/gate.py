"""A release gate: rules in tiers as one TOML file, and the verdict that is made of them after every question.

    [runs]                                   # name in the rules → agent, or stored run
    new = "vanilla_rag[top_k=8]"
    old = "direct"

    [critical]
    "not worse" = "accuracy(new) - accuracy(old) > -5%"
    [supporting]
    "answers" = "refused(new) < 10%"
    [advisory]
    "cheap" = { claim = "cost(new) < 0.01", most = 0.1 }

A rule is a claim (:mod:`ragrounds.evals.claims.claims`) without a level: the policy's `error` is for all of them. Each
condition of a rule is followed by two one-sided tests that are valid at any number of questions
(:mod:`ragrounds.evals.stats.one_sided`): it *holds* at the error `error`, it *fails* at `error / k` with k conditions
in the critical and supporting rules.

**GO** where all critical rules hold. It is wrong only if some critical rule is false, and then that one had to be shown
to hold: at most `error`, without a correction (an intersection-union test). **NO-GO** where a critical rule fails, or
more than half of the supporting ones. It is wrong only if one of these k was shown to fail that does not: at most
k × error / k (Bonferroni). Whatever is true, only one of the two can be wrong. Advisory rules decide nothing.

A value that is not known (a judge that failed, a call without a price) counts as the worst when it is asked whether a
rule holds and as the best when it is asked whether it fails. So what is missing never decides.
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
    BOUNDED_MEASURES,
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

Tier = Literal["critical", "supporting", "advisory"]
Verdict = Literal["GO", "NO-GO", "UNDECIDED"]
TIERS: tuple[Tier, ...] = get_args(Tier)
_FURTHEST = 100
"""How many times the questions so far a decision is looked for."""


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim of a policy, in a file a text where it says nothing else."""

    claim: str
    """Its runs are names of the policy."""
    dataset: str = ""
    """Only its questions; empty: the unweighted mean over datasets, as in tables."""
    most: Annotated[float, Meta(gt=0, lt=1e300)] | None = None
    """Of a cost: what a question counts as at most."""


Rules = dict[str, str | Rule]


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must be shown before something is released."""

    runs: Annotated[dict[str, Annotated[str, Meta(min_length=1)]], Meta(min_length=1)]
    """Name → an agent's text, or a stored run."""
    critical: Annotated[Rules, Meta(min_length=1)]
    supporting: Rules = {}
    advisory: Rules = {}
    error: Annotated[float, Meta(gt=0, lt=0.5)] = 0.05
    seed: Annotated[int, Meta(ge=-(2**62), le=2**62)] = 0
    """Of the order in which questions are asked and counted."""
    scorer: str = ""
    run: dict[str, Any] | None = None
    """Arguments of :func:`ragrounds.run`; ``None``: the runs are stored ones."""

    @property
    def rules(self) -> Iterator[tuple[Tier, str, Rule, Claim]]:
        """Every rule with its tier, its name and its claim."""
        for tier in TIERS:
            for name, one in getattr(self, tier).items():
                rule = Rule(claim=one) if isinstance(one, str) else one
                yield tier, name, rule, parse_claim(rule.claim)

    @property
    def text(self) -> str:
        """What is kept with runs that it ended: the critical rules as one claim."""
        return " and ".join(claim.text for tier, _, _, claim in self.rules if tier == "critical")


def read_policy(text: str, name: str) -> Policy:
    """Read the text of a policy's file.

    Raises:
        UserError: no TOML, an unknown key, a rule that cannot be read or could never be shown, a run without a name.
    """
    where, known = f"The policy {name!r}", Policy.__struct_fields__
    try:
        raw = parse_toml(text)
        for key in raw:
            if key not in known:
                raise UserError(f"{where} has no key {key!r}.{nearest(key, known)} Its keys are {', '.join(known)}.")
        for key, held in (("runs", "a name for each agent"), ("critical", "a rule that must hold")):
            if raw.get(key, {}) == {}:
                raise UserError(f"{where} needs [{key}] with at least {held}: see docs/how-to/gate.md.")
        policy = msgspec.convert(raw, Policy)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UserError(f"{where}: {error}. See docs/how-to/gate.md.") from error
    if len(set(policy.runs.values())) < len(policy.runs):
        raise UserError(f"{where}: two names of [runs] mean the same run. Give it one name.")
    for tier in TIERS:
        for named, one in getattr(policy, tier).items():
            rule = Rule(claim=one) if isinstance(one, str) else one
            try:
                said = [_unfit(condition, rule, policy.runs) for condition in parse_claim(rule.claim).conditions]
            except UserError as error:
                said = [str(error)]
            if any(said):
                raise UserError(f"{where}: the {tier} rule {named!r}: {next(filter(None, said))}")
    return policy


def _unfit(condition: Condition, rule: Rule, runs: Mapping[str, str]) -> str:
    """Why a condition is none of a gate; empty: it is one."""
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
    least, span = _scale(condition, rule.most)
    if -least / span <= 1e-9 or -least / span >= 1 - 1e-9:
        return (
            "its limit is the end of what there can be, so no number of questions can show it; allow for some, such as "
            "failed(new) < 2%."
        )
    return ""


def _upwards(condition: Condition) -> Condition:
    """The same with "above 0" for its relation."""
    if condition.relation in (">", ">="):
        return condition
    terms = tuple(replace(term, factor=-term.factor) for term in condition.terms)
    return replace(condition, terms=terms, constant=-condition.constant, relation=">")


def _scale(condition: Condition, most: float | None) -> tuple[float, float]:
    """The least that the sum of a condition can be, upwards, and how much more it can be."""
    factors = [term.factor * (most or 1.0) for term in _upwards(condition).terms]
    return _upwards(condition).constant + sum(min(0.0, one) for one in factors), sum(map(abs, factors))


class FollowedCondition:
    """A condition of a rule, question by question; once it holds or fails, it stays."""

    def __init__(self, condition: Condition, rule: Rule, runs: Mapping[str, str], fails: float, holds: float) -> None:
        self._given, self._up, self._rule, self._ids = condition, _upwards(condition), rule, runs
        self._least, self._span = _scale(condition, rule.most)
        self.limit = -self._least / self._span
        self._errors = holds, fails
        self._above, self._below = OneSided(self.limit), OneSided(1 - self.limit)
        self._worst: list[float] = []
        self._best: list[float] = []
        self._missing = self._cut = 0
        self.decision: Decision = "undecided"

    def worth(self, drawn: QuestionRound, value: MeasureValue) -> list[float]:
        """The least and the most that a round may be worth, 0 to 1; empty: it has no question of the rule's dataset."""
        parts = [part for part in drawn.parts if self._rule.dataset in ("", part[0].benchmark)]
        sums = [[self._share(question.id, value) for question in part] for part in parts]
        self._missing += any(one is None for part in sums for one in part)
        ends = [[[end if one is None else one for one in part] for part in sums] for end in (0.0, 1.0)]
        means = [sum(sum(part) / len(part) for part in end) / len(end) for end in ends if end]
        return [min(1.0, max(0.0, mean)) for mean in means]

    def add(self, drawn: QuestionRound, value: MeasureValue) -> None:
        """Count a round."""
        if self.decision != "undecided" or not (found := self.worth(drawn, value)):
            return
        worst, best = found
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
        return (total - self._least) / self._span

    def share_of(self, effect: float) -> tuple[float, float, float]:
        """The share of a truth this far beyond the limit; that to which errors of a judge draw it; and the sum of the
        squares of what a verdict changes it by."""
        factors = [term.factor for term in self._up.terms]
        middle, squares = self._up.constant + sum(factors) / 2, sum(one**2 for one in factors)
        return (effect - self._least) / self._span, (middle - self._least) / self._span, squares / self._span**2

    def effect_of(self, share: float) -> float:
        """How far beyond the limit a share is, in the claim's units."""
        return self._least + self._span * share

    def _figure(self, share: float) -> float:
        """What was measured, in the claim's own units, where the values have this mean."""
        total = self._least + self._span * share
        shown = claimed_sum(self._given)
        return round(shown.figure(total if self._up is self._given else -total) or 0.0, 12) + 0.0

    @property
    def state(self) -> ConditionVerdict:
        """How it stands, with the interval of its two tests."""
        shown, n = claimed_sum(self._given), len(self._worst)
        verdict = ConditionVerdict(
            decision=self.decision,
            measured=shown.measured,
            claimed=shown.claimed,
            level=1 - sum(self._errors),
            questions=n,
            rounds=n,
            missing=self._missing,
            reason="; ".join(self._doubts()),
        )
        if not n:
            return verdict
        worst, best = np.array(self._worst), np.array(self._best)
        ends = lower_end(worst, reach(self._errors[0])), 1 - lower_end(1 - best, reach(self._errors[1]))
        low, high = sorted(map(self._figure, ends))
        return replace(verdict, value=self._figure(float((worst + best).mean() / 2)), low=low, high=high)

    def _doubts(self) -> Iterable[str]:
        if self._missing:
            yield f"{self._missing:,} not known: counted as the worst for holds, as the best for fails"
        if self._cut:
            yield f"{self._cut:,} values above most = {self._rule.most:g} count as it"
        if not self._worst and self._rule.dataset:
            yield f"no question of {self._rule.dataset} was counted"

    def wanted(self) -> int | None:
        """How many questions in all decide it, if the others are like those so far; ``None``: it is not near."""
        if not self._worst:
            return None
        most, worst, best = _FURTHEST * len(self._worst), np.array(self._worst), np.array(self._best)
        found = [
            questions_to(worst, self.limit, reach(self._errors[0]), most),
            questions_to(1 - best, 1 - self.limit, reach(self._errors[1]), most),
        ]
        known = [max(one, len(worst) + 1) for one in found if one is not None]
        return min(known) if known else None


class RuleVerdict(Struct, frozen=True, kw_only=True):
    """How a rule stands."""

    name: str
    tier: Tier
    dataset: str
    claim: ClaimVerdict
    needs: int | None
    """Of one that is not decided: questions in all that decide it, if they are like those so far; ``None``: more than
    a hundred times as many."""


class FollowedGate:
    """The rules of a policy, followed question by question.

    Args:
        policy: the rules.
        ids: name of the policy → the run's id.
    """

    def __init__(self, policy: Policy, ids: Mapping[str, str]) -> None:
        many = sum(len(claim.conditions) for tier, _, _, claim in policy.rules if tier != "advisory")
        self.rules = [
            (
                tier,
                name,
                rule,
                [
                    FollowedCondition(one, rule, ids, policy.error / (1 if tier == "advisory" else many), policy.error)
                    for one in claim.conditions
                ],
            )
            for tier, name, rule, claim in policy.rules
        ]
        self._text, self.questions = policy.text, 0

    def add(self, drawn: QuestionRound, value: MeasureValue) -> None:
        """Count the next round of questions."""
        for *_, conditions in self.rules:
            for one in conditions:
                one.add(drawn, value)
        self.questions += len(drawn.questions)

    def _stand(self, tier: Tier) -> list[Decision]:
        return [all_hold([one.decision for one in parts]) for mine, *_, parts in self.rules if mine == tier]

    @property
    def verdict(self) -> Verdict:
        """What is made of the rules so far."""
        critical, supporting = self._stand("critical"), self._stand("supporting")
        if "fails" in critical or 2 * supporting.count("fails") > len(supporting):
            return "NO-GO"
        return "GO" if all_hold(critical) == "holds" else "UNDECIDED"

    @property
    def decision(self) -> Decision:
        """The verdict as that of a claim."""
        made: dict[Verdict, Decision] = {"GO": "holds", "NO-GO": "fails", "UNDECIDED": "undecided"}
        return made[self.verdict]

    @property
    def state(self) -> ClaimVerdict:
        """The critical rules as one claim, as it is kept with the runs."""
        parts = [one.state for tier, *_, found in self.rules if tier == "critical" for one in found]
        return ClaimVerdict(claim=self._text, decision=self.decision, questions=self.questions, conditions=tuple(parts))

    def verdicts(self) -> Iterator[RuleVerdict]:
        """How every rule stands."""
        for tier, name, rule, parts in self.rules:
            decision = all_hold([one.decision for one in parts])
            needs = [one.wanted() for one in parts if one.decision == "undecided"] if decision == "undecided" else []
            yield RuleVerdict(
                name=name,
                tier=tier,
                dataset=rule.dataset,
                claim=ClaimVerdict(claim=rule.claim, decision=decision, conditions=tuple(one.state for one in parts)),
                needs=max(filter(None, needs), default=None) if all(needs) else None,
            )


class GateStop(ClaimStop):
    """Ends the runs of one replay when a gate's verdict is made; of stored runs :meth:`read` makes it.

    Args:
        policy: the rules.
        runs: name of the policy → the run.
        questions: the benchmark's.
        most: questions to count at most.

    Raises:
        UserError: a rule for a dataset that there is not, or of an accuracy that is none; a scorer that scores no
            question.
    """

    def __init__(self, policy: Policy, runs: Mapping[str, Run], questions: Iterable[Question], most: int | None = None):
        self.runs, self.seed, self.policy = tuple(runs.values()), policy.seed, policy
        self.gate = FollowedGate(policy, {name: run.id for name, run in runs.items()})
        self.claim = Claim(policy.text, ())
        self._live: Any = self.gate
        self._all, self._most = list(questions), most
        conditions = [one for *_, claim in policy.rules for one in claim.conditions]
        self.scorer = policy.scorer or headline_of(self._all)[0].scorer
        self._every = all(one.of_endings for one in conditions) and not policy.scorer
        known = described(self.scorer)
        usual = [one for one in self._all if self._every or scores_by_default(known, one)]
        asked = usual or [one for one in self._all if known.suits(one)]
        _check(policy, self.scorer, asked)
        rounds = draw_rounds(asked, self.seed)
        self.rounds = rounds if most is None else rounds_within(rounds, most)
        self.last = "no question is left" if len(self.rounds) == len(rounds) else "--max-questions is reached"
        self._measures = {term.measure for one in conditions for term in one.terms}
        self._held = defaultdict(dict)
        self._next, self._earlier = 0, None

    def begin(self, store: Store) -> None:
        """Take what the runs have already, and keep that they are followed.

        Raises:
            UserError: a run was followed in another order.
            StopRun: the store cannot be written.
        """
        earlier_record(store, self.runs, self.claim.text, self.seed)
        self.read(store)
        save_stop(store, self.record())

    def read(self, store: Store, *, failed: bool = False, count: bool = True) -> None:
        """Take what the runs have already; with `failed` attempts that failed, too, else they are made again."""
        for run in self.runs:
            scores = {(one.question_id, one.epoch): one for one in store.scores(run, self.scorer)}
            kept = store.done(run) if failed else store.settled(run)
            for attempt in store.summaries(run):
                if (key := (attempt.question_id, attempt.epoch)) in kept:
                    self._take(run, attempt, scores.get(key))
        if count:
            self._count()

    def pilot(self, condition: FollowedCondition) -> np.ndarray[Any, np.dtype[np.float64]]:
        """What a condition was worth in the rounds that are there and were not counted, (rounds, epochs)."""
        made = []
        for drawn in filter(self._complete, self.rounds):
            epochs = range(min(run.epochs for run in self.runs))
            each = [condition.worth(drawn, partial(self._of_epoch, epoch)) for epoch in epochs]
            made += [[one[0] for one in each]] if all(each) else []
        return np.array(made)

    def _of_epoch(self, epoch: int, measure: str, run: str, question: str) -> float | None:
        return self._held[run, question][epoch][measure]

    def observe(self, finished: FinishedAttempt) -> None:
        """Take an attempt that ended."""
        score = next((one for one in finished.scores if one.scorer == self.scorer), None)
        self._take(finished.run, finished.attempt, score)
        self._count()

    def reached(self) -> str:
        """Why no further question is to be begun; empty: go on."""
        verdict = self.gate.verdict
        return "" if verdict == "UNDECIDED" else f"the gate says {verdict} after {self.gate.questions:,} questions"

    def _take(self, run: Run, attempt: Attempt, score: Score | None) -> None:
        values = {measure: _measured(measure, run, attempt, score) for measure in self._measures}
        self._held[run.id, attempt.question_id][attempt.epoch] = values


def _measured(measure: str, run: Run, attempt: Attempt, score: Score | None) -> float | None:
    """What an attempt brings to a measure; ``None``: it is not known."""
    if measure in CLAIMED_COSTS:
        return attempt_cost(run, attempt, CLAIMED_COSTS[measure])
    if measure in ("accuracy", "score") and score is None and attempt.status == "completed":
        return None  # nobody scored it, which is not the same as wrong
    return measured_value(measure, attempt.status, score)


def _check(policy: Policy, scorer: str, asked: Sequence[Question]) -> None:
    """Check what only the questions say."""
    known, datasets = described(scorer), sorted({question.benchmark for question in asked})
    if not asked:
        raise UserError(f"No question is scored by {scorer}. Name another scorer in the policy.")
    for _, name, rule, claim in policy.rules:
        if rule.dataset and rule.dataset not in datasets:
            near = nearest(rule.dataset, datasets)
            raise UserError(
                f"The rule {name!r}: no question is of {rule.dataset!r}.{near} There: {', '.join(datasets)}."
            )
        check_measures(claim, scorer)
        named = {term.measure for one in claim.conditions for term in one.terms} & {"accuracy", "score"}
        if named and (known.ratio or known.unit != "percent"):
            raise UserError(
                f"The rule {name!r}: {scorer} is no mean of values between 0 and 1, so no interval of it stays valid "
                "while it is watched. Use `ragrounds compare --assert`, or name another scorer."
            )
