"""Σ numerators / Σ denominators: worked out by hand where two clusters leave few resamples, and beside scipy."""

import numpy as np
import pytest
from scipy.stats import bootstrap

from ragrounds.evals.stats import bootstrap as module
from ragrounds.evals.stats import ratio_of_sums


def test_two_questions_by_hand():
    # A resample is (1, 2) twice: 1/2, both: 4/6, or (3, 4) twice: 3/4, with chances 1/4, 1/2, 1/4.
    made = ratio_of_sums([1, 3], [2, 4], seed=3)
    assert (made.value, made.n, made.level) == (pytest.approx(4 / 6), 2, 0.95)
    assert (made.low, made.high) == (0.5, 0.75)
    mean = (1 / 2 + 2 * 4 / 6 + 3 / 4) / 4
    variance = ((1 / 2 - mean) ** 2 + 2 * (4 / 6 - mean) ** 2 + (3 / 4 - mean) ** 2) / 4
    assert made.error == pytest.approx(variance**0.5, rel=0.02)
    middle = ratio_of_sums([1, 3], [2, 4], level=0.4)  # its ends are the quantiles 0.3 and 0.7, both within the half
    assert (middle.low, middle.high, middle.level) == (pytest.approx(4 / 6), pytest.approx(4 / 6), 0.4)


def test_the_interval_is_scipys():
    generator = np.random.default_rng(1)
    denominators = generator.integers(1, 6, 300)
    numerators = generator.binomial(denominators, 0.3)
    ours = ratio_of_sums(numerators.tolist(), denominators.tolist(), seed=1)
    theirs = bootstrap(
        (numerators, denominators), lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis), paired=True,
        vectorized=True, n_resamples=10_000, method="percentile", rng=generator,
    )  # fmt: skip
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.003)
    assert ours.error == pytest.approx(theirs.standard_error, rel=0.05)


def test_questions_of_a_cluster_are_drawn_together_and_nameless_ones_alone():
    # As in the first test: the two of "a" add up to (1, 2).
    assert ratio_of_sums([1, 0, 3], [1, 1, 4], ["a", "a", "b"], seed=3).low == 0.5
    alone = ratio_of_sums([1, 0, 3], [1, 1, 4], ["", "", "b"])
    assert alone.low == 0.0  # (0, 1) three times over: one of 27 resamples
    assert alone == ratio_of_sums([1, 0, 3], [1, 1, 4])


def test_resamples_without_anything_to_divide_by_are_left_out():
    made = ratio_of_sums([1, 0], [2, 0])
    assert (made.value, made.low, made.high, made.error) == (0.5, 0.5, 0.5, 0.0)


def test_negative_sums_of_denominators_are_taken_as_they_are():
    made = ratio_of_sums([1, 1], [-2, -2])
    assert (made.value, made.low, made.high) == (-0.5, -0.5, -0.5)


def test_a_single_resample_has_no_error():
    made = ratio_of_sums([1, 3], [2, 4], resamples=1)
    assert made.error == 0.0
    assert made.low == made.high
    assert made.low in (0.5, pytest.approx(4 / 6), 0.75)
    # Of two the standard deviation is their distance by the root of two.
    pair = ratio_of_sums(range(1, 30), range(31, 60), resamples=2, level=1 - 1e-12)
    assert pair.error == pytest.approx((pair.high - pair.low) / 2**0.5)
    assert pair.error > 0


def test_equal_seeds_give_equal_intervals_and_others_others():
    values = list(range(1, 60)), list(range(60, 1, -1))
    assert ratio_of_sums(*values, resamples=200) == ratio_of_sums(*values, resamples=200, seed=0)
    assert ratio_of_sums(*values, resamples=200) != ratio_of_sums(*values, resamples=200, seed=1)
    assert ratio_of_sums(*values) == ratio_of_sums(*values, resamples=10_000)


def test_what_is_held_at_a_time_changes_nothing(monkeypatch):
    values = list(range(1, 20)), list(range(20, 1, -1))
    whole = ratio_of_sums(*values, resamples=100)
    monkeypatch.setattr(module, "_DRAWN_AT_ONCE", 19 * 7)  # seven resamples at a time, two in the last part
    assert ratio_of_sums(*values, resamples=100) == whole
    monkeypatch.setattr(module, "_DRAWN_AT_ONCE", 1)  # less than one holds: one at a time
    assert ratio_of_sums(*values, resamples=100) == whole


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([], []), "numerators and denominators must have one entry a question, and one question or more"),
        (([1.0], [1.0, 2.0]), "numerators and denominators must have one entry a question, and one question or more"),
        (([1.0], [float("inf")]), "every value must be finite, and the denominators must not add up to 0"),
        (([float("nan")], [1.0]), "every value must be finite, and the denominators must not add up to 0"),
        (([1.0, 1.0], [1.0, -1.0]), "every value must be finite, and the denominators must not add up to 0"),
    ],
)
def test_bad_values(arguments, said):
    with pytest.raises(ValueError, match=f"^{said}$"):
        ratio_of_sums(*arguments)
