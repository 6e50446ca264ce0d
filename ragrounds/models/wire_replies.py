"""What came back in answers of the forms that are known at the wire, whole and streamed: text, calls, usage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragrounds.base.http import BadReply, read_json, text_of
from ragrounds.base.records import Reply, ToolCall, Usage
from ragrounds.base.text import wellformed
from ragrounds.models.reply_parts import as_json, counted_usage, read_arguments, read_calls, words
from ragrounds.models.wire_parts import first_number, gemini_calls, object_in, objects_in, shown_text


def _object(body: bytes) -> dict[str, object]:
    read = read_json(body)
    if not isinstance(read, dict):
        raise ValueError("expected a JSON object")
    return read


def answer_events(body: bytes, content_type: str) -> Iterator[dict[str, object]]:
    """The objects of a stream of events, of a list or of lines; of anything else, the one object that it is."""
    start = body.lstrip()[:6]
    if "event-stream" in content_type or start.startswith((b"data:", b"event:", b":")):
        data: list[bytes] = []
        for line in (*body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), b""):
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                event, data = b"\n".join(data), []
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


class _Said:
    """The parts of an answer, in their order."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[ToolCall] = []

    def reply(self, counted: tuple[Usage | None, str], model: object, finish: object, between: str = "") -> Reply:
        """The reply of these parts; `between` thoughts stands so much."""
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
    """The reply that an answer of this form holds.

    Raises:
        ValueError: it holds none.
    """
    found: dict[str, object] = {}
    for event in answer_events(body, content_type):
        inner = event.get("response")
        if isinstance(inner, dict):
            found = inner
        elif "output" in event:
            found = event
    if "output" not in found:
        raise ValueError("not an answer of the responses API: it has no `output`")
    said = _Said()
    for item in objects_in(found["output"]):
        kind = item.get("type")
        if kind == "function_call":
            name, arguments = words(item.get("name"), 200), read_arguments(item.get("arguments"))
            said.calls.append(ToolCall(words(item.get("call_id"), 200), name, wellformed(arguments)))
        elif kind == "reasoning":
            said.thoughts.append(shown_text(item.get("summary")))
        elif kind == "message":
            said.texts.append(shown_text(item.get("content")))
    finish = "tool_calls" if said.calls else found.get("status")
    return said.reply(_input_output(object_in(found, "usage")), found.get("model"), finish, "\n")


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
    """The reply that an answer of this form holds.

    Raises:
        ValueError: it holds none.
    """
    whole: dict[str, object] = {}
    blocks: dict[object, dict[str, object]] = {}
    usage: dict[str, object] = {}
    for event in answer_events(body, content_type):
        match event.get("type"):
            case "message_start":
                whole = object_in(event, "message")
                usage |= object_in(whole, "usage")
            case "content_block_start":
                blocks[event.get("index")] = dict(object_in(event, "content_block"), written="")
            case "content_block_delta":
                _extend(blocks.setdefault(event.get("index"), {}), object_in(event, "delta"))
            case "message_delta":
                whole |= object_in(event, "delta")
                usage |= object_in(event, "usage")
            case "message":
                whole = event
                usage |= object_in(event, "usage")
                blocks = dict(enumerate(objects_in(event.get("content"))))
            case "error":
                raise ValueError(f"an error in the stream: {object_in(event, 'error').get('message')}")
    if not whole:
        raise ValueError("not a message in Anthropic's format")
    said = _Said()
    for block in blocks.values():
        if block.get("type") == "tool_use":
            arguments = block.get("written") or as_json(block.get("input") or {})
            said.calls.append(ToolCall(words(block.get("id"), 200), words(block.get("name"), 200), str(arguments)))
        elif block.get("type") == "thinking":
            said.thoughts.append(words(block.get("thinking"), len(body)))
        else:
            said.texts.append(words(block.get("text"), len(body)))
    cached = usage.get("cache_read_input_tokens") or 0
    parts = [usage.get("input_tokens"), cached, usage.get("cache_creation_input_tokens") or 0]
    given = sum(part for part in parts if isinstance(part, int)) if isinstance(parts[0], int) else None
    counted = counted_usage(given, usage.get("output_tokens"), cached) if usage else (None, "")
    return said.reply(counted, whole.get("model"), whole.get("stop_reason"), "\n")


