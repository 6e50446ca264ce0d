"""Cells that are not a run's headline: searches, similarity of sentences, missing labels, a judge, an arena; and an
analysis of the runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.api.people import write_label_sheet
from ragrounds.api.workspace import chosen_settings
from ragrounds.extensions.stand_in.server import stand_in_server
from ragrounds.extensions.studies.functions import show_study
from ragrounds.extensions.studies.tables import published_lines, study_tables
from tests.beir_folders import write_beir

WORDS = ("scurvy", "vitamin", "lemons", "sailors", "goitre", "iodine", "salt", "beriberi", "rice", "thiamine")
RETRIEVAL = """
title = "Retrieval"
[[rows]]
name = "{retriever}"
retriever = { one = "bm25", other = "bm25[k1=0.1,b=0.1]" }
[[columns]]
name = "nDCG"
benchmark = "beir:HERE/beir"
[[columns]]
name = "R@1"
benchmark = "beir:HERE/beir"
measure = "R@1"
"""
SIMILARITY = """
title = "Similarity"
[[rows]]
name = "counts"
retriever = 'dense[model="import:tests.extensions.retrieval.letter_embeddings:Characters"]'
[[columns]]
name = "STS"
benchmark = "cmedteb/sts:HERE/sts.jsonl"
measure = "Pearson"
"""
SPEED = """
title = "Speed"
[settings]
benchmark = "beir:HERE/beir"
[[rows]]
name = "counts"
retriever = 'dense[model="import:tests.extensions.retrieval.letter_embeddings:Characters"]'
[[columns]]
name = "nDCG@10"
[[columns]]
name = "QPS"
measure = "queries_per_second"
[[columns]]
name = "hours"
measure = "hours_per_million"
"""
LABELS = """
title = "Labels"
[settings]
benchmark = "beir:HERE/beir"
model = "openai:any"
retriever = "bm25"
depth = 5
[[rows]]
name = "a set"
[[columns]]
name = "{measure}"
measure = ["labelled", "relevant", "false_positives", "false_negatives"]
"""
LONG = """
title = "Long answers"
[settings]
benchmark = "jsonl:HERE/long.jsonl"
corpus = "beir:HERE/beir"
model = "openai:any"
[[rows]]
name = "without"
agent = "direct"
[[rows]]
name = "with"
agent = "vanilla_rag[top_k=2]"
[[columns]]
name = "equivalent"
judge = "openai:judge"
"""
ARENA = """
[arena]
judges = ["openai:judge"]
base_url = "URL"
alias = "here"
min_matches = 4
"""
AXIS = """
[[columns]]
name = "usefulness"
axis = "usefulness"
"""
ANALYSIS = """
[[analyses]]
name = "success"
rows = ["with"]
options = { scorer = "equivalent" }
published = [["with", "found, right", 1]]
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    def lines(name: str, rows: list[dict[str, object]]) -> None:
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    pairs = list(pairwise(WORDS))
    documents = {one: f"{one} goes with {two} and {one}" for one, two in pairs}
    queries = {f"q{n}": f"{one} and {two}" for n, (one, two) in enumerate(pairs)}
    write_beir(tmp_path / "beir", documents, queries, zip(queries, documents, strict=True))
    lines("sts.jsonl", [{"sentence1": one, "sentence2": other, "score": float(one == other)}
                        for one, two in pairs for other in (one, two)])  # fmt: skip
    lines("long.jsonl", [{"id": f"l{number}", "question": f"What goes with {one}?", "answer": two, "documents": [one]}
                         for number, (one, two) in enumerate(pairs[:4])])  # fmt: skip
    return tmp_path


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with stand_in_server() as url:
        yield url


def filled(text: str, here: Path, server: str) -> tuple[rr.StudyResult, dict[tuple[str, str], float]]:
    """A study every cell of which is done; carried out again and shown, it is the same without a call."""
    file = here / "study.toml"
    file.write_text(text.replace("HERE", str(here)).replace("URL", server), encoding="utf-8")
    given = {"base_url": server, "alias": "here", "home": here / "home", "confirmed": True, "progress": False}
    made = rr.study(file, **given)
    assert {(cell.row, cell.column): cell.why for cell in made.table.cells if cell.state != "done"} == {}
    again = rr.study(file, **given)
    assert (again.made, again.table.cells) == (0, made.table.cells)
    assert show_study(file, home=here / "home").table.cells == made.table.cells
    return made, {(cell.row, cell.column): cell.value or 0.0 for cell in made.table.cells}


def test_searches_are_means_over_queries(here: Path, server: str) -> None:
    made, values = filled(RETRIEVAL, here, server)
    assert {cell.n for cell in made.table.cells} == {9}
    entry = rr.retrieve(f"beir:{here}/beir", "bm25", measures="R@1", progress=False, home=here / "home").entries[-1]
    assert values["one", "R@1"] == 100 * entry["R@1"]


