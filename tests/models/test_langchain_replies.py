"""A model of LangChain's has the same boundary, as far as its package lets it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_openai import ChatOpenAI

from ragrounds.base.contracts import Request, Tool
from ragrounds.base.errors import StopRun
from ragrounds.base.records import Fault, Message, Reply, TokenLogprob, Usage
from ragrounds.models.faults import CallFailed
from ragrounds.models.langchain import LangChainModel, choice_for
from ragrounds.models.options import ModelOptions, Sampling, Serving
from tests.servers.http_script import Told, answering
from tests.servers.raw_replies import ANSWER, RawServer, raw_server, slug
from tests.servers.scripted_http import scripted

KEY = "Zq7-planted9-Kw2x"


async def ask(server: RawServer, kind: str, tries: int = 1) -> Reply:
    chat = ChatOpenAI(model=slug(kind), base_url=server.url, api_key=KEY, max_retries=0)
    serving = Serving(base_url=server.url, tries=tries, timeout=20)
    model = LangChainModel(chat, ModelOptions("lab", slug(kind), Sampling(), serving))
    return await model.complete(Request(messages=(Message("user", "q"),)), [])


@pytest.mark.parametrize("kind", ["plain", "gzip", "raw deflate", "one chunk", "trailers"])
async def test_a_good_answer_is_read(kind: str) -> None:
    async with raw_server() as server:
        reply = await ask(server, kind)
    assert (reply.text, reply.usage, reply.notes) == (ANSWER, Usage(12, 7), ())


@pytest.mark.parametrize("kind", ["usage negative", "usage: more cached than asked"])
async def test_a_usage_that_cannot_be_true_is_unknown(kind: str) -> None:
    async with raw_server() as server:
        reply = await ask(server, kind)
    assert (reply.text, reply.usage) == (ANSWER, None)
    assert [note.endswith("the cost is unknown") for note in reply.notes] == [True]


@pytest.mark.parametrize("kind", ["gzip of 100 MB", "1 GB, not packed", "a text of 12 MB"])
async def test_what_is_too_large_fails_once(kind: str) -> None:
    async with raw_server() as server:
        with pytest.raises(CallFailed, match="the rest was not read") as failed:
            await ask(server, kind, tries=3)
        assert len(server.hits) == 1
    assert failed.value.kind == "too_large"


@pytest.mark.parametrize("kind", ["307 to another host", "echo in a redirect"])
async def test_a_redirect_is_not_followed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_API_KEY", KEY)
    async with raw_server() as server:
        with pytest.raises(StopRun, match="Redirects are not followed") as stopped:
            await ask(server, kind, tries=3)
        assert len(server.hits) == 1
    assert KEY.lower() not in str(stopped.value).lower()


async def test_a_key_that_is_repeated_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_API_KEY", KEY)
    async with raw_server() as server:
        reply = await ask(server, "echo, escaped")
    assert reply.text == "The key is [key]."


@pytest.mark.parametrize("status", [400, 500])
async def test_a_prompt_that_is_too_long_is_sent_once(status: int) -> None:
    message = "This model's maximum context length is 4096 tokens. However, your messages resulted in 9000 tokens."
    with answering(lambda request, before: Told({"error": {"message": message}}, status)) as server:
        chat = ChatOpenAI(model="m", base_url=server.url, api_key=KEY, max_retries=0)
        options = ModelOptions("lab", "m", Sampling(), Serving(base_url=server.url, tries=3, timeout=20))
        with pytest.raises(CallFailed, match=r"9,000 tokens, the model's limit is 4,096") as failed:
            await LangChainModel(chat, options).complete(Request(messages=(Message("user", "q"),)), [])
    assert failed.value.kind == "context_too_long"
    assert len(server.posts) == 1


@pytest.mark.parametrize("status", [408, 409, 425, 529])
async def test_a_passing_status_is_tried_again(status: int) -> None:
    reply = {"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]}
    with answering(lambda request, before: Told(reply) if before else Told({}, status, {"Retry-After": "0"})) as server:
        chat = ChatOpenAI(model="m", base_url=server.url, api_key=KEY, max_retries=0)
        model = LangChainModel(chat, ModelOptions("lab", "m", Sampling(), Serving(tries=2, timeout=20)))
        faults: list[Fault] = []
        assert (await model.complete(Request(messages=(Message("user", "q"),)), faults)).text == "yes"
    assert [fault.status for fault in faults] == [status]


FORM = {"type": "json_schema", "json_schema": {"name": "A", "schema": {"type": "object", "properties": {}}}}
TOOL = Tool("search", "Searches.", {"type": "object", "properties": {}, "additionalProperties": False}, strict=True)
"""OpenAI's client wants strict tools beside a form."""
TOKENS = {"content": [{"token": "So", "logprob": -1.5, "top_logprobs": [{"token": "No", "logprob": -0.5}]}]}


