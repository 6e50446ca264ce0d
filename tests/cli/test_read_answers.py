"""What the table of a run says of answers as people write them, by the scorer that nobody had to choose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli, succeeded

ALWAYS_RIGHT = '''
"""A graph that is always right, and says so in its own words."""
from pathlib import Path
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from ragrounds.evals.benchmarks import load

SAMPLE = load("sample", Path("unused"))
GOLD = {{one.text: (SAMPLE.golds[one.id].answer, one.options) for one in SAMPLE.questions}}


class State(TypedDict, total=False):
    question: str
    answer: str


def say(state):
    asked = next(text for text in GOLD if state["question"].startswith(text))
    label, options = GOLD[asked]
    text = options.get(label, "")
    return {{"answer": {phrase}}}


def build():
    graph = StateGraph(State)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_edge("say", END)
    return graph
'''
PHRASES = (
    'f"I think it is {label}."',
    'f"({label}) is correct, because the passages say so."',
    'f"The findings are typical.\\n\\nMy final answer: **{label}) {text}**"',
    'f"It\'s most likely {text[:1].lower()}{text[1:]}."',
)


@pytest.mark.slow
def test_a_graph_that_is_always_right_is_right_whatever_its_words(command: Cli, tmp_path: Path) -> None:
    agents = []
    for number, phrase in enumerate(PHRASES):
        (tmp_path / f"right{number}.py").write_text(ALWAYS_RIGHT.format(phrase=phrase))
        agents += ["--agent", str(tmp_path / f"right{number}.py:build")]
    done = succeeded(command("run", *agents, "--benchmark", "sample", "--display", "none", "--json"))
    made = json.loads(done.stdout)
    (choice,) = (one for one in made["headlines"] if one["kind"] == "choice")
    assert choice["scorer"] == "robust"
    (table,) = (one for one in made["tables"] if one["scorer"] == "robust")
    assert [line["overall"]["value"] for line in table["lines"]] == [1.0] * 4


def test_it_is_said_where_the_scorer_in_the_table_reads_otherwise(command: Cli, tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(ALWAYS_RIGHT.format(phrase=PHRASES[0]))
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
