"""Against a real `langgraph dev`, where it is installed (``pip install "langgraph-cli[inmem]"``): answers, tokens of
inner calls, passages, a person's answer."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragrounds.evals.store.traces import calls
from ragrounds.records import Usage
from tests.graphs.playing import play
from tests.servers.http_script import Asked, Told, answering

pytest.importorskip("langgraph_api")
pytestmark = pytest.mark.slow

APP = """
import os

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=f"Fact {n}.", metadata={"title": f"Title {n}"}, id=f"d{n}") for n in (1, 2)]


class State(MessagesState):
    facts: str


def look(state):
    return {"facts": " ".join(found.page_content for found in Shelf().invoke("a query of its own"))}


async def say(state):
    model = ChatOpenAI(model="small", base_url=os.environ["SERVER"] + "/v1", api_key="none")
    await model.ainvoke("a call whose reply stands in no state")
    return {"messages": [await model.ainvoke([("system", state["facts"]), *state["messages"]])]}


def ask(state):
    return {"messages": [("ai", f"For {interrupt('Which patient is meant?')}: B.")]}


graph = StateGraph(State)
graph.add_node("look", look)
graph.add_node("say", say)
graph.add_edge(START, "look")
graph.add_edge("look", "say")
graph.add_edge("say", END)
rag = graph.compile()
graph = StateGraph(MessagesState)
graph.add_node("ask", ask)
graph.add_edge(START, "ask")
graph.add_edge("ask", END)
asking = graph.compile()
"""
REPLY = "The answer is (B)."
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def said(asked: Asked, before: int) -> Told:
    """A chat completion, streamed where that is asked for: events have LangGraph stream every model's reply."""
    whole = {"id": "c", "created": 0, "model": "small", "usage": USAGE}
    if not asked.body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": REPLY}, "finish_reason": "stop"}
        return Told({**whole, "object": "chat.completion", "choices": [choice]})
    chunk = {**whole, "object": "chat.completion.chunk", "usage": None}
    events = [
        {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": REPLY}, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**chunk, "choices": [], "usage": USAGE},
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    return Told(body.encode(), headers={"Content-Type": "text/event-stream"})


CARD = """
summary = "A graph on a LangGraph server."
{top}

[endpoint]
form = "langgraph"
url = "{url}"
assistant = "{assistant}"
"""


@contextlib.contextmanager
def dev_server(folder: Path, **environment: str) -> Iterator[str]:
    (folder / "app.py").write_text(APP)
    (folder / "langgraph.json").write_text(
        '{"dependencies": ["."], "graphs": {"rag": "./app.py:rag", "asking": "./app.py:asking"}}'
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "langgraph"), "dev", "--host", "127.0.0.1", "--port", str(port)]
    quiet = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    process = subprocess.Popen(
        [*command, "--no-browser", "--no-reload"],
        cwd=folder,
        env={**os.environ, **quiet, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            assert process.poll() is None, "langgraph dev ended by itself"
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/ok", timeout=1):
                break
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(30)


async def test_a_real_server_is_asked_seen_and_answered(tmp_path):
    (tmp_path / "app").mkdir()
    with (
        answering(said) as models,
        dev_server(tmp_path / "app", SERVER=models.url) as url,
    ):
        rag, asking, told = (tmp_path / f"{name}.toml" for name in ("rag", "asking", "told"))
        rag.write_text(CARD.format(url=url, assistant="rag", top=""))
        asking.write_text(CARD.format(url=url, assistant="asking", top=""))
        told.write_text(CARD.format(url=url, assistant="asking", top='on_interrupt = "the first"'))
        played = await play([str(rag), str(rag)], [])
        paused = (await play(str(asking), [])).attempt
        answered = (await play(str(told), [])).attempt
    assert played.attempt.status == "completed", played.attempt.reason
    assert played.attempt.text == "The answer is (B)."
    assert len(models.posts) == 2, "two calls of one run, and no second run"
    assert played.attempt.usage == Usage(20, 10), "of both, though the state holds one reply"
    assert played.nodes == ["look", "say"]
    assert [call.passages for call in calls(played.attempt.events) if call.kind == "search"] == [("d1", "d2")]
    assert (paused.status, paused.reason) == ("paused", "the system asked a person: Which patient is meant?")
    assert (answered.status, answered.text) == ("completed", "For the first: B.")
