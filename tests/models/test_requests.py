"""What is sent to a server, and how its answer is read: prefixes, cards, tools, web search."""

import json

import pytest

from ragrounds.contracts import Request, Tool
from ragrounds.errors import UserError
from ragrounds.models.faults import Transient
from ragrounds.models.langchain import messages_of, read_message
from ragrounds.models.openai_protocol import body_of, read_reply
from ragrounds.models.options import read_options
from ragrounds.records import Message, ToolCall
from ragrounds.specs import parse

ASKED = (Message("system", "Be brief."), Message("user", "Costs $text or $5?"))
OWN = 'base_url="http://localhost/v1"'


def sent(spec, **more):
    return body_of(read_options(parse(spec)), Request(messages=ASKED, **more))


def read(choice, **more):
    return read_reply(json.dumps({"choices": [choice], **more}).encode(), "application/json")


def test_a_prefix_is_an_unfinished_turn_of_the_assistant():
    path, body = sent(f"openai:qwen[{OWN},continues=prefix]", prefix="So far", stop=("</search>",))
    assert path == "/chat/completions"
    assert body["messages"][-1] == {"role": "assistant", "content": "So far"}
    assert body["continue_final_message"] is True
    assert body["add_generation_prompt"] is False
    assert body["stop"] == ["</search>"]


def test_without_a_prefix_nothing_of_that_is_sent():
    _, body = sent("openai:gpt-4o-mini[max_tokens=9]", max_tokens=5)
    assert body == {
        "model": "gpt-4o-mini",
        "max_completion_tokens": 5,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Costs $text or $5?"}],
    }


def test_a_card_writes_the_turns_as_one_text():
    path, body = sent(f"openai:Qwen2.5-7B[{OWN},card=chatml,top_k=20]", prefix="So far", stop=("</search>",))
    assert path == "/completions"
    assert body["prompt"] == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nCosts $text or $5?<|im_end|>\n"
        "<|im_start|>assistant\nSo far"
    )
    assert body["stop"] == ["</search>", "<|im_end|>"]
    assert body["max_tokens"] == 1024
    assert body["top_k"] == 20
    assert "messages" not in body


def test_meditron_is_known_by_its_name_and_shown_a_demonstration():
    options = read_options(parse(f"openai:epfl-llm/Meditron-70b[{OWN}]"))
    assert options.card == "meditron"
    assert options.continues == "prefix"
    assert "card=meditron" in options.identity
    _, body = body_of(options, Request(messages=ASKED))
    assert body["prompt"].startswith("Be brief.\n\n### User:\n### Question\n")
    assert '"answer_choice": "X"' in body["prompt"]
    assert body["prompt"].endswith("### User:\nCosts $text or $5?\n\n### Assistant:\n")
    assert body["stop"] == ["###", "User:", "\n\n\n"]


def test_the_way_of_speaking_is_a_part_of_the_identity():
    texts = [f"openai:m[{OWN}{more}]" for more in ("", ",continues=prefix", ",card=chatml", ",card=none")]
    identities = {read_options(parse(text)).identity for text in texts}
    assert len(identities) == 3, "card=none is what it would be anyway"


@pytest.mark.parametrize(("wrong", "message"), [("card=chatlm", "chatml"), ("continues=perhaps", "continues")])
def test_wrong_ways_are_told(wrong, message):
    with pytest.raises(UserError, match=message):
        read_options(parse(f"openai:m[{OWN},{wrong}]")).identity  # noqa: B018


def test_completions_are_read_as_chat_is():
    reply = read({"text": " heparin", "finish_reason": "stop", "stop_reason": "###"})
    assert (reply.text, reply.stopped_at) == (" heparin", "###")


def test_a_choice_with_neither_message_nor_text_is_malformed():
    with pytest.raises(Transient, match="choice without a message"):
        read({"finish_reason": "stop"})


def test_tools_there_and_back():
    tool = Tool.taking("query", "What for.", name="search", description="Searches.")
    call = ToolCall("call_1", "search", '{"query": "x"}')
    turns = (*ASKED, Message("assistant", "", calls=(call,)), Message("tool", "Found.", answers="call_1"))
    _, body = body_of(read_options(parse("openai:gpt-4o")), Request(messages=turns, tools=(tool,), web_search=True))
    assert body["tools"][0]["function"]["parameters"]["required"] == ["query"]
    assert body["messages"][2]["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"query": "x"}'}
    assert body["messages"][3] == {"role": "tool", "content": "Found.", "tool_call_id": "call_1"}
    assert body["web_search_options"] == {}
    given = {"id": "srv", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    reply = read({"message": {"content": None, "tool_calls": [given]}, "finish_reason": "tool_calls"})
    assert reply.calls == (ToolCall("srv", "search", "{}"),)
    assert read({"message": {"content": "x", "tool_calls": None}}).calls == ()


def test_langchain_s_messages_there_and_back():
    from langchain_core.messages import AIMessage

    call = ToolCall("call_1", "search", '{"query": "x"}')
    turns = (*ASKED, Message("assistant", "Hm.", calls=(call,)), Message("tool", "Found.", answers="call_1"))
    made = messages_of(turns)
    assert [message.type for message in made] == ["system", "human", "ai", "tool"]
    assert read_message(made[2]).calls == (call,)
    bad = AIMessage("", invalid_tool_calls=[{"id": "b", "name": "search", "args": "{oops", "error": "no JSON"}])
    assert read_message(bad).calls == (ToolCall("b", "search", "{oops"),)
