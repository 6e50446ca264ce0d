"""How many calls a server gets at once, and a minute."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Message
from ragrounds.models.faults import Transient
from ragrounds.models.providers import open_model
from ragrounds.models.traffic import START, Rates, Traffic, flows, forget_idle, set_share, traffic_of
from tests.servers.process import Running


class Bounded:
    """A server that bears so many calls at once and says 429 to the rest."""

    def __init__(self, bears: int, status: int = 429) -> None:
        self.bears, self.status = bears, status
        self.flying = self.most = self.refused = 0

    async def answer(self, traffic: Traffic) -> None:
        async with traffic.call():
            self.flying += 1
            self.most = max(self.most, self.flying)
            try:
                await asyncio.sleep(0.001 * random.random())
                if self.flying > self.bears:
                    self.refused += 1
                    raise Transient("rate_limit", "too many", self.status, 1.0)
            finally:
                self.flying -= 1


async def pushed(server: Bounded, traffic: Traffic, calls: int, at_once: int) -> None:
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            try:
                await server.answer(traffic)
            except Transient:
                await asyncio.sleep(0.001)

    await asyncio.gather(*(work() for _ in range(at_once)))


async def test_it_grows_to_what_is_asked_where_nothing_is_refused() -> None:
    server, traffic = Bounded(10_000), Traffic("here")
    await pushed(server, traffic, 4000, 200)
    assert server.refused == 0
    assert server.most == 200
    # Never filled beyond that, it does not grow beyond it either.
    assert traffic.flow.allowed <= 201


async def test_it_starts_small() -> None:
    server, traffic = Bounded(10_000), Traffic("here")
    await pushed(server, traffic, START * 2, START * 2)
    assert server.most <= START + START


async def test_it_settles_at_what_the_server_bears() -> None:
    server, traffic = Bounded(50), Traffic("here")
    await pushed(server, traffic, 2000, 200)
    before = server.refused
    await pushed(server, traffic, 6000, 200)
    assert 0.6 * 50 <= traffic.flow.allowed <= 56
    assert (server.refused - before) / 6000 < 0.05
    assert traffic.flow.limited == server.refused


async def test_a_burst_of_429s_cuts_once() -> None:
    traffic = Traffic("here")
    together = asyncio.Event()

    async def refused() -> None:
        async with traffic.call():
            await together.wait()
            raise Transient("rate_limit", "too many", 429)

    calls = [asyncio.create_task(refused()) for _ in range(START)]
    await asyncio.sleep(0)
    together.set()
    await asyncio.gather(*calls, return_exceptions=True)
    assert traffic.flow.allowed == int(START * 0.8)
    assert traffic.flow.limited == START


async def test_a_server_error_never_shrinks_it() -> None:
    traffic = Traffic("here")
    await pushed(Bounded(0, status=500), traffic, 500, 100)
    assert traffic.flow.allowed == START


async def test_a_cancelled_call_leaves_no_place_taken() -> None:
    traffic = Traffic("here")

    async def hanging() -> None:
        async with traffic.call():
            await asyncio.sleep(3600)

    calls = [asyncio.create_task(hanging()) for _ in range(START * 2)]
    await asyncio.sleep(0.01)
    assert (traffic.flow.flying, traffic.flow.waiting) == (START, START)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert traffic.flow.flying == 0
    async with asyncio.timeout(5), traffic.call():
        assert traffic.flow.flying == 1


@pytest.mark.parametrize("rates", [Rates(requests=600), Rates(tokens=600 * 100)])
async def test_no_more_a_minute_than_is_said(rates: Rates) -> None:
    traffic = Traffic("here")
    begun = time.monotonic()
    for _ in range(60):  # five seconds' worth, 50 calls, may go at once; ten more take a second
        async with traffic.call(rates, 100):
            pass
    assert time.monotonic() - begun >= 0.99


async def test_a_process_keeps_to_its_share() -> None:
    traffic = Traffic("here")
    set_share(0.5)
    try:
        begun = time.monotonic()
        for _ in range(30):
            async with traffic.call(Rates(requests=600)):
                pass
        assert time.monotonic() - begun >= 0.99
    finally:
        set_share(1.0)


async def test_a_call_larger_than_the_limit_is_let_through() -> None:
    async with asyncio.timeout(5), Traffic("here").call(Rates(tokens=100), 1_000_000):
        pass


def test_no_calls_a_minute_is_an_error() -> None:
    with pytest.raises(UserError, match="rpm=0: expected more than 0"):
        open_model('openai:m[base_url="http://127.0.0.1:1/v1",rpm=0]')


async def test_models_of_one_server_share_its_traffic(server: Running) -> None:
    models = [open_model(f'openai:{name}[base_url="{server.url}",rpm=6000]') for name in ("one", "other")]
    for model in models:
        await model.complete(Request(messages=(Message("user", "q"),)), [])
        await model.close()
    assert server.url in [flow.base_url for flow in flows()]
    assert traffic_of(server.url).flow.flying == 0
    assert "rpm" not in models[0].spec


async def test_servers_that_nothing_is_asked_of_are_forgotten() -> None:
    async with traffic_of("http://127.0.0.1:9/busy").call():
        async with traffic_of("http://127.0.0.1:9/idle").call():
            pass
        forget_idle()
        places = [flow.base_url for flow in flows()]
        assert "http://127.0.0.1:9/busy" in places
        assert "http://127.0.0.1:9/idle" not in places
    forget_idle()
    assert "http://127.0.0.1:9/busy" not in [flow.base_url for flow in flows()]


def test_a_loop_that_is_closed_has_no_flow() -> None:
    loop = asyncio.new_event_loop()

    async def asks() -> None:
        async with traffic_of("http://127.0.0.1:9/closed").call():
            assert "http://127.0.0.1:9/closed" in [flow.base_url for flow in flows()]

    loop.run_until_complete(asks())
    loop.close()
    assert "http://127.0.0.1:9/closed" not in [flow.base_url for flow in flows()]
