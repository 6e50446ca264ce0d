"""What servers of each kind say of a model, asked over real HTTP on loopback."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from ragrounds.base.errors import UserError
from ragrounds.base.specs import parse
from ragrounds.models import server_facts
from ragrounds.models.options import ModelOptions, read_options
from ragrounds.models.server_facts import ask_server, ask_servers, differing, fingerprint, same_server
from ragrounds.models.started_server import free_port
from tests.servers.http_script import Told, answering

Pages = Mapping[str, Any]


@asynccontextmanager
async def serving(pages: Pages) -> AsyncIterator[tuple[str, list[str]]]:
    """A server with these pages: values are JSON, functions make the answer. Gives its address and what was asked."""
    seen: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(f"{request.method} {request.path}")
        page = pages.get(request.path)
        if callable(page):
            made: web.StreamResponse = await page(request)
            return made
        return web.Response(status=404) if page is None else web.json_response(page)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1", seen  # type: ignore[union-attr]
    finally:
        await runner.cleanup()


def model(*urls: str, name: str = "m") -> ModelOptions:
    return read_options(parse(f'openai:{name}[alias=lab,base_url="{",".join(urls)}"]'))


def listing(*entries: Mapping[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": list(entries)}


VLLM = listing(
    {
        "id": "m",
        "created": 1,
        "owned_by": "vllm",
        "root": "/w",
        "parent": None,
        "max_model_len": 4096,
        "permission": [],
    },
    {"id": "other", "owned_by": "vllm", "root": "/x"},
)
LLAMA = listing({"id": "/w/m.gguf", "created": 2, "owned_by": "llamacpp", "meta": {"n_params": 7, "size": 9}})
PROPS = {
    "build_info": "b1",
    "model_path": "/w/m.gguf",
    "chat_template": "x" * 900,
    "default_generation_settings": {"n_ctx": 8},
}
OLLAMA = listing({"id": "m:latest", "created": 3, "owned_by": "library"})
TGI = {"model_id": "m", "model_sha": "s", "version": "3"}
TAGS = {"models": [{"name": "other:latest", "digest": "no"}, {"name": "m:latest", "digest": "sha"}]}


@pytest.mark.parametrize(
    ("pages", "told", "asked"),
    [
        (
            {"/v1/models": VLLM, "/version": {"version": "0.9"}},
            {"id": "m", "root": "/w", "owned_by": "vllm", "max_model_len": "4096", "version": "0.9"},
            2,
        ),
        (
            {"/v1/models": LLAMA, "/props": PROPS},
            {"id": "/w/m.gguf", "owned_by": "llamacpp", "n_params": "7", "size": "9", "build_info": "b1"}
            | {"model_path": "/w/m.gguf", "n_ctx": "8", "chat_template": "sha256:"},
            2,
        ),
        (
            {"/v1/models": OLLAMA, "/api/tags": TAGS, "/api/version": {"version": "0.5"}},
            {"id": "m:latest", "owned_by": "library", "digest": "sha", "version": "0.5"},
            3,
        ),
        ({"/info": TGI}, TGI, 7),
        ({"/v1/models": listing({"id": "m", "owned_by": "sglang"}), "/get_model_info": {"model_path": "/w"}},
         {"id": "m", "owned_by": "sglang", "model_path": "/w"}, 2),
        ({"/v1/models": listing({"id": "a"}, {"id": "b"})}, {}, 1),
        ({"/v1/models": listing()}, {}, 1),
        ({}, {}, 7),
    ],
)  # fmt: skip
async def test_each_kind_of_server_is_asked_for_its_own(pages: Pages, told: dict[str, str], asked: int) -> None:
    async with serving(pages) as (url, seen):
        found = dict(await ask_servers(model(url)))
    if "chat_template" in told:
        assert found.pop("chat_template").startswith(told.pop("chat_template"))
    assert found == told
    assert len(seen) == asked
    assert {line.partition(" ")[0] for line in seen} <= {"GET"}


async def _hangs(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


async def _redirects(request: web.Request) -> web.StreamResponse:
    return web.Response(status=307, headers={"Location": "http://127.0.0.1:1/v1/models"})


async def _page(request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>welcome</html>", content_type="text/html")


async def _endless(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b'{"data": [' + b'{"id": "m"},' * 2_000_000 + b'{"id": "m"}]}')


@pytest.mark.parametrize(
    "page",
    [
        _hangs,
        _redirects,
        _page,
        _endless,
        [],
        5,
        {"data": 5},
        {"data": [5, None]},
        {"data": [{"id": ["m"]}]},
        {"data": {}},
    ],
)
async def test_what_cannot_be_read_was_not_told(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_facts, "TIMEOUT", 0.5)
    async with serving({"/v1/models": page}) as (url, _):
        assert await ask_servers(model(url)) == {}


async def test_a_server_that_is_not_there_has_not_told() -> None:
    assert await ask_servers(model(f"http://127.0.0.1:{free_port()}/v1")) == {}


async def test_nothing_that_is_told_is_long_or_moves_the_cursor() -> None:
    hostile = {"id": "m", "root": "\x1b[2J\u202e" + "a\nb", "owned_by": "x" * 5_000, "max_model_len": {"a": 1}}
    async with serving({"/v1/models": listing(hostile)}) as (url, _):
        found = await ask_servers(model(url))
    assert found["root"] == "<U+001B>[2J<U+202E>a b"
    assert len(found["owned_by"]) < 30
    assert "max_model_len" not in found


async def test_a_key_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-1234567890")

    async def echo(request: web.Request) -> web.StreamResponse:
        return web.json_response(listing({"id": "m", "root": request.headers["Authorization"]}))

    async with serving({"/v1/models": echo}) as (url, _):
        found = await ask_servers(model(url))
    assert "very-secret" not in str(found)


async def test_servers_that_share_calls_agree_or_say_how_they_differ() -> None:
    other = listing({**VLLM["data"][0], "root": "/elsewhere"})
    silent: Callable[..., Any] = _page
    async with (
        serving({"/v1/models": VLLM}) as (one, _),
        serving({"/v1/models": other}) as (two, _),
        serving({"/v1/models": silent}) as (three, _),
    ):
        assert (await ask_servers(model(three, one)))["root"] == "/w"
        with pytest.raises(UserError) as caught:
            await ask_servers(model(three, one, two))
    assert f"{one} reports root /w, {two} reports root /elsewhere" in str(caught.value)


def test_servers_are_compared_by_what_both_times_told() -> None:
    assert same_server({"id": "m", "version": "1"}, {"id": "m", "root": "/w"})
    assert not same_server({"id": "m"}, {"root": "/w"})
    assert not same_server({}, {"id": "m"})
    assert differing({"id": "m", "version": "1", "root": "/w"}, {"version": "2", "id": "m"}) == ["version"]
    assert fingerprint({"a": "1", "b": "2"}) == fingerprint({"b": "2", "a": "1"}) != fingerprint({"a": "1"})


async def test_a_server_that_does_not_answer_is_named_within_two_seconds(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ragrounds.models.server_facts.TIMEOUT", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        started = time.monotonic()
        assert await ask_server(url, "m", "") == {}
    assert time.monotonic() - started >= 2
    assert capfd.readouterr().err == f"Waiting 2 s at most for {url}, which has not said what it serves.\n"
    with answering(lambda request, before: Told({"data": []})) as server:
        await ask_server(server.url, "m", "")
    assert not capfd.readouterr().err
