"""A comparison begins with who is ahead, and says no more than its corrected tests do."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.evals.compare.findings import conclusions
from ragrounds.evals.store.store import Store
from ragrounds.ui.comparison_tables import (
    agent_names,
    comparison_tables,
    difference_interval,
    numbered,
    print_comparison,
)
from ragrounds.ui.comparison_words import verdict_lines
from tests.compare.making import add_run, questions

ASKED = questions(40)
LOW, MIDDLE, HIGH = ([1] * right + [0] * (40 - right) for right in (8, 20, 36))


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def told(made: Comparison) -> list[str]:
    return list(verdict_lines(made, (), numbered(made), agent_names(made)))


def test_the_best_is_ahead_of_those_the_tests_tell_it_from(store):
    low, middle, high = (
        add_run(store, name, ASKED, values) for name, values in zip("abc", (LOW, MIDDLE, HIGH), strict=True)
    )
    made = compare(store, [low, middle, high])
    pair = next(one for one in made.tables[0].pairs if {one.first, one.second} == {middle.id, high.id})
    ends = f"{100 * pair.tests.low:+.1f} to {100 * pair.tests.high:+.1f}"
    (line,) = told(made)
    assert line == f"strict: #3 c is ahead of both others, 90.00: +40.00 points on the nearest, #2 (95 %: {ends})."
    (line,) = told(compare(store, [high, low]))
    assert line.startswith("strict: #1 c is ahead of the other, 90.00: +70.00 points (95 %: ")


def test_what_no_test_tells_is_not_said(store):
    almost = [*HIGH[:35], 0, *HIGH[36:]]
    high, near, low = (
        add_run(store, name, ASKED, values) for name, values in zip("abc", (HIGH, almost, LOW), strict=True)
    )
    assert told(compare(store, [high, near])) == [
        "strict: #1 a has the best figure, 90.00; no two runs differ by the tests."
    ]
    (line,) = told(compare(store, [high, near, low]))
    assert line == "strict: #1 a is ahead of 1 of 2 others, 90.00; not told from #2."


def test_where_all_figures_are_alike_no_run_is_named(store):
    runs = [add_run(store, name, ASKED, [0] * 40) for name in "abc"]
    assert told(compare(store, runs[:2])) == ["strict: both runs have 0.00; no two runs differ by the tests."]
    assert told(compare(store, runs)) == ["strict: all 3 runs have 0.00; no two runs differ by the tests."]


def test_an_mde_that_there_is_not_is_explained(store):
    runs = [add_run(store, name, ASKED, values) for name, values in (("a", HIGH), ("b", [*HIGH[:35], 0, *HIGH[36:]]))]
    for made, said in (
        (compare(store, runs), True),
        (compare(store, [runs[0], add_run(store, "c", ASKED, LOW)]), False),
    ):
        (pairs,) = (one for one in comparison_tables(made) if one.key == "pairs")
        assert (pairs.rows[0][-1] == "too few", "MDE too few: too few questions" in pairs.about) == (said, said)


def test_a_run_alone_has_its_interval_and_one_without_scores_no_line(store):
    high = add_run(store, "a", ASKED, HIGH)
    made = compare(store, [high])
    whole = made.tables[0].lines[0].overall
    (line,) = told(made)
    assert line == f"strict: a has 90.00 % (95 %: {100 * whole.low:.1f} to {100 * whole.high:.1f}), 40 questions."
    assert told(compare(store, [add_run(store, "b", ASKED, [None] * 40)])) == []


def test_of_many_pairs_a_terminal_shows_those_that_the_tests_tell_apart(store):
    names = "abcdefg"
    runs = [add_run(store, name, ASKED, [1] * (5 * place) + [0] * (40 - 5 * place)) for place, name in enumerate(names)]
    made = compare(store, runs)
    (pairs,) = (one for one in comparison_tables(made, brief=True) if one.key == "pairs")
    carried = {frozenset((one.better, one.worse)) for one in conclusions(made.tables[0])}
    numbers = numbered(made)
    labels = {frozenset(f"#{numbers[run]}" for run in pair) for pair in carried}
    assert 0 < len(carried) < 21
    shown = [frozenset(row[0].split(" - ")) for row in pairs.rows]
    assert len(shown) == 15
    assert set(shown[: len(labels)]) == set(shown) & labels
    assert "15 of 21" in pairs.about
    listed = [one for one in comparison_tables(made) if one.key == "pairs"]
    assert len(listed[0].rows) == 21  # Markdown, LaTeX and the report have every pair


def test_it_stands_above_the_tables(store):
    runs = [add_run(store, name, ASKED, values) for name, values in (("a", LOW), ("b", HIGH))]
    console = Console(width=80, file=io.StringIO(), record=True)
    print_comparison(compare(store, runs), console=console)
    text = console.export_text()
    assert text.startswith("strict: #2 b is ahead of the other")
    assert text.index("is ahead") < text.index("outcomes and cost")


def test_a_pair_that_would_differ_by_its_own_is_said_where_the_tests_together_find_nothing(store):
    asked = questions(12)
    runs = [add_run(store, name, asked, [1] * right + [0] * (12 - right)) for name, right in (("a", 0), ("b", 6))]
    middle = add_run(store, "c", asked, [1] * 3 + [0] * 9)
    assert told(compare(store, [*runs, middle])) == [
        "strict: #2 b has the best figure, 50.00; no two runs differ by the tests together; 1 of 3 pairs would by its "
        "own."
    ]


def test_where_the_test_finds_no_difference_the_interval_holds_0(store):
    asked = questions(5)
    runs = [add_run(store, name, asked, [value] * 5) for name, value in (("a", 0), ("b", 1))]
    compared = compare(store, runs)
    assert told(compared) == ["strict: #2 b has the best figure, 100.00; no two runs differ by the tests."]
    (pair,) = compared.tables[0].pairs
    assert difference_interval(pair.tests, "percent") == "+0.0 to +100.0"
