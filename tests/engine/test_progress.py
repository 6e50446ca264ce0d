"""What the rest of a run will take: by hand, and from stored attempts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.records import Attempt, Call, Called, Fault, Reply
from ragrounds.evals.engine.in_flight import IN_FLIGHT
from ragrounds.evals.engine.progress import (
    PILOT,
    ReplayProgress,
    RunProgress,
    costs_money,
    finished_attempts,
    pilot_questions,
    project,
    projection,
)
from ragrounds.evals.engine.replayed_runs import ReplayedRuns
from ragrounds.evals.engine.scheduler import replay
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from tests.engine.conftest import planned
from tests.engine.doubles import ScriptedModel, questions


def test_a_sum_by_hand() -> None:
    # Four values, mean 2, variance 2/3 (n - 1); t(3, 97.5 %) = 3.182446; 12 more: sqrt(2/3 · (12 + 144/4)) = sqrt(32).
    found = project([1.0, 2.0, 2.0, 3.0], 12)
    assert found.value == 24.0
    assert found.low == pytest.approx(24 - 3.182446 * math.sqrt(32), abs=1e-4)
    assert found.high == pytest.approx(24 + 3.182446 * math.sqrt(32), abs=1e-4)
    assert project([5.0], 3).low is None
    assert project([5.0, 5.0], 3).high == 15.0
    assert project([0.0, 10.0], 1).low == 0.0


def test_the_interval_holds_the_sum_as_often_as_it_says() -> None:
    generator = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        seen, more = generator.normal(10, 3, PILOT), generator.normal(10, 3, 100)
        found = project(seen.tolist(), 100)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= more.sum() <= found.high
    assert 0.92 <= held / 400 <= 0.98


async def test_what_is_left_of_two_agents(store: Store) -> None:
    asked, golds = questions(40)
    cheap, dear = ScriptedModel(cost=0.01), ScriptedModel(cost=0.03, spec="test:dear")
    planned_runs = [
        planned(store, "direct", asked, golds, cheap),
        planned(store, "direct_cot", asked, golds, dear, epochs=2),
    ]
    assert projection(planned_runs, finished_attempts(store, planned_runs), asked, 4) is None
    first = pilot_questions(finished_attempts(store, planned_runs), asked)
    assert first == tuple(asked[:PILOT])
    await replay(ReplayedRuns(store, StoreJournal(store), planned_runs, scorers_for), first, golds)
    assert pilot_questions(finished_attempts(store, planned_runs), asked) == ()  # they are a part of the run
    names = {planned_runs[1].run.id: "Ward app"}
    found = projection(planned_runs, finished_attempts(store, planned_runs), asked, 4, names=names)
    assert found is not None
    assert [one.name for one in found.agents] == ["direct", "Ward app"]
    assert [(one.attempts, one.seen) for one in found.agents] == [(32, 8), (64, 16)]
    assert found.cost is not None
    assert found.cost.value == pytest.approx(32 * 0.01 + 64 * 0.03)
    assert found.cost.high == pytest.approx(found.cost.value)
    assert (found.model_calls.value, found.searches.value) == (96, 0)
    assert found.tokens is not None
    assert found.tokens.value == 96 * 15
    assert found.seconds.value == pytest.approx(sum(one.seconds.value for one in found.agents) / 4)


async def test_what_is_not_known_is_not_nothing(store: Store) -> None:
    asked, golds = questions(40)
    known = planned(store, "direct", asked, golds, ScriptedModel())
    unknown = ScriptedModel(say=lambda request: Reply(text="A"), cost=None, spec="test:unknown")
    other = planned(store, "direct_cot", asked, golds, unknown)
    await replay(ReplayedRuns(store, StoreJournal(store), [known, other], scorers_for), asked[:3], golds)
    found = projection([known, other], finished_attempts(store, [known, other]), asked, 4)
    assert found is not None
    assert (found.agents[1].cost, found.agents[1].tokens) == (None, None)
    assert (found.cost, found.tokens) == (None, None)
    assert found.agents[0].cost is not None


def test_time_is_that_of_attempts_that_met_a_full_house(store: Store) -> None:
    asked, golds = questions(100)
    one = planned(store, "direct", asked, golds, ScriptedModel())
    made = [
        Attempt(run=one.run.id, question_id=question.id, epoch=0, status="completed", text="A", at=at, seconds=seconds)
        for at, (question, seconds) in enumerate(zip(asked, [9.0] * 4 + [1.0] * PILOT, strict=False))
    ]
    store.add_attempts(one.run, made)
    found = projection([one], finished_attempts(store, [one]), asked, 4, processor=0.9)
    assert found is not None
    assert found.seconds.value == (100 - 4 - PILOT) / 4
    assert found.processor_bound
    few = projection([one], finished_attempts(store, [one]), asked, 8)
    assert few is not None
    assert few.seconds.value == pytest.approx((4 * 9 + PILOT) / (4 + PILOT) * (100 - 4 - PILOT) / 8)
    assert not few.processor_bound
    resumed = projection([one], {one.run.id: made[:4]}, asked, 4, own={one.run.id: made[4:]})
    assert resumed is not None
    assert resumed.agents[0].seen == 4 + PILOT
    assert resumed.seconds.value == (100 - 4 - PILOT) / 4, "an earlier process had another pace"


def test_a_few_questions_are_not_worth_a_pilot(store: Store) -> None:
    asked, golds = questions(2 * PILOT)
    assert pilot_questions(finished_attempts(store, [planned(store, "direct", asked, golds)]), asked) is None


def test_which_models_cost_money(store: Store) -> None:
    asked, golds = questions(1)
    free = planned(store, "direct", asked, golds, ScriptedModel(cost=0.0))
    paid = planned(store, "direct_cot", asked, golds, ScriptedModel(cost=0.1))
    unknown = planned(store, "cot_refine", asked, golds, ScriptedModel(cost=None))
    assert costs_money([free]) is False
    assert costs_money([free, unknown]) is None
    assert costs_money([free, unknown, paid]) is True


def test_the_time_left_is_estimated_once_every_place_in_flight_has_ended_two_attempts(store: Store) -> None:
    progress = ReplayProgress(store, [], {})
    counts = progress.runs["run"] = RunProgress("direct", 100)
    progress.in_flight = lambda: [IN_FLIGHT] * 16  # type: ignore[list-item]
    for done, is_known in ((0, False), (1, False), (31, False), (32, True)):
        counts.done = done
        progress._ends.extend([progress.started + 1.0] * (done - len(progress._ends)))
        assert (progress.seconds_left is not None) == is_known, done


def test_a_users_system_failed_for_the_reason_of_its_call(store: Store) -> None:
    run = planned(store, "direct", *questions(1), ScriptedModel()).run
    progress = ReplayProgress(store, [], {})
    progress.runs[run.id] = RunProgress("direct", 2)
    fault = Fault(kind="server", message="500: out of memory", status=500)
    call = Call(key="k", kind="model", role="", node="", actor="", at=0, seconds=1, faults=(fault,), error="500")
    for events in ((Called(step=0, call=call),), ()):
        reason = "OpenAIAPIError: Error code: 500"
        attempt = Attempt(
            run=run.id, question_id="q/1", epoch=0, status="failed", text="", reason=reason, events=events
        )
        progress.observe(FinishedAttempt(run, attempt, ()))
    assert progress.failed.kinds == {"server": 1, "OpenAIAPIError": 1}
