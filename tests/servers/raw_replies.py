"""A server that sends any bytes: every kind of reply that a broken, hostile or merely different server may give.

A case is named by the model that is asked for (:func:`slug`). It gets what was asked (chat, or embeddings; streamed or
not) and yields the bytes that are sent, headers included. `KINDS` is the list of all cases, which tests and
``perf/faults.py`` share.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import json
import re
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

from tests.servers.streams import events

MB = 1 << 20
ANSWER = "Aspirin inhibits cyclooxygenase."
USAGE: dict[str, Any] = {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}
JSON, SSE = "application/json", "text/event-stream; charset=utf-8"


class Asked(NamedTuple):
    """What a request asked for."""

    path: str
    stream: bool
    headers: dict[str, str]
    body: dict[str, Any]
    port: int

    @property
    def embeds(self) -> bool:
        return self.path.endswith("/embeddings")

    @property
    def key(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")


def slug(name: str) -> str:
    """A case's name as the name of a model."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


STREAMED = "streamed--"
"""Before a model's name: the case of a stream, whatever was asked."""
Case = Callable[[Asked], AsyncIterator[bytes]]
KINDS: dict[str, Case] = {}


def kind(name: str) -> Callable[[Case], Case]:
    def _add(case: Case) -> Case:
        KINDS[name] = case
        return case

    return _add


