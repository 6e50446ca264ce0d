"""How far a replay has come, and what the rest of it will take: calls, tokens, dollars, time.

Attempts to come are taken to be like those that are there; a pilot is drawn at random so that they are. The interval is
for the *sum* of the attempts to come, not for their mean: it holds both what is not known of the mean and how the
attempts themselves vary (Student's t). What is not known of one attempt is not known of the sum, and never 0.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.records import FINAL, Attempt, Question, Reply, Run, Score, Usage, outcome
from ragrounds.evals.benchmarks.benchmark import lot
from ragrounds.evals.engine.attempt_log import plus
from ragrounds.evals.engine.budget import BudgetStop
from ragrounds.evals.engine.in_flight import IN_FLIGHT, LiveAttempt
from ragrounds.evals.engine.live_score import LiveScore
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls

_RECENT = 500
"""Attempts whose ends make the rate."""


@dataclass
class RunProgress:
    """One run's counts: all attempts that it has, whichever process made them."""

    agent: str
    total: int
    """Attempts that the run has in all."""
    score: LiveScore = field(default_factory=lambda: LiveScore(()))
    epochs: int = 1
    before: int = 0
    """Attempts that were done before this process began."""
    done: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    cost_paid: float | None = 0.0
    cost_uncached: float | None = 0.0
    tokens: int = 0

    def count(self, attempt: Attempt, scores: Sequence[Score]) -> None:
        """Count an attempt with its scores."""
        self.cost_paid = plus(self.cost_paid, attempt.cost_paid)
        self.cost_uncached = plus(self.cost_uncached, attempt.cost_uncached)
        self.tokens += (attempt.usage.input + attempt.usage.output) if attempt.usage else 0
        found = next((one for one in scores if one.scorer == self.score.scorer), None)
        read = found or next(iter(scores), None)
        self.outcomes[outcome(attempt.status, read.answer_status if read else None)] += 1
        self.score.add(attempt, found)


@dataclass
class FaultCounts:
    """Faults by their kind, and the last of them."""

    kinds: Counter[str] = field(default_factory=Counter)
    last: tuple[float, str] | None = None
    """When it was, in seconds of the monotonic clock, and what was said."""

    def add(self, kind: str, said: str) -> None:
        """Count one."""
        self.kinds[kind] += 1
        self.last = (time.monotonic(), said)


def _fault_of(attempt: Attempt) -> str:
    """The kind of fault that an attempt failed by: that of its call (``rate_limit``), the name of an error of its graph
    (``ValueError``), or ``other``."""
    kind = attempt.reason.partition(":")[0]
    return kind if kind.isidentifier() else "other"


