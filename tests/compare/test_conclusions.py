"""Which runs a summary calls different: those of which the corrected test of its table says so."""

import pytest
from msgspec.structs import replace

from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.figures import PairedFigure, holm_corrected
from ragrounds.evals.compare.findings import conclusions, untested
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.pictures.comparison_pictures import difference_picture
from ragrounds.ui.pictures.frontier import frontier_picture
from ragrounds.ui.tables.comparison_tables import comparison_tables
from ragrounds.ui.tables.comparison_words import verdict_lines
from tests.compare.making import add_run, add_runs, questions


def summary(comparison, scorers):
    """What is said of a comparison."""
    return " ".join(verdict_lines(comparison, scorers, agent_names(comparison)))


def named(made):
    return [(one.better, one.worse, one.test, one.corrected) for one in made]


def test_a_pair_that_holms_correction_does_not_carry_is_not_different(store):
    # 7 gained and 0 lost: McNemar's p is 2/128; of three pairs Holm's makes .047 of it, of six .094.
    asked = questions(30)
    first = [1] * 10 + [0] * 20
    better = [1] * 17 + [0] * 13
    runs = [add_run(store, name, asked, values) for name, values in (("one", first), ("two", better), ("three", first))]
    table = compare(store, runs).tables[0]
    pair = next(pair for pair in table.pairs if (pair.first, pair.second) == ("one-run", "two-run"))
    assert pair.tests.p_mcnemar == pytest.approx(2 / 2**7)
    assert pair.p_holm < 0.05
    assert named(conclusions(table)) == [
        ("two-run", "one-run", "exact", True),
        ("two-run", "three-run", "exact", True),
    ]
    runs.append(add_run(store, "four", asked, first))
    comparison = compare(store, runs)
    table = comparison.tables[0]
    pair = next(pair for pair in table.pairs if (pair.first, pair.second) == ("one-run", "two-run"))
    assert pair.p_holm > 0.05
    assert pair.tests.low > 0  # its own interval, which knows of no other pair, leaves 0 out
    assert conclusions(table) == ()
    text = summary(comparison, ())
    assert "ahead" not in text
    assert "no difference is significant" in text


def test_the_test_is_of_the_mean_over_datasets_like_the_figure_beside_it(store):
    # Of all questions alike 15 speak for each side (p 1); the mean over datasets goes up by 34 points.
    asked = questions(48, "x/large") + questions(12, "x/small")
    runs = add_runs(store, asked, one=[1] * 44 + [0] * 4 + [0] * 12, two=[1] * 29 + [0] * 15 + [1] * 4 + [1] * 11 + [0])
    table = compare(store, runs).tables[0]
    (pair,) = table.pairs
    assert (pair.tests.first_only, pair.tests.second_only) == (15, 15)
    assert pair.tests.difference == pytest.approx((11 / 12 - 11 / 48) / 2)
    assert pair.tests.low > 0
    assert pair.tests.p_mcnemar < 0.05
    assert named(conclusions(table)) == [("two-run", "one-run", "exact", False)]
    equal = [runs[0], add_run(store, "equal", asked, [1] * 44 + [0] * 4 + [0] * 12)]
    assert f"one and equal tie at {100 * (44 / 48) / 2:.2f} %" in summary(compare(store, equal), ())


def test_of_runs_that_were_watched_the_always_valid_p_decides(store):
    asked = questions(40)
    runs = [add_run(store, "one", asked, [1] * 10 + [0] * 30), add_run(store, "two", asked, [1] * 25 + [0] * 15)]
    table = compare(store, runs).tables[0]
    (pair,) = table.pairs
    watched = replace(pair, p_holm=None, tests=replace(pair.tests, p_mcnemar=None, p_always=0.03, draws=40))
    assert named(conclusions(replace(table, pairs=(watched,)))) == [("two-run", "one-run", "always-valid", True)]
    assert conclusions(replace(table, pairs=(watched, watched))) == ()  # twice .03
    sure = replace(watched, tests=replace(watched.tests, p_always=0.01))
    assert [one.p for one in conclusions(replace(table, pairs=(sure, watched)))] == pytest.approx([0.02, 0.03])


