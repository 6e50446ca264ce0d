"""ResizableSemaphore for attempts: given up while waiting, taken again first."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from ragrounds.base.contracts import FinishedAttempt, Request
from ragrounds.base.errors import Interrupted
from ragrounds.base.records import Fault, Reply
from ragrounds.evals.engine import scheduler
from ragrounds.evals.engine.attempt import AttemptRunner
from ragrounds.evals.engine.in_flight import IN_FLIGHT
from ragrounds.evals.engine.interrupts import StopRequests, stop_requests
from ragrounds.evals.engine.scheduler import AttemptSemaphore, rare_garbage_collection
from ragrounds.evals.store.journal import Mode
from ragrounds.evals.store.store import Store
from ragrounds.models.faults import Transient
from ragrounds.models.retries import RetryPolicy, with_retries
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, always, questions


class Limited(ScriptedModel):
    """Asks the first question to come back later."""

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        async def once() -> Reply:
            self.asked.append(request)
            if len(self.asked) == 1:
                raise Transient("rate_limit", "later", 429, 2.0)
            return self.say(request)  # type: ignore[return-value]

        return await with_retries(once, RetryPolicy(), faults)


async def test_who_waits_for_retry_after_gives_its_place_to_another(store: Store) -> None:
    items, golds = questions(5)
    model = Limited(say=always('{"answer_choice": "A"}'))
    run = planned(store, "direct", items, golds, model)
    await replayed(store, [run], items, golds, concurrency=1)
    texts = [request.messages[-1].content for request in model.asked]
    assert texts[0] == texts[-1]  # the first question's second try came after all others
    assert len(set(texts)) == 5
    done = attempts(store, run.run)
    assert {attempt.status for attempt in done.values()} == {"completed"}


async def test_who_has_begun_comes_before_who_has_not() -> None:
    slots, order = AttemptSemaphore(1), []

    async def one(name: str, wait: float) -> None:
        await slots.acquire()
        try:
            order.append(f"{name} begins")
            if wait:
                await slots.sleep(wait)
            else:
                await asyncio.sleep(0.05)
            order.append(f"{name} ends")
        finally:
            slots.release()

    await asyncio.gather(one("a", 0.01), one("b", 0), one("c", 0))
    assert order == ["a begins", "b begins", "b ends", "a ends", "c begins", "c ends"]
    assert (slots.taken, slots.paused) == (0, 0)


async def test_what_waits_does_not_pile_up() -> None:
    slots, begun = AttemptSemaphore(2), 0

    async def one() -> None:
        nonlocal begun
        await slots.acquire()
        try:
            begun += 1
            await slots.sleep(0.1)
        finally:
            slots.release()

    tasks = [asyncio.create_task(one()) for _ in range(20)]
    await asyncio.sleep(0.05)
    assert begun == 4  # two wait without a place, two hold theirs
    await asyncio.gather(*tasks)
    assert begun == 20


@pytest.mark.parametrize("after", [0.0, 0.02])
async def test_ended_while_it_waits_it_leaves_the_count_right(after: float) -> None:
    slots = AttemptSemaphore(1)

    async def one(wait: float) -> None:
        await slots.acquire()
        try:
            await slots.sleep(wait)
        finally:
            slots.release()

    async def holding() -> None:
        await slots.acquire()
        try:
            await asyncio.sleep(0.1)
        finally:
            slots.release()

    waits, holds = asyncio.create_task(one(0.01)), asyncio.create_task(holding())
    await asyncio.sleep(after)  # asleep, or waiting for a place
    waits.cancel()
    await asyncio.gather(waits, holds, return_exceptions=True)
    assert slots.taken == 0
    await asyncio.wait_for(slots.acquire(), 1)


@pytest.mark.parametrize("error", [Interrupted, asyncio.CancelledError])
async def test_after_a_ctrl_c_the_next_one_ends_the_run_and_a_cancellation_reaches_the_caller(
    store: Store, error: type[BaseException]
) -> None:
    items, golds = questions(1)
    model, requests = ScriptedModel(delay=60), StopRequests()
    stop_requests.set(requests)
    work = asyncio.create_task(replayed(store, [planned(store, "direct", items, golds, model)], items, golds))
    while not model.asked:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    requests.ask()
    await asyncio.sleep(0)
    if error is Interrupted:
        requests.ask()
    else:
        work.cancel()
    with pytest.raises(error):
        await work


async def test_a_replay_has_no_more_attempts_in_flight_than_the_processor_can_make(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More would wait for each other, and their seconds would count that."""
    monkeypatch.setattr(scheduler, "processors", lambda: 1)
    asked, golds = questions(40)
    begun_at_once = dict[Mode, int]()
    make = AttemptRunner.__call__

    async def count_begun(*arguments: Any) -> FinishedAttempt:
        begun_at_once[mode] = max(begun_at_once[mode], len(IN_FLIGHT.attempts()))
        return await make(*arguments)

    monkeypatch.setattr(AttemptRunner, "__call__", count_begun)
    modes: tuple[Mode, ...] = ("reuse", "replay")
    for mode in modes:
        begun_at_once[mode] = 0
        direct = planned(store, "direct", asked, golds)
        await replayed(store, [direct], asked, golds, mode, concurrency=16)
        store.remove(direct.run)
    assert begun_at_once == {"reuse": 15, "replay": 3}


def test_the_last_pool_that_ends_restores_the_garbage_collection() -> None:
    before = gc.get_threshold()
    try:
        with rare_garbage_collection():
            with rare_garbage_collection():
                pass
            assert gc.get_threshold() == (scheduler._OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
            assert gc.get_freeze_count()
        assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
    finally:
        gc.freeze()
