"""LangChain's agents and chains on the attempt's own model, over a real loopback server: what is bound is sent, what is
answered comes back, and all of it is journaled, replayed and capped."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Called, Passage
from ragrounds.evals.engine import thread_bridge
from ragrounds.extensions.stand_in.server import stand_in_server
from ragrounds.models.providers import open_model
from tests.graphs import context_graphs
from tests.graphs.playing import Played, Shelf, play
from tests.servers.scripted_http import Scripted, scripted

FILE = Path(context_graphs.__file__)
LOGPROBS = {
    "content": [
        {"token": "He", "logprob": -0.5, "bytes": [72, 101], "top_logprobs": [{"token": "He", "logprob": -0.5}]},
        {"token": "llo", "logprob": -0.125, "bytes": None, "top_logprobs": []},
    ]
}
VERDICT = {"letter": "B", "why": "It is."}


def text(said: str, **more: object) -> dict[str, object]:
    return {"message": {"role": "assistant", "content": said}, "finish_reason": "stop", **more}


def call(name: str, arguments: object) -> dict[str, object]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "x", "type": "function", "function": function}],
    }
    return {"message": message, "finish_reason": "tool_calls"}


async def run(server: Scripted, *names: str, limits: str = "") -> Played:
    model = open_model(f'openai:m[base_url="{server.url}",timeout=10,tries=1]')
    try:
        return await play([f"{FILE}:{name}{limits}" for name in names], [], opened=model)
    finally:
        await model.close()


def sent(server: Scripted, *fields: str) -> list[dict[str, object]]:
    return [{name: body[name] for name in fields if name in body} for body in server.bodies]


async def test_a_plain_function_asks_and_all_that_is_set_is_sent() -> None:
    with scripted(lambda prompt, before: text("Hello", logprobs=LOGPROBS)) as server:
        played = await run(server, "sync_invoke", "sync_invoke")
    assert played.attempt.status == "completed", played.attempt.reason
    assert server.bodies == [
        {
            "model": "m",
            "temperature": 0.25,
            "seed": 7,
            "max_tokens": 50,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Which drug is given first?"},
            ],
            "logprobs": True,
            "top_logprobs": 2,
            "stop": ["###"],
        }
    ]
    said, _, tokens = played.attempt.text.partition("|")
    assert said == "Hello"
    assert "{'token': 'llo', 'logprob': -0.125, 'top_logprobs': []}" in tokens, "also from the journal"
    assert (played.made, played.reused) == (1, 1)
    calls = [event.call for event in played.attempt.events if isinstance(event, Called)]
    assert [(one.node, one.cached) for one in calls] == [("node", True)], "a call belongs to the node that makes it"


@pytest.mark.parametrize("name", ["sync_batch", "async_batch"])
async def test_batches_are_journaled_one_by_one(name: str) -> None:
    with scripted(lambda prompt, before: text(prompt.rpartition(" ")[2])) as server:
        played = await run(server, name, name)
    assert played.attempt.text == "0 1 2 3 4 5 6 7 8 9 10 11", played.attempt.reason
    assert (played.made, played.reused, server.calls) == (12, 12, 12)


@pytest.mark.parametrize("name", ["sync_invoke", "sync_batch", "by_function_calling"])
async def test_caps_hold_before_a_call_from_a_thread(name: str) -> None:
    with scripted(lambda prompt, before: text("x")) as server:
        played = await run(server, name, limits="[limits.calls=0]")
    assert (played.attempt.status, server.calls) == ("capped", 0)


async def test_a_thread_asks_nothing_after_its_attempt_has_ended() -> None:
    with scripted(lambda prompt, before: text("x")) as server:
        server.gate.clear()
        played = await run(server, "never_ending", limits="[limits.seconds=0.3]")
        server.gate.set()
        before = server.calls
        await asyncio.sleep(0.3)
        assert server.calls == before == 1
    assert played.attempt.status == "capped"


@pytest.mark.parametrize("name", ["invoke_on_the_loop", "batch_on_the_loop"])
async def test_waiting_on_the_event_loop_s_own_thread_is_an_error_that_says_what_to_do(name: str) -> None:
    with scripted(lambda prompt, before: text("x")) as server, pytest.raises(UserError) as refused:
        await run(server, name)
    assert "await model.ainvoke(" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("unknown_argument", "cannot be given 'top_p'.*openai:NAME"),
        ("wrong_choice", "tool_choice='serch' is no tool of this call.*search"),
    ],
)
async def test_what_cannot_be_passed_on_is_told(name: str, message: str) -> None:
    with scripted(lambda prompt, before: text("x")) as server, pytest.raises(UserError, match=message):
        await run(server, name)
    assert server.calls == 0


async def test_threads_that_wait_make_room_for_the_searches_they_wait_for() -> None:
    """Twelve plain functions in a loop of one thread, whose searches need a thread: none waits for another."""
    found: list[str] = []

    class Slow(Shelf):
        async def search(self, query: str, k: int) -> list[Passage]:
            found.append(query)
            return await asyncio.to_thread(lambda: self.passages[:k])

    thread_bridge.grow_threads(1)
    played = await asyncio.wait_for(play(f"{FILE}:sync_search", [], shelf=Slow()), 20)
    assert played.attempt.text == "12", played.attempt.reason
    assert sorted(found) == sorted(f"q{i}" for i in range(12))


@pytest.mark.parametrize(("name", "form"), [("by_function_calling", "Verdict"), ("by_typed_dict", "Choice")])
async def test_a_structured_output_is_a_call_of_a_tool(name: str, form: str) -> None:
    with scripted(lambda prompt, before: call(form, VERDICT)) as server:
        played = await run(server, name, name)
    assert played.attempt.text == "B", played.attempt.reason
    assert (played.made, played.reused) == (1, 1)
    (body,) = server.bodies
    assert body["tool_choice"] == "required"
    assert "letter" in body["tools"][0]["function"]["parameters"]["required"]


async def test_create_react_agent_with_a_form_and_a_tool_that_asks_the_model() -> None:
    """Its tools are plain functions, one of which asks the model itself; its last step asks for the form."""

    def say(prompt: str, before: int) -> dict[str, object]:
        if prompt.startswith("Colleague"):
            return text("I would take B.")
        tools = [tool["function"]["name"] for tool in server.bodies[-1].get("tools", ())]
        if tools == ["Verdict"]:
            return call("Verdict", VERDICT)
        if prompt == "I would take B.":
            return text("So it is B.")
        return (
            call("second_opinion", {"question": "A or B?"}) if "Text of" in prompt else call("search", {"query": "x"})
        )

    with scripted(say) as server:
        played = await run(server, "react", "react")
    assert played.attempt.status == "completed", played.attempt.reason
    assert played.attempt.text == "So it is B."
    assert played.shelf.queries == ["x"]
    assert (server.calls, played.reused) == (5, 5)
    choices = [body.get("tool_choice") for body in server.bodies]
    assert choices == [None, None, None, None, "required"]
    assert "model reading@tools" in played.calls


@pytest.mark.parametrize("name", ["tool_strategy", "provider_strategy"])
async def test_create_agent_with_a_form(name: str) -> None:
    def say(prompt: str, before: int) -> dict[str, object]:
        if "Text of" not in prompt:
            return call("search", {"query": "x"})
        return call("Verdict", VERDICT) if name == "tool_strategy" else text(json.dumps(VERDICT))

    with scripted(say) as server:
        played = await run(server, name, name)
    assert played.attempt.status == "completed", played.attempt.reason
    assert "B" in played.attempt.text
    assert (server.calls, played.shelf.queries, played.reused) == (2, ["x"], 2)
    if name == "tool_strategy":
        assert sent(server, "tool_choice", "response_format") == [{"tool_choice": "required"}] * 2
        assert [tool["function"]["name"] for tool in server.bodies[0]["tools"]] == ["search", "Verdict"]
    else:
        form = server.bodies[0]["response_format"]["json_schema"]
        assert (form["name"], form["strict"]) == ("Verdict", True)
        assert sent(server, "tool_choice") == [{}, {}]


@pytest.mark.parametrize("name", ["by_function_calling", "react", "tool_strategy", "provider_strategy"])
async def test_the_stand_in_gives_the_forms_that_are_asked_for(name: str) -> None:
    """So that a graph can be tried without a model."""
    with stand_in_server() as url:
        model = open_model(f'openai:m[base_url="{url}",tries=1]')
        played = await play(f"{FILE}:{name}", [], opened=model)
        await model.close()
    assert played.attempt.status == "completed", played.attempt.reason
    if name.startswith("by_"):
        assert played.attempt.text in ("A", "B", "C")
    else:
        assert played.shelf.queries


async def test_a_thread_that_a_node_starts_by_itself_is_told_that_no_attempt_runs_there() -> None:
    with scripted(lambda prompt, before: text("x")) as server, pytest.raises(UserError, match="No attempt runs here"):
        await run(server, "own_thread")
    assert server.calls == 0


async def test_a_node_that_begins_an_event_loop_of_its_own_asks_through_the_attempt_s() -> None:
    loops = []

    def say(request: Request) -> str:
        loops.append(asyncio.get_running_loop())
        return "Hello"

    class Watched(Shelf):
        async def search(self, query: str, k: int) -> list[Passage]:
            loops.append(asyncio.get_running_loop())
            return await super().search(query, k)

    played = await play([f"{FILE}:own_loop"] * 2, say, shelf=Watched())
    assert played.attempt.status == "completed", played.attempt.reason
    assert played.attempt.text.endswith("|Hello")
    assert loops == [asyncio.get_running_loop()] * 4
    assert (played.made, played.reused) == (2, 2)
    calls = [event.call for event in played.attempt.events if isinstance(event, Called)]
    assert {one.node for one in calls} == {"node"}
