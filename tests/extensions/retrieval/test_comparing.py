"""The paired tests against exact enumeration and other libraries."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.errors import UserError
from ragrounds.evals.stats import paired_difference
from ragrounds.extensions.retrieval import comparison
from ragrounds.extensions.retrieval.comparison import randomisation


def compare(values, measure, **given):
    """Runs of one set."""
    return comparison.compare({run: {"": each} for run, each in values.items()}, measure, **given)


_differences = st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=9)


@given(_differences)
def test_the_randomisation_test_is_exact_for_few_queries(differences):
    observed = abs(sum(differences))
    patterns = list(product([1, -1], repeat=len(differences)))
    extreme = sum(
        abs(sum(sign * d for sign, d in zip(signs, differences, strict=True))) >= observed - 1e-12 for signs in patterns
    )
    assert randomisation(differences) == pytest.approx(extreme / len(patterns))


def test_many_queries_are_sampled_and_repeat_with_the_seed():
    differences = [0.1] * 30 + [-0.1] * 20 + [0.0] * 50
    one = randomisation(differences, seed=1)
    assert one == randomisation(differences, seed=1)
    assert one != randomisation(differences, seed=2)
    assert 0.1 < one < 0.35  # exactly 0.2026, binomial
    assert randomisation([0.1] * 60) < 0.001


def test_the_interval_covers_and_repeats():
    # Differences of 0.2, fifty times, and of 0, fifty times: their standard deviation is 0.1.
    values = {name: {str(n): high if n < 50 else 0.25 for n in range(100)} for name, high in (("a", 0.5), ("b", 0.3))}
    (made,) = compare(values, "nDCG@10", seed=3)
    assert [made] == compare(values, "nDCG@10", seed=3)
    assert (made.low, made.high) == (
        pytest.approx(0.1 - 1.96 * 0.01, abs=0.003), pytest.approx(0.1 + 1.96 * 0.01, abs=0.003),
    )  # fmt: skip


def test_few_queries_have_no_interval_and_hits_have_one_at_once():
    few = {"a": {"1": 0.5, "2": 0.25}, "b": {"2": 0.5, "1": 0.25}}
    (made,) = compare(few, "nDCG@10")
    assert (made.difference, made.low, made.high) == (0.0, None, None)
    hits = {"a": {"1": 1.0, "2": 0.0, "3": 1.0}, "b": {"3": 0.0, "1": 0.0, "2": 0.0}}
    (made,) = compare(hits, "Success@5")
    expected = paired_difference([0, 0, 0], [1, 0, 1])
    assert (made.difference, made.low, made.high) == (pytest.approx(expected.value), expected.low, expected.high)
    (nothing,) = compare({"a": {}, "b": {}}, "nDCG@10")
    assert (nothing.difference, nothing.low, nothing.high) == (0.0, None, None)


def test_a_table_of_comparisons():
    queries = [str(n) for n in range(8)]
    values = {
        "a": dict.fromkeys(queries, 0.5),
        "b": dict.fromkeys(queries, 0.25),
        "c": {query: 0.5 if query < "4" else 0.0 for query in queries},
    }
    table = compare(values, "nDCG@10", resamples=1000)
    assert [(pair.first, pair.second) for pair in table] == [("a", "b"), ("a", "c"), ("b", "c")]
    first = table[0]
    assert (first.difference, first.wins, first.ties, first.losses, first.queries) == (0.25, 8, 0, 0, 8)
    assert first.p == pytest.approx(2 / 2**8)
    assert first.holm == pytest.approx(3 * 2 / 2**8)
    assert all(pair.holm >= pair.p for pair in table)
    with pytest.raises(UserError, match="queries differ"):
        compare({"a": {"1": 1.0}, "b": {"2": 1.0}}, "nDCG@10")
