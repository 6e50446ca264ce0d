"""Counterfactuals of systems that make their calls themselves, in a process of their own, on a real loopback server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls, searches_by
from tests.extensions.counterfactual.conftest import reply, write_questions
from tests.servers.scripted_http import Scripted, scripted

pytest.importorskip("langchain_openai", reason="langchain-openai is not installed: the extra `langchain`")
N = 12
SYSTEM = '''
import json, re
from pathlib import Path
from typing import TypedDict
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

model = ChatOpenAI(model="m", base_url="URL", api_key="none", max_retries=5)
HELD = [Document(one["text"], id=one["_id"], metadata={"source": one["_id"], "title": one["title"]})
        for one in map(json.loads, Path("CORPUS").read_text().splitlines())]


def best(query, k=3):
    number = int(re.findall(r"case number (\\d+)", query)[-1])
    return [HELD[(number + place) % len(HELD)] for place in range(k)]


class Found(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return best(query)


class State(TypedDict, total=False):
    question: str
    plan: str
    context: str
    answer: str


@tool(response_format="content_and_artifact")
def look_up(query: str):
    """Search the reports."""
    found = best(query)
    return "\\n\\n".join(f"Source: {one.metadata}\\nContent: {one.page_content}" for one in found), found


@tool
def hits(query: str) -> str:
    """Search the reports."""
    results = [{"title": one.metadata["title"], "content": one.page_content, "score": float("inf")}
               for one in best(query)]
    return json.dumps({"query": query, "images": [], "results": results})


@tool
def search_texts(query: str) -> list[str]:
    """Search the reports."""
    return [one.page_content for one in best(query)]


def planned(state):
    return {"plan": model.invoke("PLAN " + state["question"]).content}


def retrieved(state):
    found = Found().invoke(state["question"])
    assert [one.metadata["source"] for one in best(state["question"])] == [
        HELD[(int(re.findall(r"case number (\\d+)", state["question"])[-1]) + n) % len(HELD)].id for n in range(3)]
    return {"context": "\\n".join(f"{one.metadata['title']}: {one.page_content}" for one in found)}


async def retrieved_later(state):
    return {"context": "\\n".join(one.page_content for one in await Found().ainvoke(state["question"]))}


def by(search):
    call = {"type": "tool_call", "id": "1", "name": search.name}
    return lambda state: {"context": search.invoke({**call, "args": {"query": state["question"]}}).content}


def answered(state):
    return {"answer": model.invoke(state["context"] + "\\n" + state["question"]).content}


def built(search):
    graph = StateGraph(State)
    for name, node in (("plan", planned), ("search", search), ("say", answered)):
        graph.add_node(name, node)
    graph.add_edge(START, "plan"); graph.add_edge("plan", "search"); graph.add_edge("search", "say")
    graph.add_edge("say", END)
    return graph


by_retriever, later, by_tool, by_hits = (built(one) for one in (retrieved, retrieved_later, by(look_up), by(hits)))
by_texts = built(lambda state: {"context": "\\n".join(search_texts.invoke(state["question"]))})
hidden = built(lambda state: {"context": best(state["question"])[0].page_content})
'''

LLAMA = """
import httpx, json, re
from pathlib import Path
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

HELD = [TextNode(text=one["text"], id_=one["_id"], metadata={"title": one["title"]})
        for one in map(json.loads, Path("CORPUS").read_text().splitlines())]


class Served(CustomLLM):
    @property
    def metadata(self):
        return LLMMetadata(model_name="m", context_window=8000)

    @llm_completion_callback()
    def complete(self, prompt, formatted=False, **options):
        body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
        told = httpx.post("URL/chat/completions", json=body).json()
        return CompletionResponse(text=told["choices"][0]["message"]["content"])

    @llm_completion_callback()
    def stream_complete(self, prompt, formatted=False, **options):
        raise NotImplementedError


class Found(BaseRetriever):
    def _retrieve(self, bundle):
        number = int(re.findall(r"case number (\\d+)", bundle.query_str)[-1])
        return [NodeWithScore(node=HELD[(number + place) % len(HELD)], score=1 / (place + 1)) for place in range(3)]


