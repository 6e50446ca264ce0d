"""Between our messages and LangChain's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragrounds.records import Message, Reply, ToolCall, Usage

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage


def messages_of(messages: Sequence[Message]) -> list[BaseMessage]:
    """Our turns as LangChain's. Arguments that are no JSON object go as an invalid call, as LangChain has them."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    made: list[BaseMessage] = []
    for message in messages:
        if message.role == "system":
            made.append(SystemMessage(message.content))
        elif message.role == "user":
            made.append(HumanMessage(message.content))
        elif message.role == "tool":
            made.append(ToolMessage(message.content, tool_call_id=message.answers))
        else:
            calls = [
                {"id": call.id, "name": call.name, "args": _object(call.arguments) or {}} for call in message.calls
            ]
            made.append(AIMessage(message.content, tool_calls=calls))
    return made


def read_calls(message: AIMessage) -> tuple[ToolCall, ...]:
    """The tools that a model asks for, those with unreadable arguments included, arguments as canonical JSON."""
    good = [ToolCall(call["id"] or "", call["name"], _text(call["args"])) for call in message.tool_calls]
    bad = [
        ToolCall(call.get("id") or "", call.get("name") or "", str(call.get("args") or ""))
        for call in message.invalid_tool_calls
    ]
    return (*good, *bad)


def read_message(message: AIMessage) -> Reply:
    """LangChain's reply as ours. Thinking blocks go to `reasoning`, text blocks to `text`."""
    meta = message.response_metadata
    finish = str(meta.get("finish_reason") or meta.get("stop_reason") or "stop").lower()
    reasoning = [str(block.get("reasoning", "")) for block in message.content_blocks if block["type"] == "reasoning"]
    return Reply(
        text=str(message.text),
        finish={"end_turn": "stop", "max_tokens": "length", "safety": "content_filter"}.get(finish, finish),
        usage=read_usage(message),
        model=str(meta.get("model_name") or ""),
        reasoning="\n".join(filter(None, reasoning)),
        calls=read_calls(message),
    )


def read_usage(message: AIMessage) -> Usage | None:
    """Tokens as the provider counted them; ``None``: it did not say."""
    given = message.usage_metadata
    if given is None:
        return None
    return Usage(
        input=given["input_tokens"],
        output=given["output_tokens"],
        cached=given.get("input_token_details", {}).get("cache_read", 0) or 0,
        reasoning=given.get("output_token_details", {}).get("reasoning", 0) or 0,
    )


def _object(text: str) -> dict[str, Any] | None:
    try:
        read = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def _text(arguments: Any) -> str:
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str)
