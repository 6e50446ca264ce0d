"""Facts on runs in progress, gathered once for every display: screen, plain line, JSON, notebook."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.records import OUTCOMES, outcome
from ragrounds.base.specs import without_addresses
from ragrounds.base.spent import Spent, total_spent
from ragrounds.evals.compare.figures import Figure, figure_so_far
from ragrounds.evals.engine.in_flight import LiveAttempt
from ragrounds.evals.engine.interrupts import times_asked
from ragrounds.evals.engine.progress import FaultCounts, ReplayProgress, RunProgress
from ragrounds.models.traffic import ServerTraffic, flows
from ragrounds.ui.agent_names import short_names
from ragrounds.ui.text import one_line, safe

_REST = 25.0
"""Pause after computing the figures, in multiples of the time it took: they use at most a twenty-fifth of one core."""
_PARTS = 24
"""Number of parts into which the time of the rate is divided, to show its trend."""
_LONGEST_REASON = 300
"""Characters of an error's message."""
_NAME = 40
"""Columns beyond which an agent's name is shortened."""


class AgentProgress(Struct, frozen=True, kw_only=True):
    """Progress of one agent's run."""

    run: str
    agent: str
    """Spec of the agent."""
    name: str
    """Name of the agent."""
    total: int
    done: int
    in_flight: int
    outcomes: dict[str, int]
    scorer: str
    average: float | None
    """Score so far: the table's `average`, or the score of the only dataset."""
    pooled: float | None
    pooled_yet: bool
    """True if `average` is still the mean over all questions, because a dataset has too few."""
    figure: Figure
    """Score with its interval over the questions scored so far; slightly older than the counts if a run is large."""
    dataset: str
    """Name of the only dataset; empty if there are several."""
    spent: Spent


class BudgetUse(Struct, frozen=True):
    """Part of the budget: ``dollars``, ``tokens`` or ``seconds``."""

    unit: str
    used: float | None
    """Amount used; ``None`` if unknown."""
    limit: float


class SeenFaults(Struct, frozen=True):
    """Faults by kind, the most frequent first, and the last message."""

    kinds: dict[str, int] = {}
    last: str = ""
    """Last message in one line; empty if nothing failed."""
    age: float | None = None
    """Seconds since the last fault."""


class LastResult(Struct, frozen=True):
    """Attempt that ended a moment ago."""

    run: str
    outcome: str
    value: float | None
    """Value by the scorer whose figure is live; ``None`` if not scored."""
    prediction: str
    seconds: float


class ProgressFacts(Struct, frozen=True, kw_only=True):
    """Snapshot of all figures that a display shows of some runs."""

    benchmark: str
    seconds: float
    """Seconds since the first question of this command could be asked."""
    rate: float
    """Attempts per second, over the last ones."""
    seconds_left: float | None
    agents: tuple[AgentProgress, ...]
    flying: tuple[LiveAttempt, ...]
    """Attempts of these runs in flight, in the order in which they began."""
    nodes: dict[str, int]
    """Node → attempts in flight that are there, most first."""
    failed: SeenFaults
    """Attempts that failed in this process."""
    retried: SeenFaults
    """Tries of calls that were repeated."""
    servers: tuple[ServerTraffic, ...]
    calls_made: int | None
    calls_reused: int | None
    """Calls answered from the journal; ``None`` if unknown."""
    budget: tuple[BudgetUse, ...]
    until: str
    """Progress of the claim that may end the runs; empty if not set."""
    asked_to_stop: int
    """Number of requests to stop. 1: attempts in flight are finished, no others begin; 2 or more: stop at once."""
    trend: tuple[int, ...] = ()
    """Attempts that ended in equal parts of the time of `rate`, the last part last."""
    recent: tuple[LastResult, ...] = ()
    """Last attempts that ended, the newest first."""

    @property
    def short_names(self) -> dict[str, str]:
        """Return the name of each agent for a screen, by run id."""
        return short_names({agent.run: safe(agent.name) for agent in self.agents}, _NAME)

    @property
    def done(self) -> int:
        """Number of finished attempts of all agents."""
        return sum(agent.done for agent in self.agents)

    @property
    def total(self) -> int:
        """Number of attempts of all agents, finished or not."""
        return sum(agent.total for agent in self.agents)

    @property
    def spent(self) -> Spent:
        """Sum of what all agents spent."""
        return total_spent(agent.spent for agent in self.agents)

    @property
    def outcomes(self) -> Counter[str]:
        """Number of attempts by outcome, of all agents."""
        counted: Counter[str] = Counter()
        for agent in self.agents:
            counted.update(agent.outcomes)
        return counted


