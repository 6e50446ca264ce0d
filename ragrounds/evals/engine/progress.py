"""Progress of a replay, and a projection of the rest: calls, tokens, dollars, time.

Attempts to come are assumed to be like those that exist; a pilot is sampled at random to make that true. The interval
is for the *sum* of the attempts to come, not for their mean: it includes both the uncertainty of the mean and the
variation of the attempts themselves (Student's t). If a figure of one attempt is not known, the sum is not known
either, and never 0.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from msgspec import Struct

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.records import FINAL, Attempt, AttemptKey, Question, Reply, Run, Score, Usage, outcome
from ragrounds.base.specs import without_addresses
from ragrounds.base.spent import Spent, total_spent
from ragrounds.evals.engine.attempt_log import CALL_HAD_FAILED, repeats
from ragrounds.evals.engine.budget import BudgetStop
from ragrounds.evals.engine.in_flight import IN_FLIGHT, LiveAttempt
from ragrounds.evals.engine.live_score import LiveScore
from ragrounds.evals.engine.plan import PlannedRun, models_of
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls, retried_faults

_ENOUGH = 8
"""Minimal number of attempts that ended before the remaining time is estimated."""
_RECENT = 500
"""Number of most recent attempts whose ends determine the rate."""

FinishedAttempts = Mapping[str, Sequence[Attempt]]
"""Run id → attempts with a final status, without text and events."""


@dataclass
class RunProgress:
    """Counts of one run: all attempts that it has, whichever process made them."""

    agent: str
    total: int
    """Number of attempts that the run has in all."""
    score: LiveScore = field(default_factory=lambda: LiveScore(()))
    epochs: int = 1
    before: int = 0
    """Number of attempts that were done before this process began."""
    done: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    spent: Spent = field(default_factory=Spent)

    def count(self, attempt: Attempt, scores: Sequence[Score]) -> None:
        """Count an attempt with its scores."""
        self.spent = total_spent((self.spent, attempt.spent))
        live_score = None
        for score in scores:
            if score.scorer == self.score.scorer:
                live_score = score
        shown_score = live_score or next(iter(scores), None)
        self.outcomes[outcome(attempt.status, shown_score.answer_status if shown_score else None)] += 1
        self.score.add(attempt, live_score)


@dataclass
class FaultCounts:
    """Faults by their kind, and the last of them."""

    kinds: Counter[str] = field(default_factory=Counter)
    last: tuple[float, str] | None = None
    """Time of the last fault, in seconds of the monotonic clock, and its message."""

    def add(self, kind: str, message: str) -> None:
        """Count one fault."""
        self.kinds[kind] += 1
        self.last = (time.monotonic(), message)


class ReplayProgress:
    """Counts of all runs of one replay, with the attempts of earlier processes.

    Args:
        store: where the runs are.
        planned_runs: the runs.
        finished: their attempts that are not made again.
        scorer: whose figure is live; empty: the headline's.
        questions: the questions that are asked; ``None``: all of the runs'.
    """

    def __init__(
        self,
        store: Store,
        planned_runs: Sequence[PlannedRun],
        finished: FinishedAttempts,
        scorer: str = "",
        questions: Sequence[Question] | None = None,
    ) -> None:
        self.started = time.monotonic()
        self.runs: dict[str, RunProgress] = {}
        self.live_claim: Callable[[], str] = str
        """Function that describes the state of the claim that may end the runs; empty if no claim is tested."""
        self.names: Mapping[str, str] = {}
        """Map from a run's id to its name in tables, if that is not its agent."""
        self.benchmark = ""
        self.in_flight: Callable[[], Sequence[LiveAttempt]] = IN_FLIGHT.attempts
        """Function that returns the attempts in flight in this process, of these runs and of others."""
        self.journal: Callable[[], tuple[int, int]] | None = None
        """Function that returns the numbers of model calls that were made and that were answered from the journal;
        ``None``: not known here.
        """
        self.budget: BudgetStop | None = None
        """Budget of this command, with the amounts that are used."""
        self.failed = FaultCounts()
        """Attempts that failed in this process."""
        self.retried = FaultCounts()
        """Tries of calls that gave no reply and were repeated, in the attempts that this process has ended."""
        self.recent: deque[FinishedAttempt] = deque(maxlen=5)
        """Last attempts that ended."""
        self._ends: deque[float] = deque(maxlen=_RECENT)
        # A counterfactual asks a part of the questions, and may have other parts from before.
        asked = None if questions is None else {question.id for question in questions}
        done = dict[str, Sequence[Attempt]]()
        for run in (planned.run for planned in planned_runs):
            done[run.id] = [attempt for attempt in finished[run.id] if asked is None or attempt.question_id in asked]
            total = (run.count if asked is None else len(asked)) * run.epochs
            self.runs[run.id] = RunProgress(run.agent, total, epochs=run.epochs, before=len(done[run.id]))
        for run in (planned.run for planned in planned_runs if self.left):  # else no figures are shown
            counts = self.runs[run.id]
            counts.score = LiveScore(*store.questions(run), scorer)
            scores: dict[AttemptKey, list[Score]] = {}
            for score in store.scores(run, counts.score.scorer) if counts.before and counts.score.scorer else ():
                scores.setdefault(score.key, []).append(score)
            for attempt in done[run.id]:
                counts.count(attempt, scores.get(attempt.key, ()))

    def observe(self, finished: FinishedAttempt) -> None:
        """Count a finished attempt."""
        counts = self.runs[finished.run.id]
        counts.done += 1
        counts.count(finished.attempt, finished.scores)
        self._ends.append(time.monotonic())
        self.recent.append(finished)
        made_calls = list(calls(finished.attempt.events))
        if finished.attempt.status == "failed":
            # The fault of a call that failed (`rate_limit`): a user's system raises its client's error, whose name says
            # less. Otherwise the name of an error of its graph (`ValueError`).
            reason = finished.attempt.reason
            own_reason = reason.partition(CALL_HAD_FAILED)[0]
            failed_calls = [call for call in made_calls if call.faults and call.error]
            call_faults = [call.faults[-1].kind for call in failed_calls if repeats(own_reason, call.error)]
            kind = (call_faults or [reason.partition(":")[0]])[-1]
            self.failed.add(kind if kind.isidentifier() else "other", reason)
        for call in made_calls:
            for fault in retried_faults(call):
                self.retried.add(fault.kind, f"{fault.kind}: {fault.message}")

    def begin(self) -> None:
        """Count the time from now on, without planning and opening."""
        if not self._ends:
            self.started = time.monotonic()

    @property
    def done(self) -> int:
        """Number of attempts that ended in this process."""
        return sum(run.done for run in self.runs.values())

    @property
    def left(self) -> int:
        """Number of attempts still to be made."""
        return sum(run.total - run.before - run.done for run in self.runs.values())

    @property
    def rate(self) -> float:
        """Attempts per second, among the most recent ones, so that a server that gets slower is noticed."""
        trend, seconds = self.trend(1)
        return (trend[0] - (len(self._ends) == _RECENT)) / seconds if trend[0] else 0.0

    def trend(self, parts: int) -> tuple[list[int], float]:
        """Count the most recent attempts that ended in each of `parts` equal parts of time. The second value is the
        length of one part in seconds.
        """
        ends, now = list(self._ends), time.monotonic()
        # The time since the last end counts, so that the rate of a stalled run falls.
        since = ends[0] if len(ends) == _RECENT else self.started
        size = max(now - since, 1e-6) / parts
        counted = Counter(min(parts - 1, max(0, int((end - since) / size))) for end in ends)
        return [counted[part] for part in range(parts)], size

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds that remain, at the rate of the most recent attempts; ``None`` until enough have ended.

        The first attempts of each place in flight end at about the same time: their rate is too low before, too high
        after.
        """
        is_known = self.done >= max(_ENOUGH, 2 * len(self.in_flight()))
        return self.left / self.rate if is_known else None


PILOT = 8
"""Number of questions in a pilot. They are a part of the run: nothing is asked twice."""
LEVEL = 0.95
BOUND = 0.85
"""Share of a core above which the processor limits the pace."""


class ProjectedSum(Struct, frozen=True, kw_only=True):
    """Projected sum over the attempts to come."""

    value: float
    low: float | None
    """Lower end of the 95 % interval; ``None`` if it is based on a single attempt."""
    high: float | None


class AgentProjection(Struct, frozen=True, kw_only=True):
    """Projection of the remaining attempts of one run."""

    run: str
    name: str
    """The agent's name if it has one, else its text without addresses."""
    attempts: int
    """Number of attempts still to be made."""
    seen: int
    """Number of attempts on which the projection is based. Time is that of this process's alone, if it has any."""
    model_calls: ProjectedSum
    searches: ProjectedSum
    tokens: ProjectedSum | None
    """Tokens in and out; ``None`` if not known."""
    cost: ProjectedSum | None
    """Dollars uncached, as if the journal were empty. ``None`` if the price of some call is not known."""
    seconds: ProjectedSum
    """Sum of the durations of the attempts."""


