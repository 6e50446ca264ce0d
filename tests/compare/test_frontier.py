"""The frontier: who is on it, what a right answer costs, what is not known."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from msgspec.structs import replace

from ragrounds.api.compare import frontier_measure
from ragrounds.base.errors import UserError
from ragrounds.evals.analyses.pictures import across_axis
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.frontier import cost_measure
from ragrounds.evals.stats import stratified_mean
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.pictures.chart_svg import svg
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.pictures.frontier import frontier_picture, frontier_tables
from tests.compare.making import add_run, questions

NAMES = {"cheap-run": "cheap", "good-run": "good", "bad-run": "bad"}


def picture(frontier):
    return frontier_picture(frontier, "strict", {point.run: NAMES.get(point.run, "?") for point in frontier.points})


def three(store):
    asked = questions(60)
    return [
        add_run(store, "cheap", asked, [1] * 24 + [0] * 36, cost_uncached=[0.01, 0.02] * 30),
        add_run(store, "good", asked, [1] * 48 + [0] * 12, cost_uncached=[0.06, 0.05] * 30),
        add_run(store, "bad", asked, [1] * 18 + [0] * 42, cost_uncached=0.04),
    ]


def test_frontier_by_hand(store):
    found = compare(store, three(store)).tables[0].frontier
    assert found.measure == "cost_uncached"
    assert [(point.agent, point.on_frontier) for point in found.points] == [
        ("cheap", True),
        ("bad", False),
        ("good", True),
    ]
    cheap, bad, good = found.points
    assert cheap.cost.value == pytest.approx(0.015)
    assert cheap.cost.low < 0.015 < cheap.cost.high
    # What costs the same each time says nothing of how costs vary.
    assert (bad.cost.value, bad.cost.low, bad.cost.high, bad.cost.few) == (pytest.approx(0.04), None, None, True)
    assert cheap.per_correct.value == pytest.approx(60 * 0.015 / 24)
    assert good.per_correct.value == pytest.approx(60 * 0.055 / 48)
    assert good.per_correct.low < good.per_correct.value < good.per_correct.high
    assert cheap.share == 1.0  # nothing is cheaper in any resample
    assert bad.share < 0.5
    (tradeoff,) = found.tradeoffs
    # 2.40 dollars more for 24 more right answers.
    assert tradeoff.price.value == pytest.approx((60 * 0.055 - 60 * 0.015) / 24)
    assert tradeoff.price.low < tradeoff.price.value < tradeoff.price.high


def test_costs_with_a_heavy_tail_have_the_interval_of_claims(store):
    # A few questions make most of the bill: the upper end is twice as far off as the lower one.
    generator = np.random.default_rng(3)
    costs = generator.lognormal(-4, 1.5, 60).tolist()
    asked = questions(60)
    runs = [
        add_run(store, "cheap", asked, [1, 0] * 30, cost_uncached=0.001),
        add_run(store, "good", asked, [1, 1, 1, 0] * 15, cost_uncached=costs),
    ]
    found = compare(store, runs).tables[0].frontier
    cost, right = found.points[1].cost, found.points[1].per_correct
    made = stratified_mean(costs, bounded=False)
    assert (cost.low, cost.high) == (pytest.approx(made.low, rel=0.1), pytest.approx(made.high, rel=0.1))
    assert cost.high - cost.value > 1.5 * (cost.value - cost.low)
    assert right.high - right.value > 1.5 * (right.value - right.low)


def test_a_price_without_a_gain_has_no_upper_bound(store):
    asked = questions(60)
    runs = [
        add_run(store, "cheap", asked, [1, 0] * 30, cost_uncached=0.01),
        add_run(store, "good", asked, [0, 1] * 29 + [1, 1], cost_uncached=0.02),
    ]
    (tradeoff,) = compare(store, runs).tables[0].frontier.tradeoffs
    assert tradeoff.price.value == pytest.approx(0.6)
    assert (tradeoff.price.high, tradeoff.price.few) == (None, False)


def test_few_questions_have_figures_without_intervals(store):
    asked = questions(49)
    runs = [
        add_run(store, "cheap", asked, [1, 0] * 24 + [0], cost_uncached=[0.01, 0.02] * 24 + [0.01]),
        add_run(store, "good", asked, [1, 1] * 24 + [0], cost_uncached=0.03),
    ]
    comparison = compare(store, runs)
    found = comparison.tables[0].frontier
    (tradeoff,) = found.tradeoffs
    for one in (
        *(point.cost for point in found.points),
        *(point.per_correct for point in found.points),
        tradeoff.price,
    ):
        assert one.value > 0
        assert (one.low, one.high, one.few) == (None, None, True)
    assert [point.share for point in found.points] == [None, None]
    shown, prices = frontier_tables(found, "strict", agent_names(comparison))
    assert [row.count("too few") for row in (*shown.rows, *prices.rows)] == [3, 3, 1]


def test_unknown_costs_are_left_out_and_never_zero(store):
    asked = questions(4)
    runs = [
        add_run(store, "cheap", asked, [1, 0, 0, 0], cost_uncached=0.01),
        add_run(store, "good", asked, [1, 1, 0, 0], cost_uncached=[0.1, None, 0.1, 0.1]),
    ]
    found = compare(store, runs, cost="cost_uncached").tables[0].frontier
    assert [point.agent for point in found.points] == ["cheap"]
    assert found.left_out == ("good-run",)
    # Tokens are known of both, so they are what is counted where nothing is named.
    found = compare(store, runs).tables[0].frontier
    assert found.measure == "tokens"
    assert found.points[0].cost.value == pytest.approx((110 + 210 + 310 + 410) / 4)


def test_where_all_is_free_nothing_is_priced(store):
    runs = [add_run(store, name, questions(2), [1, 0], cost_uncached=0.0) for name in ("cheap", "good")]
    assert compare(store, runs).tables[0].frontier.measure == "tokens"
    assert compare(store, runs[:1]).tables[0].frontier is None


def test_free_runs_are_drawn_when_dollars_are_asked_for(store):
    runs = [add_run(store, name, questions(2), [1, 0], cost_uncached=0.0) for name in ("cheap", "good")]
    found = compare(store, runs, cost="cost_uncached").tables[0].frontier
    cost = across_axis(picture(found))
    assert cost.position_of(0.0) == 0.0
    assert "$0.00" in draw(picture(found)).plain
    assert [point.on_frontier for point in found.points] == [True, True]
    assert found.tradeoffs == ()


def test_attempts_not_made_cost_nothing_and_nothing_right_has_no_price(store):
    runs = [add_run(store, name, questions(2), [0, ...], cost_uncached=0.4) for name in ("cheap", "good")]
    point, _ = compare(store, runs, cost="cost_uncached").tables[0].frontier.points
    assert point.cost.value == pytest.approx(0.2)
    assert point.per_correct.value is None


def test_what_was_paid_and_the_full_price_are_two_measures(store):
    run = add_run(store, "half", questions(2), [1, 0], cost_uncached=[0.4, 0.6])
    attempts = [replace(attempt, cost_paid=attempt.cost_uncached / 4) for attempt in store.attempts(run)]
    store.add_attempts(run, attempts, [])
    other = add_run(store, "other", questions(2), [1, 1], cost_uncached=0.9)
    for name, mean in (("paid", 0.125), ("full_price", 0.5)):
        points = compare(store, [run, other], cost=frontier_measure(name)).tables[0].frontier.points
        assert {point.run: point.cost.value for point in points}[run.id] == pytest.approx(mean)


def test_measures_are_named():
    assert cost_measure("auto") is None
    assert cost_measure("model_calls") == "model_calls"
    with pytest.raises(UserError, match=r"'token' is unknown\. Did you mean 'tokens'"):
        cost_measure("token")


def test_the_svg_is_xml_with_bars_and_inert_names(store):
    asked = questions(60)
    runs = [
        add_run(store, "<script>alert(1)</script>", asked, [1, 0, 0] * 20, cost_uncached=[0.01, 0.02] * 30),
        add_run(store, "b", asked, [1, 1, 0] * 20, cost_uncached=[0.02, 0.03] * 30),
    ]
    comparison = compare(store, runs)
    frontier, names = comparison.tables[0].frontier, agent_names(comparison)
    drawn = svg(frontier_picture(frontier, "strict", names))
    root = ET.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    assert not list(root.iter(f"{space}script"))
    assert len([path for path in root.iter(f"{space}path") if (path.get("class") or "").startswith("span ")]) == 4
    assert "<script>alert(1)</script>" in "".join(root.itertext())


def test_more_of_a_score_that_counts_faults_is_not_worth_paying_for(store):
    runs = [add_run(store, name, questions(2), [1, 0], scorer="contradiction") for name in ("cheap", "good")]
    assert compare(store, runs).tables[0].frontier is None
