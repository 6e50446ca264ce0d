"""Planted retractions are traced to every answer that rests on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from tests.servers.scripted_http import GOOD, scripted

N = 12


def test_planted_retractions_are_traced_to_every_answer(tmp_path: Path) -> None:
    (tmp_path / "corpus" / "qrels").mkdir(parents=True)
    rows = [
        {"_id": str(1000 + one), "title": "", "text": f"Trial number {one} of marrowdine was positive."}
        for one in range(N)
    ]
    (tmp_path / "corpus" / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"A": "yes", "B": "no"}
    asked = [
        {"id": f"q{one}", "question": f"Was trial number {one} positive?", "options": options, "answer": "A"}
        for one in range(N)
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    retracted = {"1002", "1005", "1007"}
    (tmp_path / "list.csv").write_text(
        "pmid,retracted_on_or_before\n" + "".join(f"{id},2023-07-28\n" for id in retracted)
    )
    with scripted(lambda prompt, before: GOOD) as server:
        run = rr.run(f"jsonl:{tmp_path}/q.jsonl", ["vanilla_rag[top_k=1]", "direct"], corpus=f"beir:{tmp_path}/corpus",
                     model="openai:m", base_url=server.url, home=tmp_path / "home", progress=False)  # fmt: skip
        prompts = [body["messages"][-1]["content"] for body in server.bodies]
    held = sum(any(f"number {int(id) - 1000} of marrowdine" in prompt for id in retracted) for prompt in prompts)
    found = rr.analyse("listed", run, documents=str(tmp_path / "list.csv"), home=tmp_path / "home")
    rag, direct = found.result.record
    assert rag.listed == len(retracted)  # the heading is no document
    assert len(rag.attempts) == held > 0
    assert {id for ids in rag.attempts.values() for id in ids} <= retracted
    assert rag.shown.value == pytest.approx(held / N)
    assert rag.right_with.value == 1.0
    assert direct.attempts == {}
    assert direct.found.value == 0.0


def test_the_heading_of_documents_is_none_of_them(tmp_path: Path) -> None:
    run = rr.run(limit=2, agents="direct", home=tmp_path, progress=False)
    (tmp_path / "list.csv").write_text("document\np001\np002\n")
    (found,) = rr.analyse("listed", run, documents=str(tmp_path / "list.csv"), home=tmp_path).result.record
    assert found.listed == 2


def test_a_list_is_needed(tmp_path: Path) -> None:
    run = rr.run(limit=2, agents="direct", home=tmp_path, progress=False)
    with pytest.raises(UserError, match="FILE names a list"):
        rr.analyse("listed", run, home=tmp_path)
