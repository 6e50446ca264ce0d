"""Attempts in flight: seen while they run, with nothing in the store."""

from __future__ import annotations

import asyncio

from ragrounds.evals.engine.in_flight import IN_FLIGHT
from ragrounds.evals.store.store import Store
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, questions


async def _until_asked(model: ScriptedModel, count: int) -> None:
    for _ in range(500):
        if len(model.asked) >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the model was not asked")


async def test_what_is_in_flight_is_seen_with_its_steps_and_its_call(store: Store) -> None:
    asked, golds = questions(3)
    model = ScriptedModel(delay=0.5)
    one = planned(store, "vanilla_rag[top_k=2]", asked, golds, model)
    going = asyncio.ensure_future(replayed(store, [one], asked, golds))
    await _until_asked(model, 3)
    told = IN_FLIGHT.attempts()
    assert {live.question_id for live in told} == set(golds)
    live = told[0]
    assert (live.run, live.agent, live.node, live.steps, live.searches, live.model_calls) == (
        one.run.id,
        one.run.agent,
        "answer",
        2,
        1,
        0,
    )
    assert [(call.kind, call.actor, call.subject, call.node) for call in live.doing] == [
        ("model", "test:scripted", "answering", "answer")
    ]
    assert attempts(store, one.run) == {}, "nothing is written before an attempt has ended"
    await going
    assert IN_FLIGHT.attempts() == ()


async def test_a_search_in_flight_says_its_query(store: Store) -> None:
    asked, golds = questions(1)

    class Slow(ScriptedSearcher):
        async def search(self, query: str, k: int) -> list:  # type: ignore[type-arg]
            await asyncio.sleep(0.5)
            return await super().search(query, k)

    going = asyncio.ensure_future(
        replayed(store, [planned(store, "vanilla_rag", asked, golds, None, Slow())], asked, golds)
    )
    for _ in range(100):
        await asyncio.sleep(0.01)
        told = IN_FLIGHT.attempts()
        if told and told[0].doing:
            break
    assert [(call.kind, call.subject) for call in told[0].doing] == [("search", asked[0].text)]
    await going
