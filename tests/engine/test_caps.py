"""Caps that hold where an agent says none: a model that never ends its loop uses so much, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ragrounds.agents import agent as agents
from ragrounds.agents.agent import DEFAULT_CAPS, Limits, open_agent
from ragrounds.base.contracts import FinishedAttempt, Request
from ragrounds.base.records import Left, Noted, Reply, Usage
from ragrounds.evals.engine.attempt_log import TRACE_SIZE, AttemptEnded
from ragrounds.evals.engine.plan import OpenedAgent, agent_identity
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from tests.conftest import Cli
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, context_of, questions
from tests.servers.process import Running

LOOPING = """
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message


class State(TypedDict, total=False):
    answer: str


async def loop(state: State, runtime: Runtime[Context]) -> State:
    said = ""
    while "done" not in said:
        said = (await runtime.context.ask([Message("user", runtime.context.stem.text + said)])).text
    return {"answer": said}


def build():
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("loop", loop)
    graph.add_edge(START, "loop")
    graph.add_edge("loop", END)
    return graph
"""


GROWING = """
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from ragrounds.base.contracts import Context


class State(TypedDict, total=False):
    answer: str
    pad: str
    count: int


def step(state: State) -> State:
    count = state.get("count", 0)
    return {"pad": state.get("pad", "") + str(count % 10) * 2000, "count": count + 1, "answer": f"after {count + 1}"}


def build():
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["count"] < 300 else END, ["step", END])
    return graph
"""


@pytest.fixture
def looping(tmp_path: Path) -> str:
    """A graph that asks until the model says that it is done."""
    path = tmp_path / "looping.py"
    path.write_text(LOOPING)
    return f"{path}:build"


def test_what_an_agent_says_counts_before_the_defaults() -> None:
    assert open_agent("direct").caps == DEFAULT_CAPS
    assert open_agent("direct").card.limits == Limits()
    own = open_agent("direct[limits.calls=9000,limits.cost=0.5]")
    assert own.caps == replace(DEFAULT_CAPS, calls=9000, cost=0.5)
    assert own.caps.words() == "9,000 calls (of models, searches and tools), 2,000,000 tokens, $0.5 and 2 h"
    assert Limits(seconds=90).words() == "90 s"


@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        (Limits(tokens=101), ""),
        (Limits(tokens=100), "100 tokens"),
        (Limits(cost=0.5001), ""),
        (Limits(cost=0.5), "$0.5"),
        (Limits(tokens=100, cost=0.5), "100 tokens"),
    ],
)
def test_a_cap_is_reached_as_soon_as_all_of_it_is_used(store: Store, limits: Limits, reached: str) -> None:
    journal = StoreJournal(store)
    context = context_of(journal, limits=limits)
    context.add_cost(Usage(60, 40), 0.5, cached=True)  # a cap goes by the full price, whatever was paid
    if reached:
        with pytest.raises(AttemptEnded) as ended:
            context.check_caps()
        assert ended.value.reason == f"the attempt's cap of {reached} is reached"
    else:
        context.check_caps()
    journal.close()


async def test_a_loop_of_long_texts_ends_at_the_default_cap_of_tokens(store: Store, looping: str) -> None:
    asked, golds = questions(1)

    def say(request: Request) -> Reply:
        return Reply(text="on", usage=Usage(200_000, 1_000))

    one = planned(store, looping, asked, golds, ScriptedModel(say=say))
    await replayed(store, [one], asked, golds)
    [attempt] = attempts(store, one.run).values()
    assert (attempt.status, attempt.model_calls) == ("capped", 10)
    assert attempt.reason == "the attempt's cap of 2,000,000 tokens is reached"


async def test_an_attempt_that_waits_for_ever_ends_at_the_default_cap_of_seconds(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "DEFAULT_CAPS", replace(DEFAULT_CAPS, seconds=0.2))
    asked, golds = questions(1)
    one = planned(store, "direct", asked, golds, ScriptedModel(delay=60))
    await replayed(store, [one], asked, golds)
    [attempt] = attempts(store, one.run).values()
    assert (attempt.status, attempt.reason) == ("capped", "the attempt's cap of 0.2 seconds is reached")


async def test_the_trace_of_a_long_attempt_is_bounded_and_says_so(store: Store, tmp_path: Path) -> None:
    """Its state grows: 300 steps that write all of it write 90 million characters."""
    path = tmp_path / "growing.py"
    path.write_text(GROWING)
    asked, golds = questions(1)
    one = planned(store, f"{path}:build", asked, golds)
    heard: list[FinishedAttempt] = []
    await replayed(store, [one], asked, golds, listener=heard.append)
    [attempt] = attempts(store, one.run).values()
    assert (attempt.status, attempt.text) == ("completed", "after 300")
    left = [event for event in attempt.events if isinstance(event, Left)]
    assert len(left) == 300
    for events in (attempt.events, heard[0].attempt.events):
        written = sum(len(str(event.changes.get("pad", ""))) for event in events if isinstance(event, Left))
        assert TRACE_SIZE / 2 < written <= TRACE_SIZE
    [note] = [event for event in attempt.events if isinstance(event, Noted) and event.what == "trace_full"]
    assert "16,000,000 characters" in note.text
    assert left[0].changes["count"] == 1
    assert left[-1].changes == {}


async def test_a_message_of_any_size_does_not_fill_the_trace(store: Store) -> None:
    asked, golds = questions(1)
    model = ScriptedModel(say=lambda request: ValueError("x" * 5_000_000))
    one = planned(store, "direct", asked, golds, model)
    await replayed(store, [one], asked, golds)
    [attempt] = attempts(store, one.run).values()
    assert attempt.status == "failed"
    assert len(attempt.reason) <= 10_000
    assert sum(len(event.text) for event in attempt.events if isinstance(event, Noted)) < 60_000
    assert sum(len(event.error) for event in attempt.events if isinstance(event, Left)) <= 10_000


def test_the_caps_are_in_the_identity() -> None:
    opened = OpenedAgent(open_agent("direct[limits.calls=5]"), {"model": ScriptedModel()}, None)
    assert agent_identity(opened)["limits"] == {"calls": 5, "tokens": 2_000_000, "seconds": 7200.0}


def test_a_run_says_which_caps_were_reached(command: Cli, looping: str, server: Running) -> None:
    agent = f"{looping}[limits.calls=3]"
    words = ["run", "--agent", agent, "--limit", "2", "--model", "openai:plain", "--base-url", server.url]
    done = command(*words, "--display", "none")
    assert "is capped at" not in done.stderr
    assert "2 capped: the attempt's cap of 3 calls (of models, searches and tools) is reached" in done.stderr
    assert done.returncode == 0, done.stderr
