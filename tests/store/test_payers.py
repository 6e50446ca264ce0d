"""What a run has spent where attempts were killed, failed or began again: a call counts where it was paid, once."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from ragrounds.base.records import Reply, Run, Usage
from ragrounds.evals.store import schema
from ragrounds.evals.store.store import Store
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, questions
from tests.store.making import stopped_run

pytestmark = pytest.mark.parametrize("store", ["sqlite"], indirect=True)


def cost_paid(store: Store, run: Run) -> list[float | None]:
    return [attempt.cost_paid for attempt in attempts(store, run).values()]


def lose_attempts(store: Store) -> None:
    """As after `kill -9` between the commit of a call and that of its attempt."""
    with store.engine.begin() as connection:
        connection.execute(sa.delete(schema.scores))
        connection.execute(sa.delete(schema.attempts))


async def test_calls_of_an_attempt_that_was_killed_are_cost_paid_once(store: Store) -> None:
    asked, golds = questions(3)
    one = planned(store, "direct", asked, golds)
    await replayed(store, [one], asked, golds)
    lose_attempts(store)
    silent = ScriptedModel(say=lambda request: AssertionError("nothing may be called"))
    journal = await replayed(store, [replace(one, models={"model": silent})], asked, golds)
    assert (journal.calls_made, journal.reused) == (0, 3)
    assert cost_paid(store, one.run) == pytest.approx([0.001] * 3)
    twin = planned(store, "direct[limits.calls=3]", asked, golds)
    await replayed(store, [twin], asked, golds)
    assert cost_paid(store, twin.run) == [0.0] * 3  # shared: paid by the first
    assert cost_paid(store, one.run) == pytest.approx([0.001] * 3)


async def test_calls_of_an_attempt_that_failed_stay_cost_paid_when_it_is_tried_again(store: Store) -> None:
    asked, golds = questions(2)

    def fails_at_the_second(request: object) -> Reply | Exception:
        return ZeroDivisionError("a bug") if len(model.asked) % 2 == 0 else Reply(text="thought", usage=Usage(10, 5))

    model = ScriptedModel(say=fails_at_the_second)
    one = planned(store, "cot_refine", asked, golds, model)
    await replayed(store, [one], asked, golds, concurrency=1)
    assert {attempt.status for attempt in attempts(store, one.run).values()} == {"failed"}
    assert cost_paid(store, one.run) == pytest.approx([0.001] * 2)
    good = ScriptedModel()
    await replayed(store, [replace(one, models={"model": good})], asked, golds)
    kept = attempts(store, one.run)
    assert {attempt.status for attempt in kept.values()} == {"completed"}
    assert [attempt.cost_paid for attempt in kept.values()] == pytest.approx([a.cost_uncached for a in kept.values()])
    assert sum(cost_paid(store, one.run)) == pytest.approx(0.001 * (2 + len(good.asked)))  # type: ignore[arg-type]


async def test_a_run_that_was_removed_and_made_again_has_cost_paid_nothing(store: Store) -> None:
    asked, golds = questions(2)
    one = planned(store, "direct", asked, golds)
    await replayed(store, [one], asked, golds)
    store.remove(one.run)
    await asyncio.sleep(0.002)  # runs made in the same millisecond are told apart by nothing
    again = planned(store, "direct", asked, golds)
    assert again.run.id == one.run.id
    await replayed(store, [again], asked, golds)
    assert cost_paid(store, again.run) == [0.0, 0.0]


async def test_what_a_stopped_run_paid_is_cost_paid_when_it_goes_on(store: Store) -> None:
    stopped = await stopped_run(store, 4, last=4)
    _, model = await stopped.resume(store)
    assert sum(cost_paid(store, stopped.planned.run)) == pytest.approx(0.001 * (3 + len(model.asked)))  # type: ignore[arg-type]
