"""Stand-in server for every model: OpenAI's chat completions on loopback, until a block ends.

It is no model. A reply depends only on the request (:mod:`ragrounds.extensions.stand_in.replies`), so that everything
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
from aiohttp import web

from ragrounds.base.errors import UserError
from ragrounds.extensions.stand_in.replies import StandInReply, reply_to, word_vector

ALIAS = "stand-in"
"""Name of the server in a model's identity."""
HOST = "127.0.0.1"
_MAX_BODY_BYTES = 64 * 2**20
_DIMENSIONS = 256
_MAX_DIMENSIONS = 4096
_START_SECONDS = 30.0
"""Seconds until the server must listen."""


@contextmanager
def stand_in_server() -> Iterator[str]:
    """Serve on a separate thread until the block ends.

    Yields:
        The base URL, ``http://127.0.0.1:PORT/v1``.

    Raises:
        RuntimeError: it could not begin to listen.
    """
    loop = asyncio.new_event_loop()
    bound_ports: list[int] = []
    ready = threading.Event()

    def _serve() -> None:
        asyncio.set_event_loop(loop)
        try:
            runner = web.AppRunner(_application(), access_log=None)
            loop.run_until_complete(runner.setup())
            loop.run_until_complete(web.TCPSite(runner, HOST, 0, backlog=1024).start())
            bound_ports.append(int(runner.addresses[0][1]))
            ready.set()
            loop.run_forever()
            loop.run_until_complete(runner.cleanup())
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=_serve, name="stand-in server", daemon=True)
    thread.start()
    ready.wait(_START_SECONDS)
    if not bound_ports:
        raise RuntimeError(f"The stand-in server could not listen on {HOST}.")
    try:
        yield f"http://{HOST}:{bound_ports[0]}/v1"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_START_SECONDS)


def serve_stand_in(port: int, message: Callable[[str], None]) -> None:
    """Serve until it is interrupted.

    Args:
        port: port on 127.0.0.1; 0: a free one.
        message: called with the address when the server listens.

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
    application = web.Application(client_max_size=_MAX_BODY_BYTES)
    application.add_routes(
        [
            web.post("/v1/chat/completions", _chat),
            web.post("/v1/embeddings", _embeddings),
            web.get("/v1/models", _models),
        ]
    )
    return application


async def _models(request: web.Request) -> web.Response:
    # The list has one model, for any name; it states no context window, so that clients assume none.
    return web.json_response({"object": "list", "data": [{"id": ALIAS, "object": "model", "owned_by": "ragrounds"}]})


class _CompletionRequest(msgspec.Struct):
    """Fields of a request for a completion that are read; all others are ignored."""

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
        completion = msgspec.json.decode(await request.read(), type=_CompletionRequest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        return _refused(str(problem))
    if completion.n not in (None, 1):
        return _refused("the stand-in gives one choice: n must be 1")
    if not completion.messages:
        return _refused("messages: at least one is needed")
    stops = [completion.stop] if isinstance(completion.stop, str) else completion.stop or []
    max_tokens = completion.max_tokens if completion.max_tokens is not None else completion.max_completion_tokens
    reply = reply_to(
        completion.messages,
        completion.model,
        tools=completion.tools or (),
        tool_choice=completion.tool_choice,
        response_format=completion.response_format,
        stops=stops,
        max_tokens=max_tokens,
    )
    if not completion.stream:
        content = {"content": None, "tool_calls": _tool_calls(reply)} if reply.tool else {"content": reply.text}
        choice = {"index": 0, "message": {"role": "assistant", **content}, **_ended(reply)}
        body = {"id": ALIAS, "object": "chat.completion", "model": completion.model, "choices": [choice]}
        return web.json_response({**body, "usage": _usage(reply)})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for chunk in _chunks(completion.model, reply):
        await response.write(b"data: " + msgspec.json.encode(chunk) + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


class _EmbeddingRequest(msgspec.Struct):
    """Fields of a request for vectors that are read."""

    model: str
    input: str | list[str]
    dimensions: int | None = None
    encoding_format: str = "float"


async def _embeddings(request: web.Request) -> web.Response:
    try:
        embedding = msgspec.json.decode(await request.read(), type=_EmbeddingRequest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        return _refused(str(problem))
    dimensions = _DIMENSIONS if embedding.dimensions is None else embedding.dimensions
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        return _refused(f"dimensions must be 1 to {_MAX_DIMENSIONS}, not {dimensions}")
    texts = [embedding.input] if isinstance(embedding.input, str) else embedding.input
    data: list[dict[str, object]] = []
    for index, text in enumerate(texts):
        vector = word_vector(text, dimensions)
        floats = struct.pack(f"<{dimensions}f", *vector)  # OpenAI's base64 form: float32, little-endian
        encoded = base64.b64encode(floats).decode() if embedding.encoding_format == "base64" else vector
        data.append({"object": "embedding", "index": index, "embedding": encoded})
    tokens = sum(len(text) // 4 + 1 for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return web.json_response({"object": "list", "model": embedding.model, "data": data, "usage": usage})


def _refused(reason: str) -> web.Response:
    return web.json_response({"error": {"message": reason, "type": "invalid_request_error"}}, status=400)


def _usage(reply: StandInReply) -> dict[str, int]:
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.reply_tokens,
        "total_tokens": reply.prompt_tokens + reply.reply_tokens,
    }


def _tool_calls(reply: StandInReply) -> list[dict[str, object]]:
    function = {"name": reply.tool, "arguments": msgspec.json.encode(reply.arguments).decode()}
    return [{"index": 0, "id": "call_stand_in", "type": "function", "function": function}]


def _ended(reply: StandInReply) -> dict[str, object]:
    return {"finish_reason": reply.finish, "stop_reason": reply.stopped_at or None}


def _chunks(model: str, reply: StandInReply) -> Iterator[dict[str, object]]:
    """Yield the reply in two pieces, then the reason for its end, then the usage."""
    half = len(reply.text) // 2
    deltas: list[dict[str, object]] = [{"role": "assistant", "tool_calls": _tool_calls(reply)}] if reply.tool else []
    deltas += [{"content": piece} for piece in (reply.text[:half], reply.text[half:]) if piece]
    choices: list[list[dict[str, object]]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, **_ended(reply)}])
    common_fields: dict[str, object] = {"id": ALIAS, "object": "chat.completion.chunk", "model": model}
    yield from ({**common_fields, "choices": chunk_choices} for chunk_choices in choices)
    yield {**common_fields, "choices": [], "usage": _usage(reply)}
