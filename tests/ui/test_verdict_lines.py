"""A comparison begins with who is ahead, and says no more than its corrected tests do."""

from __future__ import annotations

from ragrounds.base.records import Usage
from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.tables.comparison_tables import comparison_tables, difference_interval
from ragrounds.ui.tables.comparison_words import verdict_lines
from ragrounds.ui.tables.one_screen import conclusion_lines
from tests.compare.making import add_run, questions

ASKED = questions(40)
LOW, MIDDLE, HIGH = ([1] * right + [0] * (40 - right) for right in (8, 20, 36))


def told(made: Comparison) -> list[str]:
    return list(verdict_lines(made, (), agent_names(made)))


def test_the_best_is_ahead_of_those_the_tests_tell_it_from(store):
    low, middle, high = (
        add_run(store, name, ASKED, values) for name, values in zip("abc", (LOW, MIDDLE, HIGH), strict=True)
    )
    made = compare(store, [low, middle, high])
    pair = next(one for one in made.tables[0].pairs if {one.first, one.second} == {middle.id, high.id})
    ends = f"{100 * pair.tests.low:+.1f} to {100 * pair.tests.high:+.1f}"
    (line,) = told(made)
    said = f"90.00 %, +40.00 points on the nearest, b (95 %: {ends})."
    assert line == f"strict: c is significantly better than both others: {said}"
    (line,) = told(compare(store, [high, low]))
    assert line.startswith("strict: c is significantly better than the other: 90.00 %, +70.00 points (95 %: ")


def test_what_no_test_tells_is_not_said(store):
    almost = [*HIGH[:35], 0, *HIGH[36:]]
    high, near, low = (
        add_run(store, name, ASKED, values) for name, values in zip("abc", (HIGH, almost, LOW), strict=True)
    )
    assert told(compare(store, [high, near])) == [
        "strict: a has the best figure, 90.00 %; no difference is significant."
    ]
    (line,) = told(compare(store, [high, near, low]))
    assert line == (
        "strict: a is significantly better than 1 of 2 others: 90.00 %; not significantly different from b."
    )


def test_runs_with_the_same_figure_tie(store):
    runs = [add_run(store, name, ASKED, [0] * 40) for name in "abc"]
    assert told(compare(store, runs[:2])) == ["strict: a and b tie at 0.00 %; no difference is significant."]
    assert told(compare(store, runs)) == ["strict: a, b and c tie at 0.00 %; no difference is significant."]


def test_the_cheapest_of_those_that_tie_is_named(store):
    runs = [
        add_run(store, name, ASKED, values, cost_uncached=cost)
        for name, values, cost in (("a", HIGH, 0.02), ("b", HIGH, 0.01), ("c", LOW, 0.001))
    ]
    made = compare(store, runs)
    headline, *_ = conclusion_lines(made, (), agent_names(made))
    assert headline == (
        "Accuracy (strict reading): a and b tie at 90.00 %; all are significantly better than c; b is the cheapest, "
        "$1.00 per 100 questions."
    )
    runs[0] = add_run(store, "d", ASKED, HIGH, cost_uncached=None, usage=Usage(1, 1))
    made = compare(store, runs)
    assert "cheapest" not in " ".join(conclusion_lines(made, (), agent_names(made)))


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


def test_a_pair_that_would_differ_by_its_own_is_said_where_the_tests_together_find_nothing(store):
    asked = questions(12)
    runs = [add_run(store, name, asked, [1] * right + [0] * (12 - right)) for name, right in (("a", 0), ("b", 6))]
    middle = add_run(store, "c", asked, [1] * 3 + [0] * 9)
    assert told(compare(store, [*runs, middle])) == [
        "strict: b has the best figure, 50.00 %; no difference is significant after correction for 3 pairs "
        "(1 is before)."
    ]


def test_where_the_test_finds_no_difference_the_interval_holds_0(store):
    asked = questions(5)
    runs = [add_run(store, name, asked, [value] * 5) for name, value in (("a", 0), ("b", 1))]
    compared = compare(store, runs)
    assert told(compared) == ["strict: b has the best figure, 100.00 %; no difference is significant."]
    (pair,) = compared.tables[0].pairs
    assert difference_interval(pair.tests, "percent") == "+0.0 to +100.0"
