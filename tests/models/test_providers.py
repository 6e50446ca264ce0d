"""Finding out how a server goes on with a text, against servers that can and servers that cannot."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ragrounds.base.errors import StopRun
from ragrounds.base.records import Reply
from ragrounds.models.providers import _stopped, probe

NUMBERS = "one two three four five six seven eight nine".split()


def server(*, continues="yes", dropped=False, names=False, keeps=False, tools=True, arguments="taken", system="none"):
    async def complete(request):
        body = await request.json()
        if body.get("tools") and not tools:
            return web.json_response({"error": {"message": "no tools here"}}, status=400)
        if arguments == "refused" and {"tool_choice", "response_format", "logprobs"} & set(body):
            return web.json_response({"error": {"message": "no such argument"}}, status=400)
        last = body["messages"][-1]
        begun = last["content"].removeprefix("Counting:").split() if last["role"] == "assistant" else []
        if begun and continues == "refused":
            return web.json_response({"error": {"message": "cannot continue"}}, status=400)
        if begun and continues == "ignored":
            begun = []
        words = NUMBERS[len(begun) :]
        choice = {"finish_reason": "stop"}
        for stop in body.get("stop", []):
            if stop in words:
                words = words[: words.index(stop) + keeps]
                if names:
                    choice["stop_reason"] = stop
        start = last["content"] if begun and continues == "repeated" else ""
        choice["message"] = {"role": "assistant", "content": start + (" " if begun else "") + " ".join(words)}
        if arguments == "taken":
            if body.get("tool_choice") == {"type": "function", "function": {"name": "look_up"}}:
                function = {"name": "look_up", "arguments": '{"word": "one"}'}
                choice["message"]["tool_calls"] = [{"id": "x", "type": "function", "function": function}]
            if body.get("response_format", {}).get("type") == "json_schema":
                choice["message"]["content"] = '{"numbers": "one two'
            if body.get("logprobs"):
                choice["logprobs"] = {"content": [{"token": word, "logprob": -0.5} for word in words]}
        has_system = body["messages"][0]["role"] == "system"
        if has_system and system == "refused":
            return web.json_response({"error": {"message": "roles must alternate"}}, status=400)
        prompt_tokens = (30 if not body.get("tools") or dropped else 70) + (4 if has_system else 0)
        prompt_tokens += 20 if system == "added" and not has_system else 0
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 9}
        return web.json_response({"choices": [choice], "model": "m", "usage": usage})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    return TestServer(app)


async def probed(**how):
    async with server(**how) as running:
        return await probe(f'openai:m[base_url="{running.make_url("/v1")}"]')


@pytest.mark.parametrize(("how", "way"), [("yes", "prefix"), ("ignored", "turns"), ("refused", "turns")])
async def test_the_way_that_works_is_found(how, way):
    assert (await probed(continues=how)).continues == way


async def test_a_repeated_prefix_is_cut_off_and_named():
    found = await probed(continues="repeated")
    assert (found.continues, found.reason) == (
        "prefix",
        "the model continued its turn; the server repeats its beginning, which is cut off",
    )


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("keeps", [True, False])
async def test_what_becomes_of_stop_strings(names, keeps):
    found = await probed(names=names, keeps=keeps)
    assert (found.stops, found.names_stop, found.keeps_stop) == (True, names, keeps)


async def test_whether_tools_are_taken():
    assert (await probed(tools=True)).tools is True
    assert (await probed(tools=False)).tools is False
    assert (await probed(dropped=True)).tools is False


@pytest.mark.parametrize("arguments", ["taken", "refused", "ignored"])
async def test_whether_what_calls_may_ask_is_taken(arguments):
    found = await probed(arguments=arguments)
    assert {found.chooses, found.forms, found.logprobs} == {arguments == "taken"}
    assert found.tools is True


@pytest.mark.parametrize(("system", "adds"), [("none", False), ("added", True), ("refused", None)])
async def test_a_system_turn_of_the_template_is_named(system, adds):
    assert (await probed(system=system)).adds_system is adds


async def test_a_server_that_is_not_there_is_told():
    with pytest.raises(StopRun, match="cannot connect"):
        await probe('openai:m[base_url="http://127.0.0.1:9/v1",tries=1]')


@pytest.mark.parametrize(
    ("text", "stopped_at", "stops"),
    [
        ("one two three four five six", "", True),
        ("one two three four five six seven", "", True),
        ("one two three four five six seven.", "seven", True),
        ("One two three four five six seven eight nine", "", False),
        ("Reasoning. The answer is A.", "", None),  # the stop string would not have come
        ("", "", None),
    ],
)
def test_a_server_that_never_came_to_the_stop_string_shows_nothing(text, stopped_at, stops):
    assert _stopped(Reply(text=text, stopped_at=stopped_at)) is stops
