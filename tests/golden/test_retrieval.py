"""Retrieval, case by case, beside the recorded outputs of the papers' programs."""

import pytest

from tests.golden.cases import cases
from tests.golden.retrieval import COMPARISONS, MEDRAG_CONSTANT

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


@pytest.mark.data
@pytest.mark.parametrize("members", [2, 4])
def test_the_presets_of_the_profile_medrag_fuse_as_its_program(members):
    """A few of the many cases, with the program's own constant: they run before every commit."""
    (merged,) = (one for one in COMPARISONS if one.file == "medrag_merge" and one.published)
    chosen = [
        case
        for case in cases("medrag_merge")
        if len(case["ascending"]) == members and case["rrf_k"] == MEDRAG_CONSTANT and case["n_corpora"] > 1
    ][:6]
    assert [merged.equal(case) for case in chosen] == [True] * 6
