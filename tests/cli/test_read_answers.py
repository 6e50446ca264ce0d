"""What the table of a run says of answers as people write them, by the scorer that nobody had to choose."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Cli, succeeded

ALWAYS_RIGHT = '''
"""A graph that is always right, and says so in its own words."""
from pathlib import Path
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from ragrounds.evals.benchmarks import load

SAMPLE = load("sample", Path("unused"))
GOLD = {one.text: SAMPLE.golds[one.id].answer for one in SAMPLE.questions}


class State(TypedDict, total=False):
    question: str
    answer: str


def say(state):
    asked = next(text for text in GOLD if state["question"].startswith(text))
    return {"answer": f"I think it is {GOLD[asked]}."}


def build():
    graph = StateGraph(State)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_edge("say", END)
    return graph
'''


def test_it_is_said_where_the_scorer_in_the_table_reads_otherwise(command: Cli, tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(ALWAYS_RIGHT)
    agent = str(tmp_path / "right.py:build")
    done = succeeded(command("run", "--agent", agent, "--limit", "8", "--scorer", "strict", "--display", "none"))
    assert done.stdout.startswith("Accuracy (strict reading):")
    assert "strict and robust read" in " ".join(done.stdout.split())
    full = command("compare", agent, "--scorer", "strict", "--full")
    (line,) = (
        part for part in " ".join(full.stdout.split()).split("`") if part.startswith("ragrounds analyse readings")
    )
    shown = succeeded(command(*line.split()[1:]))
    assert "I think it is" in shown.stdout
    robust = command("run", "--agent", agent, "--limit", "8", "--display", "none")
    assert "differently" not in robust.stdout
    unread = command("analyse", "readings", agent, "--scorer", "robust", "--json")
    assert json.loads(unread.stdout)["record"][0]["apart"] == []


def test_a_scorer_that_does_not_fit_is_refused_before_anything_is_asked(command: Cli) -> None:
    for scorer, words in (("triplets", "the benchmark has none"), ("robus", "robust"), ("equivalent", "judge")):
        done = command("run", "--agent", "direct", "--limit", "2", "--scorer", scorer, "--display", "none")
        assert done.returncode == 2
        assert words in done.stderr
    assert json.loads(command("runs", "ls", "--json").stdout)["runs"] == []
    both = command("run", "--agent", "direct", "--scorer", "strict", "--until", "accuracy(direct) > 0.1 @ 95%")
    assert both.returncode == 2
    assert "--until" in both.stderr
