"""Attempts in flight: seen while they run, with nothing in the store."""

from __future__ import annotations

import asyncio

from ragrounds.evals.engine.in_flight import IN_FLIGHT
from ragrounds.evals.store.store import Store
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, questions


async def _until_asked(model: ScriptedModel, count: int) -> None:
    for _ in range(500):
        if len(model.asked) >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the model was not asked")


async def test_what_is_in_flight_is_seen_with_its_node(store: Store) -> None:
    asked, golds = questions(3)
    model = ScriptedModel(delay=0.5)
    one = planned(store, "vanilla_rag[top_k=2]", asked, golds, model)
    going = asyncio.ensure_future(replayed(store, [one], asked, golds))
    await _until_asked(model, 3)
    told = IN_FLIGHT.attempts()
    assert [(live.run, live.node) for live in told] == [(one.run.id, "answer")] * 3
    assert attempts(store, one.run) == {}, "nothing is written before an attempt has ended"
    await going
    assert IN_FLIGHT.attempts() == ()
