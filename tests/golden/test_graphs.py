"""Strategies, case by case, beside the recorded outputs of the papers' programs."""

import pytest

from tests.golden.cases import chosen
from tests.golden.graphs import COMPARISONS


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("comparison", [one for one in COMPARISONS if one.published], ids=lambda one: one.name)
def test_every_case_is_equal_under_what_follows_the_program(comparison):
    wrong = [case["id"] for case in chosen(comparison) if comparison.equal(case) is False]
    assert wrong == []
