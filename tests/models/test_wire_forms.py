"""Forms of model calls at the wire: what is asked and what came back, whole and streamed."""

from __future__ import annotations

import json

import pytest

from ragrounds.base.records import Reply, Usage
from ragrounds.models.wire_forms import (
    call_key,
    canonical,
    given_back,
    known_call,
    plain_address,
    recorded,
)
from ragrounds.recorder.wire import WireRequest, WireResponse


def call(path: str, body: object, host: str = "https://models.example"):
    return known_call(WireRequest("POST", f"{host}{path}", {}, json.dumps(body).encode()))


def read(path: str, body: object, answer: object, kind: str = "application/json") -> Reply:
    found = call(path, body)
    assert found is not None
    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    reply = recorded(found.form, WireResponse(200, kind, data), lambda text: text)
    assert given_back(reply).body == data
    return reply


def events(*given: object) -> bytes:
    return b"".join(b"event: e\ndata: %s\n\n" % json.dumps(one).encode() for one in given)


CHAT = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}


def test_responses_of_openai():
    body = {"model": "m", "instructions": "be brief", "input": [{"role": "user", "content": "hi"}]}
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "content": [{"type": "output_text", "text": "B"}]},
        {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q": 1}'},
    ]
    usage = {"input_tokens": 5, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}}
    whole = {"output": output, "model": "m-1", "usage": usage, "status": "completed"}
    for answer, kind in (
        (whole, "application/json"),
        (events({"type": "x"}, {"type": "response.completed", "response": whole}), "text/event-stream"),
    ):
        reply = read("/v1/responses", body, answer, kind)
        assert (reply.text, reply.reasoning, reply.model) == ("B", "hm", "m-1")
        assert reply.usage == Usage(input=5, output=3, cached=2)
        assert [(one.name, one.arguments) for one in reply.calls] == [("search", '{"q": 1}')]
    found = call("/v1/responses", body)
    assert found is not None
    assert [(one.role, one.content) for one in found.request().messages] == [("system", "be brief"), ("user", "hi")]


def test_messages_of_anthropic():
    body = {"model": "m", "system": "s", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    usage = {"input_tokens": 5, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 1, "output_tokens": 1}
    streamed = events(
        {"type": "message_start", "message": {"model": "m-1", "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "The "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "answer"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "f"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "1}"}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    )
    reply = read("/v1/messages", body, streamed, "text/event-stream")
    assert (reply.text, reply.finish, reply.calls[0].arguments) == ("The answer", "tool_calls", '{"a":1}')
    assert reply.usage == Usage(input=8, output=4, cached=2)
    whole = {"type": "message", "content": [{"type": "text", "text": "B"}], "model": "m-1", "usage": usage}
    assert read("/v1/messages", body, whole).text == "B"
    found = call("/v1/messages", body, "https://api.anthropic.com")
    assert found is not None
    assert (found.actor, found.listed, found.request().max_tokens) == ("anthropic:m", True, 9)


def test_ollama_and_gemini():
    lines = [{"message": {"content": "The "}, "done": False}, {"message": {"content": "B"}, "done": True}]
    lines[1] |= {"model": "l", "prompt_eval_count": 4, "eval_count": 2}
    data = b"".join(json.dumps(one).encode() + b"\n" for one in lines)
    reply = read("/api/chat", CHAT, data, "application/x-ndjson")
    assert (reply.text, reply.usage) == ("The B", Usage(input=4, output=2))
    parts = [{"text": "B"}, {"functionCall": {"name": "f", "args": {"x": 1}}}]
    used = {"promptTokenCount": 6, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}
    answer = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}], "usageMetadata": used}
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    for path in ("/v1beta/models/g-2:generateContent", "/v1beta/models/g-2:streamGenerateContent"):
        reply = read(path, body, events(answer) if "stream" in path else answer)
        assert (reply.text, reply.usage) == ("B", Usage(input=6, output=5, reasoning=3))
        found = call(path, body)
        assert found is not None
        assert found.model == "g-2"
        assert found.request().messages[0].content == "hi"


