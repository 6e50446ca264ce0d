"""What is known of a run while it is made, gathered once for every display: screen, plain line, JSON, notebook."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.records import OUTCOMES, outcome
from ragrounds.evals.compare.figures import Figure, figure_so_far
from ragrounds.evals.engine.in_flight import LiveAttempt
from ragrounds.evals.engine.interrupts import times_asked
from ragrounds.evals.engine.progress import FaultCounts, ReplayProgress, RunProgress
from ragrounds.models.traffic import ServerTraffic, flows
from ragrounds.ui.text import one_line

_REST = 25.0
"""Times that computing the figures takes, until they are computed again: they cost a twenty-fifth of one core."""
_PARTS = 24
"""Of the time of the rate, by which its trend is seen."""
_LONGEST_REASON = 300
"""Characters of an error's message."""


class AgentProgress(Struct, frozen=True, kw_only=True):
    """How far the run of one agent is."""

    run: str
    agent: str
    """The agent's text."""
    name: str
    """What it is called."""
    total: int
    done: int
    in_flight: int
    outcomes: dict[str, int]
    scorer: str
    average: float | None
    """The score so far: what the table calls `average`, or by the name of the one dataset."""
    pooled: float | None
    pooled_yet: bool
    """Whether `average` is still that of all questions alike: some dataset has too few."""
    figure: Figure
    """The same with its interval, over the questions scored so far; computed a moment ago where a run is large."""
    dataset: str
    """The one dataset; empty: there are several."""
    tokens: int
    cost_paid: float | None
    cost_uncached: float | None


class BudgetUse(Struct, frozen=True):
    """A part of the budget: ``dollars``, ``tokens`` or ``seconds``."""

    unit: str
    used: float | None
    """``None``: not known."""
    limit: float


class SeenFaults(Struct, frozen=True):
    """Faults by their kind, most frequent first, and the last of them."""

    kinds: dict[str, int] = {}
    last: str = ""
    """In one line; empty: there is none."""
    age: float | None = None
    """Seconds since then."""


class LastResult(Struct, frozen=True):
    """An attempt that ended a moment ago."""

    run: str
    question_id: str
    outcome: str
    value: float | None
    """By the scorer whose figure is live; ``None``: none."""
    prediction: str
    seconds: float


class ProgressFacts(Struct, frozen=True, kw_only=True):
    """Everything that a display shows of some runs at one moment."""

    benchmark: str
    seconds: float
    """Since the first question of this command could be asked."""
    rate: float
    """Attempts a second, of the last ones."""
    seconds_left: float | None
    agents: tuple[AgentProgress, ...]
    flying: tuple[LiveAttempt, ...]
    """Attempts of these runs in flight, in the order in which they began."""
    nodes: dict[str, int]
    """Node → attempts in flight that are there, most first."""
    failed: SeenFaults
    """Attempts that failed in this process."""
    retried: SeenFaults
    """Tries of calls that were made again."""
    servers: tuple[ServerTraffic, ...]
    calls_made: int | None
    calls_reused: int | None
    """Calls answered from the journal; ``None``: not known here."""
    budget: tuple[BudgetUse, ...]
    until: str
    """How the claim stands that may end the runs; empty: there is none."""
    asked_to_stop: int
    """0; 1: what is in flight is finished and nothing else begun; 2 or more: it stops at once."""
    trend: tuple[int, ...] = ()
    """Attempts that ended in equal parts of the time of `rate`, the last part last."""
    recent: tuple[LastResult, ...] = ()
    """The last that ended, the last one first."""

    @property
    def done(self) -> int:
        """Attempts that are made, of all agents."""
        return sum(agent.done for agent in self.agents)

    @property
    def total(self) -> int:
        """Attempts that there are to make, of all agents."""
        return sum(agent.total for agent in self.agents)

    @property
    def cost_paid(self) -> float | None:
        """Dollars really paid, of all agents; ``None``: not known."""
        return _sum([agent.cost_paid for agent in self.agents])

    @property
    def cost_uncached(self) -> float | None:
        """Dollars as if nothing were in the journal, of all agents; ``None``: not known."""
        return _sum([agent.cost_uncached for agent in self.agents])

    @property
    def outcomes(self) -> Counter[str]:
        """How attempts ended, of all agents."""
        counted: Counter[str] = Counter()
        for agent in self.agents:
            counted.update(agent.outcomes)
        return counted


def _seen(counts: FaultCounts, now: float) -> SeenFaults:
    kinds = Counter({one_line(kind, 60): count for kind, count in dict(counts.kinds).items()})
    if counts.last is None:
        return SeenFaults()
    at, said = counts.last
    return SeenFaults(dict(kinds.most_common()), one_line(said, _LONGEST_REASON), max(0.0, now - at))


def _sum(costs: list[float | None]) -> float | None:
    return None if None in costs else sum(cost or 0.0 for cost in costs)


class ProgressGatherer:
    """Gathers the facts of some runs as often as a display wants them; safe to use from the display's own thread.

    Args:
        progress: the counts.
        clock: gives seconds, of the monotonic clock.
    """

    def __init__(self, progress: ReplayProgress, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress, self._clock = progress, clock
        self._figures: dict[str, tuple[int, Figure]] = {}
        self._next_figures = 0.0

    def gather(self, last: bool = False) -> ProgressFacts:
        """The facts now; the `last` ones have figures of this moment, however long they take."""
        progress, now = self._progress, self._clock()
        flying = [one for one in progress.in_flight() if one.run in progress.runs]
        self._compute_figures(now, last)
        by_run = Counter(one.run for one in flying)
        journal = progress.journal() if progress.journal is not None else (None, None)
        return ProgressFacts(
            benchmark=progress.benchmark,
            seconds=max(0.0, now - progress.started),
            rate=progress.rate,
            seconds_left=progress.seconds_left,
            agents=tuple(self._agent(id, run, by_run[id]) for id, run in progress.runs.items()),
            flying=tuple(flying),
            nodes=dict(Counter(one.node or "-" for one in flying).most_common()),
            failed=_seen(progress.failed, now),
            retried=_seen(progress.retried, now),
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
        score = next((one for one in finished.scores if one.scorer == live), None)
        ended = outcome(attempt.status, score.answer_status if score else None)
        read, value = (score.prediction, score.value) if score else ("", None)
        return LastResult(attempt.run, attempt.question_id, ended, value, read, attempt.seconds)

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
            name=self._progress.names.get(id) or run.agent,
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
            tokens=run.tokens,
            cost_paid=run.cost_paid,
            cost_uncached=run.cost_uncached,
        )


def facts_json(facts: ProgressFacts) -> dict[str, object]:
    """The facts as values that JSON can hold, without what each attempt in flight is at."""
    shown: dict[str, object] = to_builtins(replace(facts, flying=(), agents=(), recent=()))
    del shown["flying"], shown["agents"], shown["recent"]
    runs = {agent.run: to_builtins(agent) for agent in facts.agents}
    longest = max((time.time() - one.at for one in facts.flying), default=None)
    return shown | {"in_flight": len(facts.flying), "longest": longest, "runs": runs}