def _seen_faults(counts: FaultCounts, now: float) -> SeenFaults:
    kinds = Counter({one_line(kind, 60): count for kind, count in dict(counts.kinds).items()})
    if counts.last is None:
        return SeenFaults()
    last_time, message = counts.last
    return SeenFaults(dict(kinds.most_common()), one_line(message, _LONGEST_REASON), max(0.0, now - last_time))


class ProgressGatherer:
    """Source of the facts on some runs, for a display. It may be used from the display's thread.

    Args:
        progress: the counts.
        clock: returns seconds of the monotonic clock.
    """

    def __init__(self, progress: ReplayProgress, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress, self._clock = progress, clock
        self._figures: dict[str, tuple[int, Figure]] = {}
        self._next_figures = 0.0

    def gather(self, last: bool = False) -> ProgressFacts:
        """Return the facts now. If `last`, figures are computed again, however long that takes."""
        progress, now = self._progress, self._clock()
        flying = [attempt for attempt in progress.in_flight() if attempt.run in progress.runs]
        self._compute_figures(now, last)
        by_run = Counter(attempt.run for attempt in flying)
        journal = progress.journal() if progress.journal is not None else (None, None)
        return ProgressFacts(
            benchmark=progress.benchmark,
            seconds=max(0.0, now - progress.started),
            rate=progress.rate,
            seconds_left=None if last else progress.seconds_left,
            agents=tuple(self._agent(id, run, by_run[id]) for id, run in progress.runs.items()),
            flying=tuple(flying),
            nodes=dict(Counter(attempt.node for attempt in flying if attempt.node).most_common()),
            failed=_seen_faults(progress.failed, now),
            retried=_seen_faults(progress.retried, now),
            servers=tuple(flows()),
            calls_made=journal[0],
            calls_reused=journal[1],
            budget=tuple(BudgetUse(*part) for part in (progress.budget.parts if progress.budget else ())),
            until=progress.live_claim(),
            asked_to_stop=times_asked(),
            trend=tuple(progress.trend(_PARTS)[0]),
            recent=tuple(map(self._result, reversed(list(progress.recent)))),
        )

    def _result(self, finished: FinishedAttempt) -> LastResult:
        attempt, live = finished.attempt, self._progress.runs[finished.run.id].score.scorer
        score = next((candidate for candidate in finished.scores if candidate.scorer == live), None)
        ended = outcome(attempt.status, score.answer_status if score else None)
        read, value = (score.prediction, score.value) if score else ("", None)
        return LastResult(attempt.run, ended, value, read, attempt.seconds)

    def _compute_figures(self, now: float, last: bool) -> None:
        """Compute the figures that have changed, unless they were computed a moment ago."""
        if now < self._next_figures and not last:
            return
        began = time.perf_counter()
        for id, run in self._progress.runs.items():
            counted = run.before + run.done
            if id not in self._figures or self._figures[id][0] != counted:
                self._figures[id] = counted, figure_so_far(run.score, run.epochs)
        self._next_figures = now + _REST * (time.perf_counter() - began)

    def _agent(self, id: str, run: RunProgress, in_flight: int) -> AgentProgress:
        outcomes = dict(run.outcomes)
        datasets = run.score.dataset_names
        return AgentProgress(
            run=id,
            agent=run.agent,
            name=self._progress.names.get(id) or without_addresses(run.agent),
            total=run.total,
            done=run.before + run.done,
            in_flight=in_flight,
            outcomes={name: outcomes[name] for name in OUTCOMES if outcomes.get(name)},
            scorer=run.score.scorer,
            average=run.score.average,
            pooled=run.score.pooled,
            pooled_yet=run.score.is_pooled and len(datasets) > 1,
            figure=self._figures[id][1],
            dataset=datasets[0] if len(datasets) == 1 else "",
            spent=run.spent,
        )


def facts_json(facts: ProgressFacts) -> dict[str, object]:
    """Return the facts as values that JSON can hold, without the current step of each attempt in flight."""
    counts: dict[str, object] = to_builtins(replace(facts, flying=(), agents=(), recent=()))
    del counts["flying"], counts["agents"], counts["recent"]
    runs: dict[str, dict[str, object]] = {agent.run: to_builtins(agent) for agent in facts.agents}
    for agent in facts.agents:
        del runs[agent.run]["spent"]
        spent = agent.spent.without_answer if agent.spent.unanswered else agent.spent
        runs[agent.run] |= {name: getattr(spent, name) for name in ("tokens", "cost_paid", "cost_uncached")}
    longest = max((time.time() - attempt.started_at for attempt in facts.flying), default=None)
    return counts | {"in_flight": len(facts.flying), "longest": longest, "runs": runs}