def test_the_key_of_a_body_does_not_depend_on_the_order_of_its_keys():
    assert canonical({"a": 1, "b": [2]}) == canonical({"b": [2], "a": 1})
    assert canonical({"a": 1}) != canonical({"a": 2})


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/chat/completions", {"model": "m"}), ("/search", CHAT), ("/v1/models", {}), ("/v1/embeddings", [1])],
)
def test_what_is_of_no_known_form(path, body):
    assert call(path, body) is None


def test_an_address_is_kept_without_what_may_be_a_key():
    assert plain_address("https://me:secret@host:443/v1/x?key=abc#d") == "https://host/v1/x"
    assert plain_address("http://127.0.0.1:8000/v1") == "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        ("/v1/responses", {"input": "x"}, {"nothing": 1}),
        ("/v1/messages", CHAT, {"error": 1}),
        ("/v1/embeddings", {"input": "x"}, {"data": 1}),
        ("/api/chat", CHAT, {"message": {}}),
        ("/rerank", {"documents": [], "query": "x"}, {}),
    ],
)
def test_an_answer_of_another_form_is_not_recorded(path, body, answer):
    with pytest.raises(ValueError):
        read(path, body, answer)


def test_the_form_of_a_reply_and_the_choice_of_a_tool_are_shown_however_they_are_said():
    schema = {"type": "object"}
    wanted = {"type": "json_schema", "json_schema": {"schema": schema}}
    said = [
        ("/v1/chat/completions", {**CHAT, "response_format": wanted, "tool_choice": {"function": {"name": "f"}}}, "f"),
        ("/v1/responses", {"input": "x", "text": {"format": wanted}, "tool_choice": {"name": "f"}}, "f"),
        ("/v1/messages", {**CHAT, "tool_choice": {"type": "any"}}, "required"),
        ("/api/chat", {**CHAT, "format": schema}, None),
        ("/v1/models/g:generateContent", {"contents": [], "generationConfig": {"responseSchema": schema}}, None),
    ]
    for path, body, choice in said:
        found = call(path, body)
        assert found is not None
        request = found.request()
        assert request.response_format == (None if "messages" in path else wanted)
        assert request.tool_choice == choice


def key(messages: list[dict[str, object]], **more: object) -> bytes:
    found = call("/v1/chat/completions", {"model": "m", "messages": messages, **more})
    assert found is not None
    return call_key(found, 0)


def conversation(*ids: str, text: str = "found", swapped: bool = False) -> list[dict[str, object]]:
    calls = [{"id": one, "type": "function", "function": {"name": "search", "arguments": "{}"}} for one in ids]
    told = [{"role": "tool", "tool_call_id": one, "content": f"{text} {number}"} for number, one in enumerate(ids)]
    if swapped:
        told = [{**one, "tool_call_id": id} for one, id in zip(told, reversed(ids), strict=True)]
    return [{"role": "user", "content": "?"}, {"role": "assistant", "content": None, "tool_calls": calls}, *told]


def test_ids_that_are_drawn_anew_make_no_other_key_and_all_else_does() -> None:
    assert key(conversation("a1", "b2")) == key(conversation("c3", "d4"))
    assert key(conversation("a1", "b2")) != key(conversation("a1", "b2", swapped=True))
    assert key(conversation("a1", "b2")) != key(conversation("a1", "a1"))
    assert key(conversation("a1")) != key(conversation("a1", text="else"))
    assert key(conversation("a1")) != key(conversation("a1"), seed=1)
    assert key([{"role": "user", "content": "a1"}]) != key([{"role": "user", "content": "c3"}])
    assert key(conversation("a1"), metadata={"id": "x"}) != key(conversation("a1"), metadata={"id": "y"})
