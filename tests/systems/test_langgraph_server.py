"""A LangGraph server as an agent: a thread and a streamed run for a question, read for answer, cost and passages.

The stand-in speaks the API as `langgraph dev` does: the shape of its events was taken from one.
"""

from __future__ import annotations

import json

import pytest

from ragrounds.errors import StopRun
from ragrounds.records import Called, Usage
from tests.graphs.playing import CHOICE, play
from tests.servers.http_script import Asked, HttpScript, Told, answering

CARD = """
summary = "A graph on a LangGraph server."
{top}

[endpoint]
form = "langgraph"
url = "{url}/prefix"
assistant = "rag"
tries = 2
{more}
"""
SEEN = {"langgraph_node": "retrieve"}
SAID = {"langgraph_node": "answer", "ls_provider": "openai", "ls_model_name": "gpt-4o-mini"}
DOCUMENTS = [
    {"id": "d1", "metadata": {"title": "Handbook"}, "page_content": "Warfarin first.", "type": "Document"},
    {"id": None, "metadata": {"source": "notes.txt"}, "page_content": "Then heparin.", "type": "Document"},
]
QUESTION = {"type": "human", "content": "?"}


def spent(given: int, written: int) -> dict[str, object]:
    return {
        "content": "…",
        "response_metadata": {"model_name": "gpt-4o-mini", "model_provider": "openai"},
        "usage_metadata": {"input_tokens": given, "output_tokens": written, "total_tokens": given + written},
    }


EVENTS = [
    ("metadata", {"run_id": "r"}),
    ("values", {"messages": [QUESTION]}),
    ("events", {"event": "on_chain_start", "name": "rag", "run_id": "0", "metadata": {}}),
    ("events", {"event": "on_chain_start", "name": "retrieve", "run_id": "1", "metadata": SEEN}),
    (
        "events",
        {
            "event": "on_retriever_end",
            "name": "Index",
            "run_id": "2",
            "data": {"input": {"query": "first drug"}, "output": DOCUMENTS},
            "metadata": SEEN,
        },
    ),
    ("events", {"event": "on_chain_start", "name": "answer", "run_id": "3", "metadata": SAID}),
    ("events", {"event": "on_chat_model_start", "run_id": "4", "metadata": SAID}),
    ("events", {"event": "on_chat_model_end", "run_id": "4", "data": {"output": spent(1000, 50)}, "metadata": SAID}),
    ("events", {"event": "on_chat_model_start", "run_id": "5", "metadata": SAID}),
    ("events", {"event": "on_chat_model_end", "run_id": "5", "data": {"output": spent(3000, 150)}, "metadata": SAID}),
    ("values", {"messages": [QUESTION, {"type": "ai", "content": "The answer is (B)."}], "letter": "B"}),
]
ASKING = [("values", {"messages": [QUESTION], "__interrupt__": [{"value": "Which patient?", "id": "i"}]})]


def stream(events: list[tuple[str, object]]) -> Told:
    body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
    return Told(body.encode(), headers={"Content-Type": "text/event-stream"})


def serving(*runs: Told):
    """A server whose runs end so, one after the other, and the last one ever after."""
    made = []

    def script(asked: Asked, before: int) -> Told:
        if asked.path == "/prefix/threads":
            return Told({"thread_id": f"0000-{before}"})
        if asked.method == "DELETE":
            return Told(b"", 204)
        made.append(asked)
        return runs[min(len(made), len(runs)) - 1]

    return answering(script)


def agent(folder, server: HttpScript, more: str = "", top: str = "") -> str:
    file = folder / "remote.toml"
    file.write_text(CARD.format(url=server.url, more=more, top=top))
    return str(file)


async def test_a_run_is_read_for_its_answer_its_cost_and_its_steps(tmp_path):
    with serving(stream(EVENTS)) as server:
        played = await play(agent(tmp_path, server, 'choice = "letter"'), [])
    steps = [f"{asked.method} {asked.path}" for asked in server.asked]
    assert steps == ["POST /prefix/threads", "POST /prefix/threads/0000-0/runs/stream", "DELETE /prefix/threads/0000-0"]
    body = server.asked[1].body
    assert (body["assistant_id"], body["on_disconnect"]) == ("rag", "cancel")
    assert body["input"]["messages"][0]["content"].startswith(CHOICE.text)
    attempt = played.attempt
    assert (attempt.status, attempt.text, attempt.choice) == ("completed", "The answer is (B).", "B")
    assert attempt.usage == Usage(4000, 200), "both calls, though the state holds the reply of one"
    assert attempt.cost_paid == pytest.approx((4000 * 0.15 + 200 * 0.60) / 1e6)
    assert played.nodes == ["retrieve", "answer"]
    (call,) = [one.call for one in attempt.events if isinstance(one, Called) and one.call.kind == "model"]
    assert call.actor == f'langgraph:rag[server="{server.url}/prefix"]'.replace('"', "")