class Projection(Struct, frozen=True, kw_only=True):
    """Projection of the remaining attempts of all runs together."""

    agents: tuple[AgentProjection, ...]
    in_flight: int
    model_calls: ProjectedSum
    searches: ProjectedSum
    tokens: ProjectedSum | None
    cost: ProjectedSum | None
    seconds: ProjectedSum
    """Wall-clock seconds, with `in_flight` attempts at a time."""
    repeated: int | None = None
    """Questions of each agent whose last call is made again at the end, if the user gave a number. They are in no sum.
    """
    processor: float | None = None
    """Share of one core that this process used while the attempts were made; ``None`` if other processes make attempts
    too.
    """

    @property
    def processor_bound(self) -> bool:
        """True if the processor limits the pace, and not the servers: more attempts in flight would then change
        nothing.
        """
        return self.processor is not None and self.processor > BOUND


def project(seen: Sequence[float], more: int) -> ProjectedSum:
    """Project the sum of `more` values like those seen, which are one or more; none of them is below 0."""
    n, mean = len(seen), math.fsum(seen) / len(seen)
    if n < 2:
        return ProjectedSum(value=more * mean, low=None, high=None)
    from scipy.special import stdtrit

    variance = math.fsum((value - mean) ** 2 for value in seen) / (n - 1)
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * math.sqrt(variance * (more + more * more / n))
    return ProjectedSum(value=more * mean, low=max(0.0, more * mean - half), high=more * mean + half)


