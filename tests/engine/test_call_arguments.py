"""What a call may ask beside its messages: it is sent, it is a part of the call's key, and nothing else changed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from ragrounds.base.contracts import Request, Tool
from ragrounds.base.errors import StopRun
from ragrounds.base.records import Message, Question, Reply, Stem, TokenLogprob, ToolCall
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.graphs.langchain import search
from ragrounds.models.extractive import ExtractiveBaseline
from ragrounds.models.faults import CallFailed
from ragrounds.models.providers import open_model
from ragrounds.models.reply_parts import with_logprobs
from ragrounds.models.request_arguments import ARGUMENTS
from ragrounds.prompts.loader import PromptFolder
from tests.engine.test_identity import Keys
from tests.servers.scripted_http import scripted

FORM = {"type": "json_schema", "json_schema": {"name": "A", "schema": {"type": "object", "properties": {}}}}
GIVEN: dict[str, Any] = {
    "temperature": 0.5,
    "seed": 7,
    "response_format": FORM,
    "logprobs": 2,
    "tool_choice": "search",
    "parallel_tool_calls": False,
}
TOOL = Tool.taking("query", "What for.", name="search", description="Searches.")
TURNS = (
    Message("user", "What?"),
    Message("assistant", "", (ToolCall("call_1", "search", '{"query": "x"}'),)),
    Message("tool", "Found.", answers="call_1"),
)


class Known:
    """A model that is known by its text alone."""

    spec = 'openai:plain[base_url="http://127.0.0.1:1/v1",temperature=0]'
    window = None

    def price(self, reply: Reply) -> float:
        return 0.0


def context(model: Any, journal: Any) -> AttemptContext:
    options = {"A": "this", "B": "that"}
    return AttemptContext(
        item=Question(id="q/1", benchmark="sample", text="What?", kind="choice", options=options),
        epoch=1,
        parameters={},
        models={"model": model},
        searcher=None,
        prompts=PromptFolder(),
        journal=journal,
    )


async def test_keys_of_calls_with_tools_are_those_of_every_release_before() -> None:
    """These were computed by the code from before there were further arguments."""
    journal = Keys()
    asked = context(Known(), journal)
    await asked.ask(TURNS, tools=[TOOL])
    await asked.ask(TURNS, tools=[TOOL], stop=["\n"], max_tokens=5, role="reading")
    given = convert_to_openai_tool(search)["function"]
    await asked.ask(TURNS, tools=[Tool(given["name"], given["description"], given["parameters"])])
    assert journal.keys == [
        "1946bc04e131b62ba08b66f9df4781e696e717e9ebcdd0d27a827858c6eb4135",
        "e56449eca6ded7488ad9a2416d3b447756466893abebdf43bea49cfcf12dfc19",
        "a0bfd929b2279696acb76cabc160f8b147aa7f2c0291630474165cc36445c423",
    ]


async def test_each_argument_and_each_value_of_it_is_another_call() -> None:
    journal = Keys()
    others = {
        "temperature": 0.0,
        "seed": 0,
        "response_format": {"type": "json_object"},
        "logprobs": 0,
        "tool_choice": "required",
        "parallel_tool_calls": True,
    }
    assert set(GIVEN) == set(others) == set(ARGUMENTS)
    # One context numbers its equal calls, which makes keys of their own: each call has a new one.
    await context(Known(), journal).ask(TURNS, tools=[TOOL])
    for name, value in itertools.chain(GIVEN.items(), others.items()):
        await context(Known(), journal).ask(TURNS, tools=[TOOL], **{name: value})
    asked = ["nothing", *(f"{name}={value}" for name, value in itertools.chain(GIVEN.items(), others.items()))]
    by_key: dict[str, list[str]] = {}
    for call, key in zip(asked, journal.keys, strict=True):
        by_key.setdefault(key, []).append(call)
    assert [calls for calls in by_key.values() if len(calls) > 1] == [], "calls that have one key"
    for name, value in itertools.chain([("seed", None)], GIVEN.items(), others.items()):
        await context(Known(), journal).ask(TURNS, tools=[TOOL], **{name: value})
    assert journal.keys[13:] == journal.keys[:13], "the same call has the same key"
    await context(Known(), journal).ask(TURNS, tools=[TOOL], temperature=0, logprobs=True)
    await context(Known(), journal).ask(TURNS, tools=[TOOL], temperature=0.0, logprobs=0)
    assert journal.keys[-1] == journal.keys[-2], "equal numbers are equal calls"
    strict = Tool(TOOL.name, TOOL.description, TOOL.parameters, strict=True)
    await context(Known(), journal).ask(TURNS, tools=[strict])
    assert journal.keys[-1] != journal.keys[0]


async def test_the_same_call_again_in_an_attempt_is_another_sample_and_a_models_code_is_a_part_of_it() -> None:
    journal = Keys()
    for _ in range(2):
        attempt = context(Known(), journal)
        for _ in range(3):
            await attempt.ask(TURNS)
    assert len(set(journal.keys[:3])) == 3, "each is asked"
    assert journal.keys[3:] == journal.keys[:3], "and found again in the next attempt"
    for code in ("one", "other"):
        coded = Known()
        coded.code = code  # type: ignore[attr-defined]
        await context(coded, journal).ask(TURNS)
    assert len({journal.keys[0], *journal.keys[6:]}) == 3, "changed code never meets an old reply"


@pytest.mark.parametrize("nested", [False, True])
async def test_what_is_asked_stands_in_the_body_and_the_reply_brings_log_probabilities(nested: bool) -> None:
    tokens = [{"token": "So", "logprob": -1.5, "top_logprobs": [{"token": "No", "logprob": -0.5}, {"token": 3}]}]
    choice = {"message": {"content": "So"}, "finish_reason": "stop", "logprobs": {"content": tokens}}
    journal = Making()
    with scripted(lambda prompt, before: choice) as server:
        model = open_model(f'openai:m[base_url="{server.url}",temperature=1,seed=1,tries=1]')
        attempt = context(model, journal)
        asked = attempt.asking(Stem("q/1", "What?")) if nested else attempt
        plain = await asked.ask(TURNS)
        reply = await asked.ask(TURNS, tools=[TOOL], **GIVEN)
        await model.close()
    first, second = server.bodies
    assert (first["temperature"], first["seed"]) == (1, 1)
    assert not {"response_format", "logprobs", "top_logprobs", "tool_choice", "parallel_tool_calls"} & set(first)
    assert {name: second[name] for name in (*GIVEN, "top_logprobs")} == {
        **GIVEN,
        "logprobs": True,
        "top_logprobs": 2,
        "tool_choice": {"type": "function", "function": {"name": "search"}},
    }
    assert plain.logprobs is None, "nobody asked for them"
    assert reply.logprobs == (TokenLogprob("So", -1.5, (("No", -0.5),)),)


async def test_a_server_that_gives_no_log_probabilities_is_told_of() -> None:
    with scripted(lambda prompt, before: "So") as server:
        model = open_model(f'openai:m[base_url="{server.url}",tries=1]')
        attempt = context(model, Making())
        reply = await attempt.ask(TURNS, logprobs=3)
        await model.close()
    assert reply.logprobs is None
    assert [event.text for event in attempt.events if hasattr(event, "what")] == [
        "log probabilities were requested, and the server sent none"
    ]


@pytest.mark.parametrize("finish", ["none", "content_filter", "refusal"])
def test_a_refusal_lacks_no_log_probabilities(finish: str) -> None:
    refused = Reply(text="I cannot say.", finish=finish)
    assert with_logprobs(refused, 3) == refused


async def test_a_long_reply_with_many_likeliest_tokens_is_read_where_they_were_asked_for() -> None:
    """More lists than a reply without them may hold."""
    top = [{"token": "x" * 4, "logprob": -1.5, "bytes": [120] * 4}] * 20
    tokens = [{"token": "word", "logprob": -0.5, "bytes": [119, 111, 114, 100], "top_logprobs": top}] * 2500
    choice = {"message": {"content": "word"}, "finish_reason": "stop", "logprobs": {"content": tokens}}
    with scripted(lambda prompt, before: choice) as server:
        model = open_model(f'openai:m[base_url="{server.url}",tries=1]')
        reply = await context(model, Making()).ask(TURNS, logprobs=20)
        with pytest.raises(CallFailed, match="expected at most"):
            await context(model, Making()).ask(TURNS)
        await model.close()
    assert reply.logprobs is not None
    assert (len(reply.logprobs), len(reply.logprobs[-1].top)) == (2500, 20)


@pytest.mark.parametrize("name", ARGUMENTS)
async def test_the_baseline_says_in_one_line_what_it_cannot_take(name: str) -> None:
    asked = (Message("user", "### Question\nWhat?\n\n### Options\nA. this\nB. that\n"),)
    assert (await ExtractiveBaseline().complete(Request(messages=asked), [])).text
    with pytest.raises(StopRun, match=f"^baseline:extractive takes no {name}, but the graph needs it") as refused:
        await context(ExtractiveBaseline(), Making()).ask(asked, **{name: GIVEN[name]})
    assert "\n" not in str(refused.value)


class Making:
    """A journal that makes every call."""

    async def once(self, entry: Any, make: Any, kind: Any) -> tuple[Reply, bool]:
        return await make(), False