class ReplayProgress:
    """The counts of all runs of one replay. What earlier processes made is counted from the store.

    Args:
        store: where the runs are.
        planned_runs: the runs.
        scorer: whose figure is live; empty: the headline's.
    """

    def __init__(
        self,
        store: Store,
        planned_runs: Sequence[PlannedRun],
        scorer: str = "",
    ) -> None:
        self.started = time.monotonic()
        self.runs: dict[str, RunProgress] = {}
        self.live_claim: Callable[[], str] = str
        """Says how the claim that may end the runs stands; empty: there is none."""
        self.names: Mapping[str, str] = {}
        """Run id → what it is called in tables, where that is not its agent."""
        self.benchmark = ""
        self.in_flight: Callable[[], Sequence[LiveAttempt]] = IN_FLIGHT.attempts
        """Gives the attempts in flight in this process, of these runs and of others."""
        self.journal: Callable[[], tuple[int, int]] | None = None
        """Gives the model calls that were made, and those answered from the journal; ``None``: not known here."""
        self.budget: BudgetStop | None = None
        """What this command may use, with what it has used."""
        self.failed = FaultCounts()
        """Attempts that failed in this process."""
        self.retried = FaultCounts()
        """Tries of calls that gave no reply and were made again, of the attempts that this process has ended."""
        self.recent: deque[FinishedAttempt] = deque(maxlen=5)
        """The last that ended."""
        self._ends: deque[float] = deque(maxlen=_RECENT)
        done = {planned.run.id: store.settled(planned.run) for planned in planned_runs}
        for planned in planned_runs:
            run = planned.run
            self.runs[run.id] = RunProgress(
                run.agent, run.count * run.epochs, epochs=run.epochs, before=len(done[run.id])
            )
        for planned in planned_runs if self.left else ():  # where nothing is left, nobody looks at figures on the way
            self._count_kept(store, planned.run, done[planned.run.id], scorer)

    def _count_kept(self, store: Store, run: Run, done: Container[tuple[str, int]], scorer: str) -> None:
        """Count the attempts that a run has already."""
        counts = self.runs[run.id]
        counts.score = LiveScore(*store.questions(run), scorer)
        scores: dict[tuple[str, int], list[Score]] = {}
        for score in store.scores(run, counts.score.scorer) if counts.before and counts.score.scorer else ():
            scores.setdefault((score.question_id, score.epoch), []).append(score)
        for attempt in store.summaries(run):
            if (key := (attempt.question_id, attempt.epoch)) in done:
                counts.count(attempt, scores.get(key, ()))

    def observe(self, finished: FinishedAttempt) -> None:
        """Count a finished attempt."""
        counts = self.runs[finished.run.id]
        counts.done += 1
        counts.count(finished.attempt, finished.scores)
        self._ends.append(time.monotonic())
        self.recent.append(finished)
        if finished.attempt.status == "failed":
            who = self.names.get(finished.run.id) or finished.run.agent.partition("[")[0]
            kind = _fault_of(finished.attempt) + (f" ({who})" if len(self.runs) > 1 else "")
            self.failed.add(kind, finished.attempt.reason)
        for call in calls(finished.attempt.events):
            # The last try of a call without a reply is what the attempt failed by.
            for fault in call.faults[: len(call.faults) - bool(call.error)]:
                self.retried.add(fault.kind, f"{fault.kind}: {fault.message}")

    def begin(self) -> None:
        """Count the time from now on: what was planned and opened before is no work at attempts."""
        if not self._ends:
            self.started = time.monotonic()

    @property
    def done(self) -> int:
        """Attempts that ended in this process."""
        return sum(run.done for run in self.runs.values())

    @property
    def left(self) -> int:
        """Attempts still to be made."""
        return sum(run.total - run.before - run.done for run in self.runs.values())

    @property
    def rate(self) -> float:
        """Attempts a second, of the last ones that ended: a server that gets slower is seen."""
        trend, seconds = self.trend(1)
        return (trend[0] - (len(self._ends) == _RECENT)) / seconds if trend[0] else 0.0

    def trend(self, parts: int) -> tuple[list[int], float]:
        """How many of the last attempts ended in each of so many equal parts of time, and the seconds of one part."""
        ends, now = list(self._ends), time.monotonic()
        # The moment since the last end counts, so that the rate of a run that stands still falls.
        since = ends[0] if len(ends) == _RECENT else self.started
        size = max(now - since, 1e-6) / parts
        counted = Counter(min(parts - 1, max(0, int((end - since) / size))) for end in ends)
        return [counted[part] for part in range(parts)], size

    @property
    def seconds_left(self) -> float | None:
        """At the rate of the last attempts; ``None`` before the first."""
        return self.left / self.rate if self.done else None


PILOT = 8
"""Questions that a pilot asks. They are a part of the run: nothing is asked twice."""
LEVEL = 0.95
BOUND = 0.85
"""Share of a core from which on the processor sets the pace."""


class ProjectedSum(Struct, frozen=True, kw_only=True):
    """A sum over what is to come."""

    value: float
    low: float | None
    """95 % interval; ``None``: from a single attempt there is none."""
    high: float | None


class AgentProjection(Struct, frozen=True, kw_only=True):
    """What is left of one run."""

    run: str
    agent: str
    attempts: int
    """Still to be made."""
    seen: int
    """Attempts that this is from."""
    model_calls: ProjectedSum
    searches: ProjectedSum
    tokens: ProjectedSum | None
    """In and out; ``None``: not known."""
    cost: ProjectedSum | None
    """Dollars uncached: as if nothing were in the journal. ``None``: some call has no known price."""
    seconds: ProjectedSum
    """Of the attempts, one after the other."""


class Projection(Struct, frozen=True, kw_only=True):
    """What is left of all runs together."""

    agents: tuple[AgentProjection, ...]
    in_flight: int
    model_calls: ProjectedSum
    searches: ProjectedSum
    tokens: ProjectedSum | None
    cost: ProjectedSum | None
    seconds: ProjectedSum
    """Of the clock, with `in_flight` attempts at a time."""
    processor: float | None = None
    """Share of one core that this process took while the attempts were made; ``None``: it does not make them alone."""

    @property
    def processor_bound(self) -> bool:
        """Whether the processor sets the pace, and not the servers: then more in flight changes nothing."""
        return self.processor is not None and self.processor > BOUND


