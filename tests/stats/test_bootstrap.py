"""The bootstrap of scores that are not right or wrong: beside scipy, by hand, and from which data on there is one."""

import math
import time
import warnings
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap
from scipy.stats import t as student
from sklearn.metrics import balanced_accuracy_score

from ragrounds.evals.stats import Estimate, combined_mean, group_difference, paired_difference, stratified_mean
from ragrounds.evals.stats import bootstrap as module
from ragrounds.evals.stats.bootstrap import (
    bootstrap_holds,
    effective_clusters,
    enough_clusters,
    percentile_interval,
    resampled,
    studentised_interval,
)

SIZES = {"mmlu": 1_089, "medqa": 1_273, "medmcqa": 4_183, "pubmedqa": 500, "bioasq": 618}
ONE = np.ones(1)


def rows(values, sizes=None):
    return np.column_stack([np.asarray(values, float), np.ones(len(values)) if sizes is None else sizes])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1))
def test_the_unweighted_mean_equals_balanced_accuracy(pairs):
    strata, values = [name for name, _ in pairs], [float(right) for _, right in pairs]
    # Balanced accuracy is the mean over true classes of the share predicted right: strata as classes.
    predicted = [name if right else "wrong" for name, right in zip(strata, values, strict=True)]
    with warnings.catch_warnings(action="ignore"):
        expected = balanced_accuracy_score(strata, predicted)
    assert stratified_mean(values, strata).value == pytest.approx(expected)


def test_the_interval_is_scipys_a_little_wider():
    values = np.random.default_rng(1).random(400)
    ours = stratified_mean(values.tolist(), seed=1)
    theirs = bootstrap((values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1))
    assert ours.method == "bootstrap"
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.003)


def test_ends_are_further_out_by_students_t_and_by_the_spread_lost():
    draws = np.random.default_rng(2).normal(size=400_000)
    low, high = percentile_interval(draws, 0.95, clusters=12, strata=2)
    beyond = math.sqrt(12 / 10) * student.ppf(0.975, 10)
    assert (low, high) == pytest.approx((-beyond, beyond), abs=0.03)
    assert percentile_interval(np.arange(101.0), 0.5, 10**9, 1) == pytest.approx((25, 75), abs=0.01)


@pytest.mark.parametrize(("numbers", "holds"), [(50, True), (49, False)])
def test_fifty_in_all_are_enough(numbers, holds):
    values = [number / 100 for number in range(numbers)]
    made = stratified_mean(values)
    assert (made.method == "bootstrap") is holds
    assert (made.low is not None) is holds
    assert (made.high is not None) is holds
    assert made.value == pytest.approx(sum(values) / numbers)
    assert made.n == numbers
    assert enough_clusters([""] * numbers, [""] * numbers) is holds
    # Two of one cluster count once.
    clustered = stratified_mean(values, clusters=["c", "c", *[""] * (numbers - 2)])
    assert clustered.method == "too few"
    assert not enough_clusters([""] * numbers, ["c", "c", *[""] * (numbers - 2)])


def test_without_resamples_there_is_a_figure_and_no_interval():
    figure = Estimate(value=0.5, n=60, low=None, high=None, level=0.9, method="too few")
    assert stratified_mean([0.25, 0.75] * 30, resamples=0, level=0.9) == figure


def test_a_question_without_a_cluster_name_is_not_left_out():
    with pytest.raises(ValueError, match="shorter"):
        enough_clusters(["a"] * 60, [""] * 59)


@pytest.mark.parametrize(("small", "holds"), [(10, True), (9, False)])
def test_ten_of_each_dataset_are_enough(small, holds):
    strata = ["a"] * 60 + ["b"] * small
    values = [number / 100 for number in range(60 + small)]
    assert (stratified_mean(values, strata).low is not None) is holds
    assert enough_clusters(strata, [""] * len(strata)) is holds


