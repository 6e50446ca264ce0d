"""Claims and citations, case by case, beside the recorded outputs of the papers' programs."""

import pytest

from tests.golden.cases import chosen
from tests.golden.claims import COMPARISONS


@pytest.mark.data
@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda one: one.name)
def test_every_case_is_equal(comparison):
    found = chosen(comparison)
    assert found
    assert [case["id"] for case in found if comparison.equal(case) is not True] == []
