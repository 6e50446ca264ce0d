"""A benchmark's guard.jsonl in `run` and `retrieve`: applied, counted, said, and put off by a switch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ragrounds as rr
from tests.beir_folders import write_beir
from tests.conftest import Cli
from tests.servers.process import Running

DOCUMENTS = {
    "d1": "Balloon tamponade stops the bleeding of a fistula",
    "d2": "Balloon tamponade and fistula, as another query has it",
    "d3": "A fistula of the aorta",
    "d4": "What stops the bleeding of a fistula in the gullet of a man, and which balloon is it, please",
}
QUERIES = {
    "q1": "What stops the bleeding of a fistula in the gullet of a man, and which balloon is it?",
    "q2": "Which fistula is of the aorta?",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of two queries; `q1` may not find `d2`. `d4` holds the wording of `q1`."""
    made = write_beir(tmp_path / "guarded", DOCUMENTS, QUERIES, [("q1", "d1"), ("q2", "d3")])
    (made / "guard.jsonl").write_text(
        '{"query": "q1", "documents": ["d2"]}\n{"query": "elsewhere", "documents": ["d1"]}\n'
    )
    return made


def found(command: Cli, server: Running, folder: Path, agent: str) -> tuple[dict[str, set[str]], str]:
    """What each query's search gave, and what was told."""
    done = command(
        *("run", "--benchmark", f"beir:{folder}", "--corpus", f"beir:{folder}", "--agent", agent, "--json"),
        *("--model", "openai:any", "--base-url", server.url, "--display", "none"),
        OPENAI_API_KEY="k",
    )
    assert done.returncode == 0, done.stderr
    rows = rr.load(json.loads(done.stdout)["rows"][0]["run"]).to_pandas("passages")
    return {query: set(rows[rows["question_id"] == f"guarded/{query}"]["document"]) for query in QUERIES}, done.stderr


def test_run_withholds_what_the_guard_names_and_says_so(command: Cli, server: Running, folder: Path) -> None:
    kept, told = found(command, server, folder, "vanilla_rag[top_k=4]")
    assert kept["q1"] == {"d1", "d3", "d4"}
    assert "d2" in kept["q2"]
    assert "guard.jsonl withholds 1 documents from the searches of 1 questions; AGENT[guard=false]" in told
    shown = command("show", "vanilla_rag[top_k=4]", "q1", "--json").stdout
    assert "the leak guard left 1 passages out" in shown
    opened, told = found(command, server, folder, "vanilla_rag[guard=false,top_k=4]")
    assert opened["q1"] == set(DOCUMENTS)
    assert opened["q2"] == kept["q2"]
    assert "guard.jsonl" not in told


def test_what_holds_the_questions_own_wording_is_withheld_where_that_is_asked_for(
    command: Cli, server: Running, folder: Path
) -> None:
    near, _ = found(command, server, folder, "vanilla_rag[guard_near=0.8,top_k=4]")
    assert near["q1"] == {"d1", "d3"}
    alone, _ = found(command, server, folder, "vanilla_rag[guard=false,guard_near=0.8,top_k=4]")
    assert alone["q1"] == {"d1", "d2", "d3"}, "without the documents that guard.jsonl names"
    wrong = command("run", "--benchmark", f"beir:{folder}", "--agent", "vanilla_rag[guard_near=2]")
    assert wrong.returncode == 2
    assert "guard_near is a share" in wrong.stderr


def test_a_registered_copy_keeps_its_guard_and_another_guard_is_another_benchmark(command: Cli, folder: Path) -> None:
    assert command("data", "add", "beir/guarded", str(folder)).returncode == 0
    named = rr.benchmark("beir/guarded")
    assert {id: gold.withheld for id, gold in named.golds.items()} == {"guarded/q1": ("d2",), "guarded/q2": ()}
    with_guard = rr.benchmark(f"beir:{folder}").benchmark.version
    assert named.benchmark.version == with_guard
    (folder / "guard.jsonl").unlink()
    assert rr.benchmark(f"beir:{folder}").benchmark.version != with_guard


def test_retrieve_applies_a_sets_own_guard(command: Cli, folder: Path) -> None:
    where = ("retrieve", "--benchmark", f"beir:{folder}", "--measure", "R@10", "--json")
    done = command(*where)
    entry = json.loads(done.stdout)
    assert entry["retriever"].endswith(" guarded")
    assert entry["left_out"] == 1
    assert "its guard.jsonl withholds" in done.stderr
    assert "--guard none" in done.stderr
    entry = json.loads(command(*where, "--guard", "none").stdout)
    assert not entry["retriever"].endswith(" guarded")
    assert entry["left_out"] == 0