@pytest.mark.parametrize(("unlike", "holds"), [(10, True), (9, False), (0, False)])
def test_scores_that_are_nearly_all_alike_have_no_interval(unlike, holds):
    values = [0.5] * (100 - unlike) + [0.25 + number / 100 for number in range(unlike)]
    assert (stratified_mean(values).low is not None) is holds
    assert bootstrap_holds([rows(values)]) is holds


def test_clusters_of_one_mean_are_alike_whatever_their_sizes():
    sizes = np.arange(1.0, 61.0)
    assert not bootstrap_holds([rows(sizes / 2, sizes)])


def test_clusters_of_no_size_are_alike():
    assert not bootstrap_holds([rows([0.0] * 60, np.arange(60) % 2)])


def test_what_may_be_shown_is_shown_of_differences_too():
    first, second = np.random.default_rng(3).random((2, 60)).tolist()
    assert paired_difference(first, second).method == "bootstrap"
    assert paired_difference(first[:49], second[:49]).low is None


def test_costs_are_never_right_or_wrong():
    # Calls of 0 and 1 are no shares of right answers.
    made = stratified_mean([0.0, 1.0] * 10, bounded=False)
    assert (made.low, made.method) == (None, "too few")
    assert stratified_mean([0.0, 1.0] * 10).method == "adjusted Wald"
    assert stratified_mean([0.0, 1.0] * 25, bounded=False).method == "bootstrap"


def test_a_difference_of_costs_has_no_bound():
    first, second = np.random.default_rng(4).lognormal(size=(2, 60)).tolist()
    for sides in ((first, second), (second, first)):
        difference = paired_difference(*sides, bounded=False)
        assert difference.low < difference.value < difference.high


def test_scores_outside_of_shares_are_not_right_or_wrong():
    for values in ([2.0, 1.0, 0.0], [-1.0, 1.0, 0.0], [0.5, 1.0, 0.0], [0.4, 0.2, 0.8]):
        assert stratified_mean(values).method == "too few"
    assert stratified_mean([0.5, 1.0, 0.0], attempts=2).method == "adjusted Wald"
    assert stratified_mean([0.4, 0.2, 0.8], attempts=5).method == "adjusted Wald"
    assert stratified_mean([0.4, 0.2, 0.8], attempts=4).method == "too few"


def test_strata_are_drawn_apart_and_weighted():
    strata = [rows([0.25] * 5), rows([0.75] * 8)]
    assert resampled(strata, np.array([0.5, 0.5]), 20, 0).draws.tolist() == pytest.approx([0.5] * 20)
    assert resampled(strata, np.array([-1.0, 1.0]), 20, 0).draws.tolist() == pytest.approx([0.5] * 20)


def test_two_clusters_by_hand():
    # A resample's mean is 0, 1/2 or 1, with chances 1/4, 1/2, 1/4.
    draws = resampled([rows([0, 1])], ONE, 40_000, 0).draws
    assert [round(float((draws == value).mean()), 2) for value in (0, 0.5, 1)] == [0.25, 0.5, 0.25]
    # x holds 1 and 1, y holds 0: x twice gives 1, x and y 2/3, y twice 0.
    draws = resampled([rows([2, 0], [2, 1])], ONE, 4_000, 0).draws
    assert sorted({round(value, 6) for value in draws.tolist()}) == [0, 0.666667, 1]
    # Five clusters of one kind and one of another are drawn by counts.
    counted = resampled([rows([2, *[0] * 5], [2, *[1] * 5])], ONE, 40_000, 0).draws
    assert {round(value * 7, 6) for value in np.unique(counted)[:2]} == {0, 2}
    assert float((counted == 0).mean()) == pytest.approx((5 / 6) ** 6, abs=0.01)


def test_many_different_clusters_are_drawn_one_by_one():
    # x (.1, .2) and y (.9): .15, .4 or .9.
    draws = resampled([rows([0.3, 0.9], [2, 1])], ONE, 400, 0).draws
    assert sorted({round(value, 6) for value in draws.tolist()}) == [0.15, 0.4, 0.9]


