import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap
from sklearn.metrics import balanced_accuracy_score

from ragrounds.evals.stats import macro_error, paired_difference, stratified_mean

SIZES = {"mmlu": 1_089, "medqa": 1_273, "medmcqa": 4_183, "pubmedqa": 500, "bioasq": 618}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1))
@settings(deadline=None)
def test_the_unweighted_mean_equals_balanced_accuracy(pairs):
    strata, values = [name for name, _ in pairs], [float(right) for _, right in pairs]
    # Balanced accuracy is the mean over true classes of the share predicted right: strata as classes.
    predicted = [name if right else "wrong" for name, right in zip(strata, values, strict=True)]
    with warnings.catch_warnings(action="ignore"):
        expected = balanced_accuracy_score(strata, predicted)
    made = stratified_mean(values, strata, resamples=50)
    assert made.value == pytest.approx(expected)
    assert made.low - 1e-12 <= made.high


@pytest.mark.parametrize("kind", ["binary", "continuous"])
def test_the_interval_is_scipys(kind):
    generator = np.random.default_rng(1)
    values = generator.random(400) if kind == "continuous" else (generator.random(400) < 0.7).astype(float)
    ours = stratified_mean(values.tolist(), ["x"] * 400, seed=1)
    theirs = bootstrap((values,), np.mean, n_resamples=10_000, method="percentile", rng=generator)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.004)
    assert ours.error == pytest.approx(theirs.standard_error, rel=0.05)


def test_strata_are_drawn_apart():
    values = [1.0] * 50 + [0.0] * 50
    made = stratified_mean(values, ["a"] * 50 + ["b"] * 50)
    assert (made.value, made.low, made.high) == (0.5, 0.5, 0.5)


def test_the_error_follows_from_the_datasets():
    generator = np.random.default_rng(2)
    strata = [name for name, size in SIZES.items() for _ in range(size)]
    values = (generator.random(len(strata)) < 0.6).astype(float)
    each = [np.std(values[[s == name for s in strata]]) / size**0.5 for name, size in SIZES.items()]
    assert stratified_mean(values.tolist(), strata).error == pytest.approx(macro_error(each), rel=0.05)


def test_clusters_widen_the_interval():
    generator = np.random.default_rng(3)
    values = np.repeat((generator.random(100) < 0.5).astype(float), 4)
    names = [f"c{number // 4}" for number in range(400)]
    alone = stratified_mean(values.tolist(), ["x"] * 400)
    together = stratified_mean(values.tolist(), ["x"] * 400, names)
    assert together.error == pytest.approx(2 * alone.error, rel=0.1)
    assert together.value == alone.value


def test_empty_cluster_names_stand_alone():
    values = [0.0, 1.0, 1.0, 0.0, 1.0]
    assert stratified_mean(values, ["x"] * 5, [""] * 5) == stratified_mean(values, ["x"] * 5)


def test_the_paired_difference_cancels_what_both_share():
    generator = np.random.default_rng(4)
    first = (generator.random(1_000) < 0.6).astype(float)
    second = first.copy()
    second[:50] = 1.0
    made = paired_difference(first.tolist(), second.tolist(), ["x"] * 1_000)
    assert made.value == pytest.approx((second - first).mean())
    assert made.error < stratified_mean(first.tolist(), ["x"] * 1_000).error
    other = paired_difference(second.tolist(), first.tolist(), ["x"] * 1_000)
    assert other.value == pytest.approx(-made.value)


def test_equal_seeds_give_equal_intervals():
    values, strata = [0.0, 1.0, 1.0, 1.0] * 30, ["a", "b", "b", "a"] * 30
    assert stratified_mean(values, strata, seed=5) == stratified_mean(values, strata, seed=5)
    assert stratified_mean(values, strata, seed=5) != stratified_mean(values, strata, seed=6)


def test_the_coverage_is_near_its_level():
    generator = np.random.default_rng(6)
    inside = 0
    for trial in range(200):
        values = (generator.random(300) < 0.7).astype(float)
        made = stratified_mean(values.tolist(), ["x"] * 300, resamples=500, seed=trial)
        inside += made.low <= 0.7 <= made.high
    assert 180 <= inside <= 199


def test_a_whole_benchmark_is_quick():
    generator = np.random.default_rng(7)
    strata = [name for name, size in SIZES.items() for _ in range(size)]
    clusters = [f"c{number // 2}" if number < 200 else "" for number in range(len(strata))]
    right = (generator.random(len(strata)) < 0.6).astype(float).tolist()
    before = time.process_time()
    stratified_mean(right, strata, clusters)
    assert time.process_time() - before < 1


def test_both_ways_of_drawing_agree():
    generator = np.random.default_rng(8)
    few = generator.integers(0, 3, 600) / 2
    # A tiny jitter makes every value different, so clusters are drawn one by one.
    many = few + generator.random(600) * 1e-9
    names = [f"c{number // 3}" if number < 90 else "" for number in range(600)]
    counted = stratified_mean(few.tolist(), ["x"] * 600, names)
    drawn = stratified_mean(many.tolist(), ["x"] * 600, names)
    assert (drawn.low, drawn.high) == pytest.approx((counted.low, counted.high), abs=0.004)
    assert drawn.error == pytest.approx(counted.error, rel=0.05)


@pytest.mark.parametrize("arguments", [([], []), ([1.0], []), ([float("nan")], ["x"]), ([1.0], ["x"], ["a", "b"])])
def test_bad_values(arguments):
    with pytest.raises(ValueError):
        stratified_mean(*arguments)


def test_sides_of_different_length():
    with pytest.raises(ValueError, match="same questions"):
        paired_difference([1.0], [1.0, 0.0], ["x"])
