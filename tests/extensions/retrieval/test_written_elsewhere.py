"""Ways of query generation that read or search elsewhere than what is scored, and ask by the user's own prompts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from tests.beir_folders import write_beir
from tests.servers.scripted_http import Scripted, scripted


def written(prompt: str, before: int) -> str:
    """Search once, then answer; a passage for every other prompt."""
    if "<search>" in prompt:
        return "<answer>statins</answer>" if "a leaflet" in prompt else "<search>lowering cholesterol</search>"
    return "statins and cholesterol"


@pytest.fixture
def server():
    with scripted(written) as serving:
        yield serving


@pytest.fixture
def folder(tmp_path: Path, home: Path) -> Path:
    documents = {"d1": "asthma in children", "d2": "statins lower it", "d3": "fat in the blood"}
    made = write_beir(tmp_path / "tiny", documents, {"q1": "fat blood"}, [("q1", "d2")])
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"_id": "o1", "text": "a leaflet on lowering cholesterol and fat in blood"}) + "\n")
    return made


def searched(folder: Path, way: str, server: Scripted) -> float:
    """nDCG@10 after the way, with the query that it writes."""
    made = rr.retrieve(
        f"beir:{folder}", "bm25", measures="nDCG@10", query_generation=way, model="openai:m", base_url=server.url,
        alias="here", progress=False,
    )  # fmt: skip
    assert made.entries[1]["generation_failed"] == 0
    return float(made.entries[1]["nDCG@10"]) - float(made.entries[0]["nDCG@10"])


def test_lamer_reads_what_another_retriever_finds_elsewhere(folder: Path, server: Scripted) -> None:
    assert searched(folder, "lamer", server) > 0
    assert "fat in the blood" in server.bodies[-1]["messages"][-1]["content"]
    other = folder.parent / "other.jsonl"
    assert searched(folder, f'lamer[corpus="jsonl:{other}",retriever=bm25[k1=1.2]]', server) > 0
    shown = server.bodies[-1]["messages"][-1]["content"]
    assert "a leaflet" in shown
    assert "fat in the blood" not in shown


def test_an_agent_searches_elsewhere(folder: Path, server: Scripted) -> None:
    other = folder.parent / "other.jsonl"
    assert searched(folder, f'answer[agent=search_r1,corpus="jsonl:{other}",retriever=bm25]', server) > 0
    assert any("a leaflet" in str(body["messages"]) for body in server.bodies)


def test_prompts_of_ones_own(folder: Path, server: Scripted) -> None:
    own = folder.parent / "mine" / "query_generation"
    own.mkdir(parents=True)
    (own / "hyde.md").write_text("[user]\nMY OWN WORDS: $question\n")
    searched(folder, f'hyde[prompts="{own.parent}"]', server)
    assert server.bodies[-1]["messages"][-1]["content"] == "MY OWN WORDS: fat blood"
    with pytest.raises(UserError, match="no folder of prompts"):
        searched(folder, "hyde[prompts=nowhere]", server)
