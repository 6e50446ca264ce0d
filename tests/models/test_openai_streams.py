"""A streamed answer is read as one that came at once, and half a stream is no answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.records import ToolCall
from ragrounds.models.faults import Transient
from ragrounds.models.openai_protocol import read_reply
from tests.servers.streams import events

SSE = "text/event-stream; charset=utf-8"
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}


def completion(message: dict[str, Any], **choice: Any) -> bytes:
    choices = [{"index": 0, "message": message, "finish_reason": "stop", **choice}]
    return json.dumps({"model": "m", "choices": choices, "usage": USAGE}).encode()


def both(body: bytes) -> None:
    streamed = read_reply(b"".join(events(body)), SSE)
    assert streamed == read_reply(body, "application/json")


@given(st.text(), st.text(), st.sampled_from(["stop", "length", "content_filter"]))
def test_the_reply_is_the_same(text: str, reasoning: str, finish: str) -> None:
    both(completion({"content": text, "reasoning_content": reasoning}, finish_reason=finish, stop_reason="###"))


@given(st.lists(st.text(), max_size=3))
def test_calls_are_the_same(arguments: list[str]) -> None:
    calls = [{"id": f"c{n}", "function": {"name": "search", "arguments": text}} for n, text in enumerate(arguments)]
    both(completion({"content": None, "tool_calls": calls}, finish_reason="tool_calls"))


def test_half_a_character_is_joined_and_a_lone_one_replaced() -> None:
    body = completion({"content": "six 😀, 7 \ud83d"})
    assert read_reply(b"".join(events(body)), SSE).text == "six 😀, 7 \ufffd"


def test_what_is_left_of_it_is_the_same() -> None:
    both(json.dumps({"model": "m", "choices": [], "usage": USAGE}).encode())  # no choices
    both(completion({"content": None, "refusal": "I will not."}))
    no_usage = json.loads(completion({"content": "yes"}))
    del no_usage["usage"]
    both(json.dumps(no_usage).encode())


def test_completions_are_read_too() -> None:
    chunks = [{"choices": [{"index": 0, "text": text}]} for text in ("hep", "arin")]
    chunks.append({"choices": [{"index": 0, "text": "", "finish_reason": "stop", "stop_reason": "</answer>"}]})
    body = "".join(f"data:{json.dumps(chunk)}\r\n\r\n" for chunk in chunks)  # no [DONE], other line ends
    reply = read_reply(body.encode(), SSE)
    assert (reply.text, reply.finish, reply.stopped_at) == ("heparin", "stop", "</answer>")


def test_only_the_first_choice_is_read_and_calls_without_numbers_are_whole() -> None:
    call = {"id": "a", "function": {"name": "search", "arguments": "{}"}}
    chunks = [
        {"choices": [{"index": 1, "delta": {"content": "other"}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{**call, "id": "b"}]}, "finish_reason": "tool_calls"}]},
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    reply = read_reply(body.encode(), SSE)
    assert (reply.text, reply.calls) == ("", (ToolCall("a", "search", "{}"), ToolCall("b", "search", "{}")))


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6])
def test_half_a_stream_is_no_answer(kept: float) -> None:
    whole = list(events(completion({"content": "A long answer, of which a part came."})))
    with pytest.raises(Transient, match="ended before its end"):
        read_reply(b"".join(whole[: int(kept * len(whole))]), SSE)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('{"error": {"message": "overloaded", "code": 500}}', "overloaded"),
        ("<html>", "not a chunk of a chat completion"),
        ('{"choices": 3}', "not a chunk of a chat completion"),
        ("[" * 5000, "not a chunk of a chat completion"),
    ],
)
def test_something_else_in_the_stream_is_tried_again(data: str, said: str) -> None:
    with pytest.raises(Transient, match=said):
        read_reply(f"data: {data}\n\ndata: [DONE]\n\n".encode(), SSE)
