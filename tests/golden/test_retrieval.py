"""Retrieval, case by case, beside the recorded outputs of the papers' programs."""

import pytest

from tests.golden.cases import cases
from tests.golden.retrieval import COMPARISONS

LONG = ("medrag_merge", "r2med_bm25")
"""Files of many cases, which take ten seconds each."""


@pytest.mark.data
@pytest.mark.parametrize(
    "comparison",
    [
        pytest.param(one, id=one.name, marks=[pytest.mark.slow] if one.file in LONG else [])
        for one in COMPARISONS
        if one.published
    ],
)
def test_every_case_is_equal_under_what_follows_the_program(comparison):
    wrong = [case["id"] for case in cases(comparison.file) if comparison.equal(case) is False]
    assert wrong == []
