"""The shipped studies of MIRAGE and MRAG: their published cells against what those must satisfy by themselves."""

from __future__ import annotations

import math

import pytest

from ragrounds.extensions.studies.study import PublishedFigure, Study, open_study, shipped_studies

SIZES = {"MMLU-Med": 1089, "MedQA-US": 1273, "MedMCQA": 4183, "PubMedQA*": 500, "BioASQ-Y/N": 618}
MINE = [name for name in shipped_studies() if name.startswith(("mirage-", "mrag-"))]


def figure(study: Study, row: str, column: str) -> PublishedFigure:
    found = study.published(row, column)
    assert found is not None, (study.name, row, column)
    return found


@pytest.mark.parametrize("name", MINE)
def test_a_study_says_what_is_run_and_what_is_missing(name: str) -> None:
    study = open_study(name)
    assert study.source.startswith("arXiv ")
    assert len(study.note) > 300
    assert "prompts=FOLDER" in study.note
    kinds = {cell.kind for cell in study.cells()}
    assert kinds == ({"arena"} if name == "mrag-table2" else {"run"})


@pytest.mark.parametrize(("name", "rows"), [("mirage-table6", 12), ("mirage-table7", 31)])
def test_mirage_cells_are_counts_of_questions_with_their_spread(name: str, rows: int) -> None:
    """Each accuracy is a whole number of questions, its ± is sqrt(p(1-p)/n) and the average that of the counts: no cell
    is misread, and the tables hold no slip of the paper's."""
    study = open_study(name)
    assert len(study.rows) == rows
    for row in study.rows:
        shares = []
        for column, size in SIZES.items():
            printed = figure(study, row.name, column)
            share = round(printed.value / 100 * size) / size
            assert f"{100 * share:.2f}" == f"{printed.value:.2f}", (row.name, column)
            assert f"{100 * math.sqrt(share * (1 - share) / size):.2f}" == f"{printed.spread:.2f}", (row.name, column)
            shares.append(share)
        mean = figure(study, row.name, "Average")
        assert f"{100 * sum(shares) / len(shares):.2f}" == f"{mean.value:.2f}", row.name


def test_mirage_tables_share_two_rows() -> None:
    six, seven = open_study("mirage-table6"), open_study("mirage-table7")
    for one, other in (("GPT-3.5, CoT", "CoT"), ("GPT-3.5, MedRAG", "MedCorp, RRF-4")):
        for column in (*SIZES, "Average"):
            assert figure(six, one, column) == figure(seven, other, column)
    three, four = open_study("mirage-figure3"), open_study("mirage-figure4")
    for task in SIZES:
        assert figure(three, task, "CoT") == figure(six, "GPT-3.5, CoT", task)
        assert figure(three, task, "k = 32") == figure(six, "GPT-3.5, MedRAG", task)
    for task in ("PubMedQA*", "BioASQ-Y/N"):
        assert figure(four, "GPT-3.5, MedRAG", task) == figure(seven, "PubMed, RRF-4", task)


def test_the_text_of_mirage_names_cells_of_table_7() -> None:
    """Section 5.2: Textbooks is best on MMLU-Med with 76.68, StatPearls on MedQA-US with 67.48."""
    study = open_study("mirage-table7")
    for column, corpus, best in (("MMLU-Med", "Textbooks", 76.68), ("MedQA-US", "StatPearls", 67.48)):
        highest = max(study.rows, key=lambda row: figure(study, row.name, column).value)
        assert (highest.name.partition(",")[0], figure(study, highest.name, column).value) == (corpus, best)


def test_mrag_averages() -> None:
    """Cells have one decimal, and so has their mean: it lies within 0.1. Three are cut rather than rounded."""
    study, cut = open_study("mrag-table1"), []
    tasks = ("MMLU-Med", "MedQA", "MedMCQA", "PubMedQA", "BioASQ")
    assert len(study.rows) == 16
    for row in study.rows:
        mean = sum(figure(study, row.name, task).value for task in tasks) / len(tasks)
        printed = figure(study, row.name, "Average, MCQA").value
        assert abs(mean - printed) < 0.1, row.name
        if f"{mean:.1f}" != f"{printed:.1f}":
            cut.append((row.name, round(mean, 2), printed))
    assert cut == [
        ("GPT-4, with RAG", 85.28, 85.2),
        ("Mixtral, without RAG", 59.56, 59.5),
        ("Mixtral, with RAG", 69.98, 69.9),
    ]


def test_fifteen_cells_of_mrag_are_those_of_mirage() -> None:
    mirage, mrag = open_study("mirage-table6"), open_study("mrag-table1")
    tasks = dict(zip(SIZES, ("MMLU-Med", "MedQA", "MedMCQA", "PubMedQA", "BioASQ"), strict=True))
    alike = sum(
        figure(mrag, f"{ours}, {mine}", tasks[task]).value
        in (round(theirs := figure(mirage, f"{model}, {method}", task).value, 1), math.floor(theirs * 10) / 10)
        for model, ours in (("MEDITRON", "MEDITRON"), ("PMC-LLaMA", "PMC-LlaMA"))
        for method, mine in (("CoT", "without RAG"), ("MedRAG", "with RAG"))
        for task in SIZES
    )
    assert alike == 15


def test_mrag_tables_share_cells() -> None:
    one = open_study("mrag-table1")
    for name, row in (("mrag-table3", "BGE-base"), ("mrag-table4", "Combined corpus"), ("mrag-table5", "COT-Refine")):
        study = open_study(name)
        assert len(study.columns) == 3
        for column in ("PubMedQA", "MedQA", "DRKG"):
            assert figure(study, row, column) == figure(one, "GPT-3.5, with RAG", column)
    fused, curve = open_study("mrag-table3"), open_study("mrag-figure3")
    sizes = open_study("mrag-figure4")
    for task in ("PubMedQA", "MedQA"):
        assert figure(curve, task, "k = 8") == figure(fused, "RRF", task)
        for system in ("without RAG", "with RAG"):
            assert figure(sizes, f"{task}, {system}", "72B") == figure(one, f"Qwen2.5, {system}", task)


def test_elo_of_mrag_adds_up() -> None:
    """Elo moves points from one player to the other: four that begin at 1000 have 4000 for ever."""
    study = open_study("mrag-table2")
    for column in study.columns:
        assert sum(figure(study, row.name, column.name).value for row in study.rows) == pytest.approx(4000, abs=0.21)
