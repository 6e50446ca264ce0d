"""Figures of a whole corpus: ratios of sums, single and paired, against figures that do not come from the code."""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import bootstrap

from ragrounds.evals.stats import combined_ratio, stratified_mean


def texts(count, seed, hit=0.7):
    """2 TP, and 2 TP + FP + FN, of made-up texts, some of them without anything to find."""
    drawn = np.random.default_rng(seed)
    wanted = drawn.geometric(0.3, count) - 1
    right = drawn.binomial(wanted, hit)
    return 2.0 * right, 2.0 * right + drawn.poisson(0.5, count) + wanted - right


def test_values_by_hand():
    made = combined_ratio([[2, 0, 4]], [[3, 1, 4]], [1.0], ["", "", ""])
    assert (made.value, made.low, made.method) == (6 / 8, None, "too few")
    # Two datasets: the mean of 2/4 and 4/4; a constant is added.
    both = combined_ratio([[2, 0, 4]], [[3, 1, 4]], [1.0], ["a", "a", "b"], constant=-0.5)
    assert both.value == pytest.approx(0.75 - 0.5)
    # Two epochs of one run: the mean of 1/2 and 3/4.
    epochs = combined_ratio([[1, 0], [2, 1]], [[1, 1], [2, 2]], [0.5, 0.5], ["", ""])
    assert epochs.value == pytest.approx((1 / 2 + 3 / 4) / 2)
    difference = combined_ratio([[1, 0], [2, 1]], [[1, 1], [2, 2]], [-1.0, 1.0], ["", ""])
    assert difference.value == pytest.approx(3 / 4 - 1 / 2)


def test_a_dataset_with_nothing_to_count_is_left_out():
    made = combined_ratio([[1, 0]], [[2, 0]], [1.0], ["a", "b"])
    assert made.value == 0.5
    assert combined_ratio([[0, 0]], [[0, 0]], [1.0], ["a", "b"]) is None


def test_lengths_that_differ_are_refused():
    with pytest.raises(ValueError, match="same columns"):
        combined_ratio([[1.0], [1.0]], [[1.0]], [1.0], [""])
    with pytest.raises(ValueError, match="same columns"):
        combined_ratio([[1.0]], [[1.0], [1.0]], [1.0], [""])
    with pytest.raises(ValueError, match="same columns"):
        combined_ratio([[1.0]], [[1.0]], [1.0, 1.0], [""])
    with pytest.raises(ValueError, match="not finite"):
        combined_ratio([[float("nan")]], [[1.0]], [1.0], [""])


def test_a_single_interval_agrees_with_scipy():
    above, below = texts(300, 1)
    made = combined_ratio([above], [below], [1.0], [""] * 300)
    theirs = bootstrap(
        (above, below), lambda one, other, axis: one.sum(axis) / other.sum(axis), paired=True, vectorized=True,
        n_resamples=9_999, method="percentile", rng=1,
    ).confidence_interval  # fmt: skip
    assert made.method == "bootstrap"
    # Ours is wider by Student's t with 299 degrees of freedom, and where the bootstrap-t's end is further out.
    assert made.low == pytest.approx(theirs.low, abs=0.004)
    assert theirs.high < made.high < theirs.high + 0.01
    assert made.value == above.sum() / below.sum()


def test_a_paired_interval_agrees_with_scipy_and_is_narrower_than_an_unpaired_one():
    below = texts(400, 2)[1] + 1
    drawn = np.random.default_rng(5)
    first = np.floor(below * drawn.uniform(0.3, 0.9, 400))
    second = np.minimum(below, first + drawn.binomial(1, 0.3, 400))
    made = combined_ratio([first, second], [below, below], [-1.0, 1.0], [""] * 400)
    theirs = bootstrap(
        (first, second, below), lambda a, b, c, axis: (b.sum(axis) - a.sum(axis)) / c.sum(axis), paired=True,
        vectorized=True, n_resamples=9_999, method="percentile", rng=1,
    ).confidence_interval  # fmt: skip
    assert (made.low, made.high) == pytest.approx((theirs.low, theirs.high), abs=0.002)
    alone = [combined_ratio([side], [below], [1.0], [""] * 400) for side in (first, second)]
    apart = sum((one.high - one.low) ** 2 for one in alone) ** 0.5
    assert made.high - made.low < apart / 3


