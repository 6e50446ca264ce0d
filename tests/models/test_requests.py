"""What is sent to a server, and how its answer is read: prefixes, cards, tools, web search."""

import json

import pytest

from ragrounds.base.contracts import Request, Tool
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Message, Reply, TokenLogprob, ToolCall, Usage
from ragrounds.base.specs import parse
from ragrounds.graphs.langchain_turns import turns_of
from ragrounds.models.faults import Transient
from ragrounds.models.langchain import messages_of, read_message
from ragrounds.models.openai_protocol import body_of, message_of, read_reply
from ragrounds.models.options import read_options
from ragrounds.models.reply_parts import without_keys
from ragrounds.recorder.redaction import Redactor
from tests.rows import each_row

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


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            {"message": {"content": "The answer is"}, "finish_reason": "error", "error": {"message": "upstream"}},
            "upstream",
        ),
        ({"message": {"content": "The answer is"}, "finish_reason": "error"}, "finish_reason: error"),
        ({"message": {"content": "The answer is C."}, "finish_reason": "abort"}, "finish_reason: abort"),
        ({"message": {"content": "So"}, "finish_reason": None, "error": "overloaded"}, "overloaded"),
        ({"error": {"code": 502, "message": "no host"}, "finish_reason": "error"}, "no host"),
    ],
)
def test_a_providers_error_inside_a_choice_is_tried_again(choice, message):
    with pytest.raises(Transient, match=message) as fault:
        read(choice)
    assert fault.value.kind == "server"
    event = json.dumps({"choices": [{"index": 0, "delta": choice.get("message", {}), **choice}]})
    with pytest.raises(Transient, match=message):
        read_reply(f"data: {event}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")
    assert read({"message": {"content": "C"}, "finish_reason": "stop", "error": None}).text == "C"


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


def test_who_speaks_is_sent_and_a_tool_is_named_by_its_call():
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    call = {"id": "x", "name": "search", "args": {}}
    said = [HumanMessage("Q", name="ann"), AIMessage("", tool_calls=[call], name="expert"), HumanMessage("And?")]
    turns = turns_of([*said, ToolMessage("Found.", tool_call_id="x", name="search")])
    assert [turn.name for turn in turns] == ["ann", "expert", "", ""]
    _, body = body_of(read_options(parse(f"openai:m[{OWN}]")), Request(messages=turns))
    assert [message.get("name") for message in body["messages"]] == ["ann", "expert", None, None]
    assert [message.name for message in messages_of(turns)] == ["ann", "expert", None, None]


def test_langchain_s_messages_there_and_back():
    from langchain_core.messages import AIMessage

    call = ToolCall("call_1", "search", '{"query": "x"}')
    turns = (*ASKED, Message("assistant", "Hm.", calls=(call,)), Message("tool", "Found.", answers="call_1"))
    made = messages_of(turns)
    assert [message.type for message in made] == ["system", "human", "ai", "tool"]
    assert read_message(made[2]).calls == (call,)
    bad = AIMessage("", invalid_tool_calls=[{"id": "b", "name": "search", "args": "{oops", "error": "no JSON"}])
    assert read_message(bad).calls == (ToolCall("b", "search", "{oops"),)


FORM = {"type": "json_object"}


def test_arguments_of_a_request_go_before_the_model_s_own_parameters():
    _, body = sent(f"openai:m[{OWN},temperature=1,seed=4]", temperature=0.0, seed=0, response_format=FORM, logprobs=0)
    assert (body["temperature"], body["seed"], body["response_format"]) == (0.0, 0, FORM)
    assert body["logprobs"] is True
    assert "top_logprobs" not in body
    _, body = sent(f"openai:m[{OWN},temperature=1,seed=4]")
    assert (body["temperature"], body["seed"]) == (1.0, 4)


def test_a_choice_of_tools_in_openai_s_form():
    tool = Tool("search", "", {"type": "object"}, strict=True)
    for choice, form in {
        "none": "none",
        "required": "required",
        "search": {"type": "function", "function": {"name": "search"}},
    }.items():
        _, body = sent(f"openai:m[{OWN}]", tools=(tool,), tool_choice=choice, parallel_tool_calls=False)
        assert (body["tool_choice"], body["parallel_tool_calls"]) == (form, False)
        assert body["tools"][0]["function"]["strict"] is True


def test_completions_have_log_probabilities_of_their_own_form_and_no_tools():
    spec = f"openai:m[{OWN},card=chatml]"
    _, body = sent(spec, logprobs=3, temperature=0.5, response_format=FORM)
    assert (body["logprobs"], body["temperature"], body["response_format"]) == (3, 0.5, FORM)
    with pytest.raises(StopRun, match=r"takes no tool_choice.*card=none"):
        sent(spec, tool_choice="required")
    lists = {"tokens": ["a", "b"], "token_logprobs": [None, -2], "top_logprobs": [None, {"b": -2, "c": -0.5}]}
    reply = read({"text": "ab", "finish_reason": "stop", "logprobs": lists})
    assert reply.logprobs == (TokenLogprob("b", -2.0, (("b", -2.0), ("c", -0.5))),)


