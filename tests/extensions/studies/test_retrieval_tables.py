"""The published cells of R2MED, CMedTEB and OGCaReBench, against what must hold between them.

The figures were read out of papers. What a table says of itself (averages, shares of a known number of questions,
counts that add up, an nDCG that recalls bound) and what two tables say of one cell catches a figure that was read
wrongly, and the papers' own slips, which are listed here and in the studies' notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log2

import pytest

from ragrounds.agents.agent import open_agent
from ragrounds.base.specs import Spec, parse
from ragrounds.evals.benchmarks.catalogue import parse_reference
from ragrounds.extensions.studies.figures import CellFigure
from ragrounds.extensions.studies.paper_table import CellResult, study_table
from ragrounds.extensions.studies.study import Study, open_study, shipped_studies
from ragrounds.tools.index.cards import cards
from ragrounds.tools.retriever import find_retriever
from tests.rows import each_row

PAPERS = ("r2med-", "cmedteb-", "ogcarebench-")
NAMES = [name for name in shipped_studies() if name.startswith(PAPERS)]
QUESTIONS = 235
"""Of OGCaReBench."""
RECALLS = ("Recall@1", "Recall@3", "Recall@5", "Recall@10", "Recall@100", "Recall@1000")
RECALL_TABLES = tuple(f"ogcarebench-table{number}" for number in (5, 9, 10, 11, 12))


def printed(study: Study, row: str) -> dict[str, float]:
    """Column → the paper's figure, of the columns that have one."""
    found = {column.name: study.published(row, column.name) for column in study.columns}
    return {column: figure.value for column, figure in found.items() if figure is not None}


def tables(*names: str) -> Iterator[tuple[Study, str, dict[str, float]]]:
    """Study, row and the row's printed figures."""
    for study in map(open_study, names):
        for row in study.rows:
            yield study, row.name, printed(study, row.name)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_study_names_is_there(name: str) -> None:
    study = open_study(name)
    assert study.source
    assert study.note
    for cell in study.cells():
        parse_reference(str(cell.settings["benchmark"]))
        if "agent" in cell.settings:
            open_agent(str(cell.settings["agent"]))
        if "retriever" in cell.settings:
            _check_retriever(parse(str(cell.settings["retriever"])))
        if "query_generation" in cell.settings:
            way = parse(str(cell.settings["query_generation"]))
            open_agent(Spec("query_generation", {"query_generation": str(way)}))
            _check_retriever(parse(str(way.parameters.get("retriever", "bm25"))))


def _check_retriever(spec: Spec) -> None:
    """See that a retriever exists with its parameters, and what it is made of."""
    found = find_retriever(spec.name)
    if found.parameters:
        found.check(spec)
    inner = spec.parameters.get("of")
    if inner is not None:
        _check_retriever(inner if isinstance(inner, Spec) else Spec(str(inner)))
    if spec.name == "rerank":
        assert cards()[str(spec.parameters["model"])].kind == "reranker"


@each_row("name", NAMES)
def test_printed_averages_are_those_of_the_printed_cells(name: str) -> None:
    study = open_study(name)
    half = 0.5 * 10.0**-study.digits
    for row in study.rows:
        found = printed(study, row.name)
        for column in study.columns:
            if column.mean and column.name in found and set(column.mean) <= set(found):
                mean = sum(found[one] for one in column.mean) / len(column.mean)
                # The average is of cells before rounding, each of which may be half a unit away.
                assert found[column.name] == pytest.approx(mean, abs=2 * half + 1e-9), (row.name, column.name)
        for column in study.columns:
            if row.mean and column.name in found and all(column.name in printed(study, one) for one in row.mean):
                mean = sum(printed(study, one)[column.name] for one in row.mean) / len(row.mean)
                assert found[column.name] == pytest.approx(mean, abs=2 * half + 1e-9), column.name


def test_r2med_tables_agree_where_they_print_the_same() -> None:
    base = {row: found for _, row, found in tables("r2med-table2")}
    assert base["BM25"]["Avg."] == 15.13
    for name, retriever in (("25", "BM25"), ("26", "BGE-Large"), ("27", "NV-Embed-v2"), ("4", "NV-Embed-v2"),
                            ("28", "BM25"), ("29", "BGE-Large"), ("30", "OpenAI-3-large")):  # fmt: skip
        assert printed(open_study(f"r2med-table{name}"), "no generation") == base[retriever]
    reranked = {row: found["Avg."] for _, row, found in tables("r2med-table24")}
    for _, row, found in tables("r2med-figure4"):
        for retriever, value in found.items():
            assert value == reranked[retriever if row == "no reranker" else f"{retriever}, {row}"]
    generated = {"BM25": 25, "BGE-Large": 26, "NV-Embed-v2": 27}
    for _, row, found in tables("r2med-table3"):
        for retriever, value in found.items():
            assert value == printed(open_study(f"r2med-table{generated[retriever]}"), row)["Avg."]
    # HyDE by GPT-4o and by Qwen2.5-7B stands in both kinds of tables.
    for gar, reasoning in ((25, 28), (26, 29), (27, 4)):
        for one, other in (("HyDE, GPT-4o", "GPT-4o"), ("HyDE, Qwen2.5-7B", "Qwen2.5-7B-Ins.")):
            first, second = printed(open_study(f"r2med-table{gar}"), one), open_study(f"r2med-table{reasoning}")
            assert first == pytest.approx(printed(second, other), abs=0.011)


