"""LlamaIndex's engines and workflows as agents: what they answer, what is seen of them, and their replay."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from ragrounds.agents.agent import open_agent
from ragrounds.agents.systems.kinds import kind_of
from ragrounds.base.errors import UserError
from ragrounds.base.records import Noted
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls, node_path
from tests.graphs.playing import play
from tests.servers.http_script import Told, answering

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed: the extra `llamaindex`")

MINE = """
import os

import httpx
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step


class Served(CustomLLM):
    @property
    def metadata(self):
        return LLMMetadata(model_name="small", context_window=8000)

    @llm_completion_callback()
    def complete(self, prompt, formatted=False, **options):
        body = {"model": "small", "messages": [{"role": "user", "content": prompt}]}
        told = httpx.post(os.environ["SERVER"] + "/v1/chat/completions", json=body).json()
        return CompletionResponse(text=told["choices"][0]["message"]["content"])

    @llm_completion_callback()
    def stream_complete(self, prompt, formatted=False, **options):
        raise NotImplementedError


class Words(BaseRetriever):
    def _retrieve(self, query_bundle):
        nodes = [TextNode(text=f"Fact {n}.", metadata={"title": f"Title {n}"}) for n in (1, 2)]
        return [NodeWithScore(node=node, score=1 / n) for n, node in enumerate(nodes, 1)]


class Own(CustomQueryEngine):
    async def acustom_query(self, query_str):
        raise RuntimeError("asked as nobody asks it")

    def custom_query(self, query_str):
        return "It is (C): " + query_str[:5]


class Found(Event):
    query: str
    text: str


class Flow(Workflow):
    @step
    async def look(self, ev: StartEvent) -> Found:
        nodes = await Words().aretrieve("facts of it")
        return Found(query=ev.query, text=" ".join(node.text for node in nodes))

    @step
    async def say(self, ev: Found) -> StopEvent:
        said = await Served().acomplete(f"{ev.text} {ev.query}")
        return StopEvent(result={"answer": said.text, "letter": "B"})


engine = RetrieverQueryEngine.from_args(Words(), llm=Served())
local = RetrieverQueryEngine.from_args(Words(), llm=MockLLM())
chat = ContextChatEngine.from_defaults(retriever=Words(), llm=Served())
own = Own()


async def flow(question):
    return await Flow().run(query=question)


def made():
    return RetrieverQueryEngine.from_args(Words(), llm=Served())


def three_lines(question: str) -> str:
    return str(engine.query(question))
