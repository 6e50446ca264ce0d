"""A completion as a stream of server-sent events, in pieces of a few characters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_STEP = 7


def events(body: bytes) -> Iterator[bytes]:
    """What a server would have sent of this completion, had it been asked to stream."""
    whole = json.loads(body)
    head = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": whole["model"]}
    for choice in whole["choices"]:
        for delta in _deltas(choice["message"]):
            yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}], "usage": None})
        rest = {key: value for key, value in choice.items() if key != "message"}
        yield _event({**head, "choices": [{**rest, "delta": {}}], "usage": None})
    if whole.get("usage"):
        yield _event({**head, "choices": [], "usage": whole["usage"]})
    yield b"data: [DONE]\n\n"


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if message.get("content") is not None else None}
    for key in ("reasoning_content", "reasoning", "content", "refusal"):
        for piece in _pieces(message.get(key) or ""):
            yield {key: piece}
    for index, call in enumerate(message.get("tool_calls") or ()):
        named = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": named}]}
        for piece in _pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Iterator[str]:
    """Cut where UTF-16 is, as some servers do: half a character may stand at a piece's end."""
    units = text.encode("utf-16-le", "surrogatepass")
    for start in range(0, len(units), 2 * _STEP):
        yield units[start : start + 2 * _STEP].decode("utf-16-le", "surrogatepass")


def _event(chunk: dict[str, Any]) -> bytes:
    return b": still here\n\ndata: " + json.dumps(chunk).encode() + b"\n\n"
