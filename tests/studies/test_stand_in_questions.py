"""What stands in for benchmarks, corpora, retrievers and models: it is read and opened as the real one is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragrounds.evals.benchmarks import load
from ragrounds.evals.benchmarks.catalogue import typed_reference
from ragrounds.evals.studies.stand_in.questions import stand_in, stand_in_model, stand_in_retriever
from ragrounds.evals.studies.study import open_study, shipped_studies
from ragrounds.specs import parse
from ragrounds.tools.corpora import corpora_of, corpus_source, passages

MINE = [name for name in shipped_studies() if name.startswith(("mirage-", "mrag-"))]
URL = "http://127.0.0.1:1/v1"


def test_every_benchmark_of_the_studies_is_read_in_its_own_form(tmp_path: Path) -> None:
    cells = {str(cell.settings["benchmark"]): cell for name in MINE for cell in open_study(name).cells()}
    made = {str(stand_in(cell.settings, tmp_path, URL)["benchmark"]): wanted for wanted, cell in cells.items()}
    assert len(made) == 15
    for reference, wanted in made.items():
        loaded = load(reference, tmp_path / "home")
        assert loaded.name == wanted
        assert 6 <= len(loaded) <= 20
        assert all(loaded.golds[question.id].answer for question in loaded.questions)
        assert typed_reference(reference).path is not None


@pytest.mark.parametrize(("dataset", "kind"), [("tcm", "choice"), ("clfqa", "long"), ("cmeie", "extraction")])
def test_chinese_sets(tmp_path: Path, dataset: str, kind: str) -> None:
    settings = stand_in({"benchmark": f"mrag/{dataset}", "agent": "direct"}, tmp_path, URL)
    loaded = load(str(settings["benchmark"]), tmp_path / "home")
    assert {(question.kind, question.language) for question in loaded.questions} == {(kind, "zh")}


def test_gold_abstracts_are_in_the_corpus_of_abstracts(tmp_path: Path) -> None:
    given = {"benchmark": "mirage/pubmedqa", "agent": "vanilla_rag", "corpus": "pubmed+wikipedia"}
    settings = stand_in(given, tmp_path, URL)
    loaded = load(str(settings["benchmark"]), tmp_path / "home")
    wanted = {document for gold in loaded.golds.values() for document in gold.documents}
    abstracts, encyclopaedia = (corpus_source(one) for one in corpora_of(str(settings["corpus"])))
    assert (abstracts.name, encyclopaedia.name) == ("pubmed", "wikipedia")
    assert wanted <= {passage.document for passage, _ in passages(abstracts)}
    assert not wanted & {passage.document for passage, _ in passages(encyclopaedia)}


def test_what_was_written_is_not_written_again(tmp_path: Path) -> None:
    """Indexes go by the time of a corpus' files: another call must leave it."""
    given = {"benchmark": "mirage/mmlu", "agent": "vanilla_rag", "corpus": "statpearls"}
    stand_in(given, tmp_path, URL)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    for path in files:
        os.utime(path, (1, 1))
    stand_in(given, tmp_path, URL)
    assert {path.stat().st_mtime for path in files} == {1}


def test_rows_stay_apart_and_cells_of_retrieval_stay_as_they_are(tmp_path: Path) -> None:
    models = {str(cell.settings["model"]) for cell in open_study("mirage-table6").cells()}
    assert len({stand_in_model(model) for model in models}) == len(models) == 6
    assert stand_in_model("vllm:a/b[repetition_penalty=1.05]") == "openai:a/b[repetition_penalty=1.05]"
    names = {str(cell.settings["retriever"]) for cell in open_study("mirage-table7").cells() if "k" in cell.settings
             and "retriever" in cell.settings}  # fmt: skip
    made = {name: stand_in_retriever(name) for name in (*names, "web[provider=brave]", "rrf[a=medcpt,b=bm25]")}
    assert len(set(made.values())) == len(made) == 8
    assert {parse(spec).name for spec in made.values()} == {"bm25", "rrf"}
    given = {"benchmark": "r2med/biology", "retriever": "medcpt"}
    assert stand_in(given, tmp_path, URL) == given