def project(seen: Sequence[float], more: int) -> ProjectedSum:
    """Project the sum of `more` values like those seen, one or more; none of them is below 0."""
    n, mean = len(seen), math.fsum(seen) / len(seen)
    if n < 2:
        return ProjectedSum(value=more * mean, low=None, high=None)
    from scipy.special import stdtrit

    variance = math.fsum((value - mean) ** 2 for value in seen) / (n - 1)
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * math.sqrt(variance * (more + more * more / n))
    return ProjectedSum(value=more * mean, low=max(0.0, more * mean - half), high=more * mean + half)


def projection(
    store: Store,
    planned_runs: Sequence[PlannedRun],
    questions: Sequence[Question],
    in_flight: int,
    processor: float | None = None,
) -> Projection | None:
    """Project what the questions still to be asked will take; ``None``: a run has no attempt yet to go by.

    Time is that of attempts which began once as many were in flight as may be, where there are enough: the first ones
    wait for connections, and do not yet wait for each other.
    """
    agents, first = [], in_flight // len(planned_runs)
    for planned in planned_runs:
        seen = sorted((one for one in store.summaries(planned.run) if one.status in FINAL), key=lambda one: one.at)
        if not seen:
            return None
        steady = seen[first:] if len(seen) >= first + PILOT else seen
        agents.append(_agent(planned.run, seen, steady, attempts_left(store, planned.run, questions)))
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


def pilot_questions(
    store: Store, planned_runs: Sequence[PlannedRun], questions: Sequence[Question], seed: int | None
) -> tuple[Question, ...] | None:
    """Choose the questions to ask first: as many as are missing to `PILOT` that every run has answered. ``None``: there
    are hardly more to ask than a pilot has, and nothing is worth projecting.

    Args:
        store: where the runs are.
        planned_runs: the runs.
        questions: all that are asked.
        seed: draws them; ``None``: the first ones, of an order that was drawn already.
    """
    done = [store.settled(planned.run) for planned in planned_runs]
    answered = {question.id for question in questions if all((question.id, 0) in kept for kept in done)}
    if len(questions) - len(answered) <= 2 * PILOT:
        return None
    drawn = questions if seed is None else sorted(questions, key=lambda question: lot(seed, question.id))
    return tuple([question for question in drawn if question.id not in answered][: max(0, PILOT - len(answered))])


def attempts_left(store: Store, run: Run, questions: Sequence[Question]) -> int:
    """Count the attempts of a run that are still to be made at these questions."""
    done = store.settled(run)
    return sum((question.id, epoch) not in done for question in questions for epoch in range(run.epochs))


def costs_money(planned_runs: Sequence[PlannedRun]) -> bool | None:
    """Say whether any model costs money; ``None``: no model is known to, and the price of one is not known."""
    probe = Reply(text="", usage=Usage(1000, 1000), busy=1.0)
    prices = [model.price(probe) for planned in planned_runs for model in planned.all_models]
    if any(price for price in prices):
        return True
    own = any(not planned.models for planned in planned_runs)  # graphs that bring models of their own
    return None if own or None in prices else False


def _agent(run: Run, seen: Sequence[Attempt], steady: Sequence[Attempt], more: int) -> AgentProjection:
    def summed(read: Callable[[Attempt], float | None]) -> ProjectedSum | None:
        """Project a sum; ``None``: a part of it is unknown."""
        known = [value for value in map(read, seen) if value is not None]
        return project(known, more) if len(known) == len(seen) else None

    return AgentProjection(
        run=run.id,
        agent=run.agent,
        attempts=more,
        seen=len(seen),
        model_calls=project([one.model_calls for one in seen], more),
        searches=project([one.searches for one in seen], more),
        tokens=summed(lambda one: one.usage.input + one.usage.output if one.usage else None),
        cost=summed(lambda one: one.cost_uncached),
        seconds=project([one.seconds for one in steady], more),
    )


def _total(parts: Sequence[ProjectedSum]) -> ProjectedSum:
    """A sum over agents. They meet the same questions, so what is dear for one tends to be for all: the ends of the
    intervals are added."""
    lows = [part.low for part in parts if part.low is not None]
    highs = [part.high for part in parts if part.high is not None]
    whole = len(lows) == len(parts)
    return ProjectedSum(
        value=math.fsum(part.value for part in parts),
        low=math.fsum(lows) if whole else None,
        high=math.fsum(highs) if whole else None,
    )


def _known_total(parts: Sequence[ProjectedSum | None]) -> ProjectedSum | None:
    known = [part for part in parts if part is not None]
    return _total(known) if len(known) == len(parts) else None
