"""Conversion of LangChain's messages to turns of a chat, and of replies to LangChain's messages."""

from __future__ import annotations

import json
from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, convert_to_openai_messages
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import ToolCall as LangChainCall
from langchain_core.messages.tool import invalid_tool_call

from ragrounds.base.errors import UserError
from ragrounds.base.records import Message, Reply, Speaker, ToolCall, Usage


def turns_of(messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
    """Convert LangChain's messages to canonical turns. Calls are numbered in order, whatever ids they carry.

    Raises:
        UserError: a message holds content that is not text.
    """
    numbers: dict[str, str] = {}
    turns: list[Message] = []
    for openai_message in convert_to_openai_messages(list(messages), text_format="string"):
        calls = []
        for call in openai_message.get("tool_calls", ()):
            numbers[call["id"]] = f"call_{len(numbers) + 1}"
            function = call["function"]
            calls.append(ToolCall(numbers[call["id"]], function["name"], function["arguments"]))
        role: Speaker = openai_message["role"] if openai_message["role"] in ("system", "assistant", "tool") else "user"
        answers = numbers.get(openai_message.get("tool_call_id", ""), "")
        content = openai_message["content"] or ""
        if not isinstance(content, str):
            kinds = sorted({str(part.get("type")) for part in content if isinstance(part, dict)} - {"text"})
            raise UserError(f"A message holds {', '.join(kinds) or 'no text'}: the attempt's model is asked with text.")
        name = openai_message.get("name", "") if role != "tool" else ""  # a tool is named by the call that it answers
        turns.append(Message(role, content, tuple(calls), answers, name))
    return tuple(turns)


def message_of(reply: Reply, number: int) -> AIMessage:
    """Convert a reply to LangChain's message. Its tool calls are numbered after the first `number`."""
    good: list[LangChainCall] = []
    bad: list[InvalidToolCall] = []
    for index, call in enumerate(reply.calls, number + 1):
        try:
            arguments = json.loads(call.arguments or "{}", strict=False)
        except (ValueError, RecursionError):
            arguments = None
        name, id = call.name, f"call_{index}"
        if isinstance(arguments, dict):
            good.append(LangChainCall(name=name, args=arguments, id=id, type="tool_call"))
        else:
            bad.append(invalid_tool_call(name=name, args=call.arguments, id=id, error="no JSON object"))
    metadata: dict[str, object] = {"model_name": reply.model, "finish_reason": reply.finish}
    if reply.logprobs is not None:
        # In the form of OpenAI's chat completions, which LangChain keeps.
        tokens = [
            {
                "token": token.token,
                "logprob": token.logprob,
                "top_logprobs": [{"token": text, "logprob": logprob} for text, logprob in token.top],
            }
            for token in reply.logprobs
        ]
        metadata["logprobs"] = {"content": tokens}
    return AIMessage(
        content=reply.text,
        tool_calls=good,
        invalid_tool_calls=bad,
        usage_metadata=None if reply.usage is None else _usage(reply.usage),
        response_metadata=metadata,
        additional_kwargs={"reasoning_content": reply.reasoning} if reply.reasoning else {},
    )


def _usage(usage: Usage) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=usage.input,
        output_tokens=usage.output,
        total_tokens=usage.total,
        input_token_details=InputTokenDetails(cache_read=usage.cached),
        output_token_details=OutputTokenDetails(reasoning=usage.reasoning),
    )
