"""Tables in the terminal, as Markdown, LaTeX and CSV: the same figures, and text that stays text."""

import csv
import io

import pytest
from msgspec.structs import replace
from rich.console import Console

from ragrounds.evals.compare.comparison import compare
from ragrounds.ui.agent_names import agent_names, short_names
from ragrounds.ui.tables.comparison_csv import as_csv
from ragrounds.ui.tables.comparison_tables import comparison_tables, print_comparison
from ragrounds.ui.tables.one_screen import summary_table
from ragrounds.ui.tables.paper_table import paper_table
from ragrounds.ui.tables.text_tables import latex, markdown
from tests.compare.making import add_run, add_scores, questions


@pytest.fixture
def comparison(store):
    asked = questions(10, group="heart & lung")
    runs = [
        add_run(store, "one[a_b=1]", asked, [1] * 4 + [0] * 6, cost_uncached=0.02),
        add_run(store, "two", asked, [1] * 7 + [0] * 3, cost_uncached=0.05),
    ]
    return compare(store, runs, group_by=["subject"])


def printed(comparison, **more):
    console = Console(width=200, file=io.StringIO(), record=True)
    print_comparison(comparison, console=console, **more)
    return console.export_text()


@pytest.mark.parametrize(("count", "most"), [(2, 24), (3, 24), (5, 24), (8, 27)])
def test_one_screen_has_a_line_for_each_run_and_says_what_is_doubtful(store, count, most):
    asked, rights = questions(60), (50, 49, 43, 30, 14, 13, 12, 11)
    runs = [
        add_run(store, f"agent{place}", asked, [1] * right + [0] * (60 - right), cost_uncached=0.6 + place)
        for place, right in enumerate(rights[:count])
    ]
    console = Console(width=80, file=io.StringIO(), record=True)
    print_comparison(replace(compare(store, runs), notes=()), console=console)
    lines = console.export_text().splitlines()
    assert len(lines) <= most - 1  # and what to type next
    assert max(map(len, lines)) <= 80
    assert "$60.00 per 100 questions" in " ".join(lines)
    rows = [line for line in lines if line.startswith("agent") and "-" in line]
    assert [row.split()[0] for row in rows] == [f"agent{place}" for place in range(count)]
    assert ["▼" in row for row in rows] == [place > 2 or (place == 2 and count < 8) for place in range(count)]


def test_names_that_part_late_are_told_apart_on_one_screen(store):
    """What long names have in common is shortened on a screen; a paper has them whole."""
    names = [f"vanilla_rag[retriever=a_retriever_of_ours,top_k={k},prompting=direct]" for k in (4, 8)]
    found = compare(store, [add_run(store, name, questions(4), [1, 0, 1, 0]) for name in names])
    text = printed(found)
    assert "\nvanilla_rag[…,top_k=4,…] " in text
    assert "\nvanilla_rag[…,top_k=8,…] " in text
    paper = paper_table(found, (), agent_names(found))
    assert {row[0] for row in paper.rows} == set(names)


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["rag[a=1,b=2,c=4]", "rag[a=1,b=2,c=8]"], ["rag[…,c=4]", "rag[…,c=8]"]),
        (["rag[top_k=10,reading=long]", "rag[top_k=12,reading=long]"], ["rag[top_k=10,…]", "rag[top_k=12,…]"]),
        (["rag[retriever=one]", "rag[retriever=two]"], ["rag[retriever=one]", "rag[retriever=two]"]),
        (["rag", "rag[top_k=10,reading=long]"], ["rag", "rag[to…long]"]),
        (["a long agent, one", "a long agent, two"], ["a long…, one", "a long…, two"]),
        (
            ["an agent one, top 4", "an agent two, top 4", "direct_cot_refine"],
            ["an agent one, top 4", "an agent two, top 4", "direct…efine"],
        ),
    ],
)
def test_what_differs_in_names_stays(names: list[str], short: list[str]) -> None:
    assert list(short_names(dict(enumerate(names)), 12).values()) == short


