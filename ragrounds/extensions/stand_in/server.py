"""A model server that stands in for every model: OpenAI's chat completions on loopback, for as long as a block lasts.

It is no model. What it says follows from the request alone (:mod:`ragrounds.extensions.stand_in.replies`), so that all
can be tried from end to end without a key, a GPU or a network.

    with stand_in_server() as base_url:
        rr.run("sample", "vanilla_rag", model="openai:any-name", base_url=base_url, alias=ALIAS)

`ragrounds stand-in` serves the same until it is interrupted (:func:`serve_stand_in`), so that one can try what needs a
model before one has a server.

It listens on 127.0.0.1 alone, at a port that the system chooses. Give `ALIAS` with its address: recorded calls are then
kept under that name, and another block, with another port, finds them.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
from aiohttp import web

from ragrounds.base.errors import UserError
from ragrounds.extensions.stand_in.replies import StandInReply, reply_to, word_vector

ALIAS = "stand-in"
"""The name of the server in a model's identity."""
HOST = "127.0.0.1"
_BODY = 64 * 2**20
_DIMENSIONS = 256
_MOST_DIMENSIONS = 4096
_START = 30.0
"""Seconds until it must listen."""


@contextmanager
def stand_in_server() -> Iterator[str]:
    """Serve until the block ends, on a thread of its own.

    Yields:
        The base URL, ``http://127.0.0.1:PORT/v1``.

    Raises:
        RuntimeError: it could not begin to listen.
    """
    loop = asyncio.new_event_loop()
    begun: list[int] = []
    ready = threading.Event()

    async def _begin() -> web.AppRunner:
        runner = web.AppRunner(_application(), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, HOST, 0, backlog=1024)
        await site.start()
        begun.append(int(runner.addresses[0][1]))
        return runner

    def _serve() -> None:
        asyncio.set_event_loop(loop)
        try:
            runner = loop.run_until_complete(_begin())
            ready.set()
            loop.run_forever()
            loop.run_until_complete(runner.cleanup())
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=_serve, name="stand-in server", daemon=True)
    thread.start()
    ready.wait(_START)
    if not begun:
        raise RuntimeError(f"The stand-in server could not listen on {HOST}.")
    try:
        yield f"http://{HOST}:{begun[0]}/v1"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_START)


def serve_stand_in(port: int, message: Callable[[str], None]) -> None:
    """Serve until it is interrupted.

    Args:
        port: where it listens, on 127.0.0.1; 0 is a free one.
        message: told the address once it listens.

    Raises:
        UserError: it cannot listen at this port.
    """

    try:
        listening = socket.create_server((HOST, port), backlog=1024)
    except OSError as problem:
        raise UserError(
            f"The stand-in server cannot listen on {HOST}:{port} ({problem.strerror or problem}). "
            "Give another port with --port, or 0 for a free one."
        ) from problem
    with listening:
        message(f"http://{HOST}:{listening.getsockname()[1]}/v1")
        web.run_app(_application(), sock=listening, access_log=None, print=None)


def _application() -> web.Application:
    made = web.Application(client_max_size=_BODY)
    made.add_routes(
        [
            web.post("/v1/chat/completions", _chat),
            web.post("/v1/embeddings", _embeddings),
            web.get("/v1/models", _models),
        ]
    )
    return made


async def _models(request: web.Request) -> web.Response:
    # One model, whatever is asked for; no window is told, so none is assumed.
    return web.json_response({"object": "list", "data": [{"id": ALIAS, "object": "model", "owned_by": "ragrounds"}]})


class _CompletionRequest(msgspec.Struct):
    """The fields of a request that are read; all others are passed over."""

    model: str
    messages: list[dict[str, object]]
    stop: str | list[str] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    tools: list[dict[str, object]] | None = None
    tool_choice: object = None
    response_format: dict[str, object] | None = None
    stream: bool = False
    n: int | None = None