engine = RetrieverQueryEngine.from_args(Found(), llm=Served())
"""


@contextmanager
def system(folder: Path) -> Iterator[tuple[Scripted, dict[str, Any]]]:
    """A file of systems, questions, and a server that counts."""
    write_questions(folder, N)
    with scripted(reply) as server:
        for name, code in (("mine", SYSTEM), ("llama", LLAMA)):
            told = code.replace("URL", server.url).replace("CORPUS", str(folder / "corpus" / "corpus.jsonl"))
            (folder / f"{name}.py").write_text(told)
        yield server, {"home": f"{folder}/home", "progress": False}


def effects_of(found: Any) -> dict[str, Any]:
    return {one.change: one for one in found.result.record.effects}


def agent_of(folder: Path, name: str) -> str:
    return f'{folder}/mine.py:{name}[input.question="prompt",output=answer]'


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["by_retriever", "by_hits", *(pytest.param(name, marks=pytest.mark.weekly) for name in ("later", "by_tool"))],
)
def test_what_a_recorded_search_returns_is_changed(tmp_path: Path, name: str) -> None:
    changes = ["drop[passage=1]", "keep[passage=1]", "reverse", "swap[passage=1]", "truncate[share=0]"]
    with system(tmp_path) as (server, where):
        code = f"{tmp_path}/mine.py:{name}"
        run = rr.run(f"jsonl:{tmp_path}/q.jsonl", agent_of(tmp_path, name), **where)
        before = Counter(body["messages"][-1]["content"] for body in server.bodies)
        with pytest.raises(UserError, match=r"which is code, and a store never starts code\. Add `code` .*mine\.py"):
            rr.counterfactual(run.ids, **where)
        found = rr.counterfactual(run.ids, changes=changes, samples=1, code=code, **where)
        asked = Counter(body["messages"][-1]["content"] for body in server.bodies)
        again = rr.counterfactual(run.ids, changes=changes, samples=1, code=code, **where)
        assert Counter(body["messages"][-1]["content"] for body in server.bodies) == asked
        with Store(tmp_path / "home") as store:
            (parent,) = store.runs()
            attempts = {one.question_id: one for one in store.attempts(parent)}
            for one in store.counterfactuals(parent):
                for attempt in store.attempts(one):
                    made, was = list(calls(attempt.events)), list(calls(attempts[attempt.question_id].events))
                    assert (made[0].key, made[0].cached) == (was[0].key, True)
                    assert searches_by(store, attempt) == searches_by(store, attempts[attempt.question_id])
    assert {count for prompt, count in asked.items() if prompt.startswith("PLAN")} == {1}
    assert sum(asked.values()) > sum(before.values())
    effects = effects_of(found)
    assert effects_of(again) == effects
    assert effects["identity[search=first]"].bought == N
    for change in ("drop[passage=1]", "swap[passage=1]", "truncate[share=0]"):
        assert effects[change].after.value == pytest.approx(0.25), change
        assert (effects[change].failed, effects[change].reached.value) == (0, 1.0), change
    for change in ("keep[passage=1]", "reverse"):
        assert effects[change].difference.difference == 0.0, change
        assert (effects[change].failed, effects[change].reached.value) == (0, 1.0), change


@pytest.mark.slow
def test_what_is_not_changed_is_given_as_it_was_found(tmp_path: Path) -> None:
    with system(tmp_path) as (server, where):
        run = rr.run(f"jsonl:{tmp_path}/q.jsonl", agent_of(tmp_path, "by_texts"), **where)
        code = f"{tmp_path}/mine.py:by_texts"
        found = rr.counterfactual(run.ids, changes="drop[passage=9]", samples=1, code=code, **where)
        asked = Counter(body["messages"][-1]["content"] for body in server.bodies)
    assert {one.failed for one in effects_of(found).values()} == {0}
    assert {count for prompt, count in asked.items() if not prompt.startswith("PLAN")} == {2}, "by the identity alone"


@pytest.mark.slow
def test_what_llama_index_retrieves_is_changed(tmp_path: Path) -> None:
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed: the extra `llamaindex`")
    poison = tmp_path / "poison.txt"
    poison.write_text("A newer report\n{question} It is {wrong}.")
    changes = ["drop[passage=1]", "truncate[share=0.5]", f"add[file={poison}]"]
    with system(tmp_path) as (server, where):
        code = f"{tmp_path}/llama.py:engine"
        run = rr.run(f"jsonl:{tmp_path}/q.jsonl", code, **where)
        found = rr.counterfactual(run.ids, changes=changes, samples=1, code=code, **where)
        prompts = [body["messages"][-1]["content"] for body in server.bodies]
    assert sum("A newer report" in prompt for prompt in prompts) == N
    effects = effects_of(found)
    assert effects["drop[passage=1]"].after.value == effects["truncate[share=0.5]"].after.value == pytest.approx(0.25)
    assert {one.failed for one in effects.values()} == {0}


@pytest.mark.slow
def test_another_model_from_the_search_on(tmp_path: Path) -> None:
    with system(tmp_path) as (server, where):
        run = rr.run(f"jsonl:{tmp_path}/q.jsonl", agent_of(tmp_path, "by_retriever"), **where)
        code = f"{tmp_path}/mine.py:by_retriever"
        found = rr.counterfactual(run.ids, changes="model[model=other]", samples=1, code=code, **where)
        with pytest.raises(UserError, match="makes its calls itself"):
            rr.counterfactual(run.ids, changes='query[text="case number 0"]', samples=1, code=code, **where)
        names = Counter((body["model"], body["messages"][-1]["content"][:4] == "PLAN") for body in server.bodies)
    assert names == {("m", True): N, ("m", False): 2 * N, ("other", False): N}
    assert effects_of(found)["model[model=other]"].failed == 0


@pytest.mark.slow
def test_a_search_that_is_not_recorded_is_said_in_a_line(tmp_path: Path) -> None:
    with system(tmp_path) as (_, where):
        run = rr.run(f"jsonl:{tmp_path}/q.jsonl", agent_of(tmp_path, "hidden"), **where)
        with pytest.raises(UserError, match=r"no search of .* was recorded") as said:
            rr.counterfactual(run.ids, changes="none", samples=1, code=f"{tmp_path}/mine.py:hidden", **where)
    assert "\n" not in str(said.value)
