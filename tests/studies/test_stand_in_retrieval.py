"""What stands in for the sets, encoders and rerankers of R2MED, CMedTEB and OGCaReBench."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.api.retrieve import similarity
from ragrounds.evals.benchmarks.catalogue import load
from ragrounds.evals.studies.stand_in import retrieval_sets as sets
from ragrounds.evals.studies.stand_in.conditions import CONDITIONS
from ragrounds.evals.studies.stand_in.retrieval import encoders, stand_in
from ragrounds.evals.studies.study import open_study, shipped_studies
from ragrounds.models.stand_in_server import stand_in_server
from ragrounds.tools.chunkers import tokens_of
from ragrounds.tools.retriever import open_searcher

URL = "http://127.0.0.1:1/v1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGROUNDS_HOME", str(tmp_path))
    monkeypatch.setenv("RAGROUNDS_CONFIG", str(tmp_path / "none.toml"))
    return tmp_path


def carried_out(name: str, home: Path, url: str = URL) -> dict[str, float]:
    """Row · column → figure, of the cells of a study that are retrieval."""
    figures: dict[str, float] = {}
    cells = [cell for cell in open_study(name).cells() if cell.kind == "retrieve" and "depth" not in cell.settings]
    asked = [(cell.name, stand_in(cell.settings, home / "sets", url)) for cell in cells]

    def search(one: tuple[str, dict[str, Any]]) -> str:
        return json.dumps({key: value for key, value in one[1].items() if key != "measure"}, sort_keys=True)

    for _, group in groupby(sorted(asked, key=search), key=search):
        same = list(group)
        given: dict[str, Any] = same[0][1]
        benchmark = str(given["benchmark"])
        if benchmark.startswith("cmedteb/sts"):
            (entry,) = similarity(benchmark.partition(":")[2], str(given["retriever"]), resamples=20).entries
        else:
            measures = list(dict.fromkeys(str(settings["measure"]) for _, settings in same))
            more = {
                key: given[key] for key in ("corpus", "query_generation", "model", "base_url", "alias") if key in given
            }
            entry = rr.retrieve(
                benchmark, given["retriever"], measures=measures, resamples=20, progress=False, **more
            ).entries[-1]
            assert not entry["unknown_documents"]
            assert not entry.get("generation_failed")
        figures |= {name: float(entry[str(settings["measure"])]) for name, settings in same}
    assert len(figures) == len(cells)
    return figures


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
    codec = tokens_of("cl100k_base")
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
    assert made["where"] == {"specialty": "Surgical Studies"}
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


def test_small_tables_are_filled(home: Path) -> None:
    assert "all-MiniLM-L6-v2" in encoders()
    rerank = carried_out("cmedteb-table3", home)
    assert len(rerank) == 10
    lengths = carried_out("ogcarebench-table10", home)
    assert len(lengths) == 24
    assert len(set(lengths.values())) > 3  # the made-up reports are neither all found first nor all missed


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in shipped_studies() if name.startswith(("r2med-", "cmedteb-", "ogcarebench-"))]
)
def test_every_cell_of_retrieval_is_filled(name: str, home: Path) -> None:
    with stand_in_server() as url:
        figures = carried_out(name, home, url)
    assert all(-1.0 <= value <= 1.0 for value in figures.values())
    if len(figures) > 20:
        assert len(set(figures.values())) > 3