async def _chat(request: web.Request) -> web.StreamResponse:
    try:
        asked = msgspec.json.decode(await request.read(), type=_CompletionRequest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        return _refused(str(problem))
    if asked.n not in (None, 1):
        return _refused("the stand-in gives one choice: n must be 1")
    if not asked.messages:
        return _refused("messages: at least one is needed")
    stops = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
    most = asked.max_tokens if asked.max_tokens is not None else asked.max_completion_tokens
    reply = reply_to(
        asked.messages,
        asked.model,
        tools=asked.tools or (),
        tool_choice=asked.tool_choice,
        response_format=asked.response_format,
        stops=stops,
        most=most,
    )
    body = _body(asked.model, reply)
    if not asked.stream:
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for chunk in _chunks(asked.model, reply):
        await response.write(b"data: " + msgspec.json.encode(chunk) + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


class _EmbeddingRequest(msgspec.Struct):
    """The fields of a request for vectors that are read."""

    model: str
    input: str | list[str]
    dimensions: int | None = None
    encoding_format: str = "float"


async def _embeddings(request: web.Request) -> web.Response:
    try:
        asked = msgspec.json.decode(await request.read(), type=_EmbeddingRequest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        return _refused(str(problem))
    dimensions = _DIMENSIONS if asked.dimensions is None else asked.dimensions
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        return _refused(f"dimensions must be 1 to {_MOST_DIMENSIONS}, not {dimensions}")
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    found = [word_vector(text, dimensions) for text in texts]
    vectors = [_packed(one) for one in found] if asked.encoding_format == "base64" else found
    data = [{"object": "embedding", "index": place, "embedding": one} for place, one in enumerate(vectors)]
    tokens = sum(len(text) // 4 + 1 for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return web.json_response({"object": "list", "model": asked.model, "data": data, "usage": usage})


def _packed(vector: Sequence[float]) -> str:
    """As OpenAI's own client asks for it: float32, little-endian, base64."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _refused(why: str) -> web.Response:
    return web.json_response({"error": {"message": why, "type": "invalid_request_error"}}, status=400)


def _usage(reply: StandInReply) -> dict[str, int]:
    return {
        "prompt_tokens": reply.asked_tokens,
        "completion_tokens": reply.said_tokens,
        "total_tokens": reply.asked_tokens + reply.said_tokens,
    }


def _called(reply: StandInReply) -> list[dict[str, object]]:
    function = {"name": reply.tool, "arguments": msgspec.json.encode(reply.arguments).decode()}
    return [{"index": 0, "id": "call_stand_in", "type": "function", "function": function}]


def _body(model: str, reply: StandInReply) -> dict[str, object]:
    said: dict[str, object] = {"content": None, "tool_calls": _called(reply)} if reply.tool else {"content": reply.text}
    choice: dict[str, object] = {"index": 0, "message": {"role": "assistant", **said}, **_ended(reply)}
    return {"id": ALIAS, "object": "chat.completion", "model": model, "choices": [choice], "usage": _usage(reply)}


def _ended(reply: StandInReply) -> dict[str, object]:
    return {"finish_reason": reply.finish, "stop_reason": reply.stopped_at or None}


def _chunks(model: str, reply: StandInReply) -> Iterator[dict[str, object]]:
    """The same reply in two pieces, then why it ended, then the usage."""
    half = len(reply.text) // 2
    deltas: list[dict[str, object]] = [{"role": "assistant", "tool_calls": _called(reply)}] if reply.tool else []
    deltas += [{"content": piece} for piece in (reply.text[:half], reply.text[half:]) if piece]
    choices: list[list[dict[str, object]]] = [[{"index": 0, "delta": one, "finish_reason": None}] for one in deltas]
    choices.append([{"index": 0, "delta": {}, **_ended(reply)}])
    whole: dict[str, object] = {"id": ALIAS, "object": "chat.completion.chunk", "model": model}
    yield from ({**whole, "choices": each} for each in choices)
    yield {**whole, "choices": [], "usage": _usage(reply)}
