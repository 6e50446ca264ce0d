"""A script for `tests.extensions.construction.builder_server`, and what comes of it, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.base.records import Question
from ragrounds.extensions.construction.case_reports import ReportFilters, open_reports, report_items

STAGES = ("significance", "timeline", "question", "follows", "rewrite", "unchanged")
PLAN: list[str] = [
    *["kept"] * 2,
    "none",
    *[f"bad {stage}" for stage in STAGES],
    *[f"once {stage}" for stage in STAGES],
    *["invented", "early", "leak", "later"],
    *["beside", "plain", "other answer", "rewritten leak"],
    "checker no",
]
"""Fates of 24 reports."""
MADE = 8
"""Two, and the six that were malformed once."""
COUNTS: dict[str, tuple[int, int, dict[str, int]]] = {
    "significance": (24, 22, {"no novel contribution": 1, "malformed output": 1}),
    "timeline": (22, 21, {"malformed output": 1}),
    "question": (21, 20, {"malformed output": 1}),
    "verbatim": (
        20,
        16,
        {
            "the answer is not in the timeline": 1,
            "the answer is before the decision point": 1,
            "the answer is in the question": 1,
            "the question reveals what came after the decision point": 1,
        },
    ),
    "follows": (16, 14, {"the answer does not follow from the significance": 1, "malformed output": 1}),
    "rewrite": (
        14,
        10,
        {
            "the rewriting added nothing": 1,
            "the rewriting changed the answer": 1,
            "the answer is in the question": 1,
            "malformed output": 1,
        },
    ),
    "unchanged": (10, 8, {"the rewriting changed the answer": 1, "malformed output": 1}),
}
"""Stage → entered, kept, dropped."""
CALLS = {
    "writer significance": 24 + 2,
    "writer timeline": 22 + 2,
    "writer question": 21 + 2,
    "writer follows": 16 + 2,
    "rewriter rewrite": 14 + 2,
    "checker unchanged": 10 + 2,
}
"""What the server is asked, by model and stage: each report that enters, and a second time where it was malformed."""


def drawn(corpus: str, limit: int, seed: int) -> Sequence[Question]:
    """The reports that the command draws."""
    return report_items(open_reports(corpus, None), ReportFilters(), limit=limit, seed=seed).items.questions


def script_of(questions: Sequence[Question], fates: Sequence[str]) -> dict[str, str]:
    """Give each report, by its beginning, its fate."""
    return {question.text[:80]: fate for question, fate in zip(questions, fates, strict=True)}
