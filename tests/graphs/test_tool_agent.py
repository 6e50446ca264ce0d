"""tool_agent against a scripted model."""

import json

import pytest

from ragrounds.base.records import Reply, ToolCall, Usage
from ragrounds.graphs.tool_agent import SEARCH
from tests.graphs.playing import ANSWER, LONG, play, text_of


def wish(*queries, said="", name="search", id="srv-8f2c"):
    calls = tuple(ToolCall(f"{id}{n}", name, json.dumps({"query": query})) for n, query in enumerate(queries))
    return Reply(text=said, calls=calls, finish="tool_calls", usage=Usage(input=1000, output=10 + len(said) // 4))


def raw(arguments, name="search"):
    return Reply(text="", calls=(ToolCall("x", name, arguments),), finish="tool_calls")


async def test_calls_the_tool_until_it_knows_enough():
    played = await play("tool_agent[top_k=1]", [wish("a", "b", said="Let me look."), wish("c"), "Heparin.", ANSWER])
    assert played.attempt.text == ANSWER
    assert played.nodes == ["think", "search", "think", "search", "think", "answer"]
    assert played.calls == [
        "model answering@think", "search searching@search", "search searching@search", "model answering@think",
        "search searching@search", "model answering@think", "model answering@answer",
    ]  # fmt: skip
    assert played.shelf.queries == ["a", "b", "c"]
    assert [len(request.tools) for request in played.model.requests] == [1, 1, 1, 0]
    assert played.model.requests[0].tools == (SEARCH,)
    roles = [message.role for message in played.model.requests[2].messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "tool"]


async def test_the_server_s_ids_never_reach_a_message():
    played = await play("tool_agent", [wish("a"), "Heparin.", ANSWER])
    messages = played.model.requests[1].messages
    assert messages[2].calls[0].id == messages[3].answers == "call_1_1"


async def test_options_reach_the_answering_node_alone():
    played = await play("tool_agent", [wish("a"), "Heparin.", ANSWER])
    assert ["zq" in text_of(request) for request in played.model.requests] == [False, False, True]


async def test_a_long_question_is_answered_by_the_last_turn():
    played = await play("tool_agent", [wish("a"), "Heparin, at once."], LONG)
    assert played.attempt.text == "Heparin, at once."
    assert len(played.model.requests) == 2


async def test_over_the_search_limit_a_notice_is_the_result():
    played = await play("tool_agent[search_limit=2]", [wish("a", "b", "c"), wish("d"), "Heparin.", ANSWER])
    assert played.shelf.queries == ["a", "b"]
    assert played.notes == ["search_limit", "search_limit"]
    assert "used up" in played.shown(1)


async def test_the_turn_limit_ends_without_tools():
    played = await play("tool_agent[turns=2]", [wish("a"), wish("b"), "Heparin."], LONG)
    assert played.nodes == ["think", "search", "think", "answer"]
    assert played.notes == ["turn_limit", "no_answer"]
    assert played.attempt.text == "Heparin."
    assert played.model.requests[2].tools == ()
    roles = [message.role for message in played.model.requests[2].messages]
    assert roles == ["system", "user", "assistant", "tool", "user"], "the call that was not made is not shown"


@pytest.mark.parametrize(
    "call",
    [raw("not json"), raw('{"query": 3}'), raw("[]"), raw('{"query": " "}'), raw("{}", name="rm"), raw("[" * 99_999)],
)
async def test_calls_that_cannot_be_understood_are_answered_so(call):
    played = await play("tool_agent", [call, "Heparin.", ANSWER])
    assert played.notes == ["malformed_call"]
    assert played.shelf.queries == []
    assert "could not be understood" in played.shown(1)
    assert played.attempt.status == "completed"


@pytest.mark.parametrize("text", ["", "word " * 20_000])
async def test_empty_and_endless_text(text):
    played = await play("tool_agent", [text, ANSWER], window=4000)
    assert played.attempt.status == "completed"
    assert played.attempt.text == ANSWER


async def test_a_full_window_ends_the_loop():
    played = await play("tool_agent", [wish("a", said="word " * 5000), ANSWER], window=4000)
    assert played.notes == ["window_full", "conversation_left_out"]
    assert played.attempt.status == "completed"