def test_prices_that_print_alike_and_units_other_than_percent_are_shown(store):
    asked = questions(4)
    runs = [add_run(store, name, asked, [1, 0, 1, 0], scorer="robust", cost_uncached=0.01) for name in ("one", "two")]
    for run in runs:
        add_scores(store, run, "fabricated-citations", {question.id: 2.8 for question in asked})
    found = compare(store, runs)
    names, tables = agent_names(found), {table.scorer: table for table in found.tables}
    plain = summary_table(found, [tables["robust"]], names)
    assert plain.title.endswith("percent")
    assert "$/100" in [column.name for column in plain.columns]
    unpriced = [add_run(store, name, asked, [1, 0, 1, 0], cost_uncached=None) for name in ("three", "four")]
    unknown = compare(store, unpriced)
    table = summary_table(unknown, unknown.tables, agent_names(unknown))
    index = [column.name for column in table.columns].index("$/100")
    assert [row[index] for row in table.rows] == ["unknown"] * 2
    mixed = summary_table(found, [tables["robust"], tables["fabricated-citations"]], names)
    assert "percent" not in mixed.title
    assert {"robust (%)", "fabricated-citations (citations) ↓"} <= {column.name for column in mixed.columns}


def test_names_are_not_markup_anywhere(store):
    runs = [
        add_run(store, "[red]x[/red]\x1b[2J\u202e", questions(2), [1, 0]),
        add_run(store, "<b>|*y_", questions(2), [1, 1]),
    ]
    found = compare(store, runs)
    text = printed(found, full=True)
    assert "[red]x[/red]" in text
    assert "<U+001B>" in text
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    assert "&lt;b&gt;\\|\\*y\\_" in markdown(comparison_tables(found))
    assert r"\textless{}b\textgreater{}|*y\_" in latex(comparison_tables(found))


def test_latex_is_escaped_and_balanced(comparison):
    text = latex(comparison_tables(comparison))
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == len(comparison_tables(comparison))
    assert r"one{[}a\_b=1{]}" in text
    assert r"heart \& lung" in text
    assert "16.7--68.8" in text  # the interval of 4 in 10, with an en dash


def test_csv_is_tidy_and_exact(comparison):
    rows = list(csv.DictReader(io.StringIO(as_csv(comparison))))
    whole = [row for row in rows if row["figure"] == "score" and row["part"] == ""]
    lines = comparison.tables[0].lines
    assert [float(row["value"]) for row in whole] == [line.overall.value for line in lines]
    assert [float(row["low"]) for row in whole] == [line.overall.low for line in lines]
    difference = next(row for row in rows if row["figure"] == "difference" and row["part"] == "")
    assert (difference["run"], difference["against"]) == ("two-run", "one[a_b=1]-run")
    assert float(difference["p_mcnemar"]) == comparison.tables[0].pairs[0].tests.p_mcnemar
    assert {row["part"] for row in rows if row["figure"] == "score"} == {"", "x/one", "subject=heart & lung"}
    paid = {row["run"]: row["value"] for row in rows if row["measure"] == "cost_uncached"}
    assert paid == {row.run: str(row.cost_uncached) for row in comparison.rows}


def test_unknown_figures_are_dashes_and_empty_cells(store):
    run = add_run(store, "one", questions(2), [1, 0], cost_uncached=None, origin="imported")
    found = compare(store, [run])
    assert "unknown" in printed(found)
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert next(row for row in rows if row["measure"] == "cost_uncached")["value"] == ""


def test_runs_without_any_figure_are_shown(store):
    runs = [add_run(store, name, questions(4), [None] * 4, scorer="claim-f1") for name in ("one", "two")]
    text = printed(compare(store, runs), scorers=["claim-f1"])
    assert "\none " in text
    assert "\ntwo " in text
    assert "diff.: to" not in text


@pytest.mark.parametrize(("low", "high", "text"), [(0.003, 0.0134, "-1.3 to -0.3"), (-0.34, -0.09, "+9 to +34")])
def test_a_significant_interval_never_looks_as_if_it_held_zero(store, low, high, text):
    asked = questions(8)
    found = compare(
        store, [add_run(store, name, asked, [number < 4] * 8) for number, name in enumerate(("one", "two"))]
    )
    (pair,) = found.tables[0].pairs
    tests = replace(pair.tests, difference=(low + high) / 2, low=low, high=high)
    table = replace(found.tables[0], pairs=(replace(pair, first="two-run", second="one-run", tests=tests),))
    summary = summary_table(found, [table], agent_names(found))
    assert text in {cell for row in summary.rows for cell in row}
