"""What OpenAI-compatible servers answer with: the fields that are read of it. Each may be missing."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.text import wellformed_all


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
    """In place of `message`, what a streamed answer goes on with."""
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