def test_exact_and_always_valid_tests_of_a_table_are_one_family():
    """Each with its own correction, a table without any difference would report one in more than 5 %."""
    exact = [PairedFigure(n=40, p_mcnemar=p) for p in (0.02, 0.04)]
    watched = PairedFigure(n=40, p_always=0.03, draws=40)
    assert holm_corrected(dict(enumerate(exact))) == {0: pytest.approx(0.04), 1: pytest.approx(0.04)}
    assert holm_corrected(dict(enumerate([*exact, watched]))) == {0: pytest.approx(0.06), 1: pytest.approx(0.08)}


def test_lower_scores_may_be_better(store):
    asked = questions(40)
    runs = [add_run(store, "one", asked, [1] * 10 + [0] * 30), add_run(store, "two", asked, [1] * 25 + [0] * 15)]
    comparison = compare(store, runs)
    lower = replace(comparison, tables=(replace(comparison.tables[0], direction="lower"),))
    assert named(conclusions(lower.tables[0])) == [("one-run", "two-run", "exact", False)]
    assert "one is significantly better than the other: 25.00 %, -37.50 points" in summary(lower, ())


def rouge(store, more=()):
    asked = questions(60)
    low = [0.2, 0.3, 0.25, 0.4] * 15
    high = [0.5, 0.7, 0.45, 0.6] * 15
    runs = [
        add_run(store, "one", asked, low, scorer="rouge-l", cost_uncached=[0.01, 0.02] * 30),
        add_run(store, "two", asked, high, scorer="rouge-l", cost_uncached=[0.03, 0.02] * 30),
    ]
    return runs + [add_run(store, name, asked, low, scorer="rouge-l", cost_uncached=0.01) for name in more]


def test_scores_without_a_test_are_concluded_from_by_one_interval_alone(store):
    comparison = compare(store, rouge(store), scorers=["rouge-l"])
    (table,) = comparison.tables
    assert named(conclusions(table)) == [("two-run", "one-run", "interval", False)]
    said = "two is significantly better than the other: 56.25 %, +27.50 points "
    assert said in summary(comparison, ["rouge-l"])
    drawn = difference_picture(comparison, "rouge-l")
    assert drawn.full.startswith("significant (by the interval")
    assert drawn.hollow == "not significant"
    few = [add_run(store, f"few {n}", questions(5), [0.5, 0.4 * n, 0, 0, 0], scorer="rouge-l") for n in (0, 1)]
    drawn = difference_picture(compare(store, few), "rouge-l")
    assert (drawn.full, "too few questions" in drawn.hollow) == ("", True)
    near = [
        add_run(
            store, f"near {n}", questions(60), [0.3 + 0.01 * ((k * (7 + n)) % 40) for k in range(60)], scorer="rouge-l"
        )
        for n in (0, 4)
    ]
    said = summary(compare(store, near), ["rouge-l"])
    assert "the interval of the difference, which alone decides, holds 0" in said
    several = compare(store, rouge(store, ["three"]), scorers=["rouge-l"])
    assert conclusions(several.tables[0]) == ()
    assert untested(several.tables[0])
    assert "rouge-l: two has the best figure" in summary(several, ["rouge-l"])
    assert "not tested: no test fits these scores" in summary(several, ["rouge-l"])


def test_rouge_l_is_no_accuracy_and_its_answers_have_no_price(store):
    comparison = compare(store, rouge(store), scorers=["rouge-l"])
    frontier = comparison.tables[0].frontier
    assert [point.per_correct for point in frontier.points] == [None, None]
    assert frontier.tradeoffs == ()
    tables = comparison_tables(comparison, ["rouge-l"])
    words = " ".join([*(table.title for table in tables), *(one.name for table in tables for one in table.columns)])
    picture = frontier_picture(frontier, "rouge-l", {"one-run": "one", "two-run": "two"})
    words += f" {picture.title} {picture.words} {picture.x} {summary(comparison, ['rouge-l'])}"
    for word in ("accura", "correct", "right"):
        assert word not in words.lower(), words
    assert "rouge-l" in words.lower()
    headings = [one.name for one in tables[-1].columns]
    assert headings == ["agent", "rouge-l", "95 %", "cost", "95 %", "on frontier", "resamples"]
