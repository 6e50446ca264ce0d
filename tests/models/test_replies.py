"""What a server may reply: bounded, read with goodwill, or refused by name. Each kind is sent by a real server."""

from __future__ import annotations

import json
import resource

import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.errors import StopRun
from ragrounds.base.records import Fault, Message, Reply, Usage
from ragrounds.models.faults import CallFailed
from ragrounds.models.openai_compatible import OpenAICompatible
from ragrounds.models.options import ModelOptions, Sampling, Serving
from ragrounds.models.reply_parts import believed
from tests.servers.raw_replies import ANSWER, KINDS, RawServer, raw_server

KEY = "sk-test-0123456789abcdefghijkl"
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


async def ask(
    server: RawServer, kind: str, stream: bool, faults: list[Fault] | None = None, tries: int = 1, seconds: float = 10
) -> Reply:
    """What a model makes of one kind of reply."""
    assert kind in KINDS
    serving = Serving(base_url=server.url, alias="a", tries=tries, timeout=seconds, stream=stream)
    model = OpenAICompatible(ModelOptions("openai", kind, Sampling(), serving))
    try:
        return await model.complete(Request(messages=(Message("user", "q"),)), faults if faults is not None else [])
    finally:
        await model.close()


@BOTH
@pytest.mark.parametrize(
    "kind",
    ["plain", "one chunk", "http 1.0 without length", "gzip", "gzip in two members", "raw deflate", "trailers",
     "gzip with padding", "bom", "utf-16", "100 and 103 first", "json as text/html", "json as a stream",
     "no content type", "charset nobody knows", "206", "cookies", "cut before [DONE]", "open after [DONE]",
     "more after [DONE] in one packet"],
)  # fmt: skip
async def test_a_good_answer_is_read_whatever_its_wrapping(kind: str, stream: bool) -> None:
    async with raw_server() as server:
        reply = await ask(server, kind, stream)
    assert (reply.text, reply.finish, reply.usage, reply.notes) == (ANSWER, "stop", Usage(12, 7), ())


@BOTH
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("usage")])
async def test_a_usage_that_cannot_be_true_is_unknown_and_noted(kind: str, stream: bool) -> None:
    async with raw_server() as server:
        reply = await ask(server, kind, stream)
    assert (reply.text, reply.usage) == (ANSWER, None)
    assert [note.endswith("the cost is unknown") for note in reply.notes] == [True]


@pytest.mark.parametrize(
    ("times", "usage", "kept"),
    [
        (1, Usage(12, 7), True),
        (1, Usage(1, 200_000, reasoning=199_000), True),  # thoughts that nobody is shown
        (1, Usage(10**9, 7), False),
        (1, Usage(12, 10**9), False),
        (1, Usage(0, 7), False),
        (1, Usage(12, 0), False),
        (8, Usage(1, 30), False),
        (8, Usage(2, 30), True),
        (8, Usage(100, 100_000), False),
        (8, Usage(100, 100_000, reasoning=99_000), True),  # reasoning that the provider counts and does not show
        (8, Usage(100, 30_000), True),  # reasoning that it does not count apart
    ],
)
def test_a_usage_that_the_texts_do_not_allow_is_unknown(times: int, usage: Usage, kept: bool) -> None:
    request = Request(messages=(Message("user", "m" * 50 * times),))
    reply = believed(Reply(text="Magnesium." * times, usage=usage), request)
    assert reply.usage == (usage if kept else None)
    assert ["the cost is unknown" in note for note in reply.notes] == [True] * (not kept)


def test_nothing_asked_and_nothing_answered_may_count_nothing() -> None:
    reply = Reply(text="", usage=Usage(0, 0))
    assert believed(reply, Request(messages=())) == reply


