"""Searches that are read in recorded calls: in every form, once and not twice, and not known where none was heard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import requests

from ragrounds.agents.agent import Limits
from ragrounds.base.records import Attempt, Gold
from ragrounds.evals.engine.recording.searches import AttemptSearches
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.hops import NOT_HEARD, hops_of, searches_unknown
from ragrounds.evals.trace.traces import traced_call
from ragrounds.models.wire_forms import WireRequest, WireResponse, known_call, recorded
from tests.servers.any_form import AnyForm

Body = dict[str, Any]
Made = tuple[str, str, list[str]]
"""Tool, query, texts."""
QUERIES = ("heparin", "warfarin")
FOUND = {"heparin": "It binds antithrombin.", "warfarin": "It inhibits vitamin K."}
BOTH = [("search", query, [FOUND[query]]) for query in QUERIES]


class Listening:
    """An attempt's searches, and what was recorded of them."""

    def __init__(self) -> None:
        self.made: list[Made] = []
        self.searches = AttemptSearches(self._record)

    def _record(self, query: str, passages: Sequence[Mapping[str, object]], tool: str, corpus: str) -> None:
        self.made.append((tool, query, [str(one["text"]) for one in passages]))

    def call(self, path: str, asked: Body, answer: object, kind: str = "application/json") -> None:
        """One recorded call."""
        call = known_call(WireRequest("POST", f"http://models.example{path}", {}, json.dumps(asked).encode()))
        assert call is not None
        self.searches.read_request(call.request(), call.body)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.searches.read_reply(recorded(call.form, WireResponse(200, kind, data), lambda text: text))


def chat(calls: list[Body]) -> Body:
    return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": calls}}]}


def chat_call(query: str, id: str | None = None) -> Body:
    function = {"name": "search", "arguments": json.dumps({"limit": 3, "query": query})}
    return {"id": id or f"call-{query}", "type": "function", "function": function}


def by_chat(query: str) -> tuple[list[Body], Body]:
    call = chat_call(query)
    result = {"role": "tool", "tool_call_id": call["id"], "content": FOUND[query]}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, result], chat([call])


def by_responses(query: str) -> tuple[list[Body], Body]:
    call = {"type": "function_call", "call_id": query, "name": "search", "arguments": json.dumps({"query": query})}
    return [call, {"type": "function_call_output", "call_id": query, "output": FOUND[query]}], {"output": [call]}


def by_messages(query: str) -> tuple[list[Body], Body]:
    use = {"type": "tool_use", "id": f"use-{query}", "name": "search", "input": {"query": query}}
    hit = {"type": "text", "text": json.dumps({"title": "A note", "text": FOUND[query], "url": f"http://n/{query}"})}
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": [hit]}
    turns = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return turns, {"type": "message", "content": [use]}


def by_gemini(query: str) -> tuple[list[Body], Body]:
    turn = {"role": "model", "parts": [{"functionCall": {"name": "search", "args": {"query": query}}}]}
    told = {"functionResponse": {"name": "search", "response": {"result": [{"text": FOUND[query]}]}}}
    return [turn, {"role": "user", "parts": [told]}], {"candidates": [{"content": turn}]}


def by_ollama(query: str) -> tuple[list[Body], Body]:
    turn = {"role": "assistant", "tool_calls": [{"function": {"name": "search", "arguments": {"query": query}}}]}
    result = {"role": "tool", "tool_name": "search", "content": FOUND[query]}
    return [turn, result], {"message": turn, "done": True}


def by_observation(query: str) -> tuple[list[Body], Body]:
    """smolagents has no turns for tools: what it calls and observes stands in texts."""
    call = chat_call(query)
    turn = {"role": "assistant", "content": [{"type": "text", "text": f"Calling tools:\n[{{'id': '{call['id']}'}}]"}]}
    observed = {"role": "user", "content": [{"type": "text", "text": f"Observation:\n{FOUND[query]}"}]}
    return [turn, observed], chat([call])


def by_text(query: str) -> tuple[list[Body], Body]:
    """As CrewAI has a model write that takes no tools."""
    said = f"Thought: I look it up.\nAction: search\nAction Input: {json.dumps({'query': query})}"
    turn = {"role": "assistant", "content": f"{said}\nObservation: {FOUND[query]}"}
    return [turn], {"choices": [{"message": {"role": "assistant", "content": said}}]}