def head(status: str = "200 OK", type: str = JSON, *more: str, length: int | None = None, http: str = "1.1") -> bytes:
    """Status line and headers."""
    lines = [f"HTTP/{http} {status}", "Connection: close", *([f"Content-Type: {type}"] if type else []), *more]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def whole(body: bytes, status: str = "200 OK", type: str = JSON, *more: str) -> bytes:
    """A complete answer."""
    return head(status, type, *more, length=len(body)) + body


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def completion(asked: Asked, message: Any = None, usage: Any = USAGE, **more: Any) -> dict[str, Any]:
    """A chat completion, or vectors for what was asked."""
    if asked.embeds:
        texts = asked.body.get("input", [""])
        rows = [{"index": n, "embedding": [1.0, float(n), 0.5], "object": "embedding"} for n in range(len(texts))]
        return {"object": "list", "model": "m", "data": rows, "usage": usage, **more}
    choice = {"index": 0, "message": message or {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
    return {"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage, **more}


def typed(asked: Asked) -> str:
    return SSE if asked.stream else JSON


def payload(asked: Asked, answer: dict[str, Any], *, text: bytes | None = None) -> bytes:
    """The body of an answer, as a stream where one was asked for; `text`: its JSON as it is to be sent."""
    body = text if text is not None else json.dumps(answer).encode()
    if not asked.stream:
        return body
    if text is None and isinstance(answer.get("choices"), list) and len(body) < MB:
        with contextlib.suppress(TypeError, KeyError, AttributeError, ValueError):
            return b"".join(events(body))
    return b"data: " + body.replace(b'"message"', b'"delta"') + b"\n\ndata: [DONE]\n\n"


def sent(asked: Asked, answer: dict[str, Any], **options: Any) -> bytes:
    return whole(payload(asked, answer, **options), type=typed(asked))


def fixed(name: str, make: Callable[[Asked], bytes]) -> None:
    """A case whose bytes are known at once."""

    async def _case(asked: Asked) -> AsyncIterator[bytes]:
        yield make(asked)

    KINDS[name] = _case


# What is right

fixed("plain", lambda asked: sent(asked, completion(asked)))
fixed("one chunk", lambda asked: (
    head("200 OK", typed(asked), "Transfer-Encoding: chunked")
    + chunk(payload(asked, completion(asked))) + b"0\r\n\r\n"
))  # fmt: skip


@kind("byte by byte")
async def _bytewise(asked: Asked) -> AsyncIterator[bytes]:
    body = payload(asked, completion(asked, message={"content": "é😀 yes"}))
    yield head("200 OK", typed(asked), "Transfer-Encoding: chunked")
    for place in range(0, len(body), 3):
        yield chunk(body[place : place + 3])
    yield b"0\r\n\r\n"


@kind("http 1.0 without length")
async def _old(asked: Asked) -> AsyncIterator[bytes]:
    yield head("200 OK", typed(asked), http="1.0") + payload(asked, completion(asked))


def packed(pack: Callable[[bytes], bytes], name: str) -> Callable[[Asked], bytes]:
    return lambda asked: whole(
        pack(payload(asked, completion(asked))), "200 OK", typed(asked), f"Content-Encoding: {name}"
    )


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


fixed("gzip", packed(gzip.compress, "gzip"))
fixed("gzip in two members", packed(lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:]), "x-gzip"))
fixed("deflate", packed(zlib.compress, "deflate"))
fixed("raw deflate", packed(raw_deflate, "deflate"))
fixed("gzip with padding", packed(lambda data: gzip.compress(data) + b"\0" * 64, "gzip"))
fixed("trailers", lambda asked: (
    head("200 OK", typed(asked), "Transfer-Encoding: chunked", "Trailer: X-A")
    + chunk(payload(asked, completion(asked))) + b"0\r\nX-A: b\r\nX-C: d\r\n\r\n"
))  # fmt: skip
fixed("100 and 103 first", lambda asked: (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + sent(asked, completion(asked))
))  # fmt: skip
fixed("bom", lambda asked: whole(b"\xef\xbb\xbf" + payload(asked, completion(asked)), type=typed(asked)))
fixed("utf-16", lambda asked: whole(
    json.dumps(completion(asked)).encode("utf-16"), type="application/json; charset=utf-16"
))  # fmt: skip
fixed("latin-1, as it says", lambda asked: whole(
    json.dumps(completion(asked, message={"content": "caf\xe9"}), ensure_ascii=False).encode("latin-1"),
    type="application/json; charset=iso-8859-1",
))  # fmt: skip
fixed("latin-1, called utf-8", lambda asked: whole(
    payload(asked, completion(asked, message={"content": "cafXX"})).replace(b"XX", b"\xe9"), type=typed(asked)
))  # fmt: skip
fixed("charset nobody knows", lambda asked: whole(
    payload(asked, completion(asked)), type=typed(asked).partition(";")[0] + "; charset=idna"
))  # fmt: skip
fixed("json as text/html", lambda asked: whole(json.dumps(completion(asked)).encode(), type="text/html"))
fixed("json as a stream", lambda asked: whole(json.dumps(completion(asked)).encode(), type=SSE))
fixed("no content type", lambda asked: whole(payload(asked, completion(asked)), type=""))
fixed("206", lambda asked: whole(payload(asked, completion(asked)), "206 Partial Content", typed(asked)))
fixed("cookies", lambda asked: whole(
    payload(asked, completion(asked)), "200 OK", typed(asked), *(f"Set-Cookie: c{n}={'x' * 500}" for n in range(20))
))  # fmt: skip

# Usage that cannot be true

for _name, _usage in {
    "usage negative": {**USAGE, "prompt_tokens": -5000},
    "usage a float": {**USAGE, "prompt_tokens": 12.0},
    "usage a text": {**USAGE, "prompt_tokens": "12"},
    "usage of 10^30": {**USAGE, "prompt_tokens": 10**30},
    "usage a bool": {**USAGE, "prompt_tokens": True},
    "usage of null": {**USAGE, "prompt_tokens": None},
    "usage empty": {"total_tokens": 3},
    "usage a list": [12, 7],
    "usage: more cached than asked": {**USAGE, "prompt_tokens_details": {"cached_tokens": 13}},
    "usage: more reasoning than output": {**USAGE, "completion_tokens_details": {"reasoning_tokens": 8}},
    "usage: a total below its parts": {**USAGE, "total_tokens": 3},
    "no usage": None,
}.items():
    fixed(_name, lambda asked, usage=_usage: sent(asked, completion(asked, usage=usage)))  # type: ignore[misc]
fixed("usage NaN", lambda asked: sent(asked, completion(asked, usage={**USAGE, "prompt_tokens": float("nan")})))
fixed("usage of 5,000 digits", lambda asked: whole(
    payload(asked, completion(asked)).replace(b'"prompt_tokens": 12', b'"prompt_tokens": ' + b"9" * 5000),
    type=typed(asked),
))  # fmt: skip

# Forms


def _message(name: str, message: Any) -> None:
    fixed(name, lambda asked: sent(asked, completion(asked, message=message)))


_PARTS = [{"type": "text", "text": "Aspirin "}, {"type": "text", "text": "helps."}, "!"]
_message("content in parts", {"content": _PARTS})
_message("content with an image", {"content": [*_PARTS, {"type": "image_url", "image_url": {"url": "x"}}]})
_message("content with thoughts", {"content": [{"type": "thinking", "thinking": [{"text": "hm"}]}, *_PARTS]})
_message("content an object", {"content": {"answer_choice": "B"}})
_message("content a number", {"content": 42})
_message("content null", {"content": None})
_message("lone surrogates", {"content": "a \ud800 b"})
_message("call with an object", {
    "content": None, "tool_calls": [{"function": {"name": "search", "arguments": {"query": "aspirin"}}}]
})  # fmt: skip
_message("calls without names", {"content": "x", "tool_calls": [{}, None, 3, {"function": {}}, {"id": 5}]})
_message("3,000 calls", {"content": "x", "tool_calls": [{"id": f"c{n}", "function": {"name": "f", "arguments": "{}"}}
                                                     for n in range(3000)]})  # fmt: skip
_message("a text of 6 MB", {"content": "word " * (6 * MB // 5)})
_message("a text of 12 MB", {"content": "word " * (12 * MB // 5)})
fixed("5,000 choices", lambda asked: sent(asked, {
    **completion(asked), "choices": [{"index": n, "message": {"content": f"{n}"}, "finish_reason": "stop"}
                                     for n in range(5000)]
}))  # fmt: skip
fixed("no choices", lambda asked: sent(asked, {**completion(asked), "choices": [], "data": []}))
fixed("choices null", lambda asked: sent(asked, {**completion(asked), "choices": None, "data": None}))
fixed("choices of null", lambda asked: sent(asked, {**completion(asked), "choices": [None], "data": [None]}))
fixed("names that are numbers", lambda asked: sent(asked, {**completion(asked), "model": 5, "id": [], "object": {}}))
fixed("vectors of texts", lambda asked: sent(asked, {**completion(asked), "data": [{"index": 0, "embedding": "aaa"}]}))
fixed("vectors of NaN", lambda asked: sent(asked, {
    **completion(asked), "data": [{"index": 0, "embedding": [float("nan"), 1.0]}]
}))  # fmt: skip
fixed("vectors of two lengths", lambda asked: sent(asked, {
    **completion(asked), "data": [{"index": n, "embedding": [1.0] * (n + 1)} for n in range(3)]
}))  # fmt: skip
fixed("an error with status 200", lambda asked: sent(asked, {"error": {"message": "overloaded", "code": 500}}))

# What is no answer

fixed("empty body", lambda asked: whole(b"", type=typed(asked)))
fixed("204", lambda asked: head("204 No Content", ""))
fixed("html", lambda asked: whole(b"<html><body>Bad gateway</body></html>", type="text/html"))
fixed("truncated json", lambda asked: whole(json.dumps(completion(asked)).encode()[:-9], type=JSON))
fixed("not http", lambda asked: b"\x16\x03\x01\x02\x00 SSH-2.0-OpenSSH_9\r\n")
fixed("closed at once", lambda asked: b"")
fixed("fewer bytes than it says", lambda asked: (
    head("200 OK", typed(asked), length=10_000_000) + payload(asked, completion(asked))[:-30]
))  # fmt: skip
fixed("more bytes than it says", lambda asked: (
    head("200 OK", typed(asked), length=len(payload(asked, completion(asked)))) + payload(asked, completion(asked)) * 3
))  # fmt: skip
fixed("length below zero", lambda asked: head("200 OK", JSON, "Content-Length: -5") + b"{}")
fixed("two lengths", lambda asked: head("200 OK", JSON, "Content-Length: 5", "Content-Length: 9") + b"{}       ")
fixed("length and chunks", lambda asked: (
    head("200 OK", typed(asked), "Content-Length: 3", "Transfer-Encoding: chunked")
    + chunk(payload(asked, completion(asked))) + b"0\r\n\r\n"
))  # fmt: skip
fixed("a chunk of 10^18 bytes", lambda asked: (
    head("200 OK", typed(asked), "Transfer-Encoding: chunked") + b"de0b6b3a7640000\r\n" + b"{" * 1000
))  # fmt: skip
fixed("brotli, unasked", lambda asked: whole(b"\x0b\x02\x80abc\x03", "200 OK", JSON, "Content-Encoding: br"))
fixed("gzip four times", lambda asked: whole(
    b"\x1f\x8b", "200 OK", JSON, "Content-Encoding: gzip, gzip, gzip, gzip"
))  # fmt: skip
fixed("gzip that is none", lambda asked: whole(b"{}", "200 OK", JSON, "Content-Encoding: gzip"))
fixed("gzip cut off", packed(lambda data: gzip.compress(data)[:-20], "gzip"))
fixed("500", lambda asked: whole(b'{"error": {"message": "oops"}}', "500 Internal Server Error"))
fixed("429", lambda asked: whole(b"{}", "429 Too Many Requests", JSON, "Retry-After: 0"))
fixed("400", lambda asked: whole(b'{"error": {"message": "no such parameter"}}', "400 Bad Request"))
fixed("401 with the key", lambda asked: whole(
    json.dumps({"error": {"message": f"Incorrect API key provided: {asked.key}"}}).encode(), "401 Unauthorized"
))  # fmt: skip
fixed("400, an error of 12 MB", lambda asked: whole(b'{"error": "' + b"x" * (12 * MB) + b'"}', "400 Bad Request"))
fixed("500, nested 100,000 deep", lambda asked: whole(b"[" * 100_000 + b"]" * 100_000, "500 Oops"))
fixed("101", lambda asked: head("101 Switching Protocols", "", "Upgrade: h2c"))
for _status in (301, 302, 303, 307, 308):
    fixed(f"{_status} to another host", lambda asked, status=_status: whole(  # type: ignore[misc]
        b"", f"{status} Elsewhere", "", f"Location: http://127.0.0.2:{asked.port}/v1/stolen?key={asked.key}"
    ))  # fmt: skip
fixed("307 with tricks", lambda asked: whole(b"", "307 X", "", "Location: https://u:p@h\x1b[31m\t.example:99999/\x07"))
fixed("302 to nowhere", lambda asked: whole(b"", "302 Found", ""))

# A key that is repeated


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


def _echo(asked: Asked) -> bytes:
    key = asked.key
    call = {"id": key, "type": "function", "function": {"name": f"f_{key}", "arguments": f'{{"q": "{escaped(key)}"}}'}}
    message = {"role": "assistant", "content": f"The key is {key}, and again: {key}. (B)", "tool_calls": [call]}
    message |= {"reasoning_content": f"I saw {key}"}
    return sent(
        asked, completion(asked, message=message, usage={**USAGE, "prompt_tokens": key}) | {"model": f"m-{key}"}
    )


fixed("echo", _echo)
fixed("echo, escaped", lambda asked: whole(
    payload(asked, completion(asked, message={"role": "assistant", "content": "The key is HERE."})).replace(
        b"HERE", escaped(asked.key).encode()), type=typed(asked)
))  # fmt: skip
fixed("echo in a 400", lambda asked: whole(
    json.dumps({"error": {"message": f"bad key {asked.key} " * 40}}).encode(), f"400 {asked.key}"
))  # fmt: skip
fixed("echo in a 500 page", lambda asked: whole(f"<p>{asked.key}</p>".encode() * 9, "500 Oops", f"text/{asked.key}"))
fixed("echo in what is no json", lambda asked: whole(
    f'{{"x": "{"y" * 100}{asked.key}'.encode(), "200 OK", f"text/{asked.key}", f"X-Key: {asked.key}"
))  # fmt: skip
fixed("echo in what is no http", lambda asked: f"{'y' * 30}{asked.key}\r\n\r\n".encode())
fixed("echo in a redirect", lambda asked: whole(
    b"", "308 Go", "", f"Location: http://{asked.key}.example/{asked.key}?key={asked.key}", f"Set-Cookie: {asked.key}"
))  # fmt: skip

# Bombs, floods and silence


@functools.cache
def _block(encoding: str) -> tuple[bytes, bytes]:
    """What a packed body begins with, and 8 MB of it, packed, which may be repeated."""
    packer = zlib.compressobj(9, wbits=31 if encoding == "gzip" else 15)
    start = packer.flush(zlib.Z_FULL_FLUSH)
    return start, packer.compress(b"a" * (8 * MB)) + packer.flush(zlib.Z_FULL_FLUSH)


async def _bomb(asked: Asked, size: int, encoding: str = "gzip") -> AsyncIterator[bytes]:
    yield head("200 OK", typed(asked), f"Content-Encoding: {encoding}", "Transfer-Encoding: chunked")
    start, block = _block(encoding)
    packer = zlib.compressobj(9, wbits=-15)
    text = b'data: {"choices": [{"delta": {"content": "' if asked.stream else b'{"choices": [{"message": {"content": "'
    yield chunk(start + packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH))
    for _ in range(size // (8 * MB)):
        yield chunk(block)
    yield b"0\r\n\r\n"


@kind("gzip of 1 GB")
async def _gzip_bomb(asked: Asked) -> AsyncIterator[bytes]:
    async for part in _bomb(asked, 1024 * MB):
        yield part


@kind("gzip of 100 MB")
async def _small_bomb(asked: Asked) -> AsyncIterator[bytes]:
    async for part in _bomb(asked, 100 * MB):
        yield part


@kind("deflate of 1 GB")
async def _deflate_bomb(asked: Asked) -> AsyncIterator[bytes]:
    async for part in _bomb(asked, 1024 * MB, "deflate"):
        yield part


@kind("1 GB, not packed")
async def _large(asked: Asked) -> AsyncIterator[bytes]:
    yield head("200 OK", typed(asked), "Transfer-Encoding: chunked") + chunk(b'data: {"a": "' if asked.stream else b'"')
    for _ in range(1024):
        yield chunk(b"a" * MB)


@kind("a stream that never ends")
async def _endless(asked: Asked) -> AsyncIterator[bytes]:
    yield head("200 OK", SSE, "Transfer-Encoding: chunked")
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "on and on "}}]}\n\n' * 500
    while True:
        yield chunk(event)


@kind("comments without end")
async def _comments(asked: Asked) -> AsyncIterator[bytes]:
    yield head("200 OK", SSE, "Transfer-Encoding: chunked")
    while True:
        yield chunk(b": keep-alive\n\n" * 4000)


@kind("open after [DONE]")
async def _open(asked: Asked) -> AsyncIterator[bytes]:
    yield head("200 OK", SSE, "Transfer-Encoding: chunked") + chunk(
        payload(asked._replace(stream=True), completion(asked))
    )
    await asyncio.sleep(60)


@kind("more after [DONE] in one packet")
async def _more(asked: Asked) -> AsyncIterator[bytes]:
    asked = asked._replace(stream=True)
    again = payload(asked, completion(asked, message={"role": "assistant", "content": "I think: D."}))
    yield head("200 OK", SSE, "Transfer-Encoding: chunked") + chunk(payload(asked, completion(asked)) + again)


@kind("cut before [DONE]")
async def _cut(asked: Asked) -> AsyncIterator[bytes]:
    body = payload(asked._replace(stream=True), completion(asked)).replace(b"data: [DONE]\n\n", b"")
    yield head("200 OK", SSE, "Transfer-Encoding: chunked") + chunk(body)


@kind("silence")
async def _silent(asked: Asked) -> AsyncIterator[bytes]:
    yield b""
    await asyncio.sleep(60)


@kind("a byte now and then")
async def _drip(asked: Asked) -> AsyncIterator[bytes]:
    yield head("200 OK", typed(asked), length=100_000)
    while True:
        yield b" "
        await asyncio.sleep(0.1)


@kind("headers, a byte now and then")
async def _drip_headers(asked: Asked) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nX-Slow: "
    while True:
        yield b"a"
        await asyncio.sleep(0.1)


@kind("headers without end")
async def _headers(asked: Asked) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        yield b"".join(b"X-%d: %s\r\n" % (n, b"y" * 100) for n in range(5000))


@kind("a header of 50 MB")
async def _wide(asked: Asked) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nX-Wide: "
    for _ in range(50):
        yield b"y" * MB
    yield b"\r\n\r\n"


@kind("100 without end")
async def _continue(asked: Asked) -> AsyncIterator[bytes]:
    while True:
        yield b"HTTP/1.1 100 Continue\r\n\r\n" * 1000


fixed("nested 3,000,000 deep", lambda asked: whole(payload(asked, {}, text=b"[" * 3_000_000), type=typed(asked)))
fixed("nested 90,000 deep, in content", lambda asked: sent(asked, {}, text=(
    b'{"choices": [{"message": {"content": ' + b"[" * 45_000 + b"]" * 45_000 + b"}}]}"
)))  # fmt: skip
fixed("2,500,000 empty lists", lambda asked: whole(
    payload(asked, {}, text=b'{"choices": [' + b"[]," * 2_500_000 + b"0]}"), type=typed(asked)
))  # fmt: skip
fixed("4,000,000 numbers", lambda asked: whole(
    payload(asked, {}, text=b'{"choices": [' + b"1," * 4_000_000 + b"0]}"), type=typed(asked)
))  # fmt: skip
fixed("one event of 12 MB in lines", lambda asked: whole(
    b"data: a\n" * (12 * MB // 8) + b"\n", type=SSE
))  # fmt: skip
fixed("1,000,000 empty events", lambda asked: whole(b"data: {}\n\n" * 1_000_000 + b"data: [DONE]\n\n", type=SSE))


async def _about(asked: Asked) -> AsyncIterator[bytes]:
    """What the server says of itself, with the key."""
    rows = [{"id": f"m-{asked.key}", "object": "model", "owned_by": asked.key}]
    yield whole(json.dumps({"object": "list", "data": rows, "version": asked.key}).encode())


class RawServer:
    """The server, in the running event loop. `hits` holds what was asked, in order."""

    def __init__(self) -> None:
        self.hits: list[Asked] = []
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self) -> None:
        """Listen on a free port of every loopback address."""
        self._server = await asyncio.start_server(self._connected, "0.0.0.0", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            asked = await self._read(reader)
            self.hits.append(asked)
            cases = {slug(name): case for name, case in KINDS.items()}
            case = cases[slug(asked.body["model"])] if asked.body["model"] else _about
            async for part in case(asked):
                writer.write(part)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()  # each answer has its connection: what is behind one case never meets the next

    async def _read(self, reader: asyncio.StreamReader) -> Asked:
        start = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = start.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        given = json.loads(body) if body else {}
        model = str(given.get("model", ""))
        stream = bool(given.get("stream")) or model.startswith(STREAMED)  # embeddings are never asked for as a stream
        return Asked(first.split(" ")[1], stream, headers, {**given, "model": model.removeprefix(STREAMED)}, self.port)


@contextlib.contextmanager
def raw_server_thread() -> Iterator[RawServer]:
    """The server in a thread of its own, until the block ends."""
    server, loop = RawServer(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.serve(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextlib.asynccontextmanager
async def raw_server() -> AsyncIterator[RawServer]:
    """The server, until the block ends."""
    server = RawServer()
    await server.serve()
    try:
        yield server
    finally:
        await server.close()
