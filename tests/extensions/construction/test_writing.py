"""Judged sets on disk: what is written is read back by the loaders that everybody uses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage
from ragrounds.evals.benchmarks import load, register
from ragrounds.extensions.construction.files import Lines
from ragrounds.extensions.construction.judged_sets import (
    Corpus,
    JudgedQuery,
    judged_beir,
    judged_r2med,
    kept_documents,
    query_ids,
    refined,
    rerank_lines,
)
from ragrounds.extensions.retrieval.query_sets import pool_set, query_set
from ragrounds.tools.leak_guard import read_guard

PASSAGES = [
    Passage(id=f"p{n}", document=f"p{n}", title="Title" if n else "", text=f"Text {n}", corpus="c") for n in range(5)
] + [Passage(id="a b", document="a b", title="", text="x", corpus="c")]
QUERIES = [
    JudgedQuery(
        id="a", text="Why?", answer="Since.", group="heart",
        positives=("p0",), negatives=("p1",), dropped=("p2", "p3"),
    ),
    JudgedQuery(id="b/1", text="How?", answer="So.", positives=("p2", "a b"), negatives=("p0",)),
]  # fmt: skip


def write(folder: Path, files: Mapping[str, Lines]) -> Path:
    for name, lines in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"".join(lines))
    return folder


def test_a_beir_folder_is_read_back(tmp_path: Path) -> None:
    # p3 is ambiguous and nobody's positive.
    assert [each.id for each in kept_documents(QUERIES, PASSAGES)] == ["p0", "p1", "p2", "p4", "a b"]
    folder = write(tmp_path / "mine", judged_beir(QUERIES, PASSAGES))
    asked = query_set(f"beir:{folder}")
    assert asked.queries == {"a": "Why?", "b/1": "How?"}
    assert asked.judgements == {"a": {"p0": 1, "p1": 0}, "b/1": {"p2": 1, "a%20b": 1, "p0": 0}}
    assert read_guard(folder / "guard.jsonl") == {"a": frozenset({"p2"})}
    added = register("beir/mine", folder, tmp_path / "home")
    assert [question.id for question in added.questions] == ["mine/a", "mine/b/1"]
    assert load("beir/mine", tmp_path / "home").golds["mine/b/1"].documents == ("p2", "a%20b")
    held = Corpus(f"beir:{folder}", tmp_path / "home")
    assert [each.id for each in held] == ["p0", "p1", "p2", "p4", "a%20b"]
    assert held.some({"a%20b", "p3"})["a%20b"].text == "x"


def test_no_judgement_speaks_of_a_document_that_is_left_out() -> None:
    one = JudgedQuery(id="a", text="Why?", positives=("p0",), dropped=("p1", "p2"))
    two = JudgedQuery(id="b", text="How?", positives=("p2",), negatives=("p1", "p3"))
    assert refined([one, two])[1].negatives == ("p3",)
    assert [each.id for each in kept_documents([one, two], PASSAGES[:4])] == ["p0", "p2", "p3"]


def test_an_r2med_folder_is_read_back(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", judged_r2med(QUERIES, PASSAGES))
    assert query_set(f"r2med:{folder}").judgements == {
        "a": {"p0": 1, "p1": 0},
        "b/1": {"p2": 1, "a%20b": 1, "p0": 0},
    }
    added = register("r2med/set", folder, tmp_path / "home")
    assert [(question.id, question.group) for question in added.questions] == [("set/a", "heart"), ("set/b/1", "")]
    assert added.golds["set/a"].answer == "Since."
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    assert rows[:2] == [{"id": "p0", "text": "Text 0"}, {"id": "p1", "text": "Title\nText 1"}]


def test_a_reranking_set_is_read_back_and_holds_no_text_on_both_sides(tmp_path: Path) -> None:
    texts = {"p0": "right", "p1": "wrong", "p2": "right", "p3": "other", "p4": "right"}
    queries = [
        JudgedQuery(id="a", text="Why?", positives=("p0", "p2"), negatives=("p1", "p4", "p3")),
        JudgedQuery(id="b", text="How?", positives=("p0",), negatives=()),
    ]
    path = tmp_path / "rerank.jsonl"
    path.write_bytes(b"".join(rerank_lines(queries, texts)))
    asked = pool_set(path, tmp_path)
    assert asked.queries == {"q1": "Why?"}
    assert sorted(asked.texts.values()) == ["other", "right", "wrong"]
    [question] = load(f"cmedteb:{path}", tmp_path).questions
    assert sorted(question.options.values()) == ["other", "right", "wrong"]


def test_a_datasets_name_is_left_out_of_ids_where_there_is_one_alone() -> None:
    assert query_ids(["sample/c01", "sample/c02"]) == {"sample/c01": "c01", "sample/c02": "c02"}
    assert query_ids(["medqa/1", "mmlu/1"]) == {"medqa/1": "medqa/1", "mmlu/1": "mmlu/1"}
    assert query_ids(["alone"]) == {"alone": "alone"}


def test_several_corpora_are_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="several corpora"):
        Corpus("sample+beir:x", tmp_path)