def finished_attempts(store: Store, planned_runs: Sequence[PlannedRun]) -> dict[str, list[Attempt]]:
    """Read the attempts of some runs that are not made again."""
    return {
        planned.run.id: [attempt for attempt in store.summaries(planned.run, True) if attempt.status in FINAL]
        for planned in planned_runs
    }


def projection(
    planned_runs: Sequence[PlannedRun],
    finished: FinishedAttempts,
    questions: Sequence[Question],
    in_flight: int,
    processor: float | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
    own: FinishedAttempts = MappingProxyType({}),
) -> Projection | None:
    """Project the cost of the questions still to be asked; ``None`` if a run has no finished attempt yet.

    `names` has the names that users gave to runs, by run id. `own` has the attempts of this process, `finished` the
    earlier ones.

    Time is based on attempts of this process, if it has any: earlier ones may have had another number in flight, and
    another server. Of these, on attempts that began once the allowed number were in flight, if there are enough. The
    first attempts wait for connections, and do not yet wait for each other.
    """
    agents, n_first = [], in_flight // len(planned_runs)
    for planned in planned_runs:
        run, added = planned.run, own.get(planned.run.id, ())
        seen = [*finished[run.id], *added]
        if not seen:
            return None
        timed = sorted(added or seen, key=lambda attempt: attempt.at)
        steady = timed[n_first:] if len(timed) >= n_first + PILOT else timed
        done = {attempt.key for attempt in seen}
        left = sum((question.id, epoch) not in done for question in questions for epoch in range(run.epochs))
        agents.append(_agent(run, names.get(run.id) or without_addresses(run.agent), seen, steady, left))
    clock = _total([agent.seconds for agent in agents])
    at_once = max(1, min(in_flight, sum(agent.attempts for agent in agents)))
    return Projection(
        agents=tuple(agents),
        in_flight=at_once,
        model_calls=_total([agent.model_calls for agent in agents]),
        searches=_total([agent.searches for agent in agents]),
        tokens=_known_total([agent.tokens for agent in agents]),
        cost=_known_total([agent.cost for agent in agents]),
        seconds=ProjectedSum(
            value=clock.value / at_once,
            low=None if clock.low is None else clock.low / at_once,
            high=None if clock.high is None else clock.high / at_once,
        ),
        processor=processor,
    )


