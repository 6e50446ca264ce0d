"""What stands in for the sets, encoders and rerankers of R2MED, CMedTEB and OGCaReBench."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.api.study import show_study
from ragrounds.encodings import encoding_of
from ragrounds.evals.benchmarks.catalogue import load
from ragrounds.evals.studies.stand_in import retrieval_sets as sets
from ragrounds.evals.studies.stand_in.retrieval import stand_in
from ragrounds.evals.studies.stand_in.texts import CONDITIONS
from ragrounds.evals.studies.study import open_study
from ragrounds.tools.retriever import open_searcher
from ragrounds.ui.study_tables import published_lines

URL = "http://127.0.0.1:1/v1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGROUNDS_HOME", str(tmp_path))
    monkeypatch.setenv("RAGROUNDS_CONFIG", str(tmp_path / "none.toml"))
    return tmp_path


@pytest.mark.parametrize("name", sets.R2MED)
def test_r2med_sets_are_read_as_the_authors_files_are(name: str, home: Path) -> None:
    made = stand_in({"benchmark": f"r2med/{name}", "retriever": "bm25"}, home / "sets", URL)
    benchmark = load(str(made["benchmark"]), home)
    assert len(benchmark) == sets.QUERIES
    assert all(gold.documents and gold.answer for gold in benchmark.golds.values())


def test_a_query_does_not_hold_its_answer() -> None:
    for one in CONDITIONS:
        assert one.name not in one.story
        assert one.chinese not in one.chinese_question


def test_reports_are_cut_and_long_questions_too(home: Path) -> None:
    codec = encoding_of("cl100k_base")
    reports = [len(codec.encode_ordinary(str(row["text"]))) for row in sets.case_reports()]
    questions = [len(codec.encode_ordinary(str(row["question"]))) for row in sets.case_questions()]
    assert min(reports) > 900
    assert min(questions) < 512 < max(questions)
    settings = {"benchmark": "ogcarebench", "retriever": "parent[of=bm25]", "corpus": "ogcarebench-512-128"}
    made = stand_in({**settings, "agent": "direct"}, home / "sets", URL)
    searcher: Any = open_searcher("parent[of=bm25]", str(made["corpus"]), home)
    first = sets.case_reports()[0]
    assert searcher.document(str(first["_id"]))[0].text == first["text"]  # put together from its chunks


def test_agents_get_the_questions_with_their_models_and_specialties(home: Path) -> None:
    cells = list(open_study("ogcarebench-table8").cells())
    made = stand_in(cells[0].settings, home / "sets", URL)
    assert made["where"] == {"subject": "Surgical Studies"}
    assert (made["model"], made["base_url"]) == ("openai:gpt-5", URL)
    benchmark = load(str(made["benchmark"]), home)
    assert {question.group for question in benchmark.questions} >= {"Surgical Studies", "Internal Medicine"}
    written = {str(stand_in(cell.settings, home / "sets", URL)["agent"]) for cell in open_study("r2med-figure5").cells()
               if cell.kind == "run"}  # fmt: skip
    assert any(f"corpus=medrag:{home}" in agent.replace('"', "") for agent in written), written


def test_other_papers_cells_and_own_files_are_left_alone(home: Path) -> None:
    for settings in (
        {"benchmark": "mirage/mmlu", "agent": "direct"},
        {"benchmark": f"beir:{home}", "retriever": "bm25"},
    ):
        assert stand_in(settings, home, URL) == settings


NAMES = (
    *("cmedteb-table2", "cmedteb-table3", "cmedteb-table4", "cmedteb-table5", "cmedteb-table11"),
    *("ogcarebench-table4", "ogcarebench-table8", "ogcarebench-table9", "ogcarebench-table11", "ogcarebench-table13"),
    *("r2med-figure4", "r2med-table2", "r2med-table25"),
)
"""One of each kind of cell; `python perf/stand_in.py` carries out every study."""


def filled(name: str, home: Path) -> rr.StudyResult:
    """A study on the stand-in, every cell of which has a figure."""
    made = rr.study(name, stand_in=True, confirmed=True, progress=False, home=home)
    lacking = {f"{cell.row} · {cell.column}: {cell.why}" for cell in made.table.cells if cell.state != "done"}
    assert not lacking
    assert all(cell.value is not None for cell in made.table.cells)
    assert made.stand_in
    assert "not a result" in made.table.notes[0]
    return made


def test_a_small_table_is_filled_and_labels_are_counted(home: Path) -> None:
    made = filled("cmedteb-table20", home)
    values = {cell.column: cell.value or 0.0 for cell in made.table.cells if cell.row == "CmedqaRetrieval"}
    assert values["LLM-Labeled Pos."] == pytest.approx(
        values["Orig. Pos."] - values["False Positive"] + values["False Negative"]
    )
    assert "BM25 with other parameters" in made.table.notes[1]  # what took the place of encoders is said
    again = show_study("cmedteb-table20", stand_in=True, home=home)
    assert [cell.value for cell in again.table.cells] == [cell.value for cell in made.table.cells]


def test_similarity_of_sentences_is_a_cell_that_is_kept(home: Path) -> None:
    given = {"rows": ["bge-m3"], "columns": ["STS", "Rerank"], "stand_in": True, "progress": False, "home": home}
    made = rr.study("cmedteb-table11", **given)
    cells = {cell.column: cell for cell in made.table.cells if cell.row == "bge-m3"}
    assert (cells["STS"].state, cells["STS"].measure, cells["STS"].n) == ("done", "Pearson", 24)
    assert set(cells) == {"STS", "Rerank"}  # what was not asked for is not shown
    assert rr.study("cmedteb-table11", **given).table.cells == made.table.cells


def test_an_analysis_calls_runs_by_their_rows(home: Path) -> None:
    given = {"rows": ["GPT-5", "OpenBioLLM-Llama 3-70B"], "stand_in": True, "confirmed": True, "progress": False}
    made = rr.study("ogcarebench-table14", home=home, **given)
    (finding,) = made.findings
    assert finding.result is not None
    assert [row[0] for row in finding.result.table.rows] == ["GPT-5", "OpenBioLLM-Llama 3-70B"]
    counts = [sum(int(str(count)) for count in row[1:5]) for row in finding.result.table.rows]
    assert counts == [12, 12]
    assert any("ours" in line for line in published_lines(finding))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_cell_is_filled(name: str, home: Path) -> None:
    values = {cell.value for cell in filled(name, home).table.cells}
    assert len(values) > 1
