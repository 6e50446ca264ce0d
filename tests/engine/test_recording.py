"""Calls of systems that are not ours, recorded where they leave the process: every client, replay, caps, faults."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import subprocess
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
import openai
import pytest
import requests

from ragrounds.agents.agent import Limits
from ragrounds.base.errors import StopRun
from ragrounds.base.records import Question, Usage
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.evals.engine.foreign_system import run_system
from ragrounds.evals.engine.recording.recorder import AttemptRecorder
from ragrounds.evals.engine.recording.side_loop import side_of
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import traced_call
from ragrounds.recorder.callbacks import begins_in_place
from ragrounds.recorder.wire import Unsent, WireRequest
from tests.engine.doubles import Doing, Made, context_of
from tests.servers.any_form import AnyForm

KEY = "sk-abcDEF1234567890abcDEF12"


def body(**more: object) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **more}


def text(answer: Any) -> str:
    return str(answer["choices"][0]["message"]["content"])


def by_openai(url: str, stream: bool = False, **more: Any) -> str:
    made = openai.OpenAI(base_url=url, api_key=KEY, max_retries=2).chat.completions.create(
        **body(**more), stream=stream
    )
    return (
        "".join(one.choices[0].delta.content or "" for one in made if one.choices)
        if stream
        else made.choices[0].message.content
    )


async def by_async_openai(url: str, stream: bool = False) -> str:
    async with openai.AsyncOpenAI(base_url=url, api_key=KEY) as client:
        made = await client.chat.completions.create(**body(), stream=stream)
        if not stream:
            return str(made.choices[0].message.content)
        return "".join([one.choices[0].delta.content or "" async for one in made if one.choices])


async def by_aiohttp(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/chat/completions", json=body()) as answer:
        assert answer.status == 200
        return text(await answer.json())


async def by_httpx(url: str) -> str:
    async with httpx.AsyncClient() as client:
        return text((await client.post(f"{url}/chat/completions", json=body())).json())


def by_requests(url: str) -> str:
    return text(requests.post(f"{url}/chat/completions", json=body(), timeout=10).json())


async def in_bare_thread(url: str) -> str:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(by_async_openai(url))))
    thread.start()
    await asyncio.to_thread(thread.join)
    return found[0]


async def in_pool(url: str) -> str:
    with ThreadPoolExecutor(2) as pool:
        return "".join(await asyncio.to_thread(lambda: list(pool.map(lambda _: by_openai(url), range(2)))))


WAYS: dict[str, Any] = {
    "openai, async": by_async_openai,
    "openai, async, streamed": lambda url: by_async_openai(url, True),
    "openai, in a thread": lambda url: asyncio.to_thread(by_openai, url),
    "openai, streamed, in a thread": lambda url: asyncio.to_thread(by_openai, url, True),
    "openai, holding the loop up": lambda url: _now(by_openai(url)),
    "requests, in a thread": lambda url: asyncio.to_thread(by_requests, url),
    "requests, holding the loop up": lambda url: _now(by_requests(url)),
    "httpx": by_httpx,
    "aiohttp": by_aiohttp,
    "a thread of its own with a loop of its own": in_bare_thread,
    "a pool of its own": in_pool,
}


async def _now(value: str) -> str:
    return value


@pytest.mark.parametrize("way", WAYS)
def test_every_client_is_recorded_and_replayed_with_the_server_down(way, served, attempt):
    def do(_: Question) -> Any:
        return WAYS[way](served.url)

    first = attempt(do)
    count = 2 if way == "a pool of its own" else 1
    assert first.error is None
    assert "The answer is B" in first.text
    assert len(served.asked) == len(first.calls) == count
    assert first.context.spent.usage == Usage(input=7 * count, output=2 * count)
    assert first.context.spent.cost_paid == pytest.approx(count * (7 * 1.0 + 2 * 10.0) / 1e6)
    second = attempt(do, id="another")
    assert (second.text, len(served.asked)) == (first.text, count)
    assert [[call.cached for call in made.calls] for made in (first, second)] == [[False] * count, [True] * count]
    assert second.context.spent.cost_paid == 0
    assert second.context.spent.cost_uncached == first.context.spent.cost_uncached
    served.close()
    third = attempt(do, "replay", id="third")
    assert third.text == first.text
    assert first.context.missed == third.context.missed == 0


def test_the_journal_holds_what_a_trace_shows_and_no_key(served, attempt, home):
    served.says = lambda _: f"your key is {KEY}"
    tools = [{"type": "function", "function": {"name": "search", "description": "d", "parameters": {}}}]
    made = attempt(lambda _: asyncio.to_thread(by_openai, served.url, temperature=0.5, tools=tools, max_tokens=9))
    (call,) = made.calls
    assert call.actor == f"openai:m[server={served.url},temperature=0.5]"
    assert made.text == "your key is [key]", "the system sees at once what it would see in a replay"
    with Store(home) as store:
        traced = traced_call(store, call)
    assert traced.asked is not None
    assert traced.reply is not None
    assert [(one.role, one.content) for one in traced.asked.messages] == [("user", "hi")]
    assert (traced.asked.tools[0].name, traced.asked.max_tokens) == ("search", 9)
    assert traced.reply.text == "your key is [key]"
    assert not any(KEY.encode() in file.read_bytes() for file in home.rglob("*") if file.is_file())


def test_asking_the_same_twice_is_two_calls(served, attempt):
    replies = iter(["one", "two"])
    served.says = lambda _: next(replies)

    async def do(_: Question) -> str:
        return f"{await by_httpx(served.url)} {await by_httpx(served.url)}"

    assert attempt(do).text == "one two"
    assert attempt(do, "replay").text == "one two"


def test_a_cap_ends_the_attempt_before_the_call_whatever_the_system_makes_of_it(served, attempt):
    async def do(_: Question) -> str:
        for _round in range(10):
            try:
                await by_async_openai(served.url)
            except BaseException:
                continue
        return "as if nothing had been"

    made = attempt(do, limits=Limits(calls=2))
    assert isinstance(made.error, AttemptEnded)
    assert (made.error.status, "2 calls" in made.error.reason) == ("capped", True)
    assert len(served.asked) == 2


@pytest.mark.parametrize("threads", [False, True])
def test_calls_side_by_side_stop_at_the_cap_and_those_that_were_sent_are_kept(threads, served, attempt):
    async def do(_: Question) -> str:
        if threads:
            with ThreadPoolExecutor(8) as pool:
                waiting = [pool.submit(by_openai, served.url) for _round in range(8)]
                await asyncio.gather(*map(asyncio.wrap_future, waiting))
        else:
            await asyncio.gather(*(by_async_openai(served.url) for _round in range(8)))
        return "as if nothing had been"

    made = attempt(do, limits=Limits(calls=3))
    assert isinstance(made.error, AttemptEnded)
    assert made.error.status == "capped"
    assert (len(served.asked), len(made.calls)) == (3, 3)


def test_a_replay_that_misses_sends_nothing_and_names_the_call(served, attempt):
    async def do(_: Question) -> str:
        try:
            return await by_async_openai(served.url)
        except Exception:
            return "swallowed"

    made = attempt(do, "replay")
    assert isinstance(made.error, StopRun)
    assert "not in the journal" in str(made.error)
    assert "hi" in str(made.error)
    assert not served.asked


UNSEEN: dict[str, Any] = {
    "a call of no known form": lambda url: asyncio.to_thread(requests.get, f"{url}/search?key=1", timeout=10),
    "urllib": lambda url: asyncio.to_thread(lambda: urllib.request.urlopen(f"{url}/page", timeout=10).read()),
    "a subprocess": lambda url: asyncio.to_thread(subprocess.run, ["echo", "x"], capture_output=True),
}


@pytest.mark.parametrize("way", UNSEEN)
def test_what_cannot_be_recorded_is_counted_and_closed_in_a_replay(way, served, attempt):
    async def do(_: Question) -> str:
        await UNSEEN[way](served.url)
        return "B"

    made = attempt(do)
    assert made.text == "B"
    assert made.context.missed >= 1
    assert any(note.startswith("not_recorded: ") for note in made.notes)
    assert not any("key=1" in note for note in made.notes)
    before = len(served.asked)
    refused = attempt(do, "replay")
    assert isinstance(refused.error, StopRun)
    assert "nothing was sent" in str(refused.error)
    assert len(served.asked) == before


def test_a_request_of_urllib_is_one_whatever_it_takes(served, attempt):
    def ask() -> None:
        for _ in range(3):
            asked = urllib.request.Request(f"{served.url}/page", data=b"{}")  # headers and body are sent apart
            urllib.request.urlopen(asked, timeout=10).read()
        kept = http.client.HTTPConnection(urlsplit(served.url).netloc)
        for _ in range(2):  # over one connection
            kept.request("GET", "/page")
            kept.getresponse().read()
        kept.close()

    async def do(_: Question) -> str:
        await asyncio.to_thread(ask)
        return "B"

    made = attempt(do)
    assert made.context.missed == 5
    host = urlsplit(served.url).hostname
    assert [note for note in made.notes if note.startswith("not_")] == [
        f"not_recorded: a request to {host} by http.client"
    ]


def test_a_client_that_tries_again_makes_one_call_with_its_faults(served, attempt):
    served.fails = [429, 500]
    made = attempt(lambda _: asyncio.to_thread(by_openai, served.url))
    assert made.text == "The answer is B"
    (call,) = made.calls
    assert [(fault.kind, fault.status) for fault in call.faults] == [("rate_limit", 429), ("server", 500)]
    assert len(served.asked) == 3
    served.fails = [400]
    failed = attempt(lambda _: asyncio.to_thread(by_openai, served.url, temperature=0.9))
    assert isinstance(failed.error, openai.BadRequestError)
    (call,) = failed.calls
    assert "400" in call.error
    assert attempt(lambda _: asyncio.to_thread(by_openai, served.url, temperature=0.9)).text, "an error is not recorded"


def test_attempts_that_share_a_pool_keep_their_own_calls(served, home):
    served.says = lambda asked: asked["messages"][0]["content"]
    pool = ThreadPoolExecutor(1)

    def ask(word: str) -> str:
        asked = {"model": "m", "messages": [{"role": "user", "content": word}]}
        return text(requests.post(f"{served.url}/chat/completions", json=asked, timeout=10).json())

    async def both() -> list[AttemptContext]:
        with Store(home) as store:
            journal = StoreJournal(store)
            contexts = [context_of(journal, word) for word in ("one", "two", "three")]
            loop = asyncio.get_running_loop()
            system = Doing(lambda question: loop.run_in_executor(pool, ask, question.id))
            answers = await asyncio.gather(*(run_system(system, context, journal) for context in contexts))
            assert [answer.text for answer in answers] == ["one", "two", "three"]
            journal.close()
            return contexts

    assert [context.calls.total() for context in asyncio.run(both())] == [1, 1, 1]
    pool.shutdown()


def test_the_seconds_of_an_attempt_end_a_thread_that_goes_on(served, attempt):
    served.gate.clear()
    over = threading.Event()

    def work() -> str:
        try:
            for _round in range(5):
                by_requests(served.url)
        finally:
            over.set()
        return "late"

    async def do(_: Question) -> str:
        try:
            return await asyncio.to_thread(work)
        finally:  # the attempt has ended, and the server answers the call in flight
            served.gate.set()

    made = attempt(do, limits=Limits(seconds=0.2))
    assert isinstance(made.error, AttemptEnded)
    assert made.error.status == "capped"
    assert over.wait(10), "the gate opens, and the thread goes on"
    assert len(served.asked) <= 1, "what it asks for afterwards is not sent"


def test_the_clients_are_as_they_were_once_nothing_is_watched(served, attempt):
    before = httpx.HTTPTransport.handle_request, aiohttp.ClientSession._request, threading.Thread.start
    attempt(lambda _: by_httpx(served.url))
    assert (httpx.HTTPTransport.handle_request, aiohttp.ClientSession._request, threading.Thread.start) == before
    assert by_requests(served.url) == "The answer is B"


def test_embeddings_are_calls_whose_tokens_stand_apart(served: AnyForm, attempt):
    async def do(_: Question) -> str:
        async with openai.AsyncOpenAI(base_url=served.url, api_key=KEY) as client:
            made = [await client.embeddings.create(model="e", input=["a", "b"]) for _ in range(2)]
            return f"{len(made[0].data)} {await by_async_openai(served.url)}"

    made = attempt(do)
    assert made.text == "2 The answer is B"
    assert [call.role for call in made.calls] == ["embedding", "embedding", "answering"]
    assert [call.usage for call in made.calls[:2]] == [Usage(input=3, output=0)] * 2
    assert len(served.asked) == 2, "the same vectors are asked for once"
    assert made.context.spent.usage == Usage(input=7, output=2)


def test_calls_of_addresses_that_the_user_lists_are_recorded(served, home):
    async def make(mode: Any, key: str) -> Made:
        with Store(home) as store:
            journal = StoreJournal(store, mode)
            context = context_of(journal, recorded=(f"{served.place}/search",))
            asked = f"{served.place}/search?q=heparin&api_key={key}"

            def do() -> str:
                answer = requests.get(asked, timeout=10)
                return f"{answer.text} of {answer.headers['X-Product']}"

            system = Doing(lambda _: asyncio.to_thread(do))
            made = Made((await run_system(system, context, journal)).text, None, context)
            (call,) = made.calls
            traced = traced_call(store, call)
            assert traced.asked is not None
            assert traced.asked.messages[0].content == "GET q=heparin"
            journal.close()
            return made

    made = asyncio.run(make("reuse", "one-key"))
    served.close()
    again = asyncio.run(make("replay", "another-key"))
    assert made.text == again.text == "page of a search"
    assert [(call.kind, call.actor.partition("/")[2]) for call in made.calls] == [("tool", "search")]
    assert made.context.missed == 0
    assert made.context.spent.cost_uncached == 0.0


def test_vectors_that_look_like_keys_come_as_they_are(served, attempt):
    served.vector = "AIza" + "b" * 60  # 48 bytes, twelve numbers, in the form of a key
    numbers: list[list[float]] = []

    def do(_: Question) -> Any:
        def ask() -> str:
            made = openai.OpenAI(base_url=served.url, api_key=KEY).embeddings.create(model="e", input=["a"])
            numbers.append(made.data[0].embedding)
            return "B"

        return asyncio.to_thread(ask)

    assert attempt(do).text == attempt(do, "replay").text == "B"
    assert numbers[0] == numbers[1]
    assert len(numbers[0]) == 12


def test_a_model_inside_the_process_is_seen_where_no_callbacks_are_handed_on(attempt):
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.tools import tool

    @tool
    def search_notes(query: str) -> str:
        """Search the notes."""
        return "found"

    async def do(_: Question) -> str:
        await asyncio.to_thread(search_notes.invoke, {"query": "heparin"})
        return str(await asyncio.to_thread(lambda: FakeListChatModel(responses=["B"]).invoke("hi").content))

    made = attempt(do)
    assert made.text == "B"
    assert [call.kind for call in made.calls] == ["search", "model"]
    assert made.context.missed == 1
    assert made.context.spent.usage is None
    assert "not_recorded: a model of class FakeListChatModel" in made.notes
    assert isinstance(attempt(do, "replay").error, StopRun)


@pytest.mark.parametrize("told_apart", [False, True])
def test_a_coroutines_model_call_is_its_own_and_ends(served, attempt, monkeypatch, told_apart):
    from langchain_core.callbacks.manager import AsyncCallbackManager
    from langchain_openai import ChatOpenAI

    attempt(lambda _: _now("B"))  # LangChain's hook stands
    hooked = AsyncCallbackManager.on_chat_model_start

    async def apart(self: Any, *args: Any, **named: Any) -> Any:
        """As before langchain-core 0.3.51: handlers are told in a task of their own."""
        return await asyncio.create_task(hooked.__wrapped__(self, *args, **named))

    if told_apart:
        monkeypatch.setattr(AsyncCallbackManager, "on_chat_model_start", begins_in_place(apart))

    async def do(_: Question) -> str:
        said = await ChatOpenAI(model="m", base_url=served.url, api_key=KEY).ainvoke("hi")
        async with httpx.AsyncClient() as client:
            await client.get(f"{served.url}/page")
        return str(said.content)

    made = attempt(do)
    assert [call.kind for call in made.calls] == ["model"]
    assert [note for note in made.notes if "not_recorded" in note] == [f"not_recorded: GET {served.url}/page"]


def test_an_answer_without_end_is_not_read_on_once_the_attempt_is_over(attempt):
    read = threading.Event()

    class Endless(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(b" " * 1000)
                    time.sleep(0.01)
            read.set()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    made = attempt(lambda _: asyncio.to_thread(by_requests, url), limits=Limits(seconds=0.3))
    assert isinstance(made.error, AttemptEnded)
    assert read.wait(10), "the client has gone away"
    server.shutdown()
    server.server_close()


def test_a_prompt_that_a_filter_refused_may_have_been_paid(served, attempt):
    served.fails, served.error = [400], {"code": "content_filter", "message": "refused"}
    made = attempt(lambda _: asyncio.to_thread(by_requests, served.url))
    assert (made.context.spent.cost_paid, made.context.unanswered) == (0.0, 1), "at least nothing"


def test_an_answer_that_nobody_can_read_may_have_been_paid(served, attempt):
    served.answer = lambda path, body: (b"<html>busy</html>", "text/html")  # type: ignore[method-assign]
    made = attempt(lambda _: asyncio.to_thread(by_requests, served.url))
    assert made.error is not None
    assert (made.context.spent.cost_paid, made.context.unanswered) == (0.0, 1), "at least nothing"
    (call,) = made.calls
    assert call.error == made.context.last_failure
    assert "expected JSON" in call.error


def test_a_call_that_comes_as_the_journal_closes_is_refused(home):
    asked: list[str] = []

    def ask(recorder):
        request = WireRequest("POST", "http://127.0.0.1:1/v1/chat/completions", {}, b"{}")
        try:
            recorder.exchange_blocking(request, pytest.fail)
        except Unsent as refused:
            asked.append(str(refused))

    async def closed() -> None:
        with Store(home) as store:
            journal = StoreJournal(store)
            recorder = AttemptRecorder(context_of(journal), journal)
            thread = side_of(journal)._thread
            late, join = threading.Thread(target=ask, args=(recorder,), daemon=True), thread.join

            def joined() -> None:
                join()
                late.start()  # the loop has stopped, and is not closed yet
                late.join(5)

            thread.join = joined
            journal.close()

    asyncio.run(closed())
    assert asked == ["the journal was closed before this call began"]


def test_a_system_that_holds_the_loop_up_for_its_own_threads_is_recorded(served, attempt):
    async def do(_: Question) -> str:
        with ThreadPoolExecutor(3) as pool:  # all of it on the event loop, without an await
            return " ".join(pool.map(lambda number: by_openai(served.url, seed=number), range(3)))

    made = attempt(do)
    assert made.text == "The answer is B The answer is B The answer is B"
    assert (len(served.asked), len(made.calls)) == (3, 3)
    assert attempt(do, "replay").text == made.text
