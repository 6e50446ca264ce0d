"""A graph that stands in an installed module: ``package.module:build``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragrounds.agents.agent import open_agent
from ragrounds.agents.systems.kinds import kind_of
from ragrounds.base.errors import UserError

GRAPH = """
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from ragrounds.base.contracts import Context
from ragrounds.graphs.user_graph import agent
from {package}.helper import SAID

PROMPTS = ("long/direct",)

class State(TypedDict, total=False):
    answer: str

async def say(state: State, runtime: Runtime[Context]) -> State:
    return {{"answer": SAID}}

@agent(summary="Says it.", parameters={{"times": 1}})
def build():
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_edge("say", END)
    return graph
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"somebodys_{tmp_path.name.replace('-', '_')}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "helper.py").write_text('SAID = "yes"\n')
    (folder / "graph.py").write_text(GRAPH.format(package=name))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


def test_what_it_imports_from_its_package_is_a_part_of_it(package: str, tmp_path: Path) -> None:
    import importlib
    import linecache

    before = kind_of(open_agent(f"{package}.graph:build").card).code()
    (tmp_path / package / "helper.py").write_text('SAID = "no, quite the contrary"\n')
    linecache.checkcache()
    importlib.reload(sys.modules[f"{package}.helper"])
    assert kind_of(open_agent(f"{package}.graph:build").card).code() != before


def test_a_module_that_is_not_there_or_breaks(package: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no module"):
        kind_of(open_agent(f"{package}.nowhere:build").card).open()
    with pytest.raises(UserError, match=r"there is no 'built'\. Did you mean 'build'"):
        open_agent(f"{package}.graph:built")
    (tmp_path / package / "broken.py").write_text("1 / 0\n")
    with pytest.raises(UserError, match="ZeroDivisionError"):
        kind_of(open_agent(f"{package}.broken:build").card).open()
