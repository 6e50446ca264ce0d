"""Answers of the known forms on the wire, complete and streamed: text, calls, usage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from ragrounds.base.http import BadReply, read_json, text_of
from ragrounds.base.records import Reply, ToolCall, Usage
from ragrounds.base.text import wellformed
from ragrounds.models.reply_parts import as_json, cache_writes, counted_usage, read_arguments, read_calls, words
from ragrounds.models.wire_parts import first_number, gemini_calls, object_in, objects_in, shown_text


def _object(body: bytes) -> dict[str, object]:
    read = read_json(body)
    if not isinstance(read, dict):
        raise ValueError("expected a JSON object")
    return read


def answer_events(body: bytes, content_type: str) -> Iterator[dict[str, object]]:
    """Yield the objects of a stream of events, of a list or of lines; of anything else, the single object."""
    start = body.lstrip()[:6]
    if "event-stream" in content_type or start.startswith((b"data:", b"event:", b":")):
        data_lines: list[bytes] = []
        for line in (*body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), b""):
            if line.startswith(b"data:"):
                data_lines.append(line[5:].removeprefix(b" "))
            elif not line and data_lines:
                event, data_lines = b"\n".join(data_lines), []
                if event.strip() == b"[DONE]":
                    return
                yield _object(event)
        return
    if start.startswith(b"["):
        listed = read_json(body)
        yield from objects_in(listed)
        return
    if "ndjson" in content_type:
        yield from (_object(line) for line in body.splitlines() if line.strip())
        return
    yield _object(body)


class _ReplyParts:
    """Parts of an answer, in order."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[ToolCall] = []

    def reply(self, counted: tuple[Usage | None, str], model: object, finish: object, between: str = "") -> Reply:
        """Return the reply made of these parts; thoughts are joined with `between`."""
        usage, note = counted
        return Reply(
            text=wellformed("".join(self.texts)),
            finish=_FINISHES.get(name := words(finish, 60).lower(), name) or "stop",
            usage=usage,
            model=words(model, 200),
            reasoning=wellformed(between.join(self.thoughts)),
            calls=tuple(self.calls),
            notes=(note,) if note else (),
        )


_FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "incomplete": "length",
    "refusal": "content_filter",
    "safety": "content_filter",
}


def responses_read(body: bytes, content_type: str) -> Reply:
    """Return the reply in an answer of this form.

    Raises:
        ValueError: it contains no reply.
    """
    response: dict[str, object] = {}
    for event in answer_events(body, content_type):
        inner = event.get("response")
        if isinstance(inner, dict):
            response = inner
        elif "output" in event:
            response = event
    if "output" not in response:
        raise ValueError("not an answer of the responses API: it has no `output`")
    reply_parts = _ReplyParts()
    for element in objects_in(response["output"]):
        kind = element.get("type")
        if kind == "function_call":
            name, arguments = words(element.get("name"), 200), read_arguments(element.get("arguments"))
            reply_parts.calls.append(ToolCall(words(element.get("call_id"), 200), name, wellformed(arguments)))
        elif kind == "reasoning":
            reply_parts.thoughts.append(shown_text(element.get("summary")))
        elif kind == "message":
            reply_parts.texts.append(shown_text(element.get("content")))
    finish = "tool_calls" if reply_parts.calls else response.get("status")
    return reply_parts.reply(_input_output(object_in(response, "usage")), response.get("model"), finish, "\n")


def _input_output(usage: Mapping[str, object]) -> tuple[Usage | None, str]:
    if not usage:
        return None, ""
    return counted_usage(
        usage.get("input_tokens"),
        usage.get("output_tokens"),
        object_in(usage, "input_tokens_details").get("cached_tokens"),
        object_in(usage, "output_tokens_details").get("reasoning_tokens"),
    )


def messages_read(body: bytes, content_type: str) -> Reply:
    """Return the reply in an answer of this form.

    Raises:
        ValueError: it contains no reply.
    """
    message: dict[str, object] = {}
    blocks: dict[object, dict[str, object]] = {}
    usage: dict[str, object] = {}
    for event in answer_events(body, content_type):
        match event.get("type"):
            case "message_start":
                message = object_in(event, "message")
                usage |= object_in(message, "usage")
            case "content_block_start":
                blocks[event.get("index")] = dict(object_in(event, "content_block"), written="")
            case "content_block_delta":
                block, delta = blocks.setdefault(event.get("index"), {}), object_in(event, "delta")
                for name, field in (("text", "text"), ("thinking", "thinking"), ("partial_json", "written")):
                    if isinstance(piece := delta.get(name), str):
                        block[field] = f"{block.get(field) or ''}{piece}"
            case "message_delta":
                message |= object_in(event, "delta")
                usage |= object_in(event, "usage")
            case "message":
                message = event
                usage |= object_in(event, "usage")
                blocks = dict(enumerate(objects_in(event.get("content"))))
            case "error":
                raise ValueError(f"an error in the stream: {object_in(event, 'error').get('message')}")
    if not message:
        raise ValueError("not a message in Anthropic's format")
    reply_parts = _ReplyParts()
    for block in blocks.values():
        if block.get("type") == "tool_use":
            arguments = block.get("written") or as_json(block.get("input") or {})
            reply_parts.calls.append(
                ToolCall(words(block.get("id"), 200), words(block.get("name"), 200), str(arguments))
            )
        elif block.get("type") == "thinking":
            reply_parts.thoughts.append(words(block.get("thinking"), len(body)))
        else:
            reply_parts.texts.append(words(block.get("text"), len(body)))
    cached = usage.get("cache_read_input_tokens") or 0
    parts = [usage.get("input_tokens"), cached, usage.get("cache_creation_input_tokens") or 0]
    input_tokens = sum(part for part in parts if isinstance(part, int)) if isinstance(parts[0], int) else None
    counted = counted_usage(input_tokens, usage.get("output_tokens"), cached) if usage else (None, "")
    reply = reply_parts.reply(counted, message.get("model"), message.get("stop_reason"), "\n")
    return replace(reply, cache_writes=cache_writes(usage, reply.usage))


