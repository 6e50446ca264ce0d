"""Proportions and paired tests with figures from a pencil or a table of the normal distribution."""

import math

import pytest

from ragrounds.evals.stats import binomial_error, holm, macro_error, minimum_detectable_effect
from ragrounds.evals.stats.intervals import normal_quantile
from ragrounds.evals.stats.paired import binomial_p


def test_the_quantiles_of_the_table():
    assert normal_quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert normal_quantile(0.99) == pytest.approx(2.575829, abs=1e-6)
    assert normal_quantile(0.0) == pytest.approx(0.0)


def test_the_error_of_a_share_by_hand():
    assert binomial_error(0.625, 4) == pytest.approx(math.sqrt(0.625 * 0.375 / 4))
    assert binomial_error(1.0 + 1e-16, 4) == 0.0
    assert binomial_error(1.1, 4) == 0.0  # rounding may carry a mean above 1


def test_the_error_of_a_mean_of_means_by_hand():
    assert macro_error([3.0, 4.0]) == 2.5
    assert macro_error([0.5]) == 0.5
    with pytest.raises(ValueError, match=r"^expected one error or more$"):
        macro_error([])


def test_sides_that_are_even_or_equal_do_not_differ():
    assert [binomial_p(*counts) for counts in ((2, 1), (1, 1), (0, 0), (1, 0))] == [1.0] * 4


def test_holm_by_hand():
    # Four at once: .01 · 4, then .02 · 3, then .03 · 2 held up by .06, then .9; in the order given.
    assert holm([0.9, 0.01, 0.03, 0.02]) == pytest.approx([0.9, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([0.04, 0.04]) == pytest.approx([0.08, 0.08])


def test_the_detectable_difference_by_hand():
    # Of six, seven or eight questions that all differ only one outcome has p < .05: all one way, ((1 + δ) / 2)^n = .8.
    for n in (6, 7, 8):
        assert minimum_detectable_effect(n, 1.0) == pytest.approx(2 * 0.8 ** (1 / n) - 1, abs=1e-5)
    assert minimum_detectable_effect(5, 1.0) is None
    # Of a hundred at most 39 may go the other way (p .035); half of all samples have so few where its share is .3953.
    assert minimum_detectable_effect(100, 1.0, power=0.5) == pytest.approx(1 - 2 * 0.3953, abs=1e-3)
    assert minimum_detectable_effect(100, 1.0, alpha=0.01, power=0.5) == pytest.approx(1 - 2 * 0.3654, abs=1e-3)
    assert minimum_detectable_effect(1, 0.3) is None  # one question shows nothing
    assert minimum_detectable_effect(20, 0.05) is None  # one of twenty, p = 1
    # Six that differ show something if all go one way; of twenty at .35 there are as many in 75 of 100 samples.
    assert minimum_detectable_effect(20, 0.35) is None
    assert minimum_detectable_effect(20, 0.4) is not None


@pytest.mark.parametrize(("n", "differing"), [(0, 0.1), (10, 0.0), (10, 1.1), (10, -0.5)])
def test_what_has_no_detectable_difference_is_refused(n, differing):
    with pytest.raises(ValueError, match=f"got {n} and {differing}"):
        minimum_detectable_effect(n, differing)