def test_errors_of_replicates_by_hand():
    # Of 0, 1 and 2 (mean 1, each a third of its distance away): of draws a, b, c the error is their spread / sqrt(3).
    made = resampled([rows([0, 1, 2])], ONE, 50, 0)
    assert made.error == pytest.approx(np.std([0, 1, 2]) / math.sqrt(3))
    spreads = {0.0: [0.0], 1 / 3: [np.std([0, 0, 1])], 2 / 3: [np.std([0, 0, 2]), np.std([0, 1, 1])]}
    for value, spread in spreads.items():
        found = made.errors[np.isclose(made.draws, value)]
        assert {round(float(one), 6) for one in found} <= {round(float(one) / math.sqrt(3), 6) for one in spread}
    # Five clusters of one kind and one of another, drawn by counts; and clusters of different sizes.
    counted = resampled([rows([2, *[0] * 5])], np.array([0.5]), 50, 0)
    often = counted.draws * 6
    assert counted.errors == pytest.approx(0.5 * 2 * np.sqrt(often / 6 * (1 - often / 6)) / math.sqrt(6))
    uneven = resampled([rows([2, 0], [2, 1])], ONE, 50, 0)
    assert uneven.error == pytest.approx(math.sqrt(2) * 2 / 9)
    assert set(np.round(uneven.errors, 6)) == {0.0, round(math.sqrt(2) * 2 / 9, 6)}


def test_an_end_is_the_further_one_of_two():
    draws, errors = np.linspace(0, 2, 1_001), np.linspace(0.5, 1.5, 1_001)
    low, high = studentised_interval(1.0, 1.0, draws, errors, 0.95, 10**9, 1)
    apart = np.quantile((draws - 1) / errors, [0.025, 0.975])
    plain = percentile_interval(draws, 0.95, 10**9, 1)
    assert (low, high) == (pytest.approx(min(1 - apart[1], plain[0])), pytest.approx(max(1 - apart[0], plain[1])))
    assert high > plain[1] + 0.5
    # Replicates of clusters that are all alike: as far off as can be, never a fault.
    with warnings.catch_warnings(action="error"):
        low, high = studentised_interval(1.0, 1.0, draws, np.zeros(1_001), 0.95, 99, 1)
        in_cents = studentised_interval(100.0, 100.0, 100 * draws, np.zeros(1_001), 0.95, 99, 1)
    assert high > 1e6
    assert in_cents == pytest.approx((100 * low, 100 * high))


def test_costs_with_a_heavy_tail_are_held():
    # 27 dear questions in ten thousand make a tenth of the mean: percentiles alone held it in 83 of 100 samples.
    generator, inside = np.random.default_rng(11), 0
    for sample in generator.lognormal(0, 1.5, (150, 50)):
        made = stratified_mean(sample.tolist(), bounded=False, resamples=500)
        inside += made.low <= math.exp(1.125) <= made.high
        assert made.low >= 0
    assert inside / 150 > 0.88


def test_ends_stay_where_means_can_be():
    shares = [0.02] * 45 + [0.9] * 10
    assert stratified_mean(shares).low >= 0
    assert stratified_mean([1 - one for one in shares]).high <= 1
    assert combined_mean([shares], [-1.0], [""] * 55, constant=0.5).high <= 0.5
    assert stratified_mean([-1000.0] + [0.5] * 30 + [0.25] * 30, bounded=False).low < -10


def test_a_few_clusters_that_hold_most_questions_have_no_interval():
    values = np.random.default_rng(12).random(200).tolist()
    names = ["x"] * 120 + [""] * 80
    assert effective_clusters(np.array([120.0, *[1.0] * 80])) == pytest.approx(200**2 / (120**2 + 80))
    assert effective_clusters(np.zeros(2)) == 0
    assert stratified_mean(values, clusters=names).method == "too few"
    assert not enough_clusters([""] * 200, names)
    for largest, enough in ((46, True), (47, False)):  # 110² / (46² + 16² + 48) = 5
        assert enough_clusters([""] * (largest + 64), ["x"] * largest + ["y"] * 16 + [""] * 48) is enough
    few = ["x"] * 50 + [""] * 150
    even, uneven = stratified_mean(values), stratified_mean(values, clusters=few)
    assert (uneven.method, enough_clusters([""] * 200, few)) == ("bootstrap", True)
    assert uneven.high - uneven.low > 1.05 * (even.high - even.low)


