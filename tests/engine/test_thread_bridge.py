"""Calls from threads: they end with their attempt, and a loop that is held up is told of."""

from __future__ import annotations

import asyncio
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.engine import thread_bridge
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.evals.engine.thread_bridge import ThreadBridge, grow_threads


async def one() -> int:
    return 1


async def test_a_loop_that_is_held_up_is_told_of_and_the_call_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_bridge, "BLOCKED", 0.2)
    bridge, made = ThreadBridge(), []

    async def call() -> None:
        made.append(1)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bridge.wait, call())
        with pytest.raises(UserError, match=r"a node holds it up.*abatch"):
            waiting.result()  # it waits on the event loop's own thread, which holds the loop up
    await asyncio.sleep(0)
    assert made == []
    assert await asyncio.to_thread(bridge.wait, one()) == 1, "it is open again"


async def test_the_attempt_s_end_ends_what_its_threads_wait_for_and_takes_nothing_more() -> None:
    bridge, cancelled = ThreadBridge(), []

    async def call() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    waiting = asyncio.create_task(asyncio.to_thread(bridge.wait, call()))
    await asyncio.sleep(0.1)
    bridge.close()
    with pytest.raises(AttemptEnded, match="ended while a node was waiting"):
        await waiting
    assert cancelled == [1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a coroutine that nobody awaits
        with pytest.raises(AttemptEnded, match="the attempt has ended"):
            await asyncio.to_thread(bridge.wait, one())
        with pytest.raises(UserError, match="event loop's own thread"):
            bridge.wait(one())


def test_without_an_event_loop_nothing_is_asked() -> None:
    with pytest.raises(UserError, match="No event loop runs"):
        ThreadBridge().wait(one())


async def test_a_pool_is_made_once_is_widened_and_shrinks_again() -> None:
    grow_threads(2)
    pool = thread_bridge._pools[asyncio.get_running_loop()]
    grow_threads()
    grow_threads(3)
    grow_threads(1)
    assert thread_bridge._pools[asyncio.get_running_loop()] is pool
    bridge = ThreadBridge()
    await asyncio.gather(*(asyncio.to_thread(bridge.wait, asyncio.sleep(0.01)) for _ in range(20)))
    assert pool._max_workers == 3, "the widest that was asked for, and none for those that waited"
