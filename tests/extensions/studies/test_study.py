"""The file of a study: what it makes of rows, columns and grids, and what it refuses."""

from __future__ import annotations

import pytest

from ragrounds.base.errors import UserError
from ragrounds.extensions.studies.study import PublishedFigure, read_study

GRID = """
title = "Two strategies on two models"
baseline = "A, no retrieval"

[settings]
benchmark = "sample"
corpus = "sample"

[[rows]]
name = "{model}, {agent}"
agent = { "no retrieval" = "direct", "8 passages" = "vanilla_rag[top_k=8]" }
model = { "A" = "openai:a", "B" = "openai:b" }
published = { "A, no retrieval" = ["12.3 ±1.2", "", 11] }

[[rows]]
name = "Both"
mean = ["A, no retrieval", "B, no retrieval"]

[[columns]]
name = "first"
limit = 10

[[columns]]
name = "second"
corpus = "beir:HERE"

[[columns]]
name = "Average"
mean = ["first", "second"]
"""


def test_a_grid_becomes_rows_with_names() -> None:
    study = read_study(GRID, "grid")
    names = [row.name for row in study.rows]
    assert names == ["A, no retrieval", "B, no retrieval", "A, 8 passages", "B, 8 passages", "Both"]
    cells = list(study.cells())
    assert len(cells) == 8  # four systems on two columns; the average and the cohort are computed
    assert len({cell.key for cell in cells}) == 8
    first = cells[0]
    assert (first.kind, first.settings) == (
        "run", {"benchmark": "sample", "corpus": "sample", "limit": 10, "agent": "direct", "model": "openai:a"},
    )  # fmt: skip
    assert cells[1].settings["corpus"] == "beir:HERE"  # a column goes before what is said of all cells
    assert study.published("A, no retrieval", "first") == PublishedFigure(12.3, 1.2)
    assert study.published("A, no retrieval", "second") is None
    assert study.published("A, no retrieval", "Average") == PublishedFigure(11.0)
    assert study.published("B, 8 passages", "first") is None


def test_a_cell_is_another_one_when_a_setting_changes() -> None:
    before = next(read_study(GRID, "grid").cells())
    after = next(read_study(GRID.replace("limit = 10", "limit = 11"), "grid").cells())
    renamed = next(read_study(GRID.replace('"A" =', '"The first" =').replace("A, no", "The first, no"), "grid").cells())
    assert before.key != after.key
    assert before.key == renamed.key  # a name is no setting


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("limit = 10", "limits = 10"), "unknown key 'limits'. Did you mean 'limit'"),
        (('["12.3 ±1.2", "", 11]', "[12.3]"), "1 published figures for 3 columns"),
        (("12.3 ±1.2", "about 12"), "expected '71.6 ±1.4'"),
        (('mean = ["first", "second"]', 'mean = ["first", "secnd"]'), "no column 'secnd'. Did you mean 'second'"),
        (("{model}, {agent}", "{model}"), "agent has several values, so the name needs {agent}"),
        (('baseline = "A, no retrieval"', 'baseline = "A"'), "has no row 'A'"),
        (('name = "Both"', 'name = "A, 8 passages"'), "two rows named 'A, 8 passages'"),
        (("limit = 10", 'measure = "R@10"'), "is made by a run, which takes no 'measure'"),
        (("[settings]", "[setings]"), "setings"),
        (("title = ", "title == "), "The study 'grid'"),
    ],
)
def test_what_is_wrong_is_named(change: tuple[str, str], said: str) -> None:
    with pytest.raises(UserError) as caught:
        read_study(GRID.replace(*change), "grid")
    assert said in str(caught.value)


def test_columns_that_are_computed_reranked_or_hidden() -> None:
    text = """
title = "Before and after"
[settings]
benchmark = "beir/x"
measure = "R@10"
[[rows]]
name = "BM25"
retriever = "bm25"
[[rows]]
name = "pieces"
retriever = "maxp[of=bm25]"
hidden = true
[[columns]]
name = "before"
hidden = true
[[columns]]
name = "after"
reranker = "monobert"
rerank_top = 20
[[columns]]
name = "points"
difference = ["before", "after"]
"""
    study = read_study(text, "both")
    assert [cell.settings["retriever"] for cell in study.cells()] == [
        "bm25",
        "rerank[model=monobert,of=bm25,top=20]",
        "maxp[of=bm25]",
        "rerank[model=monobert,of=maxp[of=bm25],top=20]",
    ]
    assert [row.hidden for row in study.rows] == [False, True]
    assert [(column.hidden, bool(column.made_of)) for column in study.columns] == [
        (True, False), (False, False), (False, True),
    ]  # fmt: skip
    for wrong in ('difference = ["before"]', 'difference = ["befor", "after"]'):
        with pytest.raises(UserError, match=r"points|before"):
            read_study(text.replace('difference = ["before", "after"]', wrong), "both")
    with pytest.raises(UserError, match="rerank_top"):
        read_study(text.replace("rerank_top = 20", 'rerank_top = "20"'), "both")


def test_a_row_sets_a_parameter_of_whatever_agent_a_column_names() -> None:
    text = """
title = "Parameters"
[settings]
benchmark = "sample"
model = "openai:a"
[[rows]]
name = "short"
parameters = { prompting = "cot", top_k = "3" }
[[columns]]
name = "plain"
agent = "vanilla_rag"
[[columns]]
name = "set"
agent = "vanilla_rag[prompting=direct,context_tokens=9]"
"""
    assert [cell.settings["agent"] for cell in read_study(text, "both").cells()] == [
        "vanilla_rag[prompting=cot,top_k=3]",
        "vanilla_rag[context_tokens=9,prompting=cot,top_k=3]",
    ]
    written = text.replace('parameters = { prompting = "cot", top_k = "3" }', 'query_generation = "lamer"')
    first = next(read_study(written, "both").cells())
    assert (first.kind, first.settings["agent"]) == ("run", "vanilla_rag[query_generation=lamer]")
    assert "query_generation" not in first.settings