def test_clusters_widen_the_interval():
    generator = np.random.default_rng(3)
    values = np.repeat(generator.random(100), 4)
    names = [f"c{number // 4}" for number in range(400)]
    alone, together = stratified_mean(values.tolist()), stratified_mean(values.tolist(), clusters=names)
    assert together.high - together.low == pytest.approx(2 * (alone.high - alone.low), rel=0.1)
    assert together.value == pytest.approx(alone.value)


def test_the_paired_difference_cancels_what_both_share():
    generator = np.random.default_rng(4)
    first = generator.random(1_000)
    second = np.minimum(1.0, first + np.where(np.arange(1_000) < 50, 0.3, 0.0))
    made = paired_difference(first.tolist(), second.tolist())
    alone = stratified_mean(first.tolist())
    assert made.value == pytest.approx((second - first).mean())
    assert made.high - made.low < 0.3 * (alone.high - alone.low)
    other = paired_difference(second.tolist(), first.tolist())
    assert other.value == pytest.approx(-made.value)


def test_equal_seeds_give_equal_intervals():
    generator = np.random.default_rng(9)
    first, second, strata = generator.random(60).tolist(), generator.random(60).tolist(), ["a", "b"] * 30
    assert stratified_mean(first, strata, seed=5) == stratified_mean(first, strata, seed=5)
    assert stratified_mean(first, strata, seed=5) != stratified_mean(first, strata, seed=6)
    assert stratified_mean(first, strata) == stratified_mean(first, strata, resamples=10_000, seed=0, level=0.95)
    for options in ({}, {"resamples": 300}, {"level": 0.8}, {"seed": 7}):
        made = paired_difference(first, second, strata, **options)
        assert made == combined_mean([first, second], [-1.0, 1.0], strata, **options)
        assert (made == paired_difference(first, second, strata)) == (options == {})
    groups = [group_difference(first, second, seed=seed) for seed in (5, 5, 6)]
    assert groups[0] == groups[1] != groups[2]


@pytest.mark.parametrize("values", [[0.0, 0.5] * 30, [number / 60 for number in range(60)]])
def test_what_is_held_at_a_time_changes_nothing(monkeypatch, values):
    whole = stratified_mean(values, resamples=100)
    for held in (60 * 7, 1):
        monkeypatch.setattr(module, "_DRAWN_AT_ONCE", held)
        assert stratified_mean(values, resamples=100) == whole


def test_a_whole_benchmark_is_quick():
    generator = np.random.default_rng(7)
    strata = [name for name, size in SIZES.items() for _ in range(size)]
    clusters = [f"c{number // 2}" if number < 200 else "" for number in range(len(strata))]
    scores = np.round(generator.random(len(strata)), 1).tolist()
    before = time.process_time()
    stratified_mean(scores, strata, clusters)
    assert time.process_time() - before < 1


def test_both_ways_of_drawing_agree():
    generator = np.random.default_rng(8)
    few = generator.integers(0, 5, 600) / 4
    # A tiny jitter makes every value different, so clusters are drawn one by one.
    many = few + generator.random(600) * 1e-6
    names = [f"c{number // 3}" if number < 90 else "" for number in range(600)]
    counted = stratified_mean(few.tolist(), clusters=names)
    drawn = stratified_mean(many.tolist(), clusters=names)
    assert (drawn.low, drawn.high) == pytest.approx((counted.low, counted.high), abs=0.004)


def test_a_level_has_its_quantiles():
    made = stratified_mean([number / 1000 for number in range(1000)], level=0.5)
    spread = np.std(np.arange(1000) / 1000) / math.sqrt(1000)
    assert made.high - made.value == pytest.approx(NormalDist().inv_cdf(0.75) * spread, rel=0.05)