def test_similarity_is_a_correlation(here: Path, server: str) -> None:
    made, values = filled(SIMILARITY, here, server)
    (cell,) = made.table.cells
    assert (cell.measure, cell.n) == ("Pearson", 18)
    assert values["counts", "STS"] > 0.5


def test_speeds_are_of_this_machine_and_stand_beside_means(here: Path, server: str) -> None:
    made, values = filled(SPEED, here, server)
    assert [(cell.column, cell.measure, cell.n) for cell in made.table.cells] == [
        ("nDCG@10", "nDCG@10", 9), ("QPS", "queries_per_second", 9), ("hours", "hours_per_million", 9),
    ]  # fmt: skip
    assert values["counts", "nDCG@10"] > 0
    assert values["counts", "QPS"] > 1
    assert 0 < values["counts", "hours"] < 10
    assert all(cell.low is None for cell in made.table.cells if cell.column != "nDCG@10")


def test_labels_that_are_missing_add_up(here: Path, server: str) -> None:
    _, values = filled(LABELS, here, server)
    labelled, relevant, wrong, missed = (values["a set", name] for name in
                                         ("labelled", "relevant", "false_positives", "false_negatives"))  # fmt: skip
    assert labelled > 0
    assert relevant == pytest.approx(labelled - wrong + missed)


def test_a_judge_gives_a_cell_its_scorer_and_an_analysis_calls_runs_by_their_rows(here: Path, server: str) -> None:
    text = LONG.replace("any", "any[price_input=0,price_output=0]")
    text = text.replace("openai:judge", "openai:judge[price_input=0.5,price_output=0.5]")
    made, _ = filled(text + ANALYSIS, here, server)
    assert {cell.measure for cell in made.table.cells} == {"equivalent"}
    assert made.made > 2 * 4, "the judge's calls are counted too"
    assert made.paid
    (finding,) = made.findings
    assert finding.result is not None
    assert {row[0] for row in finding.result.table.rows} == {"with"}
    assert any("ours" in line for line in published_lines(finding))


def test_a_cell_with_people_s_labels_shows_how_often_the_judge_agrees(here: Path, server: str) -> None:
    labels = here / "labels.csv"
    text = LONG.replace('[[rows]]\nname = "with"\nagent = "vanilla_rag[top_k=2]"\n', "")
    text = text.replace('judge = "openai:judge"', f'judge = "openai:judge"\nlabels = "{labels}"')
    file = here / "study.toml"
    file.write_text(text.replace("HERE", str(here)), encoding="utf-8")
    home, given = here / "home", {"base_url": server, "alias": "here", "confirmed": True, "progress": False}
    (lacking,) = rr.study(file, home=home, **given).table.cells
    assert lacking.state == "lacks"
    assert f"ragrounds judge sheet {lacking.runs[0]} --kind equivalence" in lacking.why
    said = {
        score["question_id"]: score["prediction"]
        for score in rr.load(*lacking.runs, home=home).to_pandas("scores").to_dict("records")
        if score["scorer"] == "equivalent"
    }
    write_label_sheet(lacking.runs[0], out=labels, raters=["anna"], settings=chosen_settings(None, home))
    with labels.open(encoding="utf-8-sig", newline="") as given_out:
        rows = list(csv.DictReader(given_out))
    for number, row in enumerate(rows):  # of four verdicts one is not hers
        other = "mismatch" if said[row["item"]] == "equivalent" else "equivalent"
        row["anna"] = other if number == 0 else said[row["item"]]
    with labels.open("w", encoding="utf-8", newline="") as filled_in:
        writer = csv.DictWriter(filled_in, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    made, values = filled(text, here, server)
    assert values["without", "equivalent"] == pytest.approx(100 * 3 / 4)
    assert [(cell.measure, cell.n) for cell in made.table.cells] == [("agreement", 4)]


def test_the_server_of_a_study_judges_its_arena_and_a_rating_can_be_elo(here: Path, server: str) -> None:
    rules = ARENA.replace('base_url = "URL"\nalias = "here"\n', 'rating = "elo[k=40]"\n')
    text = LONG.partition("[[columns]]")[0].replace("[settings]", f'spread = "orders"\n{rules}[settings]')
    made, values = filled(text + AXIS, here, server)
    assert sum(values.values()) == pytest.approx(2000)
    assert all(cell.spread is not None and cell.low is None for cell in made.table.cells)
    assert "random orders" in study_tables(made.table)[0].title


def test_an_arena_rates_the_rows(here: Path, server: str) -> None:
    text = LONG.partition("[[columns]]")[0].replace("[settings]", f"{ARENA}[settings]")
    made, values = filled(text + AXIS, here, server)
    assert {cell.measure for cell in made.table.cells} == {"usefulness"}
    assert sum(values.values()) == pytest.approx(2000, abs=1)