FORMS: dict[str, tuple[str, str, Any]] = {
    "chat completions": ("/v1/chat/completions", "messages", by_chat),
    "responses": ("/v1/responses", "input", by_responses),
    "messages": ("/v1/messages", "messages", by_messages),
    "Gemini": ("/v1beta/models/g:generateContent", "contents", by_gemini),
    "Ollama": ("/api/chat", "messages", by_ollama),
    "observations in texts": ("/v1/chat/completions", "messages", by_observation),
    "actions in texts": ("/v1/chat/completions", "messages", by_text),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_results_of_a_search_tool_are_its_searches_each_once(form: str) -> None:
    path, name, way = FORMS[form]
    seen, turns = Listening(), [{"role": "user", "content": "What?", "parts": [{"text": "What?"}]}]
    for query in QUERIES:
        added, answer = way(query)
        seen.call(path, {"model": "m", name: turns}, answer)
        turns = [*turns, *added]
    _, answer = way("heparin")
    seen.call(path, {"model": "m", name: turns}, answer)
    seen.call(path, {"model": "m", name: turns}, answer)  # asked again: nothing new stands in it
    assert seen.made == BOTH


def test_a_response_that_goes_on_from_another_brings_results_alone() -> None:
    seen = Listening()
    for query in QUERIES:
        (_, output), answer = by_responses(query)
        seen.call("/v1/responses", {"model": "m", "input": "What?"}, answer)
        seen.call("/v1/responses", {"model": "m", "previous_response_id": "r", "input": [output]}, {"output": []})
    assert seen.made == BOTH


PROVIDERS: dict[str, tuple[str, object, str, Made]] = {
    "web search of OpenAI": (
        "/v1/responses",
        {
            "output": [
                {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "heparin"}},
                {"type": "web_search_call", "id": "o", "action": {"type": "open_page", "url": "http://n"}},
                {
                    "type": "message",
                    "content": [
                        {
                            "type": "output_text",
                            "text": "B",
                            "annotations": [{"type": "url_citation", "url": "http://n", "title": "A note"}],
                        }
                    ],
                },
            ]
        },
        "application/json",
        ("web_search", "heparin", [""]),
    ),
    "file search of OpenAI": (
        "/v1/responses",
        {
            "output": [
                {
                    "type": "file_search_call",
                    "queries": ["heparin"],
                    "results": [{"file_id": "f", "filename": "n.txt", "text": FOUND["heparin"], "score": 0.9}],
                }
            ]
        },
        "application/json",
        ("file_search", "heparin", [FOUND["heparin"]]),
    ),
    "web search of Anthropic, streamed": (
        "/v1/messages",
        b"".join(
            b"data: %s\n\n" % json.dumps(event).encode()
            for event in (
                {"type": "message_start", "message": {"model": "m"}},
                {
                    "type": "content_block_start",
                    "index": 0,
                    "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                },
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "input_json_delta", "partial_json": '{"query": "heparin"}'},
                },
                {
                    "type": "content_block_start",
                    "index": 1,
                    "content_block": {
                        "type": "web_search_tool_result",
                        "tool_use_id": "s",
                        "content": [{"type": "web_search_result", "url": "http://n", "title": "A note"}],
                    },
                },
            )
        ),
        "text/event-stream",
        ("web_search", "heparin", [""]),
    ),
    "grounding of Gemini": (
        "/v1beta/models/g:generateContent",
        {
            "candidates": [
                {
                    "content": {"parts": [{"text": "B"}]},
                    "groundingMetadata": {
                        "webSearchQueries": ["heparin", "antithrombin"],
                        "groundingChunks": [{"web": {"uri": "http://n", "title": "A note"}}],
                    },
                }
            ]
        },
        "application/json",
        ("google_search", "heparin · antithrombin", [""]),
    ),
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_a_provider_searches_by_itself_is_a_search(provider: str) -> None:
    path, answer, kind, expected = PROVIDERS[provider]
    seen = Listening()
    asked = {"contents": []} if "Content" in path else {"input": "What?", "messages": []}
    seen.call(path, {"model": "m", **asked}, answer, kind)
    assert seen.made == [expected]


def turns_of(*results: tuple[str, str, str]) -> Body:
    """A request with tools' results: tool, query, what it gave."""
    made: list[Body] = []
    for number, (tool, query, gave) in enumerate(results):
        call = chat_call(query, f"call-{number}")
        call["function"]["name"] = tool
        made.append({"role": "assistant", "tool_calls": [call]})
        made.append({"role": "tool", "tool_call_id": call["id"], "content": gave})
    return {"model": "m", "messages": made}


@pytest.mark.parametrize(
    ("query", "texts", "result"),
    [
        ("heparin", ["It binds antithrombin, and does so at once."], ("search", "heparin", "In short: it binds.")),
        ("anticoagulants", [FOUND["heparin"]], ("search", "heparin", f"1. {FOUND['heparin']}\n2. Something else.")),
    ],
    ids=["by the query", "by what it found"],
)
def test_a_search_that_was_told_of_is_not_read_again(query: str, texts: list[str], result: Any) -> None:
    seen = Listening()
    assert seen.searches.is_new(query, texts)
    seen.call("/v1/chat/completions", turns_of(result), chat([]))
    assert seen.made == []
    seen.call("/v1/chat/completions", turns_of(result, result), chat([]))
    assert len(seen.made) == 1, "it was told of once, and used twice"
    late = Listening()
    late.call("/v1/chat/completions", turns_of(result), chat([]))
    assert (len(late.made), late.searches.is_new(query, texts)) == (1, False), "whichever comes first"


