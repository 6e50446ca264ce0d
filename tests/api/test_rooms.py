"""What commands do beside runs, from Python: agents, benchmarks, indexes, attempts, names."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.api import agents, choices, data, index
from ragrounds.extensions.exchange import functions as exchange


def test_agents_graphs_prompts_retrievers_analyses_and_formats() -> None:
    assert agents.list_agents()["vanilla_rag"].graph == "vanilla_rag"
    assert agents.describe_agent("vanilla_rag[top_k=8]").parameters["top_k"] == 8
    assert agents.describe_graph("search_o1").mermaid.count("graph TD") == 1
    assert agents.list_graphs().keys() == {agents.describe_graph(name).graph for name in agents.list_graphs()}
    assert "$" in agents.prompt_text("choice/rag")
    with pytest.raises(rr.UserError, match="'vanilla_rag'"):
        agents.describe_agent("vanila_rag")
    assert "bm25" in [one.name for one in choices.list_retrievers().retrievers]
    assert choices.describe_retriever("bm25")["name"] == "bm25"
    assert choices.describe_analysis("success") in choices.list_analyses()
    assert "jsonl" in exchange.list_formats()


def test_benchmarks(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"id": "1", "question": "Which?", "options": {"A": "this", "B": "that"}, "answer": "A"}\n')
    assert data.describe("sample").name == "sample"
    assert [card.name for card in data.list_cards()] == sorted(card.name for card in data.list_cards())
    assert data.audit(f"jsonl:{file}").questions == 1
    assert data.verify("sample", home=tmp_path).questions == 107
    with pytest.raises(rr.UserError, match="no copy"):
        data.remove("mirage", home=tmp_path)


async def test_an_index_is_built_inside_a_running_loop(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a.txt").write_text("Croup: a barking cough.")
    (folder / "b.jsonl").write_text("{")
    told: list[str] = []
    built = index.build(
        "mine", folder / "a.txt", home=tmp_path, retrievers="bm25", progress=lambda what, done: told.append(what)
    )
    assert (built.index.manifest.documents, "reading" in told) == (1, True)
    assert [one.name for one in index.list_indexes(home=tmp_path)] == ["mine"]
    assert index.describe("mine", home=tmp_path).fields()["passages"] == 1
    index.remove("mine", home=tmp_path)
    assert index.list_indexes(home=tmp_path) == []
    with pytest.raises(rr.UserError, match="`skip_bad`"):
        index.build("bad", folder / "b.jsonl", home=tmp_path)