def list_read(body: bytes, content_type: str) -> Reply:
    """Return the number of vectors or ranked documents in an answer, in words.

    Raises:
        ValueError: it contains neither.
    """
    answer = _object(body)
    listed = answer.get("data") or answer.get("embeddings") or answer.get("results")
    if not isinstance(listed, list):
        raise ValueError("the answer has neither a list of vectors nor a ranking")
    usage = object_in(answer, "usage")
    tokens = first_number(usage.get("prompt_tokens"), usage.get("total_tokens"), answer.get("prompt_eval_count"))
    counted = counted_usage(tokens, 0) if tokens is not None else (None, "")
    ranked = any("relevance_score" in element for element in objects_in(listed[:1])) or "results" in answer
    reply_parts = _ReplyParts()
    reply_parts.texts.append(f"{len(listed)} {'documents ranked' if ranked else 'vectors'}")
    return reply_parts.reply(counted, answer.get("model"), "stop")


def ollama_read(body: bytes, content_type: str) -> Reply:
    """Return the reply in an answer of this form.

    Raises:
        ValueError: it contains no reply.
    """
    reply_parts, last = _ReplyParts(), dict[str, object]()
    lines = "ndjson" if b"\n{" in body.strip() else content_type
    for last in answer_events(body, lines):
        message = object_in(last, "message")
        reply_parts.texts.append(shown_text(message.get("content") if message else last.get("response")))
        reply_parts.thoughts.append(shown_text(message.get("thinking")))
        reply_parts.calls += read_calls(message.get("tool_calls"))[0]
    if "done" not in last:
        raise ValueError("not an answer in Ollama's format: it is not `done`")
    counted = (
        counted_usage(last.get("prompt_eval_count"), last.get("eval_count")) if "eval_count" in last else (None, "")
    )
    return reply_parts.reply(counted, last.get("model"), last.get("done_reason"))


def gemini_read(body: bytes, content_type: str) -> Reply:
    """Return the reply in an answer of this form.

    Raises:
        ValueError: it contains no reply.
    """
    reply_parts, usage = _ReplyParts(), dict[str, object]()
    model: object = ""
    finish: object = ""
    seen = False
    for event in answer_events(body, content_type):
        usage = object_in(event, "usageMetadata") or usage
        model = event.get("modelVersion") or model
        for candidate in objects_in(event.get("candidates"))[:1]:
            seen = True
            finish = candidate.get("finishReason") or finish
            parts = objects_in(object_in(candidate, "content").get("parts"))
            for part in parts:
                (reply_parts.thoughts if part.get("thought") else reply_parts.texts).append(
                    words(part.get("text"), len(body))
                )
            reply_parts.calls += gemini_calls(parts)
    if not seen:
        raise ValueError("not an answer in Gemini's format: it has no `candidates`")
    thought = first_number(usage.get("thoughtsTokenCount")) or 0
    answer_tokens = first_number(usage.get("candidatesTokenCount"))
    counted: tuple[Usage | None, str] = (None, "")
    if usage:
        output = None if answer_tokens is None else answer_tokens + thought
        counted = counted_usage(usage.get("promptTokenCount"), output, usage.get("cachedContentTokenCount"), thought)
    return reply_parts.reply(counted, model, finish)


def mcp_answer(body: bytes, content_type: str) -> dict[str, object]:
    """Return the JSON-RPC answer in a body of an MCP server, complete or streamed, without its id; empty if missing."""
    try:
        answers = [event for event in answer_events(body, content_type) if "result" in event or "error" in event]
    except (ValueError, BadReply):
        return {}
    return {key: value for key, value in answers[-1].items() if key != "id"} if answers else {}


def mcp_read(body: bytes, content_type: str) -> Reply:
    """Return the output of a tool of an MCP server, as text.

    Raises:
        ValueError: the answer is an error, or is missing.
    """
    answer = mcp_answer(body, content_type)
    if "result" not in answer:
        raise ValueError(f"not a result of an MCP server: {as_json(answer.get('error'))}")
    output = object_in(answer, "result")
    return Reply(text=shown_text(output.get("content")) or as_json(output), usage=Usage())


def listed_read(body: bytes, content_type: str) -> Reply:
    """Return the answer to a call of unknown form, as text. It has no tokens."""
    return Reply(text=wellformed(text_of(body, content_type)), usage=Usage())