"""
CHAT = {
    "model": "small",
    "choices": [{"message": {"role": "assistant", "content": "The answer is (B)."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5},
}


@contextmanager
def served(folder):
    """Give a file of engines and their model server."""
    file = folder / "engines.py"
    file.write_text(MINE)
    with answering(lambda asked, before: Told(CHAT)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVER", server.url)
        yield file, server


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """Agents of one file and one environment can share a host, which imports LlamaIndex for seconds."""
    with served(tmp_path_factory.mktemp("engines")) as file_and_server:
        yield file_and_server


@pytest.fixture
def mine(engines):
    file, server = engines
    server.asked.clear()
    return lambda name, *settings: (f"{file}:{name}[{','.join(('share_process=true', *settings))}]", server)


@pytest.mark.parametrize("name", ["engine", "made", "chat", "three_lines"])
async def test_an_engine_is_asked_seen_and_journaled(mine, name):
    agent, server = mine(name)
    played = await play([agent, agent], [])
    assert played.attempt.status == "completed", played.attempt.reason
    assert played.attempt.text == "The answer is (B)."
    assert len(server.posts) == 1, "the second run asks nobody"
    seen = list(calls(played.attempt.events))
    assert [call.kind for call in seen] == ["search", "model"]
    assert (seen[0].actor, len(seen[0].passages)) == ("Words", 2)
    assert seen[1].cached
    assert played.attempt.usage is not None
    assert (played.attempt.usage.input, played.attempt.usage.output) == (10, 5)
    assert "Fact 2." in str(server.posts[0].body)


async def test_the_steps_of_an_engine_are_told_and_its_calls_are_made_in_them(mine):
    agent, _ = mine("engine")
    played = await play(agent, [])
    assert played.nodes == ["Words", "CompactAndRefine"]
    assert played.calls == ["search searching@Words", "model answering@CompactAndRefine"]


async def test_passages_have_the_same_ids_in_every_attempt(mine):
    agent, _ = mine("engine")
    ids = [next(calls((await play(agent, [])).attempt.events)).passages for _ in range(2)]
    assert ids[0] == ids[1], "though LlamaIndex draws the nodes' ids"
    assert len(set(ids[0])) == 2


async def test_the_steps_of_a_workflow_in_a_function_are_seen(mine, tmp_path):
    agent, _ = mine("flow")
    file = tmp_path / "flow.toml"
    file.write_text(f'system = "{agent.partition("[")[0]}"\nshare_process = true\nchoice = "letter"')
    played = await play(str(file), [])
    assert (played.attempt.text, played.attempt.choice) == ("The answer is (B).", "B")
    assert played.nodes == ["look", "Words", "say"]
    assert played.calls == ["search searching@Words", "model answering@say"]


async def test_an_engine_is_asked_as_its_users_ask_it(mine):
    agent, _ = mine("own")
    assert (await play(agent, [])).attempt.text == "It is (C): Which"


async def test_a_model_inside_the_process_is_said_to_be_not_recorded(mine):
    agent, _ = mine("local")
    attempt = (await play(agent, [])).attempt
    assert attempt.unrecorded == 1
    assert attempt.cost_paid is None
    notes = [event.text for event in attempt.events if isinstance(event, Noted) and event.what == "not_recorded"]
    assert notes == ["a model of class MockLLM"]


@pytest.mark.parametrize(
    ("name", "set_", "message"),
    [
        ("engine", "config.k=3", "config has no effect"),
        ("chat", "on_interrupt=yes", "on_interrupt has no effect"),
        ("flow", "context.k=3", "context has no effect"),
        ("engine", "input.query=promt", "prompt"),
    ],
)
def test_what_has_no_effect_is_told(mine, name, set_, message):
    agent, _ = mine(name, set_)
    with pytest.raises(UserError, match=message):
        kind_of(open_agent(agent).card).open()


@pytest.mark.slow
def test_an_engine_is_replayed_with_the_server_down_and_a_miss_is_named(tmp_path, home, command):
    with served(tmp_path) as (file, server):
        options = ["run", "--agent", f"{file}:engine", "--limit", "2", "--display", "none"]
        done = command(*options)
        assert done.returncode == 0, done.stderr
        assert len(server.posts) == 2
        server.close()
        done = command(*options, "--new", "--journal", "replay")
        assert done.returncode == 0, done.stderr
        missed = command(*options[:4], "3", *options[5:], "--journal", "replay")
    with Store(home) as store:
        first, second = (list(store.attempts(run)) for run in list(store.runs())[:2])
    assert [one.text for one in first] == [one.text for one in second]
    assert [tuple(node_path(one.events)) for one in second] == [("Words", "CompactAndRefine")] * 2
    assert missed.returncode != 0
    assert "openai:small" in missed.stderr


@pytest.mark.slow
def test_two_attempts_at_once_are_told_apart(mine, home, command):
    agent, _ = mine("engine")
    other, _ = mine("flow")
    done = command("run", "--agent", agent, "--agent", other, "--limit", "3", "--display", "none")
    assert done.returncode == 0, done.stderr
    with Store(home) as store:
        for run in store.runs():
            attempts = list(store.attempts(run))
            assert len(attempts) == 3
            for attempt in attempts:
                assert [call.kind for call in calls(attempt.events)] == ["search", "model"]
