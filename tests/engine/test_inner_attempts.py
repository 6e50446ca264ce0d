"""Wrappers by the command line over a real server, which counts: samples are shared, resumed, replayed; what is inside
is a part of what a run is."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import calls
from tests.conftest import Cli

SYSTEM = """
from openai import OpenAI

client = OpenAI(base_url="{url}", api_key="none")

def answer(question: str) -> str:
    said = client.chat.completions.create(model="a", messages=[{{"role": "user", "content": question + "{more}"}}])
    return said.choices[0].message.content
"""
Ran = Callable[..., tuple[str, int]]


@pytest.fixture
def ran(command: Cli, server: Any) -> Ran:
    def ran(agent: str, *options: str) -> tuple[str, int]:
        before = server.stats()["asked"]
        model = ("--model", "openai:m", "--base-url", server.url) if "./mine.py" not in agent.split("then=")[-1] else ()
        words = ("--agent", agent, *model, "--limit", "3", "--display", "none", "--json", *options)
        done = command("run", *words)
        assert done.returncode == 0, done.stderr
        (row,) = json.loads(done.stdout)["rows"]
        return row["run"], server.stats()["asked"] - before

    return ran


def test_samples_that_were_drawn_are_shared(ran: Ran) -> None:
    assert ran("direct_cot", "--epochs", "2")[1] == 6
    assert ran("self_consistency[samples=3]")[1] == 3, "the third sample of three questions"
    assert ran("best_of[samples=3]")[1] == 0, "samples that are alike are not judged"
    assert ran("self_consistency[samples=3]", "--new", "--journal", "replay")[1] == 0
    assert ran("direct_cot", "--epochs", "3")[1] == 0
    cascade, asked = ran("cascade[first=direct_cot,samples=3,then=self_consistency[of=direct]]")
    assert asked == 0, "the samples agree"
    again, _ = ran("cascade[first=direct_cot,samples=3,then=self_consistency[of=direct,samples=4]]")
    assert again != cascade, "another agent inside is another run"
    assert ran("cascade[samples=3,then=self_consistency[of=direct]]") == (cascade, 0), "however it is spelled"


def test_systems_of_ones_own_are_wrapped(ran: Ran, server: Any, tmp_path: Path, home: Path) -> None:
    (tmp_path / "mine.py").write_text(SYSTEM.format(url=server.url, more=""))
    assert ran("./mine.py:answer")[1] == 3
    of_two = "self_consistency[of=./mine.py:answer,samples=2]"
    first, asked = ran(of_two)
    assert asked == 3, "the second sample"
    assert ran(of_two) == (first, 0)
    assert ran(of_two, "--new", "--journal", "replay")[1] == 0
    (tmp_path / "mine.toml").write_text(
        'graph = "self_consistency"\nsummary = "x"\n[parameters]\nof = "./mine.py:answer"\nsamples = 2\n'
    )
    assert ran(str(tmp_path / "mine.toml"))[1] == 0
    mixed, asked = ran("cascade[first=./mine.py:answer,then=direct,samples=2,threshold=0]")
    assert asked == 0
    with Store(home) as store:
        one = next(iter(store.attempts(store.run(mixed))))
        assert [call.kind for call in calls(one.events)] == ["model"] * 2
        assert {call.node for call in calls(one.events)} == {"draw"}
        assert one.text
        assert store.run(mixed).identity["tier"] == "own"
    (tmp_path / "mine.py").write_text(SYSTEM.format(url=server.url, more=" Why?"))
    changed, asked = ran(of_two)
    assert (changed != first, asked) == (True, 6), "its code is another"


def test_a_killed_run_goes_on_and_pays_nothing_twice(server: Any, home: Path, ran: Ran) -> None:
    agent = "self_consistency[of=vanilla_rag[top_k=2],samples=4]"
    words = ["run", "--agent", agent, "--model", "openai:m", "--base-url", server.url, "--limit", "3"]
    before = server.stats()["asked"]
    command = [sys.executable, "-m", "ragrounds", *words, "--concurrency", "1", "--display", "none"]
    server.kills(command, {**os.environ, "RAGROUNDS_HOME": str(home)}, after=5)
    ran(agent)
    unread = 4  # samples of one question are sent at the same time: those that were on their way are sent again
    assert 12 <= server.stats()["asked"] - before <= 12 + unread
