"""One table for a paper: datasets or models as columns, models and days in its caption, the price of a right answer."""

from __future__ import annotations

from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.store.store import Store
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.columns import TextTable
from ragrounds.ui.tables.paper_table import paper_table
from ragrounds.ui.tables.text_tables import latex
from tests.compare.making import add_run, questions


def table_for_paper(
    store: Store, *runs: tuple[str, str, list[int]], datasets: tuple[str, ...] = ("x/one",)
) -> TextTable:
    asked = [question for dataset in datasets for question in questions(4, dataset)]
    stored = [
        add_run(
            store, agent, asked, right, id=f"{agent}-{model}", identity={"models": {"model": f"openai:{model}[t=0]"}}
        )
        for agent, model, right in runs
    ]
    comparison = compare(store, stored)
    return paper_table(comparison, (), agent_names(comparison))


def test_each_of_several_datasets_is_a_column(store: Store) -> None:
    right = [1, 1, 0, 0, 1, 1, 1, 0]
    table = table_for_paper(
        store, ("one", "small", right), ("two", "small", [0, *right[1:]]), datasets=("x/few", "x/more")
    )
    names = [column.name for column in table.columns]
    assert names[:4] == ["agent", "few", "more", "strict"]
    assert table.rows[0][:4] == ("one", "50.00", "75.00", "62.50")
    assert table.rows[0][names.index("$/right")] == "$0.016"  # a cent a question, 5 of 8 right
    assert "With openai:small, on 1970-01-01." in table.title
    assert "\\begin{table*}" in latex([table], narrow=True)


def test_each_of_several_models_is_a_column(store: Store) -> None:
    table = table_for_paper(
        store, ("one", "small", [1, 0, 0, 0]), ("one", "large", [1, 1, 1, 0]), ("two", "large", [1, 1, 0, 0])
    )
    assert [column.name for column in table.columns][::3] == ["agent", "$/right", "$/right"]
    assert [column.name for column in table.columns][1::3] == ["openai:large", "openai:small"]
    assert [(row[0], row[1], row[4]) for row in table.rows] == [("one", "75.00", "25.00"), ("two", "50.00", "")]
    assert "With openai:large and openai:small," in table.title
    assert "diff." not in table.title.lower()
