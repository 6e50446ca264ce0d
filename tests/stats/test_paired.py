import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from statsmodels.stats.contingency_tables import mcnemar as reference
from statsmodels.stats.multitest import multipletests

from ragrounds.evals.stats import holm, mcnemar, minimum_detectable_effect


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=300))
def test_mcnemar_equals_statsmodels(pairs):
    first, second = zip(*pairs, strict=True)
    made = mcnemar(first, second)
    table = [[made.both, made.first_only], [made.second_only, made.neither]]
    assert made.p == pytest.approx(reference(table, exact=True).pvalue, abs=1e-9)
    assert made.both + made.neither + made.first_only + made.second_only == len(pairs)


@given(st.integers(0, 3_000), st.integers(0, 3_000))
def test_the_exact_p_is_the_binomial_tests(b, c):
    made = mcnemar([True] * b + [False] * (c + 1), [False] * b + [True] * c + [False])
    expected = binomtest(b, b + c).pvalue if b + c else 1.0
    assert made.p == pytest.approx(expected, abs=1e-9)


def test_p_of_a_known_table():
    # 1 against 9: 2 · 11/1024.
    made = mcnemar([True] + [False] * 9, [False] + [True] * 9)
    assert made.p == pytest.approx(22 / 1024)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=15, deadline=None)
@pytest.mark.slow
def test_holm_equals_statsmodels(values):
    assert holm(values) == pytest.approx(list(multipletests(values, method="holm")[1]))


def test_holm_of_nothing():
    assert holm([]) == []


@given(st.integers(20, 10_000), st.floats(0.05, 1.0))
def test_the_detectable_difference_solves_its_equation(n, differing):
    found = minimum_detectable_effect(n, differing)
    if found is None:  # even one-sided differences would not do
        assert 1.959964 * math.sqrt(differing) + 0.841621 * math.sqrt(differing - differing**2) > (
            differing * math.sqrt(n) * (1 - 1e-6)
        )
    else:
        assert 0 < found <= differing
        needed = (1.959964 * math.sqrt(differing) + 0.841621 * math.sqrt(differing - found**2)) ** 2 / found**2
        assert needed == pytest.approx(n, rel=1e-3)
        more = minimum_detectable_effect(2 * n, differing)
        assert more is not None
        assert more <= found
