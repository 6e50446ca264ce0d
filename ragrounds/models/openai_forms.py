"""What OpenAI-compatible servers answer with: the fields that are read of it. Each may be missing."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.texts import wellformed_all


class Function(Struct):
    name: str | None = None
    arguments: str | None = None


class ToolCall(Struct):
    index: int | None = None
    """Which call of the message, where it comes in pieces."""
    id: str | None = None
    function: Function | None = None


class Message(Struct):
    content: str | None = None
    tool_calls: list[ToolCall] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class Choice(Struct):
    index: int = 0
    message: Message | None = None
    delta: Message | None = None
    """In place of `message`, what a streamed answer goes on with."""
    text: str | None = None
    """In place of `message`, from the completions API."""
    finish_reason: str | None = None
    stop_reason: str | int | None = None


class PromptDetails(Struct):
    cached_tokens: int | None = None


class OutputDetails(Struct):
    reasoning_tokens: int | None = None


class Usage(Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: OutputDetails | None = None


class Completion(Struct):
    choices: list[Choice] | None = None
    usage: Usage | None = None
    model: str | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(Completion)


def decoded(body: bytes | str, *, whole: bool = True) -> Completion:
    """A completion; or a chunk of one, which is not `whole`: its texts may hold half a character.

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
