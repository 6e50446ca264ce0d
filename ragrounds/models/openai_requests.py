"""What is sent to an OpenAI-compatible server: the path and the plain JSON body of one request."""

from __future__ import annotations

from typing import Any

import msgspec

from ragrounds.contracts import Request, Tool
from ragrounds.models.cards import cards
from ragrounds.models.options import ModelOptions
from ragrounds.records import Message

CHAT, COMPLETIONS = "/chat/completions", "/completions"


def body_of(options: ModelOptions, request: Request) -> tuple[str, dict[str, Any]]:
    """Path and body.

    A prefix becomes the beginning of the text to go on with: in a card's template, or as an unfinished assistant's turn
    with vLLM's ``continue_final_message``.
    """
    own_server = options.serving.base_url is not None
    body: dict[str, Any] = {"model": options.model, **msgspec.to_builtins(options.sampling)}
    if request.max_tokens is not None:
        body["max_tokens"] = min(request.max_tokens, body.get("max_tokens", request.max_tokens))
    stops = list(request.stop)
    if options.card:
        card = cards()[options.card]
        # Completions end at 16 tokens where nothing is said.
        body.setdefault("max_tokens", DEFAULT)
        stops += [stop for stop in card.stops if stop not in stops]
        body["prompt"] = card.written(request.messages, request.prefix)
    else:
        body["messages"] = [message_of(message) for message in request.messages]
        if request.prefix:
            body["messages"].append({"role": "assistant", "content": request.prefix})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
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


def message_of(message: Message) -> dict[str, Any]:
    """A turn in OpenAI's form."""
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        plain["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    if message.answers:
        plain["tool_call_id"] = message.answers
    return plain


def tool_of(tool: Tool) -> dict[str, Any]:
    """A tool in OpenAI's form, which LangChain takes too."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
