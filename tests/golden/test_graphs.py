"""Strategies, case by case, beside the recorded outputs of the papers' programs."""

import pytest

from tests.golden.cases import chosen
from tests.golden.graphs import COMPARISONS

QUICK = "scorers exact-match, answer-within"
"""Of Search-R1's reward: a tenth of a second."""


@pytest.mark.data
@pytest.mark.parametrize(
    "comparison",
    [
        pytest.param(one, id=one.name, marks=[] if one.ours == QUICK else [pytest.mark.slow])
        for one in COMPARISONS
        if one.published
    ],
)
def test_every_case_is_equal_under_what_follows_the_program(comparison):
    wrong = [case["id"] for case in chosen(comparison) if comparison.equal(case) is False]
    assert wrong == []
