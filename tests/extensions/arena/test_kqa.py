"""The arena through the command line on K-QA: two agents and the physicians, a judge over real HTTP, `kill -9`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import run_python
from tests.recorded import known_calls
from tests.servers.process import Running, running

pytestmark = [pytest.mark.data, pytest.mark.slow]
LIMIT, CONCURRENCY = 40, 8
RUNNER = [sys.executable, "-m", "ragrounds"]


def judge_server(questions: Path, *more: str) -> contextlib.AbstractContextManager[Running]:
    return running("judge_server", "--questions", str(questions), *more)


@pytest.fixture
def questions(data: Path) -> Path:
    return data / "kqa" / "dataset" / "questions_w_answers.jsonl"


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RAGROUNDS_HOME": str(home)}
    done = run_python([*RUNNER, *arguments], 600, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def answer(home: Path, url: str, data: Path) -> list[str]:
    """Two agents answer K-QA's questions; gives the runs' ids."""
    for model in ("writer-full", "writer-thin"):
        run(
            home, "run", "--benchmark", f"kqa:{data / 'kqa'}", "--limit", str(LIMIT), "--agent", "direct",
            "--model", f"openai:{model}[alias=loopback]", "--base-url", url, "--display", "none",
        )  # fmt: skip
    listed = json.loads(run(home, "runs", "ls", "--json").stdout)["runs"]
    return [row["run"]["id"] for row in listed][::-1]


def playing(runs: list[str], *more: str) -> list[str]:
    return [
        "arena", "play", *runs, "--reference", "--judge", "openai:judge[price_input=1,price_output=2,alias=loopback]",
        "--schedule", "published", "--min-matches", "30", "--concurrency", str(CONCURRENCY), "--json", *more,
    ]  # fmt: skip


def recorded(home: Path) -> int:
    return len(known_calls(home, "judge"))


def table(text: str) -> dict[str, object]:
    """The report without what was paid this time."""
    report = json.loads(text)
    for cost in report["costs"].values():
        cost.pop("cost_paid")
    return report


def test_killed_twice_and_resumed_is_as_uninterrupted_then_planned_and_capped(
    tmp_path: Path, data: Path, questions: Path
) -> None:
    home = tmp_path / "killed"
    with judge_server(questions, "--latency", "0.03") as server:
        address = server.port
        runs = answer(home, server.url, data)
        command = playing(runs, "--base-url", server.url)
        environment = {**os.environ, "RAGROUNDS_HOME": str(home)}
        for _ in range(2):
            server.kills([*RUNNER, *command], environment, after=40)
        before = recorded(home)
        assert before > 40
        done = run(home, *command)
        made = int(re.search(r"([\d,]+) model calls made", done.stderr).group(1).replace(",", ""))
        # What was durable at the last kill was not asked again.
        assert recorded(home) == before + made
    with judge_server(questions) as server:
        clean = tmp_path / "clean"
        other = run(clean, *playing(answer(clean, server.url, data), "--base-url", server.url))
        asked = server.stats()["answered"] - 2 * LIMIT
    assert table(done.stdout) == table(other.stdout)
    assert asked == recorded(clean) == recorded(home)

    report = json.loads(done.stdout)
    axes = {axis["axis"]: axis for axis in report["axes"]}
    names = [system["name"] for system in report["arena"]["systems"]]
    assert names[2] == "reference"
    useful = axes["usefulness"]
    assert min(sum(useful["wins"]["counts"][i][j]) for i in range(3) for j in range(i)) >= 30
    full, thin = next(i for i, n in enumerate(runs) if n == names[0]), 1
    assert useful["wins"]["counts"][full][thin][0] > useful["wins"]["counts"][full][thin][2]
    assert 0 < useful["judges"][0]["inconsistent"] < 1
    assert {failure["reason"] for failure in report["failures"]} <= {
        "empty reply", "no verdict in the reply", "a verdict for both",
    }  # fmt: skip
    assert all(cost["cost_uncached"] > 0 for cost in report["costs"].values())

    again = run(home, "arena", "show", "--json")
    assert table(again.stdout) == table(done.stdout)

    with judge_server(
        questions, "--port", str(address)
    ) as server:  # it says nothing of its model: elsewhere it is another
        more = ["--base-url", server.url, "--seed", "1"]
        planned = run(home, *playing(runs, *more, "--plan"))
        together, apart = json.loads(planned.stdout)["estimates"]
        assert apart["judge_calls"] == 4 * together["judge_calls"]
        assert together["cost_uncached"] > 0
        assert server.stats()["answered"] == 0
        # Part of these pairs comes from the journal, so this is less than half of what the rest costs.
        half = run(home, *playing(runs, *more, "--max-cost", "0.01"))
        assert "the budget of $0.01 is spent" in half.stderr
        (cost,) = json.loads(half.stdout)["costs"].values()
        assert 0.01 <= cost["cost_paid"] < 0.01 + CONCURRENCY * 6 * 0.001