@each_row(
    "given",
    [
        None, [], {}, {"content": None}, {"content": "x"}, {"content": [None, 3, {}]}, 7, "x",
        {"content": [{"token": 1, "logprob": -1}]}, {"content": [{"token": "a", "logprob": "high"}]},
        {"content": [{"token": "a", "logprob": 3}]}, {"content": [{"token": "a", "logprob": True}]},
        {"tokens": ["a"]}, {"tokens": ["a"], "token_logprobs": {}}, {"tokens": "a", "token_logprobs": [1]},
    ],
)  # fmt: skip
def test_what_is_no_log_probability_is_left_out(given):
    assert read({"message": {"content": "x"}, "logprobs": given}).logprobs is None


def test_log_probabilities_of_a_stream_are_joined():
    def event(token, number):
        choice = {
            "index": 0,
            "delta": {"content": token},
            "logprobs": {"content": [{"token": token, "logprob": number}]},
        }
        return f"data: {json.dumps({'choices': [choice]})}\n\n"

    end = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": None}]})
    body = event("He", -1) + event("llo\ud83d", -2) + f"data: {end}\n\ndata: [DONE]\n\n"
    reply = read_reply(body.encode("utf-8", "surrogatepass"), "text/event-stream")
    assert reply.logprobs == (TokenLogprob("He", -1.0), TokenLogprob("llo\ufffd", -2.0))


def test_tokens_that_spell_a_key_are_not_kept():
    key = "sk-test-0123456789abcdefghijkl"
    for said in (
        tuple(TokenLogprob(key[place : place + 4], -1.0) for place in range(0, len(key), 4)),
        (TokenLogprob("a", -1.0, ((key, -2.0),)),),
    ):
        reply = without_keys(Reply(text="a", logprobs=said), Redactor())
        assert reply.logprobs is None
        assert key not in str(reply)
        assert reply.notes == ("the reply contained a key: it was replaced by [key]",)
    fine = Reply(text="ab", logprobs=(TokenLogprob("a", -1.0), TokenLogprob("b", -1.0)))
    assert without_keys(fine, Redactor()) is fine


@pytest.mark.parametrize(
    ("arguments", "sent_back"),
    [
        ('{"query": "scurvy"}', {"query": "scurvy"}),
        ('{"query": "scurvy', {"unreadable": '{"query": "scurvy'}),
        ("{'query': 'scurvy'}", {"unreadable": "{'query': 'scurvy'}"}),
        ('["scurvy"]', {"unreadable": '["scurvy"]'}),
        ('{"query": "a"} and more', {"unreadable": '{"query": "a"} and more'}),
        ("null", {"unreadable": "null"}),
        ('{"query": "a\nb"}', {"query": "a\nb"}),
        ('{"k": NaN}', {"k": None}),
        ("[" * 100_000, {"unreadable": "[" * 100_000}),
        ("", {}),
    ],
)
def test_the_calls_of_the_history_have_arguments_that_servers_can_parse(arguments, sent_back):
    turn = Message("assistant", "", calls=(ToolCall("c1", "search", arguments),))
    (call,) = message_of(turn)["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == sent_back


CHOICE = {"message": {"content": "A"}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("usage", "cached", "writes"),
    [
        ({"prompt_cache_hit_tokens": 800, "prompt_cache_miss_tokens": 200}, 800, 0),  # DeepSeek
        ({"prompt_tokens_details": {"cached_tokens": 0}, "prompt_cache_hit_tokens": 800}, 800, 0),
        ({"cached_tokens": 300}, 300, 0),  # Moonshot
        ({"cache_read_input_tokens": 100, "cache_creation_input_tokens": 500}, 100, 500),
        ({"prompt_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 500}}, 100, 500),
        ({"prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 500}}, 600, 0),  # impossible
        ({"cache_creation_input_tokens": "many"}, 0, 0),
    ],
)
def test_tokens_of_a_provider_s_cache_have_a_class(usage, cached, writes):
    reply = read(CHOICE, usage={"prompt_tokens": 1000, "completion_tokens": 100, **usage})
    assert (reply.usage, reply.cache_writes) == (Usage(1000, 100, cached), writes)


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": None}]},
        {"choices": None},
        {"error": {"message": "upstream cut the reply", "code": 502}},
        {"choices": [{}]},
    ],
)
def test_the_tokens_of_a_reply_that_cannot_be_used_are_kept(body):
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    with pytest.raises(Transient) as raised:
        read_reply(json.dumps({**body, "usage": usage}).encode(), "application/json")
    assert raised.value.usage == Usage(100, 20)
    with pytest.raises(Transient) as raised:
        read_reply(json.dumps(body).encode(), "application/json")
    assert raised.value.usage is None


@pytest.mark.parametrize("text", ["I will not answer this.", "I'm sorry, but I can't help with that."])
def test_a_refusal_is_the_model_s_and_not_a_filter_s(text):
    reply = read({"message": {"content": None, "refusal": text}, "finish_reason": "stop"})
    assert (reply.text, reply.finish) == (text, "refusal")
