"""A system that asks a person, and nobody is there: the exit code, the cure, and the words once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragrounds.evals.store.store import Store
from tests.conftest import Cli

GRAPH = """
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

def node(state):
    return {"messages": [AIMessage(interrupt("May the plan be sent to the ward?"))]}

builder = StateGraph(MessagesState)
builder.add_node("node", node)
builder.add_edge(START, "node")
builder.add_edge("node", END)
graph = builder.compile()
"""


@pytest.mark.slow
def test_paused_attempts_are_no_success_and_name_the_cure(command: Cli, home: Path, tmp_path: Path) -> None:
    (tmp_path / "asking.py").write_text(GRAPH)
    agent = ("--agent", "./asking.py:graph", "--workers", "1")
    done = command("run", "--benchmark", "sample", "--limit", "2", "--display", "none", *agent)
    assert done.returncode == 3
    assert "2 paused: the system asked a person: May the plan be sent to the ward?" in done.stderr
    assert "on_interrupt=yes" in done.stderr
    first = " ".join(done.stdout.split())
    assert "attempts wait for a person, at best 100.00" in first
    with Store(home) as store:
        (run,) = store.runs()
        attempt = next(iter(store.attempts(run)))
    shown = command("show", run.id, attempt.question_id).stdout
    assert shown.count("May the plan be sent to the ward?") == 1
