"""Calls that a system makes while it is imported or built: journaled, told once; and its searches."""

from __future__ import annotations

import textwrap

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import trace
from tests.servers.any_form import any_form

RECIPE = """
import os
from typing import TypedDict
from langchain_core.documents import Document
from langchain_core.tools import create_retriever_tool, tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langgraph.graph import END, START, StateGraph

URL = os.environ["SERVED_AT"]
vectors = OpenAIEmbeddings(model="e", base_url=URL, api_key="none", check_embedding_ctx_length=False)
documents = [Document(page_content=f"Passage {n}.", id=f"p{n}", metadata={"title": f"T{n}"}) for n in range(3)]
retriever = InMemoryVectorStore.from_documents(documents, vectors).as_retriever(search_kwargs={"k": 2})
model = ChatOpenAI(model="m", base_url=URL, api_key="none")

class State(TypedDict):
    question: str
    answer: str

@tool
def web_search(query: str) -> list[dict]:
    "Search the web."
    return [{"url": "https://a.example", "title": "A", "content": "found"}]

def look(state: State) -> dict:
    found = retriever.invoke(state["question"])
    web_search.invoke({"query": "more"})
    return {"answer": model.invoke([("user", state["question"] + found[0].page_content)]).content}

graph = StateGraph(State)
graph.add_node("look", look)
graph.add_edge(START, "look")
graph.add_edge("look", END)
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    with any_form() as server:
        monkeypatch.setenv("SERVED_AT", server.url)
        file = tmp_path / "recipe.py"
        file.write_text(textwrap.dedent(RECIPE))
        yield server, f"{file}:graph"


@pytest.mark.parametrize("in_process", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_recipe_that_embeds_while_it_is_imported_is_recorded_whole(in_process, recipe, home):
    server, agent = recipe
    told: list[str] = []

    class Telling(rr.RunListener):
        def message(self, text: str) -> None:
            told.append(text)

    first = rr.run(agents=[agent], limit=2, listener=Telling(), in_process=in_process)
    assert any("Model calls made while systems were opened: 1 (" in words for words in told), told
    asked = len(server.asked)
    assert asked == 1 + 2 * 2, "the documents' vectors, and for each question a query's vector and a model's reply"
    (row,) = first.comparison.rows
    assert row.unrecorded == 0
    with Store(home) as store:
        traced = trace(store, first.runs[0], first.benchmark.questions[0].id)
    searches = [call for step in traced.steps for call in step.calls if call.call.kind == "search"]
    assert [one.searched.query for one in searches if one.searched][1] == "more"
    assert [(len(passage.id), passage.title[0]) for passage in searches[0].passages] == [(2, "T")] * 2
    assert [(passage.id, passage.title) for passage in searches[1].passages] == [("https://a.example", "A")]
    assert all(one.call.node == "look" for one in searches)


def test_what_a_replay_does_not_hold_of_an_opening_is_refused(tmp_path, home):
    file = tmp_path / "asks.py"
    with any_form() as server:
        asked = f"urllib3.request('POST', '{server.url}/chat/completions', json={{'model': 'm', 'messages': []}})"
        file.write_text(f"import urllib3\n{asked}\ndef ask(question): return 'A'\n")
        with pytest.raises(UserError, match="not in the journal"):
            rr.run(agents=[f"{file}:ask"], limit=1, journal="replay")
        assert not server.asked
