"""HealthBench's rubric, case by case, beside the recorded outputs of simple-evals."""

from pathlib import Path

import pytest

from tests.golden.cases import chosen, comparisons
from tests.golden.rubrics import COMPARISONS

SLOW = "healthbench_aggregate"


@pytest.mark.data
@pytest.mark.parametrize(
    "comparison",
    [pytest.param(one, marks=[pytest.mark.slow] if one.file == SLOW else [], id=one.name) for one in COMPARISONS],
)
def test_every_case_is_equal(comparison):
    found = chosen(comparison)
    assert found
    outcomes = {case["id"]: comparison.equal(case) for case in found}
    assert [id for id, equal in outcomes.items() if equal is False] == []
    assert sum(equal is None for equal in outcomes.values()) == (
        3 if comparison.file == "healthbench_grader_parse" else 0
    )


def test_the_page_has_a_row_for_every_comparison():
    page = (Path(__file__).parents[2] / "perf" / "golden.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in page.splitlines() if line.startswith("| ")]
    named = [
        [
            one.file,
            f"`{one.ours}`" + (f": {one.what}" if one.what else ""),
            "as published" if one.published else "default",
        ]
        for one in comparisons()
    ]
    assert rows[1:] == named, "python perf/golden.py --write perf/golden.md"
