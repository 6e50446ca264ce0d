"""langgraph.json at the top of the repository: what LangGraph's server finds there, and that it can be run."""

from __future__ import annotations

import importlib.util
import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from tests.servers.process import Running

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "docs" / "scripts" / "langgraph_dev.py"


async def test_the_server_finds_every_graph_and_runs_it(
    server: Running, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGROUNDS_HOME", str(home))
    text = (ROOT / "langgraph.json").read_text()
    assert text == runpy.run_path(str(SCRIPT))["graphs_file"](), "python docs/scripts/langgraph_dev.py --write"
    graphs = json.loads(text)["graphs"]
    file = {place.partition(":")[0] for place in graphs.values()}
    spec = importlib.util.spec_from_file_location("langgraph_graphs", ROOT / file.pop())
    assert not file
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    found = {name: module.__dict__[place.partition(":")[2]] for name, place in graphs.items()}  # as langgraph-api reads
    assert all(graph.name == name for name, graph in found.items())

    question = {"question": "Does low-dose aspirin help?", "options": {"A": "yes", "B": "no"}}
    monkeypatch.setenv("RAGROUNDS_BASE_URL", server.url)
    chosen = {"model": "openai:anything", "parameters": {"top_k": 2}}
    before = server.account().calls
    given = await found["vanilla_rag"].ainvoke(question, context=chosen)
    assert given["calls"] == {"search": 1, "model": 1}
    assert len(given["found"]["passages"]) == 2
    assert given["answer"]
    assert server.account().calls == before + 1
    assert (await found["vanilla_rag"].ainvoke(question, context=chosen))["answer"] == given["answer"]
    assert server.account().calls == before + 1  # the journal has it
    for wrong in (
        {"model": 'openai:anything[base_url="http://192.0.2.1"]'},
        {"parameters": {"retriever": "./code.py:one"}},
        {"corpus": "beir:/etc"},
    ):
        with pytest.raises(UserError):  # pages of the web reach this server: they say neither where nor what is read
            await found["vanilla_rag"].ainvoke(question, context=chosen | wrong)
    for given in ({}, {"of": "./code.py:one"}):  # nor does one run another agent
        with pytest.raises(UserError, match=r"agent|parameter"):
            await module.__dict__["self_consistency"].ainvoke(question, context=chosen | {"parameters": given})


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("langgraph_api") is None, reason="langgraph-cli[inmem] is not installed")
def test_langgraphs_own_server_answers_with_every_graph() -> None:
    ran = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stdout + ran.stderr
