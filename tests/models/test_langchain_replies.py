"""A model of LangChain's has the same boundary, as far as its package lets it."""

from __future__ import annotations

import pytest
from langchain_openai import ChatOpenAI

from ragrounds.contracts import Request
from ragrounds.errors import StopRun
from ragrounds.models.faults import CallFailed
from ragrounds.models.langchain import LangChainModel
from ragrounds.models.options import ModelOptions, Sampling, Serving
from ragrounds.records import Message, Reply, Usage
from tests.servers.raw_replies import ANSWER, RawServer, raw_server, slug

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
