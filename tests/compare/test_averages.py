"""An average over datasets says where it misleads: an order that pooling turns round, datasets of a few questions."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ragrounds.evals.compare.abstract import small_datasets
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.findings import reversals
from ragrounds.evals.store.store import Store
from ragrounds.ui.comparison_tables import comparison_notes, print_comparison
from ragrounds.ui.comparison_warnings import average_heading, average_lines, drawn_words
from tests.compare.making import add_run, questions

SMALL, LARGE = questions(2, "x/small"), questions(30, "x/large")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def compared(store, *runs, asked=(*SMALL, *LARGE)):
    """A comparison of runs by how many of the small and of the large dataset's questions are right."""
    made = []
    for number, (small, large) in enumerate(runs):
        right = [int(i < small) for i in range(2)] + [int(i < large) for i in range(30)]
        made.append(add_run(store, f"agent{number}", list(asked), right[: len(asked)]))
    return compare(store, made)


def test_an_order_that_pooling_turns_round_is_said_on_top_and_in_notes(store):
    made = compared(store, (0, 20), (2, 10))
    (turned,) = reversals(made.tables[0])
    assert (turned.ahead.agent, turned.behind.agent) == ("agent1", "agent0")
    out = io.StringIO()
    print_comparison(made, console=Console(file=out, width=300))
    told = out.getvalue().splitlines()
    assert told[1] == (
        "strict: by the average of 2 datasets #2 is ahead of #1, 66.67 against 33.33; over all questions pooled it is "
        "behind, 37.50 against 62.50."
    )
    assert told[2] == (
        "strict: 1 dataset has fewer than 10 questions (small 2): in the average each of 2 datasets weighs alike."
    )
    assert comparison_notes(made)[:2] == told[1:3]
    assert average_heading(made.tables[0]) == "average of 2 datasets"


def test_runs_in_one_order_and_large_datasets_say_nothing(store):
    made = compared(store, (0, 10), (2, 20))
    assert reversals(made.tables[0]) == ()
    asked = [*questions(10, "x/a"), *questions(10, "x/b")]
    runs = [add_run(store, name, asked, [1] * right + [0] * (20 - right)) for name, right in (("c", 5), ("d", 12))]
    assert not list(average_lines(compare(store, runs), (), {run.id: run.agent for run in runs}))


def test_one_dataset_is_no_average(store):
    asked = questions(4)
    run = add_run(store, "e", asked, [1, 0, 0, 0])
    (table, *_) = compare(store, [run]).tables
    assert (small_datasets(table), average_heading(table)) == ({}, "")


def test_more_pairs_are_counted_and_equal_figures_are_no_order(store):
    made = compared(store, (0, 20), (0, 20), (2, 10))
    (line, _) = average_lines(made, (), {row.run: row.agent for row in made.rows})
    assert line.endswith("62.50. So it is with 1 more pair.")


def test_a_limit_that_leaves_a_dataset_a_few_questions_names_the_other_option():
    said = drawn_words({"m/a": 1, "m/b": 39}, 40)
    assert said.startswith("With --limit 40, 1 dataset has fewer than 10 questions (a 1)")
    assert said.endswith("--per-dataset 20 draws as many of each.")
    assert drawn_words({"m/a": 4}, 4) == ""
    assert drawn_words({"m/a": 10, "m/b": 30}, 40) == ""
