"""What the rest of a run will take, from the attempts that it has: calls, tokens, dollars, time.

Those to come are taken to be like those that are there; a pilot is drawn at random so that they are. The interval is
for the *sum* of the attempts to come, not for their mean: it holds both what is not known of the mean and how the
attempts themselves vary (Student's t). What is not known of one attempt is not known of the sum, and never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from ragrounds.evals.benchmarks.benchmark import lot
from ragrounds.evals.engine.strands import FINAL, Strand
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Question, Reply, Run, Usage

PILOT = 8
"""Questions that a pilot asks. They are a part of the run: nothing is asked twice."""
LEVEL = 0.95


class Projected(Struct, frozen=True, kw_only=True):
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
    calls: Projected
    tokens: Projected | None
    """In and out; ``None``: not known."""
    cost: Projected | None
    """Dollars uncached: as if nothing were in the journal. ``None``: some call has no known price."""
    seconds: Projected
    """Of the attempts, one after the other."""


class Projection(Struct, frozen=True, kw_only=True):
    """What is left of all runs together."""

    agents: tuple[AgentProjection, ...]
    in_flight: int
    calls: Projected
    tokens: Projected | None
    cost: Projected | None
    seconds: Projected
    """Of the clock, with `in_flight` attempts at a time."""


def project(seen: Sequence[float], more: int) -> Projected:
    """The sum of `more` values like those seen, one or more; none of them is below 0."""
    n, mean = len(seen), math.fsum(seen) / len(seen)
    if n < 2:
        return Projected(value=more * mean, low=None, high=None)
    from scipy.special import stdtrit

    variance = math.fsum((value - mean) ** 2 for value in seen) / (n - 1)
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * math.sqrt(variance * (more + more * more / n))
    return Projected(value=more * mean, low=max(0.0, more * mean - half), high=more * mean + half)


def projection(
    store: Store, strands: Sequence[Strand], questions: Sequence[Question], in_flight: int
) -> Projection | None:
    """What the questions still to be asked will take; ``None``: a run has no attempt yet to go by."""
    agents = []
    for strand in strands:
        seen = [one for one in store.summaries(strand.run) if one.status in FINAL]
        if not seen:
            return None
        agents.append(_agent(strand.run, seen, left(store, strand.run, questions)))
    clock = _together([agent.seconds for agent in agents])
    at_once = max(1, min(in_flight, sum(agent.attempts for agent in agents)))
    return Projection(
        agents=tuple(agents),
        in_flight=at_once,
        calls=_together([agent.calls for agent in agents]),
        tokens=_known([agent.tokens for agent in agents]),
        cost=_known([agent.cost for agent in agents]),
        seconds=Projected(
            value=clock.value / at_once,
            low=None if clock.low is None else clock.low / at_once,
            high=None if clock.high is None else clock.high / at_once,
        ),
    )


def pilot(
    store: Store, strands: Sequence[Strand], questions: Sequence[Question], seed: int | None
) -> tuple[Question, ...] | None:
    """The questions to ask first: as many as are missing to `PILOT` that every run has answered. ``None``: there are
    hardly more to ask than a pilot has, and nothing is worth projecting.

    Args:
        store: where the runs are.
        strands: the runs.
        questions: all that are asked.
        seed: draws them; ``None``: the first ones, of an order that was drawn already.
    """
    done = [store.done(strand.run) for strand in strands]
    answered = {question.id for question in questions if all(kept.get((question.id, 0)) in FINAL for kept in done)}
    if len(questions) - len(answered) <= 2 * PILOT:
        return None
    drawn = questions if seed is None else sorted(questions, key=lambda question: lot(seed, question.id))
    return tuple([question for question in drawn if question.id not in answered][: max(0, PILOT - len(answered))])


def left(store: Store, run: Run, questions: Sequence[Question]) -> int:
    """Attempts of a run that are still to be made at these questions."""
    done = store.done(run)
    return sum(done.get((question.id, epoch)) not in FINAL for question in questions for epoch in range(run.epochs))


def priced(strands: Sequence[Strand]) -> bool | None:
    """Whether any model costs money; ``None``: no model is known to, and the price of one is not known."""
    probe = Reply(text="", usage=Usage(1000, 1000), busy=1.0)
    prices = [model.price(probe) for strand in strands for model in strand.models.values()]
    if any(price for price in prices):
        return True
    own = any(not strand.models for strand in strands)  # graphs that bring models of their own
    return None if own or None in prices else False


def _agent(run: Run, seen: Sequence[Attempt], more: int) -> AgentProjection:
    def summed(read: Callable[[Attempt], float | None]) -> Projected | None:
        known = [value for value in map(read, seen) if value is not None]
        return project(known, more) if len(known) == len(seen) else None

    return AgentProjection(
        run=run.id,
        agent=run.agent,
        attempts=more,
        seen=len(seen),
        calls=project([one.calls for one in seen], more),
        tokens=summed(lambda one: one.usage.input + one.usage.output if one.usage else None),
        cost=summed(lambda one: one.cost_uncached),
        seconds=project([one.seconds for one in seen], more),
    )


def _together(parts: Sequence[Projected]) -> Projected:
    """A sum over agents. They meet the same questions, so what is dear for one tends to be for all: the ends of the
    intervals are added."""
    lows = [part.low for part in parts if part.low is not None]
    highs = [part.high for part in parts if part.high is not None]
    whole = len(lows) == len(parts)
    return Projected(
        value=math.fsum(part.value for part in parts),
        low=math.fsum(lows) if whole else None,
        high=math.fsum(highs) if whole else None,
    )


def _known(parts: Sequence[Projected | None]) -> Projected | None:
    known = [part for part in parts if part is not None]
    return _together(known) if len(known) == len(parts) else None
