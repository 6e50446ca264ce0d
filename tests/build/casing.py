"""A script for `tests.servers.builder_server`, and what comes of it, worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ragrounds.build.case_reports import ReportFilters, open_reports, report_items
from ragrounds.records import Question

STAGES = ("significance", "timeline", "question", "follows", "rewrite", "unchanged")
PLAN: list[str] = [
    *["kept"] * 8,
    *["none"] * 2,
    *[f"bad {stage}" for stage in STAGES],
    *[f"once {stage}" for stage in STAGES],
    *["invented", "early", "leak", "later"],
    *["beside"] * 2,
    *["plain", "other answer", "rewritten leak"],
    "checker no",
]
"""Fates of 32 reports."""
MADE = 14
"""Eight, and the six that were malformed once."""
COUNTS: dict[str, tuple[int, int, dict[str, int]]] = {
    "significance": (32, 29, {"no novel contribution": 2, "malformed output": 1}),
    "timeline": (29, 28, {"malformed output": 1}),
    "question": (28, 27, {"malformed output": 1}),
    "verbatim": (
        27,
        23,
        {
            "the answer is not in the timeline": 1,
            "the answer is before the decision point": 1,
            "the answer is in the question": 1,
            "the question reveals what came after the decision point": 1,
        },
    ),
    "follows": (23, 20, {"the answer does not follow from the significance": 2, "malformed output": 1}),
    "rewrite": (
        20,
        16,
        {
            "the rewriting added nothing": 1,
            "the rewriting changed the answer": 1,
            "the answer is in the question": 1,
            "malformed output": 1,
        },
    ),
    "unchanged": (16, 14, {"the rewriting changed the answer": 1, "malformed output": 1}),
}
"""Stage → entered, kept, dropped."""
CALLS = {
    "writer significance": 32 + 2,
    "writer timeline": 29 + 2,
    "writer question": 28 + 2,
    "writer follows": 23 + 2,
    "rewriter rewrite": 20 + 2,
    "checker unchanged": 16 + 2,
}
"""What the server is asked, by model and stage: each report that enters, and a second time where it was malformed."""


def drawn(corpus: str, limit: int, seed: int) -> Sequence[Question]:
    """The reports that the command draws."""
    return report_items(open_reports(corpus, None), ReportFilters(), limit=limit, seed=seed).items.questions


def write_script(path: Path, questions: Sequence[Question]) -> dict[str, str]:
    """Give each report its fate; gives report → fate."""
    path.write_text(json.dumps({question.text[:80]: fate for question, fate in zip(questions, PLAN, strict=True)}))
    return {question.id: fate for question, fate in zip(questions, PLAN, strict=True)}