def test_there_is_no_interval_where_a_bootstrap_does_not_hold():
    above, below = texts(60, 3)
    assert combined_ratio([above], [below], [1.0], [""] * 60).method == "bootstrap"
    few = combined_ratio([above[:49]], [below[:49]], [1.0], [""] * 49, level=0.9)
    assert (few.low, few.high, few.level, few.method) == (None, None, 0.9, "too few")
    assert combined_ratio([above], [below], [1.0], ["a"] * 51 + ["b"] * 9).low is None  # nine in a dataset
    # Nothing found anywhere, or everything: no text moves the figure.
    assert combined_ratio([np.zeros(60)], [below], [1.0], [""] * 60).low is None
    assert combined_ratio([below], [below], [1.0], [""] * 60).low is None
    # Six texts in ten copies each are six, not sixty.
    groups = [f"c{place % 6}" for place in range(60)]
    assert combined_ratio([above], [below], [1.0], [""] * 60, groups).low is None


def test_the_ends_of_a_share_are_shares_and_those_of_a_cost_are_not():
    wanted = np.array([100.0] * 2 + [2.0] * 58)  # two long texts, which some resamples lack
    found = np.array([100.0] * 2 + [1.0] * 12 + [0.0] * 46)
    share, missing, cost = (
        combined_ratio([part], [wanted], [1.0], [""] * 60, constant=constant)
        for part, constant in ((found, 0), (wanted - found, 0), (3 * found, -1))
    )
    assert (share.high, missing.low) == (1, 0)
    assert -1 < cost.low < 0
    assert cost.high > 2


def test_resamples_with_a_denominator_of_zero_are_left_out_without_a_warning():
    costs = np.random.default_rng(8).lognormal(size=60)
    right = [1.0] + [0.0] * 59  # in a third of the resamples nothing is right: a cost per right answer is infinite
    with warnings.catch_warnings(action="error"):
        estimate = combined_ratio([costs], [right], [1.0], [""] * 60)
    assert estimate.value == pytest.approx(costs.sum())
    assert math.isfinite(estimate.high)
    strata, rare = ["a"] * 10 + ["b"] * 50, [*right[:10], *costs[10:]]  # in "a" 0 / 0 as often
    with warnings.catch_warnings(action="error"):
        assert combined_ratio([rare], [right[:10] + [1.0] * 50], [1.0], strata, level=0.9).level == 0.9


def test_ratios_with_denominators_of_one_are_means():
    above = texts(200, 4)[0]
    made = combined_ratio([above], [np.ones(200)], [1.0], [""] * 200)
    assert made.value == pytest.approx(above.mean())
    other = stratified_mean(above.tolist(), bounded=False)
    assert (made.low, made.high) == pytest.approx((other.low, other.high), abs=0.05)


def test_skewed_ratios_with_denominators_of_one_have_the_interval_of_their_mean():
    above = np.random.default_rng(4).lognormal(0, 1.2, 60)
    ratio, again, another = (combined_ratio([above], [np.ones(60)], [1.0], [""] * 60, seed=seed) for seed in (3, 3, 4))
    mean = stratified_mean(above.tolist(), bounded=False, seed=3)
    assert (ratio.low, ratio.high) == pytest.approx((mean.low, mean.high), rel=0.01)
    halves = ["a"] * 30 + ["b"] * 30
    of_two = combined_ratio([above], [np.ones(60)], [1.0], halves, seed=3)
    mean_of_two = stratified_mean(above.tolist(), halves, bounded=False, seed=3)
    assert (of_two.low, of_two.high) == pytest.approx((mean_of_two.low, mean_of_two.high), rel=0.01)
    assert ratio == again != another


@pytest.mark.parametrize("count", [60, 150])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(count):
    above, below = texts(400_000, 7)
    truth = above.sum() / below.sum()
    held = known = 0
    for seed in range(250):
        above, below = texts(count, 1_000 + seed)
        made = combined_ratio([above], [below], [1.0], [""] * count, resamples=600, seed=seed)
        if made.low is not None:
            known += 1
            held += made.low <= truth <= made.high
    assert known == 250
    assert 0.91 <= held / known <= 0.985
