"""OpenAI's chat completions on the wire: the body of a request, the fields of an answer, streams, and errors.

A server that is not OpenAI's may answer with anything, and each case ends in its right outcome here: a reply, a
transient fault, a failed call, or a reason to stop the run.
"""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.contracts import Request, Tool
from ragrounds.errors import StopRun
from ragrounds.models.faults import CallFailed, TooLong, Transient, redacted, too_long
from ragrounds.models.options import ModelOptions, cards
from ragrounds.models.transport import HttpAnswer
from ragrounds.records import Message, Reply, ToolCall, Usage
from ragrounds.text import wellformed, wellformed_all

CHAT, COMPLETIONS = "/chat/completions", "/completions"


def body_of(options: ModelOptions, request: Request) -> tuple[str, dict[str, object]]:
    """The path and the JSON body of a request.

    A prefix becomes the beginning of the text to continue: in a card's template, or as an unfinished assistant's turn
    with vLLM's ``continue_final_message``.
    """
    own_server = options.serving.base_url is not None
    body: dict[str, object] = {"model": options.model, **msgspec.to_builtins(options.sampling)}
    if request.max_tokens is not None:
        longest = options.sampling.max_tokens
        body["max_tokens"] = request.max_tokens if longest is None else min(request.max_tokens, longest)
    stops = list(request.stop)
    if options.card:
        card = cards()[options.card]
        # Completions end at 16 tokens where nothing is said.
        body.setdefault("max_tokens", DEFAULT)
        stops += [stop for stop in card.stops if stop not in stops]
        body["prompt"] = card.written(request.messages, request.prefix)
    else:
        messages = [message_of(message) for message in request.messages]
        if request.prefix:
            messages.append({"role": "assistant", "content": request.prefix})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        body["messages"] = messages
        if not own_server and "max_tokens" in body:
            # OpenAI's reasoning models refuse the older name, which other servers need.
            body["max_completion_tokens"] = body.pop("max_tokens")
        if request.tools:
            body["tools"] = [tool_of(tool) for tool in request.tools]
        if request.web_search:
            body["web_search_options"] = {}
    if stops:
        body["stop"] = stops
    if options.serving.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return COMPLETIONS if options.card else CHAT, body


DEFAULT = 1024
"""Tokens of a completion where neither the request nor the model's spec says."""