async def test_a_request_s_arguments_are_sent_and_log_probabilities_come_back() -> None:
    choice = {"message": {"role": "assistant", "content": "So"}, "finish_reason": "stop", "logprobs": TOKENS}
    with scripted(lambda prompt, before: choice) as server:
        chat = ChatOpenAI(model="m", base_url=server.url, api_key=KEY, max_retries=0, temperature=1.0)
        model = LangChainModel(chat, ModelOptions("lab", "m", Sampling(), Serving(tries=1, timeout=20)))
        asked = Request(
            messages=(Message("user", "q"),),
            temperature=0.0,
            seed=3,
            response_format=FORM,
            logprobs=2,
            tools=(TOOL,),
            tool_choice="required",
            parallel_tool_calls=False,
            stop=("###",),
            max_tokens=9,
        )
        reply = await model.complete(asked, [])
        plain = await model.complete(Request(messages=(Message("user", "q"),)), [])
    first, second = server.bodies
    sent = {"temperature": 0.0, "seed": 3, "logprobs": True, "top_logprobs": 2, "tool_choice": "required"}
    assert {name: first[name] for name in sent} == sent
    assert first["stop"] == ["###"]
    assert first["parallel_tool_calls"] is False
    assert first["response_format"]["json_schema"]["name"] == "A"
    assert first.get("max_tokens", first.get("max_completion_tokens")) == 9
    assert reply.logprobs == (TokenLogprob("So", -1.5, (("No", -0.5),)),)
    assert (second["temperature"], plain.logprobs) == (1.0, None), "the model that others ask is as it was"
    assert not {"seed", "logprobs", "response_format", "tools", "tool_choice", "stop"} & set(second)


class Plain(FakeListChatModel):
    """A provider's class with a temperature, and nothing else of what may be asked."""

    temperature: float | None = None


@pytest.mark.parametrize(
    ("provider", "argument"),
    [
        ("lab", {"seed": 1}),
        ("lab", {"logprobs": 0}),
        ("lab", {"response_format": FORM}),
        ("anthropic", {"seed": 1}),
        ("ollama", {"tool_choice": "required"}),
        ("google_genai", {"parallel_tool_calls": False}),
    ],
)
async def test_a_provider_that_cannot_take_an_argument_says_so(provider: str, argument: dict[str, Any]) -> None:
    model = LangChainModel(Plain(responses=["x"]), ModelOptions(provider, "m", Sampling(), Serving(tries=1)))
    (name,) = argument
    with pytest.raises(
        StopRun, match=rf"^{provider}:m takes no {name} \(LangChain's Plain does not send it\)"
    ) as refused:
        await model.complete(Request(messages=(Message("user", "q"),), **argument), [])
    assert "\n" not in str(refused.value)


async def test_a_field_of_the_provider_s_class_is_set_for_the_one_call() -> None:
    seen: list[float | None] = []

    class Watched(Plain):
        async def _agenerate(self, *arguments: Any, **more: Any) -> Any:
            seen.append(self.temperature)
            return await super()._agenerate(*arguments, **more)

    model = LangChainModel(Watched(responses=["x"]), ModelOptions("lab", "m", Sampling(), Serving(tries=1)))
    for temperature in (0.5, None):
        await model.complete(Request(messages=(Message("user", "q"),), temperature=temperature), [])
    assert seen == [0.5, None]


@pytest.mark.parametrize(
    ("provider", "choice", "form"),
    [("openai", "required", "any"), ("anthropic", "none", {"type": "none"}), ("groq", "none", "none")],
)
def test_a_choice_of_tools_in_langchain_s_words(provider: str, choice: str, form: object) -> None:
    assert choice_for(choice, provider) == form
