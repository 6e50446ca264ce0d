import gc
import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from statsmodels.stats.contingency_tables import mcnemar as reference
from statsmodels.stats.multitest import multipletests

from ragrounds.evals.stats import holm, minimum_detectable_effect
from ragrounds.evals.stats.paired import binomial_p
from ragrounds.evals.stats.sign_flips import sign_flip_test


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=300))
def test_mcnemar_equals_statsmodels(pairs):
    first, second = zip(*pairs, strict=True)
    alike = [""] * len(pairs)
    made = sign_flip_test(first, second, alike, alike)
    table = [[pairs.count((one, other)) for other in (True, False)] for one in (True, False)]
    assert made.p == pytest.approx(reference(table, exact=True).pvalue, abs=1e-9)


@given(st.integers(0, 3_000), st.integers(0, 3_000))
def test_the_exact_p_is_the_binomial_tests(b, c):
    expected = binomtest(b, b + c).pvalue if b + c else 1.0
    assert binomial_p(b, c) == pytest.approx(expected, abs=1e-9)


def test_p_of_a_known_table():
    # 1 against 9: 2 · 11/1024.
    assert binomial_p(1, 9) == pytest.approx(22 / 1024)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_equals_statsmodels(values):
    with patch.object(gc, "collect"):  # statsmodels calls it each time, which takes .3 s after some thousand tests
        expected = multipletests(values, method="holm")[1]
    assert holm(values) == pytest.approx(list(expected))


def test_holm_of_three_worked_out_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_holm_of_nothing():
    assert holm([]) == []


def power_of_the_test(n, differing, effect):
    """Chance that McNemar's p is below 5 %, with the better side ahead: number by number."""
    found = 0.0
    for count in range(1, n + 1):
        better = binom.pmf(np.arange(count + 1), count, (1 + effect / differing) / 2)
        for wins in range(count // 2 + 1, count + 1):
            if binomial_p(count - wins, wins) < 0.05:
                found += binom.pmf(count, n, differing) * better[wins]
    return found


@pytest.mark.parametrize(("n", "differing"), [(10, 0.9), (20, 0.4), (30, 0.3), (40, 1.0), (60, 0.5)])
def test_the_printed_test_finds_the_detectable_difference_four_times_in_five(n, differing):
    # The approximation that was here said 37.3 points for 20 questions: the test found them in 76 of 100 samples.
    found = minimum_detectable_effect(n, differing)
    assert power_of_the_test(n, differing, found) == pytest.approx(0.8, abs=1e-3)


def test_where_all_that_differ_going_one_way_would_be_missed_there_is_none():
    assert minimum_detectable_effect(10, 0.5) is None
    assert power_of_the_test(10, 0.5, 0.5) < 0.8


@given(st.integers(100, 10_000), st.floats(0.1, 1.0))
def test_the_detectable_difference_of_many_is_near_the_usual_approximation(n, differing):
    found = minimum_detectable_effect(n, differing)
    # Connor (1987).
    needed = (1.959964 * math.sqrt(differing) + 0.841621 * math.sqrt(differing - found**2)) ** 2 / found**2
    assert 0.88 * n * (1 - 4 / math.sqrt(n * differing)) < needed <= n * 1.001
    assert minimum_detectable_effect(2 * n, differing) <= found
