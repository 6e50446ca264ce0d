"""Several servers behind one model: the least busy one wins, one that is gone is left out and comes back."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Message
from ragrounds.models.faults import Transient
from ragrounds.models.providers import open_model
from ragrounds.models.started_server import free_port
from ragrounds.models.transport import PAUSE, BalancedServer, ServerPool, Transport, Unreachable
from tests.servers.process import openai_server


def asked(text: str) -> Request:
    return Request(messages=(Message("user", text),))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def servers(count: int) -> tuple[ServerPool, list[BalancedServer], Clock]:
    clock = Clock()
    made = [BalancedServer(Transport(f"http://127.0.0.1:{i + 1}/v1", "none", 5)) for i in range(count)]
    return ServerPool(made, clock), made, clock


def fail(those: ServerPool, error: Exception) -> BalancedServer:
    """One call whose connection fails; the server that it went to."""
    with pytest.raises((Transient, StopRun)), those.server_for() as server:
        raise error
    return server


CUT = Transient("connection", "cut")


def test_each_call_goes_where_fewest_are_in_flight() -> None:
    those, made, _ = servers(3)
    held = [those.server_for() for _ in range(7)]
    for one in held:
        one.__enter__()
    assert sorted(server.in_flight for server in made) == [2, 2, 3]
    busiest = max(made, key=lambda server: server.in_flight)
    with those.server_for() as next_:
        assert next_ is not busiest
    for one in held:
        one.__exit__(None, None, None)
    assert [server.in_flight for server in made] == [0, 0, 0]
    # None is in flight: they take turns.
    turns = []
    for _ in range(6):
        with those.server_for() as server:
            turns.append(server.base_url)
    assert turns[:3] == turns[3:]
    assert len(set(turns)) == 3


def test_a_fault_of_the_only_server_is_tried_again() -> None:
    those, made, _ = servers(1)
    assert [fail(those, CUT) for _ in range(2)] == made * 2
    assert made[0].in_flight == 0


def test_a_server_that_fails_is_left_out_for_a_while() -> None:
    those, made, clock = servers(2)
    with those.server_for():
        pass
    out = fail(those, CUT)
    other = next(server for server in made if server is not out)
    for _ in range(5):
        with those.server_for() as server:
            assert server is other
    clock.now += PAUSE
    with those.server_for() as one, those.server_for() as two:
        assert {one, two} == {out, other}


def test_the_run_stops_only_when_no_server_was_ever_reached() -> None:
    those, _, _ = servers(2)
    with pytest.raises(Transient), those.server_for():
        raise Unreachable("first")
    with pytest.raises(Unreachable, match="second"), those.server_for():
        raise Unreachable("second")
    those, _, _ = servers(2)
    with those.server_for():
        pass
    for _ in range(4):
        with pytest.raises(Transient), those.server_for():
            raise Unreachable("gone")


async def test_one_dead_address_among_several_does_not_stop_a_run() -> None:
    with openai_server() as server:
        model = open_model(f'openai:m[base_url="http://127.0.0.1:{free_port()}/v1,{server.url}",alias=lab]')
        replies = await asyncio.gather(*(model.complete(asked(f"q{i}"), []) for i in range(8)))
        assert all(reply.text for reply in replies)
        await model.close()


def test_a_server_more_does_not_change_the_identity() -> None:
    def spec(urls: str, more: str = "") -> str:
        return open_model(f'openai:m[base_url="{urls}"{more}]').spec

    one, two, three = (f"http://127.0.0.1:{port}/v1" for port in (1, 2, 3))
    assert spec(f"{one},{two}", ",alias=lab") == spec(f"{two}, {three}/,{one}", ",alias=lab") == "openai:m[server=lab]"
    assert spec(one) != spec(f"{one},{two}", ",alias=lab") != spec(f"{one},{two}", ",alias=other")
    assert spec(one, ",alias=lab") == spec(f"{one},{two}", ",alias=lab")
    for provider in ("openai", "vllm"):
        with pytest.raises(UserError, match=r"the group has no name.*alias=NAME inside the model"):
            open_model(f'{provider}:m[base_url="{one},{two}"]')
    assert spec(f"{one},{one}/") == spec(one)


def test_a_prompt_goes_where_its_beginning_was_as_far_as_load_allows() -> None:
    those, made, _ = servers(3)
    documents = [f"document {number} ".ljust(40, "x") * 50 for number in range(6)]
    at: dict[str, BalancedServer] = {}
    for text in documents:
        with those.server_for(text + "first question") as server:
            at[text] = server
    assert len({id(server) for server in at.values()}) == 3  # what nobody had goes round
    for text in reversed(documents):
        with those.server_for(text + "another question") as server:
            assert server is at[text]
    with contextlib.ExitStack() as held:
        busy = [held.enter_context(those.server_for(documents[0] + str(number))) for number in range(9)]
    assert max(busy.count(server) for server in made) <= 5
    assert busy.count(at[documents[0]]) > 3
