"""Wrappers by the command line over a real server, which counts: samples are shared, resumed, replayed; what is inside
is a part of what a run is."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragrounds.evals.benchmarks import load, select
from ragrounds.evals.engine.plan import Recipe, plan
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.models.providers import BASELINE
from tests.conftest import Cli
from tests.servers.any_form import AnyForm

SYSTEM = """
import urllib3

def answer(question: str) -> str:
    asked = {{"model": "a", "messages": [{{"role": "user", "content": question + "{more}"}}]}}
    said = urllib3.request("POST", "{url}/chat/completions", json=asked).json()
    return said["choices"][0]["message"]["content"]
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
    # Samples that are alike are not judged.
    assert ran("best_of[samples=3]", "--journal", "replay")[1] == 0
    assert ran("direct_cot", "--epochs", "3")[1] == 0
    assert ran("cascade[first=direct_cot,samples=3,then=self_consistency[of=direct]]")[1] == 0, "the samples agree"


def test_the_agent_inside_is_a_part_of_a_run_however_it_is_spelled(home: Path) -> None:
    benchmark = select(load("sample", home), limit=3)
    with Store(home) as store:
        first, other, spelled = (
            plan(store, benchmark, Recipe(agents=(f"cascade[{inside}]",), model=BASELINE), home=home)[0].run.id
            for inside in (
                "first=direct_cot,samples=3,then=self_consistency[of=direct]",
                "first=direct_cot,samples=3,then=self_consistency[of=direct,samples=4]",
                "samples=3,then=self_consistency[of=direct]",
            )
        )
    assert first == spelled != other


@pytest.mark.slow
@pytest.mark.parametrize(
    "mine", ["./mine.py:answer", pytest.param("./mine.py:answer[in_process=true]", marks=pytest.mark.weekly)]
)
def test_systems_of_ones_own_are_wrapped(mine: str, ran: Ran, server: Any, tmp_path: Path, home: Path) -> None:
    (tmp_path / "mine.py").write_text(SYSTEM.format(url=server.url, more=""))
    assert ran(mine)[1] == 3
    of_two = f"self_consistency[of={mine},samples=2]"
    first, asked = ran(of_two)
    assert asked == 3, "the second sample"
    (tmp_path / "mine.toml").write_text(
        f'graph = "self_consistency"\nsummary = "x"\n[parameters]\nof = "{mine}"\nsamples = 2\n'
    )
    assert ran(str(tmp_path / "mine.toml"), "--journal", "replay")[1] == 0
    mixed, asked = ran(f"cascade[first={mine},then=direct,samples=2,threshold=0]")
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


def test_samples_that_were_paid_are_not_asked_again_where_others_failed(
    command: Cli, served: AnyForm, home: Path
) -> None:
    paid, outages, lock = list[str](), [5], threading.Lock()

    def says(body: dict[str, Any]) -> str:
        with lock:  # the samples of a question are asked at the same time
            is_away = bool(outages) and len(paid) >= outages[0]
            if not is_away:
                paid.append(str(body))
        if is_away:
            time.sleep(0.5)  # the reply that was paid for arrives before
            raise ConnectionError
        return "The answer is B"

    served.says = says
    words = ("run", "--agent", "self_consistency[of=vanilla_rag[top_k=2],samples=4]", "--model", "openai:m[tries=1]")
    words += ("--base-url", served.url, "--limit", "3", "--display", "none", "--concurrency", "1")
    assert command(*words).returncode == 3
    outages.clear()
    assert command(*words).returncode == 0
    assert len(paid) == 12


@pytest.mark.slow
def test_a_killed_run_goes_on_and_pays_nothing_twice(server: Any, home: Path, ran: Ran) -> None:
    agent = "self_consistency[of=vanilla_rag[top_k=2],samples=4]"
    words = ["run", "--agent", agent, "--model", "openai:m", "--base-url", server.url, "--limit", "3"]
    before = server.stats()["asked"]
    command = [sys.executable, "-m", "ragrounds", *words, "--concurrency", "1", "--display", "none"]
    server.kills(command, {**os.environ, "RAGROUNDS_HOME": str(home)}, after=5)
    ran(agent)
    unread = 4  # samples of one question are sent at the same time: those that were on their way are sent again
    assert 12 <= server.stats()["asked"] - before <= 12 + unread
