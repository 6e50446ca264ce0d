"""A user's own graph in its three tiers, and the worked example of the documentation."""

import pytest

from ragrounds.agents.agent import read_card
from ragrounds.agents.systems.kinds import kind_of
from ragrounds.base.errors import UserError
from ragrounds.base.records import Called, Reply, ToolCall, Usage
from tests.graphs.playing import ANSWER, play
from tests.servers.process import ROOT

EXAMPLE = ROOT / "docs" / "examples" / "own_graph.py"


async def test_the_first_tier_is_journaled_limited_and_costed():
    played = await play([f"{EXAMPLE}:build[top_k=2]"] * 2, ["heparin onset", ANSWER])
    assert played.attempt.status == "completed"
    assert played.attempt.text == ANSWER
    assert played.nodes == ["keywords", "answer"]
    assert played.shelf.queries == ["heparin onset"], "the second run asks and searches nothing"
    assert played.reused == 2
    assert "Text of passage 2." in played.shown(1)
    assert "Text of passage 3." not in played.shown(1)
    assert "zq" not in played.shown(0)
    assert played.attempt.cost_uncached == pytest.approx(0.002)


async def test_langchain_s_agent_on_our_model_is_journaled():
    call = Reply(
        text="", calls=(ToolCall("srv-1", "search", '{"query": "onset"}'),), finish="tool_calls", usage=Usage(1, 1)
    )
    played = await play([f"{EXAMPLE}:langchain_agent"] * 2, [call, ANSWER])
    assert played.attempt.status == "completed", played.attempt.reason
    assert played.attempt.text == ANSWER
    assert played.shelf.queries == ["onset"]
    assert played.reused == 2
    assert played.nodes == ["model", "tools", "model"]
    assert [message.role for message in played.model.requests[1].messages] == ["system", "user", "assistant", "tool"]
    assert played.model.requests[1].messages[3].answers == "call_1"
    assert "Text of passage 3." in played.shown(1)
    assert played.model.requests[0].tools[0].name == "search"


async def test_the_first_tier_cannot_search_after_it_saw_the_options(tmp_path):
    file = tmp_path / "peeking.py"
    file.write_text(EXAMPLE.read_text().replace("question_only=False,", ""))
    call = Reply(text="", calls=(ToolCall("1", "search", '{"query": "onset"}'),))
    with pytest.raises(UserError, match="question_only = false"):
        await play(f"{file}:langchain_agent", [call, ANSWER])


OBSERVED = """
from typing import TypedDict
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    query: str
    result: str

def build():
    usage = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
    said = iter([AIMessage("The answer is (B).", usage_metadata=usage) for _ in range(50)])
    class Fake(GenericFakeChatModel):
        def _get_ls_params(self, stop=None, **kwargs):
            return {"ls_provider": "openai", "ls_model_name": "gpt-4o-mini", "ls_model_type": "chat"}
    model = Fake(messages=said)
    async def answer(state):
        for _ in range(3):
            reply = await model.ainvoke(state["query"])
        return {"result": reply.content}
    graph = StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile()

def failing():
    raise ValueError("no such thing")

def pair():
    class Pair(TypedDict, total=False):
        query: str
        said: str
    graph = StateGraph(Pair)
    graph.add_node("say", lambda state: {"said": "B"})
    graph.add_edge(START, "say")
    return graph

def endless():
    async def again(state):
        return {"result": "still"}
    graph = StateGraph(State)
    graph.add_node("again", again)
    graph.add_edge(START, "again")
    graph.add_edge("again", "again")
    return graph

def slow():
    import asyncio
    async def wait(state):
        await asyncio.sleep(60)
    graph = StateGraph(State)
    graph.add_node("wait", wait)
    graph.add_edge(START, "wait")
    graph.add_edge("wait", END)
    return graph

"""
CARD = """
graph = "mine.py:{function}"
summary = "Mine."
input = {{query = "prompt"}}
output = "result"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a user's graphs: systems of one folder share a host."""
    folder = tmp_path_factory.mktemp("graphs")
    (folder / "mine.py").write_text(OBSERVED)
    return folder


@pytest.fixture
def mine(folder):
    def card(function):
        file = folder / f"{function}.toml"
        file.write_text(CARD.format(function=function))
        return str(file)

    return card


async def test_the_second_tier_is_observed_and_priced(mine):
    played = await play(mine("build"), [])
    assert played.attempt.text == "The answer is (B)."
    calls = [event.call for event in played.attempt.events if isinstance(event, Called)]
    assert [(call.actor, call.node, call.key) for call in calls] == [("openai:gpt-4o-mini", "answer", "")] * 3
    assert played.attempt.usage == Usage(input=3000, output=300)
    assert played.attempt.cost_paid == pytest.approx(3 * (1000 * 0.15 + 100 * 0.60) / 1e6)
    assert played.notes == ["not_recorded", "no_search_heard"]


async def test_caps_hold_for_observed_calls_too(mine):
    played = await play(mine("build") + "[limits.calls=2]", [])
    assert played.attempt.status == "capped"
    assert played.attempt.text == "The answer is (B)."
    assert (played.attempt.model_calls, played.attempt.searches) == (2, 0)


async def test_the_third_tier_is_timed_and_its_cost_unknown():
    played = await play(f"{EXAMPLE}:own_client", [])
    assert played.attempt.text.startswith("The answer is (A)")
    assert (played.attempt.usage, played.attempt.cost_paid, played.attempt.cost_uncached) == (None, None, None)
    assert played.attempt.seconds > 0


async def test_a_graph_that_never_ends_is_capped(mine):
    played = await play(mine("endless"), [])
    assert played.attempt.status == "capped"
    assert "1000 steps" in played.attempt.reason


async def test_the_cap_on_seconds_ends_a_waiting_graph(mine):
    played = await play(mine("slow") + "[limits.seconds=0.2]", [])
    assert played.attempt.status == "capped"
    assert played.attempt.seconds < 10


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("./nowhere.py:build", "There is no file"),
        ("{folder}/mine.py:failing", "no such thing"),
        ("{folder}/mine.py:pair", "which key holds the answer"),
    ],
)
async def test_what_cannot_be_loaded_is_reported(agent, message, folder):
    with pytest.raises(UserError, match=message):
        await play(agent.format(folder=folder), [])


def test_the_tier_is_a_part_of_the_identity():
    taken = {
        name: kind_of(read_card(f"{EXAMPLE}:{name}")).takes_context()
        for name in ("build", "langchain_agent", "own_client")
    }
    assert taken == {"build": True, "langchain_agent": True, "own_client": False}
    assert kind_of(read_card("search_o1")).takes_context()