def pilot_questions(finished: FinishedAttempts, questions: Sequence[Question]) -> tuple[Question, ...] | None:
    """Choose the questions to ask first: as many as are missing until every run has answered `PILOT` questions.

    ``None`` if so few questions are left that a projection is not worthwhile.

    Args:
        finished: finished attempts of each run.
        questions: all that are asked, in random order.
    """
    done = [{attempt.key for attempt in attempts} for attempts in finished.values()]
    answered = {question.id for question in questions if all((question.id, 0) in keys for keys in done)}
    if len(questions) - len(answered) <= 2 * PILOT:
        return None
    return tuple([question for question in questions if question.id not in answered][: max(0, PILOT - len(answered))])


def costs_money(planned_runs: Sequence[PlannedRun]) -> bool | None:
    """Return True if any model costs money; ``None`` if no model is known to, and the price of one is not known."""
    probe = Reply(text="", usage=Usage(1000, 1000), busy=1.0)
    prices = [model.price(probe) for model in models_of(planned_runs)]
    if any(price for price in prices):
        return True
    has_own_models = any(not planned.models for planned in planned_runs)  # graphs with their own models
    return None if has_own_models or None in prices else False


def _agent(run: Run, name: str, seen: Sequence[Attempt], steady: Sequence[Attempt], more: int) -> AgentProjection:
    def summed(read: Callable[[Attempt], float | None]) -> ProjectedSum | None:
        """Project a sum; ``None`` if a part of it is unknown."""
        values = [value for value in map(read, seen) if value is not None]
        return project(values, more) if len(values) == len(seen) else None

    return AgentProjection(
        run=run.id,
        name=name,
        attempts=more,
        seen=len(seen),
        model_calls=project([attempt.model_calls for attempt in seen], more),
        searches=project([attempt.searches for attempt in seen], more),
        tokens=summed(lambda attempt: attempt.spent.tokens),
        cost=summed(lambda attempt: attempt.cost_uncached),
        seconds=project([attempt.seconds for attempt in steady], more),
    )


def _total(parts: Sequence[ProjectedSum]) -> ProjectedSum:
    """Return a sum over agents. They answer the same questions, so a question that is expensive for one agent tends to
    be so for all: the ends of the intervals are added.
    """
    lows = [part.low for part in parts if part.low is not None]
    highs = [part.high for part in parts if part.high is not None]
    has_interval = len(lows) == len(parts)
    return ProjectedSum(
        value=math.fsum(part.value for part in parts),
        low=math.fsum(lows) if has_interval else None,
        high=math.fsum(highs) if has_interval else None,
    )


def _known_total(parts: Sequence[ProjectedSum | None]) -> ProjectedSum | None:
    known_parts = [part for part in parts if part is not None]
    return _total(known_parts) if len(known_parts) == len(parts) else None