def test_other_tools_and_what_they_hand_on_are_no_searches() -> None:
    hits = json.dumps([{"title": "A note", "text": FOUND["heparin"]}])
    seen = Listening()
    seen.call(
        "/v1/chat/completions",
        turns_of(("add", "1 + 1", "2"), ("search", "heparin", hits), ("rank", "heparin", hits), ("research", "x", "y")),
        chat([]),
    )
    looked = turns_of(("look", "screen", ""))
    looked["messages"][-1]["content"] = [{"type": "text", "text": "a page"}, {"type": "text", "text": "another"}]
    seen.call("/v1/chat/completions", looked, chat([]))
    assert seen.made == [("search", "heparin", [FOUND["heparin"]])]


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        (None, []),
        ("", []),
        ("No hits.", ["No hits."]),
        ({"hits": [{"snippet": "One."}, {"snippet": "Two."}]}, ["One.", "Two."]),
        ([{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}], ["One.", "Two."]),
        ([{"type": "text", "text": '{"text": "One."}'}, {"type": "image", "data": ""}], ["One."]),
        ([{"type": "image", "data": ""}], []),
        ([{"type": "search_result", "source": "n", "content": [{"type": "text", "text": "One."}]}], ["One."]),
    ],
)
def test_what_a_search_tool_gives_is_read_in_whatever_form_it_stands(given: object, texts: list[str]) -> None:
    call = chat_call("heparin")
    result = {"role": "tool", "tool_call_id": call["id"], "content": given}
    seen = Listening()
    seen.call("/v1/chat/completions", {"model": "m", "messages": [{"tool_calls": [call]}, result]}, chat([]))
    assert [text for _, _, found in seen.made for text in found] == texts


def a_function_agent(server: AnyForm, tool: str = "search") -> Any:
    """A system that asks a model over plain HTTP, uses a tool of its own, and asks again."""

    def post(messages: list[Body]) -> Body:
        asked = {"model": "m", "messages": messages}
        answer: Body = requests.post(f"{server.url}/chat/completions", json=asked, timeout=10).json()
        return answer

    def work() -> str:
        turns: list[Body] = [{"role": "user", "content": "What?"}]
        post(turns)
        if tool:
            call = chat_call("heparin")
            call["function"]["name"] = tool
            turns += [{"role": "assistant", "tool_calls": [call]}]
            turns += [{"role": "tool", "tool_call_id": call["id"], "content": FOUND["heparin"]}]
        return str(post([*turns, {"role": "user", "content": "Answer."}])["choices"][0]["message"]["content"])

    return lambda _: asyncio.to_thread(work)


def test_a_search_of_any_framework_is_a_hop_and_its_passage_is_seen(served, attempt, home):
    made = attempt(a_function_agent(served))
    again = attempt(a_function_agent(served), "replay")
    for one in (made, again):
        assert [(call.kind, call.actor.partition("[")[0]) for call in one.calls] == [
            ("model", "openai:m"),
            ("search", "search"),
            ("model", "openai:m"),
        ]
        assert not any(note.startswith(NOT_HEARD) for note in one.notes)
    with Store(home) as store:
        (hop,) = hops_of([traced_call(store, call) for call in again.calls], Gold(question_id="q", answer=""))
    assert (hop.query, [(one.passage.text, one.fate) for one in hop.found]) == ("heparin", [(FOUND["heparin"], "seen")])


def test_a_search_counts_before_the_call_that_hands_it_on(served, attempt):
    made = attempt(a_function_agent(served), limits=Limits(calls=2))
    assert getattr(made.error, "status", "") == "capped"
    assert [call.kind for call in made.calls] == ["model", "search"]


@pytest.mark.parametrize(
    ("tool", "why"),
    [("", "no search was recorded"), ("consult", "it called tools consult; whether they searched is not known")],
)
def test_whether_a_system_searched_that_nobody_heard_is_not_known(tool, why, served, attempt, home):
    made = attempt(a_function_agent(served, tool))
    assert sum(note.startswith(NOT_HEARD) for note in made.notes) == 1
    with Store(home) as store:
        traced = [traced_call(store, call) for call in made.calls]
    kept = Attempt(run="r", question_id="q", epoch=0, status="completed", text="B", events=tuple(made.context.events))
    assert why in searches_unknown(kept, traced)


def test_a_tool_that_calls_a_search_tool_has_searched_once(served, attempt):
    from langchain_core.tools import tool

    @tool
    async def engine(query: str) -> list[dict[str, str]]:
        """An engine."""
        return [{"title": "A note", "content": FOUND["heparin"]}]

    @tool
    async def search(query: str) -> str:
        """Search."""
        return json.dumps(await engine.ainvoke({"query": f"{query} in brief"}))

    async def do(_: object) -> str:
        found = await search.ainvoke({"query": "heparin"})
        turns = turns_of(("search", "heparin", found))
        await asyncio.to_thread(requests.post, f"{served.url}/chat/completions", json=turns, timeout=10)
        return "B"

    made = attempt(do)
    assert [(call.kind, call.actor) for call in made.calls if call.kind == "search"] == [("search", "engine")]
