"""Stratified means of so few clusters that every resample can be written down."""

import numpy as np
import pytest

from ragrounds.evals.stats import bootstrap as module
from ragrounds.evals.stats import paired_difference, stratified_mean


def test_two_questions_by_hand():
    # A resample's mean is 0, 1/2 or 1, with chances 1/4, 1/2, 1/4: its standard deviation is sqrt(1/8).
    made = stratified_mean([0.0, 1.0], ["a", "a"])
    assert (made.value, made.n, made.low, made.high, made.level) == (0.5, 2, 0.0, 1.0, 0.95)
    assert made.error == pytest.approx(0.125**0.5, rel=0.02)
    inner = stratified_mean([0.0, 1.0], ["a", "a"], level=0.4)
    assert (inner.low, inner.high, inner.level) == (0.5, 0.5, 0.4)


def test_strata_weigh_the_same_however_large():
    made = stratified_mean([1.0, 0.0, 0.0, 0.0], ["a", "b", "b", "b"])
    assert (made.value, made.low, made.high, made.error) == (0.5, 0.5, 0.5, 0.0)
    # One of two right in a, all in b: the mean is 1/2, 3/4 or 1.
    other = stratified_mean([1.0, 0.0, 1.0], ["a", "a", "b"])
    assert (other.value, other.low, other.high) == (0.75, 0.5, 1.0)


def test_clusters_of_different_size_weigh_by_their_questions():
    # x holds 1 and 1, y holds 0: x twice gives 1, x and y 2/3, y twice 0.
    made = stratified_mean([1.0, 1.0, 0.0], ["a"] * 3, ["x", "x", "y"])
    assert (made.value, made.low, made.high) == (pytest.approx(2 / 3), 0.0, 1.0)
    inner = stratified_mean([1.0, 1.0, 0.0], ["a"] * 3, ["x", "x", "y"], level=0.4)
    assert (inner.low, inner.high) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    # Five clusters of one kind and one of another are drawn by counts: 2/7 where each is drawn as often as it is there.
    names = ["x", "x", *"bcdef"]
    counted = stratified_mean([1.0, 1.0, *[0.0] * 5], ["a"] * 7, names)
    assert counted.value == pytest.approx(2 / 7)
    assert counted.high == pytest.approx(6 / 9)  # x three times among six clusters: 6 of 9 questions
    # A name in two datasets is two clusters: nothing varies in either.
    apart = stratified_mean([1.0, 0.0], ["a", "b"], ["x", "x"])
    assert (apart.low, apart.high) == (0.5, 0.5)


def test_a_single_resample_has_no_error():
    made = stratified_mean([0.0, 1.0], ["a", "a"], resamples=1)
    assert made.error == 0.0
    assert made.low == made.high
    # Of two the standard deviation is their distance by the root of two.
    pair = stratified_mean([number / 60 for number in range(60)], ["a"] * 60, resamples=2, level=1 - 1e-12)
    assert pair.error == pytest.approx((pair.high - pair.low) / 2**0.5)
    assert pair.error > 0


def test_a_difference_by_hand():
    # Second minus first: -1, 0 in a; 1 in b.
    made = paired_difference([1.0, 1.0, 0.0], [0.0, 1.0, 1.0], ["a", "a", "b"])
    assert (made.value, made.n, made.low, made.high) == (0.25, 3, 0.0, 0.5)
    together = paired_difference([1.0, 1.0, 0.0], [0.0, 1.0, 1.0], ["a", "a", "b"], ["x", "x", ""])
    assert (together.low, together.high) == (0.25, 0.25)
    with pytest.raises(ValueError, match="same questions on both sides, got 2 and 1"):
        paired_difference([1.0, 1.0], [1.0], ["x", "x"])


def test_a_difference_takes_resamples_level_and_seed():
    generator = np.random.default_rng(9)
    first, second, strata = generator.random(40).tolist(), generator.random(40).tolist(), ["a", "b"] * 20
    difference = [other - one for one, other in zip(first, second, strict=True)]
    for options in ({}, {"resamples": 300}, {"level": 0.8}, {"seed": 7}):
        made = paired_difference(first, second, strata, **options)
        assert made == stratified_mean(difference, strata, **options)
        assert options == {} or made != paired_difference(first, second, strata)
    assert stratified_mean(first, strata) == stratified_mean(first, strata, resamples=10_000, seed=0)
    assert paired_difference(first, second, strata) == paired_difference(
        first, second, strata, resamples=10_000, level=0.95, seed=0
    )


@pytest.mark.parametrize("values", [[0.0, 1.0] * 30, [number / 60 for number in range(60)]])
def test_what_is_held_at_a_time_changes_nothing(monkeypatch, values):
    whole = stratified_mean(values, ["a"] * 60, resamples=100)
    monkeypatch.setattr(module, "_DRAWN_AT_ONCE", 60 * 7)
    assert stratified_mean(values, ["a"] * 60, resamples=100) == whole
    monkeypatch.setattr(module, "_DRAWN_AT_ONCE", 1)
    assert stratified_mean(values, ["a"] * 60, resamples=100) == whole


def test_many_different_clusters_of_different_sizes_weigh_by_their_questions():
    # Drawn one by one: x (.1, .2) and y (.9): .15, .4 or .9.
    made = stratified_mean([0.1, 0.2, 0.9], ["a"] * 3, ["x", "x", "y"])
    assert (made.low, made.high) == (pytest.approx(0.15), pytest.approx(0.9))
    inner = stratified_mean([0.1, 0.2, 0.9], ["a"] * 3, ["x", "x", "y"], level=0.4)
    assert (inner.low, inner.high) == (pytest.approx(0.4), pytest.approx(0.4))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([], []), "values, strata and clusters must have one entry a value, and one value or more"),
        (([1.0], []), "values, strata and clusters must have"),
        (([1.0], ["a"], []), "values, strata and clusters must have"),
        (([1.0, float("inf")], ["a", "a"]), "a value is not finite; leave missing scores out and count them"),
    ],
)
def test_bad_values_are_named(arguments, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        stratified_mean(*arguments)