def test_what_the_text_of_r2med_quotes_is_in_its_tables() -> None:
    reasoning = open_study("r2med-table4")
    for row, quoted in (("R1-Distill-Llama-70B", 38.52), ("Llama3.1-70B-Ins.", 36.82), ("QwQ-32B", 36.82),
                        ("Search-o1, QwQ-32B", 38.22)):  # fmt: skip
        assert printed(reasoning, row)["Avg."] == quoted
    best = [value for _, _, found in tables("r2med-table3") for value in found.values()]
    assert max(best) == 41.66
    assert round(max(found["Avg."] for _, _, found in tables("r2med-table4")), 1) == 41.4  # of its abstract


def test_recall_precision_and_relevant_documents_of_r2med_fit() -> None:
    """P@10 × 10 / R@10 is about how many relevant documents a query has, whatever the retriever finds."""
    for column in ("Biology", "PMCT."):
        ratios = [
            10 * printed(open_study("r2med-table22"), row)[column] / found[column]
            for _, row, found in tables("r2med-table23")
        ]
        assert max(ratios) < 1.6 * min(ratios), column


def test_cmedteb_tables_agree_where_they_print_the_same() -> None:
    care = printed(open_study("cmedteb-table2"), "CARE-0.3B-4B")
    for name, row in (("3", "CARE-0.3B-4B"), ("4", "Full Model"), ("5", "Stage-I, then Stage-II: Self-contrastive")):
        found = printed(open_study(f"cmedteb-table{name}"), row)
        assert (found["Retrieval"], found["Rerank"]) == (care["Retrieval"], care["Rerank"])
    two, base = open_study("cmedteb-table2"), printed(open_study("cmedteb-table15"), "w/ query, w/ doc")
    for _, row, found in tables("cmedteb-figure1"):
        assert found == {"Retrieval": printed(two, row)["Retrieval"]}, row
    assert printed(open_study("cmedteb-table16"), "RetroMAE + Unsup + Finetune") == {"Retrieval": base["Retrieval"]}
    four = {row: found for _, row, found in tables("cmedteb-figure4")}
    assert four["Med-Emb-base"] == base
    for size in ("4B", "8B"):
        ours = printed(two, f"CARE-0.3B-{size}")
        assert (four[f"CARE-0.3B-{size}"]["Retrieval"], four[f"CARE-0.3B-{size}"]["Rerank"]) == (
            ours["Retrieval"], ours["Rerank"],
        )  # fmt: skip
    assert round(four["Med-Emb-8B"]["Avg"] - four["CARE-0.3B-8B"]["Avg"], 2) == 0.42  # 0.6 % of it, says the text
    without = printed(open_study("cmedteb-table4"), "w/o joint fine-tuning")
    assert without == printed(open_study("cmedteb-table5"), "Stage-I only: Self-contrastive")


def test_figure_4_of_ogcarebench_is_of_the_runs_of_its_table_14() -> None:
    figure, table = open_study("ogcarebench-figure4"), open_study("ogcarebench-table14")
    assert (figure.settings, figure.rows, figure.columns) == (table.settings, table.rows, table.columns)


def test_the_rank_correlation_that_cmedteb_prints_follows_from_its_cells() -> None:
    from scipy.stats import spearmanr

    rows = [found for study, row, found in tables("cmedteb-table11") if row != "Average performance"]
    found = spearmanr([row["Avg CMed"] for row in rows], [row["Avg. New"] for row in rows])
    assert (round(found.statistic, 3), round(found.pvalue, 3)) == (0.354, 0.215)
    (asked,) = open_study("cmedteb-table11").correlations
    assert (asked.kind, asked.published) == ("Spearman", 0.354)


def test_a_study_says_how_two_columns_go_together() -> None:
    study = open_study("cmedteb-table11")
    results = {
        (row.name, column.name): CellResult(
            state="done", figure=CellFigure(value=figure.value / 100, measure=column.name)
        )
        for row in study.rows
        for column in study.columns
        if not row.mean and not column.made_of and (figure := study.published(row.name, column.name))
    }
    notes = study_table(study, results).notes
    assert notes[0].startswith("Spearman's correlation of Avg CMed and Avg. New over 14 rows: 0.354; published 0.354")
    alone = {place: result for place, result in results.items() if place[0] == "bge-m3"}
    assert "not defined" in study_table(study, alone).notes[0]


def test_relevant_documents_are_the_labelled_less_the_false_ones_and_the_missed() -> None:
    for _, row, found in tables("cmedteb-table20"):
        relevant = found["Orig. Pos."] - found["False Positive"] + found["False Negative"]
        assert found["LLM-Labeled Pos."] == pytest.approx(relevant, abs=0.011), row


