"""Ends of confidence sequences, recomputed from the capital as its source defines it."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import beta

from ragrounds.evals.stats.sequential import ConfidenceSequence, _both_bets, log_capital

BETS = np.concatenate([2 * beta.ppf(0.5 + (np.arange(24) + 0.5) / 48, 5, 5) - 1, [0.6, 0.7, 0.8, 0.9, 0.95, 0.99]])


def capital(shares, mean):
    """The average over all bets, half of them on values above the mean, of the product of what they are paid."""
    up = [math.prod(1 - bet + bet * share / mean for share in shares) for bet in BETS]
    down = [math.prod(1 - bet + bet * (1 - share) / (1 - mean) for share in shares) for bet in BETS]
    return (sum(up) + sum(down)) / (2 * len(BETS))


def heard(values, **options):
    sequence = ConfidenceSequence(**options)
    for value in values:
        sequence.add(value)
    return sequence.interval


def test_the_capital_is_that_of_the_definition():
    values = np.array([0.0, 0.25, 1.0])
    counts = np.array([[1.0, 2.0, 3.0], [4.0, 0.0, 1.0]])
    shares = [[0, 0.25, 0.25, 1, 1, 1], [0, 0, 0, 0, 1]]
    found = log_capital(values, counts, 0.3)
    assert found.tolist() == pytest.approx([math.log(capital(one, 0.3)) for one in shares])
    many = log_capital(values, 1_000 * counts, 0.3)  # far beyond what a float holds
    assert np.isfinite(many).all()
    assert (many > 800).any()


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_the_ends_are_where_the_capital_reaches_the_limit(level):
    shares = [1, 1, 0.5, 1, 0, 1, 1, 1, 1, 0.5, 1, 1] * 3
    found = heard([20 * share - 10 for share in shares], least=-10, maximum=10, level=level)
    assert found.level == level
    assert found.n == 36
    assert found.mean == pytest.approx(20 * sum(shares) / 36 - 10)
    limit = 1 / (1 - level)
    # Each end is the best of all looks.
    low = max(edge(shares[:n], limit, 1e-9) for n in range(1, 37))
    high = min(edge(shares[:n], limit, 1 - 1e-9) for n in range(1, 37))
    assert found.low == pytest.approx(20 * low - 10, abs=1e-6)
    assert found.high == pytest.approx(20 * high - 10, abs=1e-6)


def edge(shares, limit, end):
    mean = sum(shares) / len(shares)
    if abs(mean - end) < 1e-6 or capital(shares, end) < limit:
        return end
    within = min(1 - 1e-9, max(1e-9, mean))
    return brentq(lambda m: math.log(capital(shares, m) / limit), *sorted((end, within)), xtol=1e-10)


def test_the_p_value_is_the_best_of_all_looks():
    values = [1, 1, 1, 1, -1, -1, 0]
    shares = [(value + 1) / 2 for value in values]
    found = heard(values, null=0.0)
    assert found.p == pytest.approx(1 / max(capital(shares[:n], 0.5) for n in range(1, 8)))
    assert found.p == pytest.approx(1 / capital(shares[:4], 0.5))
    assert heard([1.0, 1.0]).p is None
    assert heard([0.0], null=0.0).p == 1.0  # the capital is below 1, and p never above
    shifted = heard([3.0, 3.0], least=1.0, maximum=3.0, null=1.5)  # a quarter of the way
    assert shifted.p == pytest.approx(1 / capital([1, 1], 0.25))


def test_nulls_at_the_bounds_are_means_and_beyond_them_none():
    assert 0 < heard([1.0], null=-1.0).p < 1e-9
    assert 0 < heard([-1.0], null=1.0).p < 1e-9
    assert heard([1.0], null=-1.0 - 1e-6).p == 0.0
    assert heard([1.0], null=1.0 + 1e-6).p == 0.0
    assert heard([1.0, 1.0], null=1.0).p == 1.0


def test_rounding_beyond_the_bounds_is_the_bound():
    found = heard([1 + 1e-9, 1.0], null=0.0)
    exact = heard([1.0, 1.0], null=0.0)
    assert found == exact
    assert heard([-1 - 1e-9]).mean == -1.0
    assert heard([1 + 2e-9]).mean == 1.0
    for value in (1 + 1e-6, -1 - 1e-6, math.inf):
        with pytest.raises(ValueError, match=f"the value {value} is outside the bounds"):
            heard([value])


def test_bets_on_clusters_are_fair_if_the_ratio_of_means_is_the_tested_one():
    values, weights = np.array([0.0, 1.0, 0.0, 0.5, 0.0]), np.array([1.0, 1.0, 0.5, 0.5, 0.75])
    factors = np.exp(_both_bets(values, values.sum() / weights.sum(), weights))
    assert factors.mean(axis=0) == pytest.approx(np.ones(2 * len(BETS)))


def test_a_weight_is_a_share_of_the_largest_up_to_rounding():
    rounded, whole = ConfidenceSequence(), ConfidenceSequence()
    rounded.add(1.0, 1 + 5e-10)
    whole.add(1.0, 1.0)
    assert rounded.interval == whole.interval
    for weight in (0.0, -0.5, 1 + 1e-6):
        with pytest.raises(ValueError, match="outside the bounds"):
            whole.add(0.0, weight)


def test_values_that_change_their_mean_leave_one_point():
    found = heard([1.0] * 20 + [-1.0] * 100)
    assert found.low == found.high
    before = heard([1.0] * 20)
    assert found.low == pytest.approx(before.low)  # what was refuted stays refuted
    turned = heard([-1.0] * 20 + [1.0] * 100)
    assert turned.high == turned.low == pytest.approx(-before.low)


@pytest.mark.parametrize(
    ("least", "maximum", "level"),
    [(1.0, 1.0, 0.95), (2.0, 1.0, 0.95), (0.0, 1.0, 0.0), (0.0, 1.0, 1.0), (0.0, 1.0, 1.5), (0.0, 1.0, -0.1)],
)
def test_what_holds_nothing_is_refused_with_what_was_given(least, maximum, level):
    with pytest.raises(ValueError, match=f"got {least}, {maximum} and {level}"):
        ConfidenceSequence(least, maximum, level=level)


def test_the_bounds_of_a_difference_are_the_default():
    found = heard([-1.0, 1.0])
    assert found == heard([-1.0, 1.0], least=-1.0, maximum=1.0, level=0.95)
    assert (found.n, found.mean, found.level) == (2, 0.0, 0.95)
    assert -1 < found.low < -0.99  # a mean of -1 itself is refuted by any other value
