"""DSPy modules as agents, where DSPy is installed: it is no part of the project's own environment."""

from __future__ import annotations

import json

import pytest

from ragrounds.agents.agent import open_agent
from ragrounds.agents.systems.kinds import kind_of
from ragrounds.base.errors import UserError
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from tests.graphs.playing import play
from tests.servers.http_script import Told, answering

pytest.importorskip("dspy")

MINE = """
import os

import dspy

dspy.configure(
    lm=dspy.LM("openai/small", api_base=os.environ["SERVER"] + "/v1", api_key="none"), adapter=dspy.JSONAdapter()
)


class Rag(dspy.Module):
    def __init__(self):
        super().__init__()
        self.respond = dspy.Predict("context, question -> answer")

    def forward(self, question):
        return self.respond(context=["First fact.", "Second fact."], question=question)


class Two(dspy.Module):
    def forward(self, patient, case):
        return dspy.Prediction(answer=case[:5])


class Waiting(dspy.Module):
    def __init__(self):
        super().__init__()
        self.respond = dspy.Predict("question -> answer")

    async def aforward(self, question):
        return await self.respond.acall(question=question)


predict = dspy.Predict("question -> answer")
thinking = dspy.ChainOfThought("question -> answer")
rag, two, waiting = Rag(), Two(), Waiting()
"""
CHAT = {
    "model": "small",
    "choices": [
        {
            "message": {"role": "assistant", "content": json.dumps({"reasoning": "…", "answer": "It is (B)."})},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
}


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """Return the text of an agent and its server. The agents share a host, which imports DSPy for seconds."""
    file = tmp_path_factory.mktemp("dspy") / "modules.py"
    with answering(lambda asked, before: Told(CHAT)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVER", server.url)  # DSPy takes its settings once, from one thread
        file.write_text(MINE)
        yield lambda name: (f"{file}:{name}[share_process=true]", server)


@pytest.mark.parametrize("name", ["predict", "thinking", "waiting"])
async def test_a_module_is_asked_and_its_calls_are_journaled(mine, name):
    agent, server = mine(name)
    before = len(server.posts)
    played = await play([agent, agent], [])
    assert played.attempt.status == "completed", played.attempt.reason
    assert played.attempt.text == "It is (B)."
    assert played.attempt.unrecorded == 0
    assert len(server.posts) == before + 1
    assert played.attempt.usage is not None
    assert (played.attempt.usage.input, played.attempt.usage.output) == (10, 5)


async def test_the_passages_that_a_predictor_is_given_are_seen(mine):
    agent, server = mine("rag")
    played = await play(agent, [])
    assert [call.kind for call in calls(played.attempt.events)] == ["search", "model"]
    assert len(next(calls(played.attempt.events)).passages) == 2
    assert played.calls == ["search searching@", "model answering@Predict"]
    assert "Second fact." in str(server.asked[-1].body)


async def test_a_module_of_several_inputs_is_filled_by_the_agent_s_file(mine, tmp_path):
    agent, _ = mine("two")
    with pytest.raises(UserError, match="patient, case"):
        kind_of(open_agent(agent).card).open()
    file = tmp_path / "two.toml"
    inputs = '{ patient = "language", case = "question" }'
    file.write_text(f'system = "{agent.partition("[")[0]}"\nshare_process = true\ninput = {inputs}')
    assert (await play(str(file), [])).attempt.text == "Which"


def test_a_module_is_replayed_and_a_miss_is_named(mine, home, command):
    agent, server = mine("thinking")
    options = ["run", "--agent", agent, "--limit", "3", "--display", "none"]
    assert command(*options).returncode == 0
    asked = len(server.asked)
    done = command(*options, "--new", "--journal", "replay")
    assert done.returncode == 0, done.stderr
    missed = command(*options[:4], "4", *options[5:], "--journal", "replay")
    assert missed.returncode != 0
    assert "openai:small" in missed.stderr
    assert len(server.asked) == asked, "a replay sends nothing"
    with Store(home) as store:
        assert {one.text for run in store.runs() for one in store.attempts(run)} == {"It is (B)."}