def _extend(block: dict[str, object], delta: Mapping[str, object]) -> None:
    for name, where in (("text", "text"), ("thinking", "thinking"), ("partial_json", "written")):
        if isinstance(piece := delta.get(name), str):
            block[where] = f"{block.get(where) or ''}{piece}"


def list_read(body: bytes, content_type: str) -> Reply:
    """The reply that an answer with vectors or a ranking holds: how many there are.

    Raises:
        ValueError: it holds none.
    """
    found = _object(body)
    listed = found.get("data") or found.get("embeddings") or found.get("results")
    if not isinstance(listed, list):
        raise ValueError("the answer has neither a list of vectors nor a ranking")
    usage = object_in(found, "usage")
    tokens = first_number(usage.get("prompt_tokens"), usage.get("total_tokens"), found.get("prompt_eval_count"))
    counted = counted_usage(tokens, 0) if tokens is not None else (None, "")
    ranked = any("relevance_score" in one for one in objects_in(listed[:1])) or "results" in found
    said = _Said()
    said.texts.append(f"{len(listed)} {'documents ranked' if ranked else 'vectors'}")
    return said.reply(counted, found.get("model"), "stop")


def ollama_read(body: bytes, content_type: str) -> Reply:
    """The reply that an answer of this form holds.

    Raises:
        ValueError: it holds none.
    """
    said, last = _Said(), dict[str, object]()
    lines = "ndjson" if b"\n{" in body.strip() else content_type
    for last in answer_events(body, lines):
        message = object_in(last, "message")
        said.texts.append(shown_text(message.get("content") if message else last.get("response")))
        said.thoughts.append(shown_text(message.get("thinking")))
        said.calls += read_calls(message.get("tool_calls"))[0]
    if "done" not in last:
        raise ValueError("not an answer in Ollama's format: it is not `done`")
    counted = (
        counted_usage(last.get("prompt_eval_count"), last.get("eval_count")) if "eval_count" in last else (None, "")
    )
    return said.reply(counted, last.get("model"), last.get("done_reason"))


def gemini_read(body: bytes, content_type: str) -> Reply:
    """The reply that an answer of this form holds.

    Raises:
        ValueError: it holds none.
    """
    said, usage = _Said(), dict[str, object]()
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
                (said.thoughts if part.get("thought") else said.texts).append(words(part.get("text"), len(body)))
            said.calls += gemini_calls(parts)
    if not seen:
        raise ValueError("not an answer in Gemini's format: it has no `candidates`")
    thought = first_number(usage.get("thoughtsTokenCount")) or 0
    written = first_number(usage.get("candidatesTokenCount"))
    counted: tuple[Usage | None, str] = (None, "")
    if usage:
        output = None if written is None else written + thought
        counted = counted_usage(usage.get("promptTokenCount"), output, usage.get("cachedContentTokenCount"), thought)
    return said.reply(counted, model, finish)


def mcp_answer(body: bytes, content_type: str) -> dict[str, object]:
    """The JSON-RPC answer that a body of an MCP server holds, whole or streamed, without its id; empty: none."""
    try:
        told = [event for event in answer_events(body, content_type) if "result" in event or "error" in event]
    except (ValueError, BadReply):
        return {}
    return {key: value for key, value in told[-1].items() if key != "id"} if told else {}


def mcp_read(body: bytes, content_type: str) -> Reply:
    """What a tool of an MCP server gave, as text.

    Raises:
        ValueError: an error, or no answer.
    """
    answer = mcp_answer(body, content_type)
    if "result" not in answer:
        raise ValueError(f"not a result of an MCP server: {as_json(answer.get('error'))}")
    result = object_in(answer, "result")
    return Reply(text=shown_text(result.get("content")) or as_json(result), usage=Usage())


def listed_read(body: bytes, content_type: str) -> Reply:
    """What came back from a call of no known form, as text: it has no tokens."""
    return Reply(text=wellformed(text_of(body, content_type)), usage=Usage())
