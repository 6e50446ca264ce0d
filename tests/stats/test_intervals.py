import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from ragrounds.evals.stats import binomial_error, proportion, wilson


@given(st.integers(1, 10_000), st.floats(0, 1), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_wilson_equals_statsmodels(n, share, level):
    right = round(n * share)
    assert wilson(right, n, level) == pytest.approx(
        proportion_confint(right, n, alpha=1 - level, method="wilson"), abs=1e-9
    )


@given(st.lists(st.booleans(), min_size=1))
def test_proportion(values):
    made = proportion([float(value) for value in values])
    assert made.value == pytest.approx(sum(values) / len(values))
    assert 0 <= made.low <= made.value <= made.high <= 1


def test_the_error_of_the_published_table():
    # MIRAGE, GPT-3.5 with MedRAG on MMLU-Med: 75.48 ± 1.30.
    assert round(100 * binomial_error(0.7548, 1_089), 2) == 1.30


def test_no_values_is_an_error_and_a_missing_score_is_no_value():
    for values in ([], [float("nan")], [2.0]):
        with pytest.raises(ValueError):
            proportion(values)
    with pytest.raises(ValueError):
        wilson(3, 2)