def message_of(message: Message) -> dict[str, object]:
    """A message in OpenAI's form."""
    plain: dict[str, object] = {"role": message.role, "content": message.content}
    if message.calls:
        plain["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    if message.answers:
        plain["tool_call_id"] = message.answers
    return plain


def tool_of(tool: Tool) -> dict[str, object]:
    """A tool in OpenAI's form, which LangChain takes too."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


class WireFunction(Struct):
    name: str | None = None
    arguments: str | None = None


class WireToolCall(Struct):
    index: int | None = None
    """Which call of the message, where it comes in pieces."""
    id: str | None = None
    function: WireFunction | None = None


class WireMessage(Struct):
    content: str | None = None
    tool_calls: list[WireToolCall] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class WireChoice(Struct):
    index: int = 0
    message: WireMessage | None = None
    delta: WireMessage | None = None
    """In place of `message`, the next part of a streamed answer."""
    text: str | None = None
    """In place of `message`, from the completions API."""
    finish_reason: str | None = None
    stop_reason: str | int | None = None


class PromptDetails(Struct):
    cached_tokens: int | None = None


class OutputDetails(Struct):
    reasoning_tokens: int | None = None


class WireUsage(Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: OutputDetails | None = None


class Completion(Struct):
    choices: list[WireChoice] | None = None
    usage: WireUsage | None = None
    model: str | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(Completion)


def decoded(body: bytes | str, *, whole: bool = True) -> Completion:
    """Decode a completion, or a chunk of one, which is not `whole`: its texts may hold half a character.

    Raises:
        ValueError: it is neither (:class:`msgspec.DecodeError` is one).
    """
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        # Models write lone surrogates as JSON escapes, which only the standard library reads.
        if (b"\\ud" if isinstance(body, bytes) else "\\ud") not in body.lower():  # type: ignore[operator]
            raise
        plain = json.loads(body)
        return msgspec.convert(wellformed_all(plain) if whole else plain, Completion)


_END = "[DONE]"


def join_stream(body: bytes) -> Completion:
    """Join a whole stream of server-sent events to the completion it holds; of several choices the first.

    Raises:
        Transient: the stream ended before its end, or holds an error or something else than chunks of a completion.
    """
    model, usage, parts, over = "", None, list[WireChoice](), False
    for data in _events(body):
        if data == _END:
            over = True
            continue
        chunk = _chunk(data)
        if chunk.error is not None:
            raise Transient("server", redacted(str(chunk.error))[:300], 200)
        model, usage = chunk.model or model, chunk.usage or usage
        parts += [part for part in chunk.choices or () if not part.index]
    over = over or any(part.finish_reason for part in parts)
    if not over:
        raise Transient("malformed", "the stream of an answer ended before its end", 200)
    return Completion(choices=[_joined(parts)] if parts else [], usage=usage, model=model)


def _joined(parts: list[WireChoice]) -> WireChoice:
    said = [part.delta or part.message for part in parts]
    deltas = [delta for delta in said if delta is not None]
    finish = [part.finish_reason for part in parts if part.finish_reason]
    stops = [part.stop_reason for part in parts if part.stop_reason is not None]
    whole = WireChoice(finish_reason=finish[-1] if finish else None, stop_reason=stops[-1] if stops else None)
    if not deltas:
        whole.text = _text(part.text for part in parts)
        return whole
    whole.message = WireMessage(
        content=_text(delta.content for delta in deltas),
        refusal=_text(delta.refusal for delta in deltas),
        reasoning_content=_text(delta.reasoning_content for delta in deltas),
        reasoning=_text(delta.reasoning for delta in deltas),
        tool_calls=_calls(call for delta in deltas for call in delta.tool_calls or ()),
    )
    return whole


def _calls(pieces: Iterable[WireToolCall]) -> list[WireToolCall] | None:
    calls: dict[int, WireToolCall] = {}
    for piece in pieces:
        # A server that does not number them gives each call whole.
        call = calls.setdefault(
            len(calls) if piece.index is None else piece.index, WireToolCall(function=WireFunction())
        )
        call.id = call.id or piece.id
        if piece.function is not None and call.function is not None:
            call.function.name = (call.function.name or "") + (piece.function.name or "")
            call.function.arguments = (call.function.arguments or "") + (piece.function.arguments or "")
    for call in calls.values():
        if call.function is not None:
            call.function.arguments = wellformed(call.function.arguments or "")
    return [calls[index] for index in sorted(calls)] or None


def _text(pieces: Iterable[str | None]) -> str | None:
    """All parts as one text; ``None``: there is none. The halves of a character may be in two of them."""
    said = [piece for piece in pieces if piece is not None]
    return wellformed("".join(said)) if said else None


def _chunk(data: str) -> Completion:
    try:
        return decoded(data, whole=False)
    except ValueError as error:
        start = redacted(data[:120])
        raise Transient("malformed", f"not a chunk of a chat completion ({error}): {start!r}", 200) from error


def _events(body: bytes) -> Iterator[str]:
    """The data of each event (WHATWG HTML, Section 9.2)."""
    lines: list[str] = []
    text = body.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    for line in [*text.split("\n"), ""]:
        if not line and lines:
            yield "\n".join(lines)
            lines = []
        elif line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))


def read_reply(body: bytes, content_type: str) -> Reply:
    """Decode a 200 answer.

    A response without choices is a complete reply with ``finish="none"``, a filtered one has
    ``finish="content_filter"``; the caller decides what these are worth.

    Raises:
        Transient: the body is not a chat completion (a proxy's page, cut or malformed JSON).
    """
    if "event-stream" in content_type:
        return _reply(join_stream(body), body)
    if "json" not in content_type and not body.lstrip().startswith(b"{"):
        raise Transient("malformed", f"expected JSON, got {content_type or 'no content type'}: {_start(body)}", 200)
    try:
        completion = decoded(body)
    except ValueError as error:
        raise Transient("malformed", f"not a chat completion ({error}): {_start(body)}", 200) from error
    return _reply(completion, body)


def _reply(completion: Completion, body: bytes) -> Reply:
    if completion.choices is None:
        what = completion.error if completion.error is not None else "no 'choices'"
        raise Transient("malformed", f"not a chat completion: {redacted(str(what))[:300]}", 200)
    usage, model = _usage(completion.usage), completion.model or ""
    if not completion.choices:
        return Reply(text="", finish="none", usage=usage, model=model)
    choice = completion.choices[0]
    message = WireMessage(content=choice.text) if choice.message is None else choice.message
    if choice.message is None and choice.text is None:
        raise Transient("malformed", f"not a chat completion (a choice without a message): {_start(body)}", 200)
    finish = choice.finish_reason or "stop"
    if message.refusal and not message.content:
        return Reply(text=message.refusal, finish="content_filter", usage=usage, model=model)
    return Reply(
        text=message.content or "",
        finish=finish,
        usage=usage,
        model=model,
        reasoning=message.reasoning_content or message.reasoning or "",
        # vLLM names the stop string that it cut off.
        stopped_at=choice.stop_reason if isinstance(choice.stop_reason, str) else "",
        calls=tuple(
            ToolCall(call.id or "", call.function.name or "", call.function.arguments or "")
            for call in message.tool_calls or ()
            if call.function is not None
        ),
    )


def read_error(answered: HttpAnswer, model: str, base_url: str | None, key: str) -> Reply:
    """Raise what an HTTP error means; return a reply only for a provider's content filter.

    Raises:
        StopRun: every further call would fail alike (wrong key, unknown model, no credit).
        CallFailed: this request is wrong (too long a context, a parameter the server does not take).
        Transient: worth another try (429, 408, 409, 5xx).
    """
    status = answered.status
    server = base_url or "the OpenAI API"
    code, said, fields = _said(answered, key)
    if status in (401, 403):
        raise StopRun(f"{server} refused the key ({status}): {said}. Check OPENAI_API_KEY.")
    if status == 404:
        raise StopRun(f"{server} does not know the model {model!r}, or the address is wrong (404): {said}")
    if status == 429 and code == "insufficient_quota":
        raise StopRun(f"{server}: no credit left (429): {said}")
    if status == 429:
        raise Transient("rate_limit", said, status, retry_after(answered.headers))
    if long := too_long(code, said, fields):  # some servers answer 500 to it, and would again
        raise long.failed(said)
    if status in (408, 409) or status >= 500:
        raise Transient("server", said, status, retry_after(answered.headers))
    if code == "content_filter" or "content management policy" in said:
        return Reply(text="", finish="content_filter", model=model)
    if status == 413:
        raise TooLong(None, None).failed(said)
    raise CallFailed("bad_request", f"{status}: {said}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: ``retry-after-ms``, or ``Retry-After`` as seconds or as a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        given = headers.get("retry-after")
        if given is None:
            return None
        if given.strip().replace(".", "", 1).isdigit():
            return float(given)
        return max(0.0, email.utils.parsedate_to_datetime(given).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def _said(answered: HttpAnswer, key: str) -> tuple[str, str, dict[str, object]]:
    """Code, message and all fields of an error."""
    try:
        body = msgspec.json.decode(answered.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = answered.body.decode("utf-8", "replace")
    inner = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(inner, dict):
        code, message = str(inner.get("code") or inner.get("type") or ""), str(inner.get("message") or inner)
    else:
        code, message = "", str(inner or "no reason was given")
    fields = inner if isinstance(inner, dict) else {}
    return code, redacted(" ".join(message.split()), key)[:500], fields


def _usage(usage: WireUsage | None) -> Usage | None:
    if usage is None:
        return None
    prompt, output = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input=usage.prompt_tokens,
        output=usage.completion_tokens or 0,
        cached=(prompt.cached_tokens or 0) if prompt else 0,
        reasoning=(output.reasoning_tokens or 0) if output else 0,
    )


def _start(body: bytes) -> str:
    return repr(redacted(body[:120].decode("utf-8", "replace")))