async def test_two_attempts_at_the_same_question_are_one_call(tmp_path):
    with serving(stream(EVENTS)) as server:
        file = agent(tmp_path, server)
        played = await play([file, file], [])
    assert (len(server.posts), played.made, played.attempt.text) == (2, 1, "The answer is (B).")


async def test_a_model_s_call_without_usage_makes_the_tokens_unknown(tmp_path):
    events = [*EVENTS[:-1], ("events", {"event": "on_chat_model_start", "run_id": "6", "metadata": SAID}), EVENTS[-1]]
    with serving(stream(events)) as server:
        played = await play(agent(tmp_path, server), [])
    assert (played.attempt.usage, played.attempt.cost_paid) == (None, None)


async def test_an_input_of_one_s_own_and_another_key_of_the_state(tmp_path):
    more = 'request = { query = "{prompt}", k = 3 }\nanswer = "result"\nevents = false'
    with serving(stream([("values", {"result": "B", "query": "?"})])) as server:
        played = await play(agent(tmp_path, server, more), [])
    assert server.asked[1].body["input"]["k"] == 3
    assert server.asked[1].body["stream_mode"] == ["values"]
    assert (played.attempt.text, played.attempt.usage) == ("B", None)


async def test_a_graph_that_asks_a_person_is_paused(tmp_path):
    with serving(stream(ASKING)) as server:
        played = await play(agent(tmp_path, server), [])
    assert (played.attempt.status, played.attempt.reason) == ("paused", "the system asked a person: Which patient?")


async def test_a_graph_that_asks_is_answered_by_what_the_file_says(tmp_path):
    with serving(stream(ASKING), stream(EVENTS)) as server:
        played = await play(agent(tmp_path, server, top='on_interrupt = "the first one"'), [])
    assert server.posts[2].body["command"] == {"resume": "the first one"}
    assert "input" not in server.posts[2].body
    assert (played.attempt.status, played.attempt.text) == ("completed", "The answer is (B).")


async def test_a_graph_that_fails_fails_the_attempt(tmp_path):
    with serving(stream([("error", {"error": "ValueError", "message": "no index"})])) as server:
        played = await play(agent(tmp_path, server), [])
    assert played.attempt.status == "failed"
    assert "ValueError: no index" in played.attempt.reason
    assert server.asked[-1].method == "DELETE"


async def test_a_stream_that_is_cut_off_is_tried_again(tmp_path):
    with serving(stream(EVENTS[:1]), stream(EVENTS)) as server:
        played = await play(agent(tmp_path, server), [])
    assert played.attempt.status == "completed"
    assert len(server.posts) == 4


async def test_an_assistant_that_the_server_does_not_know_stops_the_run(tmp_path):
    unknown = Told({"detail": "Invalid assistant: 'rag'. Registered graphs: other"}, 422)
    with serving(unknown) as server, pytest.raises(StopRun, match="does not know the assistant 'rag'"):
        await play(agent(tmp_path, server), [])


async def test_a_thread_s_name_is_no_path(tmp_path):
    def script(asked: Asked, before: int) -> Told:
        return Told({"thread_id": "../../admin"})

    with answering(script) as server:
        played = await play(agent(tmp_path, server), [])
    assert played.attempt.status == "failed"
    assert {asked.path for asked in server.asked} == {"/prefix/threads"}


async def test_passages_are_searches_of_the_node_that_made_them(tmp_path):
    with serving(stream(EVENTS)) as server:
        played = await play(agent(tmp_path, server), [])
    assert played.calls == ["model answering@", "search searching@retrieve"]
    (search,) = [one.call for one in played.attempt.events if isinstance(one, Called) and one.call.kind == "search"]
    assert (search.actor, search.passages) == ("Index", ("d1", "notes.txt"))


async def test_settings_go_where_the_server_takes_them(tmp_path):
    top = 'config = { model = "a", recursion_limit = 9 }\ncontext = { depth = 2 }'
    with serving(stream(EVENTS)) as server:
        await play(agent(tmp_path, server, top=top) + "[config.model=b]", [])
    body = server.asked[1].body
    assert body["config"] == {"configurable": {"model": "b"}, "recursion_limit": 9}
    assert body["context"] == {"depth": 2}


async def test_a_function_may_answer_for_the_person(tmp_path):
    (tmp_path / "ward.py").write_text("def answer(asked):\n    return {'said': asked.upper()}\n")
    top = f'on_interrupt = "{tmp_path / "ward.py"}:answer"'
    with serving(stream(ASKING), stream(EVENTS)) as server:
        played = await play(agent(tmp_path, server, top=top), [])
    assert server.posts[2].body["command"] == {"resume": {"said": "WHICH PATIENT?"}}
    assert played.attempt.status == "completed"
