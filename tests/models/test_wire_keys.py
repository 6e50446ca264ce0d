"""Keys of recorded calls: what determines a reply is in them, and what a framework draws anew in every run is not."""

from __future__ import annotations

import json

from ragrounds.models.wire_forms import WireRequest, call_key, known_call


def key(messages: list[dict[str, object]], **more: object) -> bytes:
    body = json.dumps({"model": "m", "messages": messages, **more}).encode()
    call = known_call(WireRequest(method="POST", url="http://127.0.0.1:1/v1/chat/completions", headers={}, body=body))
    assert call is not None
    return call_key(call, 0)


def conversation(*ids: str, text: str = "found", swapped: bool = False) -> list[dict[str, object]]:
    calls = [{"id": one, "type": "function", "function": {"name": "search", "arguments": "{}"}} for one in ids]
    told = [{"role": "tool", "tool_call_id": one, "content": f"{text} {number}"} for number, one in enumerate(ids)]
    if swapped:
        told = [{**one, "tool_call_id": id} for one, id in zip(told, reversed(ids), strict=True)]
    return [{"role": "user", "content": "?"}, {"role": "assistant", "content": None, "tool_calls": calls}, *told]


def test_ids_of_tool_calls_that_are_drawn_anew_make_no_other_call() -> None:
    assert key(conversation("a1", "b2")) == key(conversation("c3", "d4"))


def test_which_result_belongs_to_which_call_does() -> None:
    assert key(conversation("a1", "b2")) != key(conversation("a1", "b2", swapped=True))
    assert key(conversation("a1", "b2")) != key(conversation("a1", "a1"))


def test_texts_and_parameters_do_even_where_they_look_like_ids() -> None:
    assert key(conversation("a1")) != key(conversation("a1", text="else"))
    assert key(conversation("a1")) != key(conversation("a1"), seed=1)
    assert key([{"role": "user", "content": "a1"}]) != key([{"role": "user", "content": "c3"}])
    assert key(conversation("a1"), metadata={"id": "x"}) != key(conversation("a1"), metadata={"id": "y"})