@BOTH
@pytest.mark.parametrize(
    ("kind", "text", "noted"),
    [
        ("content in parts", "Aspirin helps.!", ""),
        ("content with an image", "Aspirin helps.!", "image_url"),
        ("content with thoughts", "Aspirin helps.!", ""),
        ("content an object", '{"answer_choice":"B"}', ""),
        ("content a number", "42", ""),
        ("content null", "", ""),
        ("lone surrogates", "a \ufffd b", ""),
        ("byte by byte", "é😀 yes", ""),
        ("latin-1, as it says", "café", ""),
        ("latin-1, called utf-8", "caf\ufffd", ""),
        ("names that are numbers", ANSWER, ""),
    ],
)
async def test_a_text_is_read_from_any_form(kind: str, text: str, noted: str, stream: bool) -> None:
    async with raw_server() as server:
        reply = await ask(server, kind, stream)
    assert (reply.text, reply.usage) == (text, Usage(12, 7))
    assert [noted in note for note in reply.notes] == [True] * bool(noted)
    assert reply.reasoning == ("hm" if "thoughts" in kind else "")


async def test_a_stream_that_is_cut_after_its_answer_is_read_and_noted() -> None:
    async with raw_server() as server:
        reply = await ask(server, "fewer bytes than it says", True)
    assert (reply.text, reply.usage) == (ANSWER, None)
    assert reply.notes == ("the stream ended before its usage: the cost is unknown",)


@BOTH
async def test_tool_calls_are_read_from_any_form(stream: bool) -> None:
    async with raw_server() as server:
        [call] = (await ask(server, "call with an object", stream)).calls
        assert (call.name, json.loads(call.arguments)) == ("search", {"query": "aspirin"})
        assert len((await ask(server, "3,000 calls", stream)).calls) == 256


@BOTH
@pytest.mark.parametrize(
    "kind",
    ["gzip of 100 MB", "1 GB, not packed", "a text of 12 MB", "2,500,000 empty lists", "4,000,000 numbers",
     "400, an error of 12 MB"],
)  # fmt: skip
async def test_what_is_too_large_fails_once_and_is_not_kept(kind: str, stream: bool) -> None:
    async with raw_server() as server:
        await ask(server, "plain", stream)
        before, faults = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, list[Fault]()
        with pytest.raises(CallFailed, match=r"expected at most|the rest was not read") as failed:
            await ask(server, kind, stream, faults, tries=3)
        assert len(server.hits) == 2
    assert (failed.value.kind, faults) == ("too_large", [])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # kB, the server's share included


@BOTH
@pytest.mark.parametrize(
    ("kind", "fault", "said"),
    [
        ("nested 90,000 deep, in content", "malformed", "too deep"),
        ("brotli, unasked", "malformed", "not asked for"),
        ("gzip four times", "malformed", "not asked for"),
        ("gzip that is none", "malformed", "damaged"),
        ("headers without end", "connection", "Too many headers"),
        ("a header of 50 MB", "connection", "8190 bytes"),
        ("not http", "connection", "Bad status line: Expected HTTP/, RTSP/ or ICE/ (gave up"),
        ("a chunk of 10^18 bytes", "connection", "Not enough data"),
        ("choices of null", "malformed", "a choice"),
        ("html", "malformed", "expected JSON, got text/html"),
        ("500, nested 100,000 deep", "server", "[[["),
    ],
)
async def test_what_is_no_answer_has_a_name(kind: str, fault: str, said: str, stream: bool) -> None:
    async with raw_server() as server:
        with pytest.raises(CallFailed) as failed:
            await ask(server, kind, stream)
    assert failed.value.kind == fault
    assert said in failed.value.message
    assert "\n" not in failed.value.message


@BOTH
@pytest.mark.parametrize("kind", ["a byte now and then", "headers, a byte now and then", "comments without end"])
async def test_what_never_ends_is_a_timeout(kind: str, stream: bool) -> None:
    async with raw_server() as server:
        with pytest.raises(CallFailed) as failed:
            await ask(server, kind, stream, seconds=0.4)
    assert failed.value.kind == "timeout"


@BOTH
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("30")])
async def test_a_redirect_stops_the_run_and_sends_nothing_on(kind: str, stream: bool) -> None:
    async with raw_server() as server:
        with pytest.raises(StopRun) as stopped:
            await ask(server, kind, stream, tries=3)
        assert len(server.hits) == 1
    said = str(stopped.value)
    assert f"({kind[:3]})" in said
    assert KEY not in said
    assert said.isprintable()
    if "another host" in kind:
        assert f"redirects to http://127.0.0.2:{server.port} " in said