def _whole(share: float, of: int) -> bool:
    return abs(100 * round(share * of / 100) / of - share) <= 0.05 + 1e-9


def test_shares_of_ogcarebench_are_whole_numbers_of_questions() -> None:
    amiss = {
        (name, row, found[recall])
        for name in RECALL_TABLES
        for _, row, found in tables(name)
        for recall in RECALLS
        if not _whole(found[recall], QUESTIONS)
    }
    assert amiss == {  # slips of the paper
        ("ogcarebench-table5", "BGE-large-en-v1.5", 74.8),  # 176 are 74.9, as its Table 11 prints it
        ("ogcarebench-table5", "Pubmedbert-base-embeddings", 46.3),
        ("ogcarebench-table5", "MedEmbed-base-v0.1", 90.3),
        ("ogcarebench-table5", "MedEmbed-large-v0.1", 64.6),
        ("ogcarebench-table9", "BGE-large-en-v1.5, corpus chunked, query chunked", 74.8),
        ("ogcarebench-table9", "BMRetriever-410M, corpus chunked, query truncated", 70.1),
    }
    for _, row, found in tables("ogcarebench-table4", "ogcarebench-table7", "ogcarebench-table14"):
        assert {_whole(value, QUESTIONS) for column, value in found.items() if "Δ" not in column} == {True}, row
    subjects = list(tables("ogcarebench-table8"))
    assert {_whole(found["Internal"], 105) for _, _, found in subjects} == {True}
    surgery = {row: found["Surgery"] for _, row, found in subjects if not _whole(found["Surgery"], 60)}
    assert surgery == {"Claude 4 Sonnet": 41.6, "MedGemma-27b-text-it": 36.6}  # cut, not rounded


def test_ogcarebench_mrr_and_ndcg_lie_where_the_recalls_allow() -> None:
    """With one relevant document a question, its rank is known up to the steps of the recalls."""
    amiss = set()
    for name in RECALL_TABLES:
        for _, row, found in tables(name):
            one, three, five, ten = (found[recall] for recall in RECALLS[:4])
            steps = (three - one, five - three, ten - five)
            reciprocal = (one + steps[0] / 3 + steps[1] / 5, one + steps[0] / 2 + steps[1] / 4)
            least = one + steps[0] / 2 + steps[1] / log2(6) + steps[2] / log2(11)
            most = one + steps[0] / log2(3) + steps[1] / log2(5) + steps[2] / log2(7)
            for measure, (low, high) in (("MRR@5", reciprocal), ("nDCG@10", (least, most))):
                if not low - 0.1 <= found[measure] <= high + 0.1:
                    amiss.add((name, row, measure, found[measure]))
    assert amiss == {  # slips of the paper
        ("ogcarebench-table5", "MedEmbed-base-v0.1", "nDCG@10", 54.1),
        ("ogcarebench-table11", "BGE-large-en-v1.5, stride 384", "nDCG@10", 59.5),
    }


def test_what_retrieval_adds_in_ogcarebench_is_the_difference() -> None:
    alone = {row: found["Accuracy"] for _, row, found in tables("ogcarebench-table4")}
    for _, row, found in tables("ogcarebench-table7"):
        model = row.rpartition(", ")[0]
        assert found["No retrieval"] == alone[model]
        for retriever in ("BM25", "BGE", "BMRet."):
            # Some were taken before rounding, from counts, and some after.
            more = round(found[retriever] * QUESTIONS / 100) - round(alone[model] * QUESTIONS / 100)
            either = (100 * more / QUESTIONS, found[retriever] - alone[model])
            assert min(abs(found[f"Δ {retriever}"] - one) for one in either) <= 0.0501, (row, retriever)


def test_success_and_right_answers_of_ogcarebench_add_up() -> None:
    study = open_study("ogcarebench-table14")
    (analysis,) = study.analyses
    three = printed(open_study("ogcarebench-table7"), "GPT-5, 3 reports")["BGE"]
    assert printed(study, "GPT-5")["RAG Acc."] == three
    for row in study.rows:
        counts = {column: value for name, column, value in analysis.published if name == row.name}
        assert sum(counts.values()) == QUESTIONS
        assert counts["found, right"] + counts["found, wrong"] == 176  # Recall@3 of BGE-large, 74.9
        right = counts["found, right"] + counts["missed, right"]
        assert printed(study, row.name)["RAG Acc."] == pytest.approx(100 * right / QUESTIONS, abs=0.0501)


def test_a_reranker_stands_before_the_retriever_of_the_row() -> None:
    first = printed(open_study("ogcarebench-table6"), "BGE-m3")
    before = printed(open_study("ogcarebench-table5"), "BGE-m3")
    assert (first["Recall@10"], first["nDCG@10"]) == (before["Recall@10"], before["nDCG@10"])
    cells = {cell.name: str(cell.settings["retriever"]) for cell in open_study("ogcarebench-table6").cells()}
    assert cells["MedCPT · nDCG@10 reranked"].startswith("rerank[model=medcpt-cross,of=maxp[of=medcpt,")
